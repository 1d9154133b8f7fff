"""How much of spans pieces cover, against counting nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput.overlaps import covered, covered_by

if TYPE_CHECKING:
    Row = tuple[int, int, int, str]

SCHEMA = {"subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
lengths = st.integers(0, 6)


@st.composite
def disjoint(draw: st.DrawFn) -> list[Row]:
    """Pieces that do not overlap within a subject, each of kind a or b, in any order; some are empty."""
    rows = []
    for subject in range(2):
        at = draw(st.integers(-5, 5))
        for gap, length, kind in draw(
            st.lists(st.tuples(lengths, lengths, st.sampled_from("ab")), max_size=5)
        ):
            rows.append((subject, at + gap, at + gap + length, kind))
            at += gap + length
    return draw(st.permutations(rows))


spans = st.lists(st.tuples(st.integers(0, 2), st.integers(-8, 30), lengths), max_size=6)


@settings(max_examples=60, deadline=None)
@given(spans, disjoint())
def test_as_counted(given_spans: list[tuple[int, int, int]], pieces: list[Row]) -> None:
    def count(span: tuple[int, int, int], kinds: str) -> int:
        subject, start, length = span
        moments = range(start, start + length)
        return sum(s == subject and a <= t < b and kind in kinds for t in moments for s, a, b, kind in pieces)

    rows = [(subject, start, start + length) for subject, start, length in given_spans]
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    parts = pl.DataFrame(pieces, SCHEMA | {"kind": pl.String}, orient="row")
    assert covered(frame, parts).to_list() == [count(span, "ab") for span in given_spans]
    by = covered_by(frame, parts, {"a": pl.col("kind") == "a", "b": pl.col("kind") == "b"})
    assert by.rows() == [(count(span, "a"), count(span, "b")) for span in given_spans]
