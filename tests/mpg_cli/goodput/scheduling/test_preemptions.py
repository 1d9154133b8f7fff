from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.preemptions import Preemptor, preemptions
from tests.mpg_cli.goodput.scheduling.attempts import HOUR, attempt, frame

if TYPE_CHECKING:
    from typing import Any


def preempted(job: str, number: int, hours: tuple[float, float], chips: int, by: str | None) -> Any:
    return attempt(job, number, hours, chips, state="PREEMPTED", preempted_by=by)


def large(number: int, hours: tuple[float, float], **more: Any) -> Any:
    return attempt("large", number, hours, 1024, **more)


def test_a_large_job_that_comes_back() -> None:
    """It pushes out x when it first starts, then y and z each time after its node failed, and z once more."""
    attempts = frame(
        large(1, (2, 10), failed=True),
        large(2, (10, 20), failed=True),
        large(3, (20, 30), state="PREEMPTED", preempted_by="urgent"),
        large(4, (31, 40)),
        preempted("x", 1, (0, 2), 8, "large"),
        preempted("y", 1, (0, 10), 16, "large"),
        preempted("z", 1, (0, 20), 4, "large"),
        preempted("z", 2, (25, 31), 4, "large"),
        attempt("urgent", 1, (30, 31), 1024),
        preempted("v", 1, (0, 1), 2, None),
        preempted("w", 1, (0, 1), 2, "who"),
    )
    found = preemptions(attempts)
    assert found.preemptions == 7
    assert found.chip_ns == (10 * 1024 + 16 + 160 + 80 + 24 + 2 + 2) * HOUR
    assert (found.second_order, found.second_order_chip_ns) == (3, (160 + 80 + 24) * HOUR)
    # the last attempt of the large job follows a preemption, not a failure
    assert (found.after_failure, found.after_failure_chip_ns) == (2, (160 + 80) * HOUR)
    assert found.unknown == 2
    assert found.by_preemptor == (
        Preemptor("large", 3, 4, 3, (16 + 160 + 80 + 24) * HOUR, 3, 2),
        Preemptor("urgent", 0, 1, 1, 10 * 1024 * HOUR, 0, 0),
        Preemptor("who", None, 1, 1, 2 * HOUR, 0, 0),
    )


def test_requeued_afterwards_is_not_of_second_order() -> None:
    attempts = frame(
        preempted("x", 1, (0, 2), 8, "large"),
        large(1, (2, 3), submit_ns=HOUR, failed=True),
        large(2, (3, 4), failed=True),
    )
    found = preemptions(attempts)
    assert (found.second_order, found.unknown) == (0, 0)
    assert found.by_preemptor[0].requeues == 1


def test_any_state_with_a_preemptor_counts() -> None:
    """A requeued record may say REQUEUED or CANCELLED; a preempted one that never ran costs nothing."""
    found = preemptions(
        frame(
            attempt("x", 1, (0, 1), 8, state="CANCELLED", preempted_by="y"),
            attempt("z", 1, None, None, state="PREEMPTED"),
            attempt("u", 1, (0, 1), 8, state=None),
        )
    )
    assert (found.preemptions, found.chip_ns, found.unknown) == (2, 8 * HOUR, 2)


def test_none() -> None:
    for attempts in (frame(), frame(attempt("a", 1, (0, 1)))):
        found = preemptions(attempts.with_columns(preempted_by=None))
        assert (found.preemptions, found.chip_ns, found.second_order, found.unknown) == (0, 0, 0, 0)
        assert found.by_preemptor == ()


@given(order=st.permutations(range(6)))
def test_the_order_of_the_rows_does_not_matter(order: list[int]) -> None:
    attempts = frame(
        large(1, (2, 10), failed=True),
        large(2, (10, 20)),
        preempted("x", 1, (0, 2), 8, "large"),
        preempted("y", 1, (0, 10), 16, "large"),
        preempted("y", 2, (12, 14), 16, None),
        attempt("z", 1, (0, 1)),
    )
    found = preemptions(attempts.select(pl.all().gather(order)))
    assert found == preemptions(attempts)
    assert (found.second_order, found.after_failure) == (1, 1)
