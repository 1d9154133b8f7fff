"""Events of a line on the profile's clock, and what ran innermost: tables for paper, and a slow count as oracle."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.xla.space import Line
from mpg_parsers.xla.timeline import FIRST_NS, LAST_NS, alone, placed

if TYPE_CHECKING:
    from collections.abc import Sequence

Event = tuple[str, int, int]  # name, start, end
LIMIT = 1 << 62


def at(timestamp_ns: int) -> Line:
    return Line(1, "XLA Ops", timestamp_ns, 0, lambda _: pl.DataFrame())


def place(offset: int, dur: int, timestamp_ns: int = 0) -> list[tuple[int, int]]:
    """(start_ns, dur_ns) of one event, or nothing."""
    events = pl.DataFrame([(offset, dur)], {"offset_ps": pl.Int64, "dur_ps": pl.Int64}, orient="row")
    found = placed(events, at(timestamp_ns))
    assert found.columns == ["start_ns", "dur_ns"]
    return found.rows()


# ------------------------------------------------------------------------------------------------------ placed


@pytest.mark.parametrize(
    ("offset", "dur", "start_ns", "dur_ns"),
    [
        (0, 0, 0, 0),
        (1999, 0, 1, 0),
        (1999, 1, 1, 1),  # it ends at 2.000
        (1500, 499, 1, 0),
        (1500, 500, 1, 1),
        (-1, 1, -1, 1),  # before the profile began
        (-1500, 1000, -2, 1),
    ],
)
def test_picoseconds(offset: int, dur: int, start_ns: int, dur_ns: int) -> None:
    assert place(offset, dur) == [(start_ns, dur_ns)]
    assert place(offset, dur, timestamp_ns=7) == [(start_ns + 7, dur_ns)]


def test_other_columns_stay() -> None:
    events = pl.DataFrame({"metadata": [4], "offset_ps": [0], "dur_ps": [9000], "run_id": [3]})
    assert placed(events, at(1)).to_dicts() == [{"metadata": 4, "run_id": 3, "start_ns": 1, "dur_ns": 9}]


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=30), st.integers(-10_000, 10_000))
def test_what_touches_still_does(lengths: list[int], first: int) -> None:
    edges = [first + sum(lengths[:n]) for n in range(len(lengths) + 1)]
    events = pl.DataFrame({"offset_ps": edges[:-1], "dur_ps": lengths})
    rows = placed(events, at(0)).rows()
    assert all(start + dur == after for (start, dur), (after, _) in pairwise(rows))
    assert sum(dur for _, dur in rows) == edges[-1] // 1000 - edges[0] // 1000


@pytest.mark.parametrize(
    ("offset", "dur", "timestamp_ns"),
    [
        (LIMIT, 0, 0),
        (-LIMIT, 0, 0),
        (0, LIMIT, 0),
        (LIMIT - 1, LIMIT - 1, LAST_NS),
        (0, -1, 0),
        (0, 0, LAST_NS + 1),
        (0, 0, FIRST_NS - 1),
        (0, 2000, LAST_NS - 1),
        (-1, 0, FIRST_NS),
        (-(1 << 63), (1 << 63) - 1, -(1 << 63)),
    ],
)
def test_times_that_cannot_be(offset: int, dur: int, timestamp_ns: int) -> None:
    assert place(offset, dur, timestamp_ns) == []


def test_the_last_times_that_can() -> None:
    assert place(0, 1000, LAST_NS - 1) == [(LAST_NS - 1, 1)]
    assert place(0, 0, FIRST_NS) == [(FIRST_NS, 0)]
    assert LAST_NS - FIRST_NS < 1 << 63


# ------------------------------------------------------------------------------------------------------- alone


def frame(events: Sequence[Event]) -> pl.DataFrame:
    rows = [(name, start, end - start) for name, start, end in events]
    return pl.DataFrame(rows, {"name": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64}, orient="row")


def pieces(events: Sequence[Event]) -> list[Any]:
    """(name, part, start, end) of what ran alone."""
    found = alone(frame(events))
    assert found.columns == ["name", "start_ns", "dur_ns", "part"]
    assert found["start_ns"].is_sorted()
    return [(name, part, start, start + dur) for name, start, dur, part in found.iter_rows()]


def test_nothing() -> None:
    assert pieces([]) == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [("a", 0, 5), ("b", 5, 9), ("c", 20, 21)],
            [("a", None, 0, 5), ("b", None, 5, 9), ("c", None, 20, 21)],
            id="one after another",
        ),
        pytest.param(
            [("while", 0, 100), ("dot", 10, 40), ("dot", 50, 80)],
            [
                ("while", 0, 0, 10), ("dot", None, 10, 40), ("while", 1, 40, 50), ("dot", None, 50, 80),
                ("while", 2, 80, 100),
            ],
            id="a loop of two passes",
        ),
        pytest.param(
            [("outer", 0, 50), ("inner", 10, 40), ("dot", 20, 30), ("next", 60, 70)],
            [
                ("outer", 0, 0, 10), ("inner", 0, 10, 20), ("dot", None, 20, 30), ("inner", 1, 30, 40),
                ("outer", 1, 40, 50), ("next", None, 60, 70),
            ],
            id="a loop in a loop",
        ),
        pytest.param(
            [("conditional", 0, 30), ("branch", 5, 30)],
            [("conditional", None, 0, 5), ("branch", None, 5, 30)],
            id="a conditional that ends with its branch was not interrupted",
        ),
        pytest.param(
            [("branch", 10, 30), ("conditional", 10, 40)],
            [("branch", None, 10, 30), ("conditional", None, 30, 40)],
            id="the file may have the inner one first",
        ),
        pytest.param(
            [("call", 0, 30), ("first", 0, 10), ("second", 10, 30)],
            [("call", None, 0, 0), ("first", None, 0, 10), ("second", None, 10, 30)],
            id="what others fill ran once, for no time of its own",
        ),
        pytest.param(
            [("a", 0, 10), ("b", 0, 10)],
            [("a", None, 0, 0), ("b", None, 0, 10)],
            id="of equal ones the later in the file is inside",
        ),
        pytest.param(
            [("a", 0, 10), ("tick", 5, 5), ("b", 20, 20)],
            [("a", None, 0, 10), ("tick", None, 5, 5), ("b", None, 20, 20)],
            id="what takes no time interrupts nothing",
        ),
        pytest.param(
            [("a", 0, 10), ("tick", 0, 0), ("b", 2, 4), ("tick", 10, 10)],
            [("a", 0, 0, 2), ("tick", None, 0, 0), ("b", None, 2, 4), ("a", 1, 4, 10), ("tick", None, 10, 10)],
            id="nor does it hide anything",
        ),
        pytest.param(
            [("while", 0, 10), ("a", 2, 5), ("b", 5, 11), ("next", 11, 20)],
            [("while", None, 0, 2), ("a", None, 2, 5), ("b", None, 5, 11), ("next", None, 11, 20)],
            id="the last of a loop outlasts it by rounding",
        ),
        pytest.param(
            [("a", 0, 11), ("b", 10, 20)],
            [("a", None, 0, 10), ("b", None, 10, 20)],
            id="neighbours that overlap by rounding",
        ),
        pytest.param(
            [("a", 0, 50), ("b", 10, 30), ("c", 20, 90), ("d", 95, 99)],
            [("a", None, 0, 10), ("b", None, 10, 20), ("c", None, 20, 90), ("d", None, 95, 99)],
            id="two that another outlasts",
        ),
    ],
)  # fmt: skip
def test_alone(events: list[Event], expected: list[Any]) -> None:
    assert pieces(events) == expected


def owners(events: Sequence[Event]) -> dict[int, str]:
    """By nanosecond, the event that began last of those that run; of those that began at once the shortest."""
    order = sorted(events, key=lambda event: (event[1], -event[2]))
    return {t: name for name, start, end in order for t in range(start, end)}


def check(events: Sequence[Event]) -> None:
    found = pieces(events)
    covered = [(t, name) for name, _, start, end in found for t in range(start, end)]
    assert len(covered) == len(dict(covered))
    assert dict(covered) == owners(events)
    for name, start, end in events:
        mine = [(part, a, b) for other, part, a, b in found if other == name]
        assert mine, "an event was lost"
        assert [part for part, _, _ in mine] == ([None] if len(mine) == 1 else list(range(len(mine))))
        assert all(start <= a <= b <= end for _, a, b in mine)


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 60, depth: int = 3) -> list[tuple[int, int]]:
    """Intervals in [low, high) that follow or contain one another."""
    found: list[tuple[int, int]] = []
    now = low
    while now < high and draw(st.booleans()):
        start = draw(st.integers(now, high))
        end = draw(st.integers(start, high))
        found.append((start, end))
        if depth and end > start:
            found += draw(nested(start, end, depth - 1))
        now = end
    return found


@given(nested())
def test_well_nested_lines(spans: list[tuple[int, int]]) -> None:
    check([(str(number), *span) for number, span in enumerate(spans)])


@given(nested(), st.data())
def test_nearly_nested_lines(spans: list[tuple[int, int]], data: st.DataObject) -> None:
    """Ends off by a nanosecond or more, in any order."""
    moved = []
    for start, end in spans:
        by = data.draw(st.sampled_from((0, 0, 0, 1, 1, -1, 7)))
        moved.append((start, max(start, end + by)))
    events = [(str(number), *span) for number, span in enumerate(moved)]
    check(data.draw(st.permutations(events)))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12))
def test_any_lines(spans: list[tuple[int, int]]) -> None:
    check([(str(number), start, start + length) for number, (start, length) in enumerate(spans)])
