from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import intervals
from tests.mpg_cli.goodput import oracles

SCHEMA = {"key": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
KEYS = st.sampled_from([None, "a", "b"])
TIMES = st.integers(-3, 25)
ROWS = st.lists(st.tuples(KEYS, TIMES, TIMES), max_size=12)
SPANS = st.tuples(KEYS, TIMES, st.integers(0, 8)).map(lambda r: (r[0], r[1], r[1] + r[2]))


def frame(rows):
    return pl.DataFrame(rows, SCHEMA, orient="row")


def expected(covered):
    """The rows of a frame like `union`'s, nulls first."""
    keys = sorted(covered, key=lambda k: (k is not None, k))
    return [(key, start, end) for key in keys for start, end in oracles.runs(covered[key])]


@pytest.mark.parametrize(
    ("rows", "result"),
    [
        ([], []),
        ([(0, 5), (5, 7)], [(0, 7)]),  # touching
        ([(0, 5), (6, 7)], [(0, 5), (6, 7)]),  # a gap of one nanosecond
        ([(0, 9), (2, 3), (4, 5), (8, 10)], [(0, 10)]),  # nested: the longest so far counts, not the last
        ([(3, 3), (5, 4)], []),  # empty
        ([(0, 3), (3, 3), (4, 6)], [(0, 3), (4, 6)]),
    ],
)
def test_union_and_total_of_hand_made_sets(rows, result):
    keyless = frame([(None, *row) for row in rows]).drop("key")
    assert intervals.union(keyless, []).rows() == result
    assert intervals.total(keyless, []).rows() == [(sum(end - start for start, end in result),)]


def test_null_is_a_key_and_keys_do_not_mix():
    rows = frame([(None, 0, 4), ("a", 3, 6), (None, 4, 5), ("b", 9, 9)])
    assert intervals.union(rows, ["key"]).rows() == [(None, 0, 5), ("a", 3, 6)]
    assert intervals.total(rows, ["key"]).rows() == [(None, 5), ("a", 3), ("b", 0)]


def test_two_keys():
    rows = frame([("a", 0, 4), ("a", 2, 6), ("b", 0, 1)]).with_columns(device=pl.Series([1, 2, 1]))
    assert intervals.union(rows, ["device", "key"]).rows() == [(1, "a", 0, 4), (1, "b", 0, 1), (2, "a", 2, 6)]


def test_nanoseconds_of_this_century_stay_exact():
    start = 1_712_195_495_519_791_567
    rows = frame([("a", start, start + 1), ("a", start + 2, start + 3)])
    assert intervals.union(rows, ["key"]).rows() == rows.rows()


@settings(deadline=None)
@given(ROWS)
def test_union_equals_the_set_of_its_nanoseconds(rows):
    assert intervals.union(frame(rows), ["key"]).rows() == expected(oracles.moments(rows))


@settings(deadline=None)
@given(ROWS)
def test_total_is_the_size_of_that_set_and_at_most_the_span(rows):
    covered = oracles.moments(rows)
    totals = dict(intervals.total(frame(rows), ["key"]).rows())
    assert totals == {key: len(times) for key, times in covered.items()}
    for key, length in totals.items():
        solid = [row for row in rows if row[0] == key and row[1] < row[2]]
        assert length <= max((r[2] for r in solid), default=0) - min((r[1] for r in solid), default=0)


@settings(deadline=None)
@given(ROWS, ROWS)
def test_intersect_and_subtract_are_set_operations(a, b):
    in_a, in_b = oracles.moments(a), oracles.moments(b)
    both = {key: in_a[key] & in_b[key] for key in {*in_a, *in_b}}
    only = {key: in_a[key] - in_b[key] for key in {*in_a, *in_b}}
    assert intervals.intersect(frame(a), frame(b), ["key"]).rows() == expected(both)
    assert intervals.subtract(frame(a), frame(b), ["key"]).rows() == expected(only)


@settings(deadline=None)
@given(ROWS, ROWS)
def test_the_same_without_keys(a, b):
    in_a, in_b = (set().union(*oracles.moments(rows).values()) for rows in (a, b))
    assert intervals.union(frame(a), []).rows() == oracles.runs(in_a)
    assert intervals.intersect(frame(a), frame(b), []).rows() == oracles.runs(in_a & in_b)
    assert intervals.subtract(frame(a), frame(b), []).rows() == oracles.runs(in_a - in_b)


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False), st.integers(-(2**60), 2**60))
def test_neither_order_nor_origin_of_time_matters(rows, random, shift):
    moved = [(key, start + shift, end + shift) for key, start, end in rows]
    random.shuffle(moved)
    back = pl.col("start_ns", "end_ns") - shift
    assert (
        intervals.union(frame(moved), ["key"])
        .with_columns(back)
        .equals(intervals.union(frame(rows), ["key"]))
    )


