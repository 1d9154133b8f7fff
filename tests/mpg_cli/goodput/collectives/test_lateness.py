"""Why a rank came last, by hand. Times are nanoseconds."""

from __future__ import annotations

from statistics import median_low
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import collectives
from mpg_cli.goodput.collectives.lateness import GROUPS, REASONS, lateness
from mpg_cli.goodput.taxonomy import load_taxonomy
from tests.mpg_cli.datasets import Row, comm, op
from tests.mpg_cli.goodput.collectives.ranks import load, segments_of, spans_of, windows_of


def reduce(start: int, dur: int, seq: int, group: str = "0") -> Row:
    return comm(start, dur, collective="allreduce", group=group, seq=seq)


def why(
    ranks: list[list[Row]], *, basis: str = "steps", idle: str = "host_code"
) -> dict[int, tuple[str, int]]:
    """By index, why its last rank was late, and by how much."""
    loaded = load(*ranks)
    matched, windows = collectives.match(loaded)[0], windows_of(loaded, basis)
    segments = segments_of(loaded, matched, spans_of(loaded, windows), idle)
    return reasons(lateness(matched, windows, loaded, segments))


def reasons(found: pl.DataFrame) -> dict[int, tuple[str, int]]:
    return {
        index: (reason, ns) for index, reason, ns in found.select("index", "reason", "late_ns").iter_rows()
    }


def test_every_group_is_of_causes_of_the_ledger() -> None:
    causes = [cause for group in GROUPS.values() for cause in group]
    assert len(set(causes)) == len(causes)
    assert [cause for cause in causes if load_taxonomy().cause(cause) is None] == []


# all ranks leave collective 1 at 100 and collective 2 at 200
START = [op(0, 1), reduce(90, 10, 1)]


@pytest.mark.parametrize(
    ("last", "others", "expected"),
    [
        pytest.param([op(100, 80)], [op(100, 30)], {1: ("compute", 50)}, id="it computed for longer"),
        pytest.param([op(150, 30)], [op(100, 30)], {1: ("host", 50)}, id="it was idle for longer"),
        pytest.param([op(100, 50)], [op(100, 30)], {1: ("host", 30)}, id="both: the larger part"),
        pytest.param([op(110, 70)], [op(100, 30)], {1: ("compute", 40)}, id="and the other way round"),
        pytest.param(
            [comm(100, 60, "ncclDevKernel_Broadcast_RING_LL", stream=8), op(160, 20)], [op(100, 30)],
            {1: ("communication", 60)}, id="it communicated with others",
        ),
    ],
)  # fmt: skip
def test_reasons(last: list[Row], others: list[Row], expected: dict[int, Any]) -> None:
    """The last rank enters collective 2 at 180, the others at 130."""
    early = [*START, *others, reduce(130, 70, 2)]
    late = [*START, *last, reduce(180, 20, 2)]
    found = why([early, late, early])
    assert {index: found[index] for index in expected} == expected


def test_clocks_do_not_matter() -> None:
    early, late = [*START, reduce(130, 70, 2)], [*START, op(100, 80), reduce(180, 20, 2)]
    shifted = [row | {"start_ns": row["start_ns"] + 10**9} for row in late]
    assert why([early, shifted])[1] == why([early, late])[1] == ("compute", 80)


@pytest.mark.parametrize(("basis", "first"), [("steps", ("compute", 50)), ("device activity", None)])
def test_the_first_one_needs_windows_that_begin_with_a_step(basis: str, first: Any) -> None:
    ranks = [[op(0, 30), reduce(30, 70, 1)], [op(0, 80), reduce(80, 20, 1)]]
    assert why(ranks, basis=basis).get(0) == first


@pytest.mark.parametrize(("entered", "known"), [(50, True), (49, False)])
def test_ranks_that_entered_the_window_apart_explain_themselves(entered: int, *, known: bool) -> None:
    """The last rank waited for was 100 late, of which `entered` inside the window."""
    early = [op(0, 10), reduce(10, 150, 1)]
    late = [op(0, 10 + entered), reduce(10 + entered, 50, 1)]
    assert (0 in why([early, late])) == known


def test_since_the_same_ranks_were_together() -> None:
    """Ranks 0 and 1 meet in group b in between: what rank 0 did before that counts too."""
    between = [[op(100, 40), reduce(140, 20, 1, "b")], [reduce(100, 60, 1, "b")], []]
    entries = [190, 170, 130]
    ranks = [
        [*START, *rows, reduce(entry, 200 - entry, 2)] for rows, entry in zip(between, entries, strict=True)
    ]
    found = why(ranks)
    assert found[1] == ("compute", 40)  # of group b: rank 0 computed before it
    assert found[2] == ("compute", 40)


def test_two_at_a_time_have_no_time_in_between() -> None:
    ranks = [[*START, reduce(100 + at, 100, 2), comm(120, 90 + at, stream=8, collective="allreduce", group="0", seq=3)]
             for at in (0, 10)]  # fmt: skip
    assert 2 not in why(ranks)


def test_collectives_in_another_order_on_another_rank() -> None:
    """Collective 4 follows 3 on rank 0 and 2 on rank 1, so they were not together when it began to count."""
    first = [*START, reduce(110, 30, 2), reduce(150, 10, 3), op(160, 20), reduce(180, 20, 4)]
    second = [*START, reduce(110, 20, 3), reduce(135, 5, 2), op(140, 50), reduce(190, 10, 4)]
    found = why([first, second])
    assert 3 not in found
    assert why([first, [*START, reduce(110, 30, 2), reduce(150, 10, 3), op(160, 30), reduce(190, 10, 4)]])[
        3
    ] == (
        "compute",
        10,
    )


times = st.tuples(*[st.integers(0, 20)] * len(REASONS))


@settings(max_examples=25, deadline=None)
@given(st.lists(times, min_size=2, max_size=5))
def test_as_counted(ranks: list[tuple[int, ...]]) -> None:
    """Each rank spends the given time on each group between two collectives of all."""
    causes = [*(causes[-1] for causes in GROUPS.values()), "kernel_gap"]
    files, pieces = [], []
    for subject, spent in enumerate(ranks):
        entry = 100 + sum(spent)
        files.append([op(0, 1), reduce(90, 10, 1), reduce(entry, 300 - entry, 2)])
        at = 100
        for cause, ns in zip(causes, spent, strict=True):
            pieces.append((subject, at, at + ns, cause))
            at += ns
    loaded = load(*files)
    schema = {"subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.String}
    segments = pl.DataFrame(pieces, schema, orient="row")
    found = reasons(lateness(collectives.match(loaded)[0], windows_of(loaded), loaded, segments))
    last = max(range(len(ranks)), key=lambda rank: (sum(ranks[rank]), -rank))
    others = [spent for rank, spent in enumerate(ranks) if rank != last]
    medians = [_middle([spent[i] for spent in others]) for i in range(len(REASONS))]
    excess = [ranks[last][i] - medians[i] for i in range(len(REASONS))]
    best = max(excess)
    assert found.get(1) == ((REASONS[excess.index(best)], best) if best > 0 else None)


def _middle(values: list[int]) -> int:
    high = -median_low([-value for value in values])
    return (median_low(values) + high) // 2
