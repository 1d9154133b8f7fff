"""The bound on what waits of the host cost, against a walk over nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.findings.debt import debt_ns
from tests.mpg_cli.findings.made import Row, facts, strip, sync

SOFT = {"launch_bound", "host_code", "synchronisation"}
CAUSES = ["productive", "communication", "memory_copy", "input", "kernel_gap", *sorted(SOFT)]


def debt(segments: list[Row], syncs: list[Row]) -> int:
    made = facts(segments, syncs=syncs)
    return debt_ns(made.segments, made.blocked)


@pytest.mark.parametrize(
    ("pieces", "syncs", "expected"),
    [
        ([("productive", 100), ("launch_bound", 30)], [], 0),
        ([("productive", 100), ("launch_bound", 30)], [(20, 80)], 30),  # 80 owed, all of 30 covered
        ([("productive", 100), ("launch_bound", 30)], [(90, 10)], 10),  # only 10 owed
        ([("launch_bound", 30), ("productive", 100)], [(40, 80)], 0),  # before the wait: nothing owed yet
        ([("productive", 100), ("input", 30)], [(20, 80)], 0),  # no host time would cover it
        ([("productive", 10), ("host_code", 4), ("productive", 10), ("launch_bound", 30)], [(0, 6)], 6),
        (
            [("productive", 10), ("launch_bound", 30), ("productive", 9), ("host_code", 4)],
            [(0, 9), (41, 2)],
            11,
        ),
        ([("transient", 40), ("launch_bound", 30)], [(10, 20)], 20),  # whatever the device did meanwhile
        ([("productive", 10), ("synchronisation", 30)], [(5, 15)], 15),  # 5 owed, 10 blocked while idle
        ([("productive", 10), ("launch_bound", 30)], [(2, 5), (4, 5)], 7),  # two threads at once count once
    ],
)
def test_by_hand(pieces: list[tuple[str, int]], syncs: list[tuple[int, int]], expected: int) -> None:
    assert debt(strip(0, *pieces), [sync(0, start, dur) for start, dur in syncs]) == expected


def test_devices_owe_for_themselves() -> None:
    segments = strip(0, ("productive", 50), ("input", 50)) + strip(1, ("productive", 50), ("host_code", 50))
    assert debt(segments, [sync(0, 0, 50)]) == 0
    assert debt(segments, [sync(1, 0, 20), sync(0, 0, 50)]) == 20


def walk(segments: list[Row], syncs: list[Row]) -> int:
    """One nanosecond after another."""
    paid = 0
    for subject in {row["subject"] for row in segments}:
        owed = 0
        cause_at = {
            at: row["cause"] for row in segments if row["subject"] == subject
            for at in range(row["start_ns"], row["end_ns"])
        }  # fmt: skip
        blocked = {
            at for row in syncs if row["subject"] == subject for at in range(row["start_ns"], row["end_ns"])
        }
        for at, cause in sorted(cause_at.items()):
            if cause in SOFT and (at in blocked or owed):
                paid += 1
                owed -= at not in blocked
            elif cause not in SOFT:
                owed += at in blocked
    return paid


PIECES = st.lists(st.tuples(st.sampled_from(CAUSES), st.integers(0, 8)), min_size=1, max_size=12)
WAITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 20)), max_size=6)


@settings(max_examples=60, deadline=None)
@given(PIECES, PIECES, WAITS)
def test_against_a_walk(
    first: list[tuple[str, int]], second: list[tuple[str, int]], waits: list[Row]
) -> None:
    segments = strip(0, *first) + strip(1, *second, at=5)
    syncs = [sync(subject, start, dur) for subject, start, dur in waits]
    assert debt(segments, syncs) == walk(segments, syncs)
