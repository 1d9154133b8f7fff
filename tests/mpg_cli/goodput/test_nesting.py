"""Nesting against a slow oracle that asks, for every instant, which of the open events began last."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.nesting import nest

Event = tuple[int, int, int]  # key, start, end
SCHEMA = {"row": pl.UInt32, "key": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}


def frame(events: list[Event]) -> pl.DataFrame:
    return pl.DataFrame([(row, *event) for row, event in enumerate(events)], schema=SCHEMA, orient="row")


def innermost(events: list[Event]) -> dict[tuple[int, int], int]:
    """By key and instant, the open event that began last; of equal starts the shortest, then the last listed."""
    found = {}
    for key, start, end in events:
        for at in range(start, end):
            inside = [(s, -e, row) for row, (k, s, e) in enumerate(events) if k == key and s <= at < e]
            found[key, at] = max(inside)[2]
    return found


def covered(segments: pl.DataFrame) -> dict[tuple[int, int], int]:
    found = {}
    for key, start, end, row in segments.select("key", "start_ns", "end_ns", "row").iter_rows():
        for at in range(start, end):
            assert (key, at) not in found, "segments of one key overlap"
            found[key, at] = row
    return found


@st.composite
def nested(draw: st.DrawFn) -> list[Event]:
    """Properly nested events of two threads, some without length, some with equal times."""
    events: list[Event] = []

    def fill(key: int, low: int, high: int, depth: int) -> None:
        at = low
        for _ in range(draw(st.integers(0, 3 if depth < 3 else 0))):
            if at > high:
                return
            start = draw(st.integers(at, high))
            end = draw(st.integers(start, high))
            events.append((key, start, end))
            fill(key, start, end, depth + 1)
            at = end

    for key in range(2):
        fill(key, 0, 12, 0)
    return events


@given(nested(), st.randoms())
def test_segments_are_the_innermost_events(events: list[Event], random) -> None:
    rows = frame(events)
    shuffled = rows[random.sample(range(rows.height), rows.height)] if rows.height else rows
    assert covered(nest(shuffled).segments) == innermost(events)


@given(nested())
def test_parents_enclose_their_children(events: list[Event]) -> None:
    parents = dict(nest(frame(events)).parents.select("row", "parent").iter_rows())
    for row, (key, start, end) in enumerate(events):
        if start == end:
            assert row not in parents
            continue
        around = [
            (s, -e, other)
            for other, (k, s, e) in enumerate(events)
            if k == key and s < e and (s, -e, other) < (start, -end, row) and s <= start and e >= end
        ]
        assert parents[row] == (max(around)[2] if around else None)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_any_events_give_disjoint_segments_inside_their_union(events: list[Event]) -> None:
    found = covered(nest(frame(events)).segments)
    union = {(key, at) for key, start, end in events for at in range(start, end)}
    assert set(found) <= union


def test_an_event_that_outlasts_its_parent_is_cut_to_it():
    nesting = nest(frame([(0, 0, 10), (0, 6, 11), (0, 12, 14)]))
    assert covered(nesting.segments) == (
        {(0, at): 0 for at in range(6)}
        | {(0, at): 1 for at in range(6, 10)}
        | {(0, at): 2 for at in (12, 13)}
    )
    assert nesting.parents.sort("row").rows() == [(0, None, 10), (1, 0, 10), (2, None, 14)]


def test_nothing():
    nesting = nest(frame([]))
    assert nesting.segments.is_empty()
    assert nesting.parents.is_empty()