WINDOWS = [("a", 0, 10), ("a", 10, 20), ("b", 5, 6), (None, 0, 2)]


@pytest.mark.parametrize(
    ("row", "pieces"),
    [
        (("a", -5, 5), [(0, 5)]),
        (("a", 8, 12), [(8, 10), (10, 12)]),  # across two windows that touch
        (("a", -5, 50), [(0, 10), (10, 20)]),
        (("a", -5, 0), []),  # ends where the window begins
        (("a", 20, 25), []),  # begins where it ends
        (("a", 10, 10), [(10, 10)]),  # no length: in the window that begins there, and only that one
        (("a", 20, 20), []),
        (("a", 7, 6), []),  # ends before it starts
        (("b", 0, 9), [(5, 6)]),
        ((None, 1, 9), [(1, 2)]),
        (("c", 0, 9), []),  # no window
    ],
)
def test_clip_cuts_a_row_to_its_windows(row, pieces):
    cut = intervals.clip(frame([row]), frame(WINDOWS), ["key"])
    assert cut.rows() == [(row[0], *piece) for piece in pieces]


def test_clip_keeps_columns_and_can_take_some_from_the_windows():
    rows = frame([("a", 12, 15), ("a", 1, 2), ("b", 5, 9)]).with_columns(name=pl.Series(["x", "y", "z"]))
    steps = frame(WINDOWS).with_columns(step=pl.Series([7, 8, 9, 10]), name=pl.lit("ignored"))
    assert intervals.clip(rows, steps, ["key"], keep=["step"]).rows() == [
        ("a", 12, 15, "x", 8),
        ("a", 1, 2, "y", 7),
        ("b", 5, 6, "z", 9),
    ]


def test_clip_refuses_windows_that_overlap():
    with pytest.raises(ValueError, match="overlap"):
        intervals.clip(frame([]), frame([("a", 0, 10), ("a", 9, 11)]), ["key"])


@settings(deadline=None)
@given(st.lists(SPANS, max_size=12), ROWS, st.sets(TIMES))
def test_clip_is_its_definition(rows, windows, cuts):
    # Disjoint windows, some of which touch: a union, cut at some instants.
    disjoint = [
        (key, low, high)
        for key, start, end in expected(oracles.moments(windows))
        for low, high in cut_at(start, end, cuts)
    ]
    numbered = frame(rows).with_columns(number=pl.int_range(pl.len()))
    result = intervals.clip(numbered, frame(disjoint), ["key"])
    assert result.rows() == oracles.clip(numbered.rows(), disjoint)


def cut_at(start, end, cuts):
    points = sorted({start, end, *(t for t in cuts if start < t < end)})
    return list(pairwise(points))


@settings(deadline=None)
@given(st.lists(SPANS, max_size=8))
def test_clip_to_the_hull_changes_nothing(rows):
    hull = pl.DataFrame({"start_ns": [-100], "end_ns": [100]})
    assert intervals.clip(frame(rows), hull, []).equals(frame(rows))
