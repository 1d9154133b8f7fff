"""Nested host events of many threads, in one vectorised pass: who encloses whom, and who is innermost when."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from polars import col

MAX_REPAIRS = 8  # how often crossing events are cut to the one they began in; two are enough in practice


@dataclass(frozen=True, slots=True)
class Nesting:
    """Who encloses whom, and who is innermost when.

    parents: row, parent (row of the innermost enclosing event, or null), end_ns (cut to the parent's if they cross)
    segments: key, start_ns, end_ns, row: at any time covered by an event, the innermost; per key disjoint and in
    order of time, together the union of the key's events.
    """

    parents: pl.DataFrame
    segments: pl.DataFrame


def nest(events: pl.DataFrame) -> Nesting:
    """Nest `events` (row, key, start_ns, end_ns; row unique) within each key.

    Of two events with the same times the one with the lower row is outside. An event that outlasts the one it began in
    is cut to it (times rounded to whole microseconds do that). Events of no length are in no segment.
    """
    solid = events.select("row", "key", "start_ns", "end_ns").filter(col.start_ns < col.end_ns)
    solid = solid.sort("row").sort("end_ns", descending=True, maintain_order=True)
    solid = solid.sort("start_ns", maintain_order=True)
    edges = _edges(solid)
    for _ in range(MAX_REPAIRS):
        cut = _crossing(edges)
        if cut.is_empty():
            break
        solid = solid.join(cut, on="row", how="left", maintain_order="left")
        solid = solid.with_columns(end_ns=pl.coalesce("cut_ns", "end_ns")).drop("cut_ns")
        edges = _edges(solid)
    starts = edges.filter(col.delta == 1)
    return Nesting(starts.select("row", "parent", "end_ns"), _segments(edges))


def around(points: pl.DataFrame, segments: pl.DataFrame) -> pl.Series:
    """By row of `points` (key, at), the row of the one of `segments` (as in Nesting) that it lies in, or null."""
    found = (
        points.select("key", "at")
        .with_row_index("_point")
        .sort("at")
        .join_asof(
            segments.sort("start_ns"), left_on="at", right_on="start_ns", by="key", check_sortedness=False
        )
        .sort("_point")
    )
    return found.select(pl.when(col.at < col.end_ns).then("row").alias("row")).to_series()


def _edges(solid: pl.DataFrame) -> pl.DataFrame:
    """Both edges of every event in the order of the walk: by key and time, ends first, inner ends before outer ones.

    Columns key, at, row, delta (1 at a start, -1 at an end), end_ns and parent of the event.
    """
    ends = solid.reverse().select("key", "row", "end_ns", at="end_ns", delta=pl.lit(-1, pl.Int8))
    starts = solid.select("key", "row", "end_ns", at="start_ns", delta=pl.lit(1, pl.Int8))
    edges = pl.concat([ends, starts]).sort("at", maintain_order=True).sort("key", maintain_order=True)
    # each key's edges add up to zero, so one running sum serves them all
    edges = edges.with_columns(depth=col.delta.cast(pl.Int32).cum_sum()).with_row_index("at_edge")
    starts = edges.filter(col.delta == 1).select("at_edge", "key", "row", "depth")
    found = starts.with_columns(depth=col.depth - 1).join_asof(
        starts.rename({"row": "parent"}), on="at_edge", by=["key", "depth"], check_sortedness=False
    )
    parents = found.select("row", "parent")
    return edges.drop("at_edge", "depth").join(parents, on="row", how="left", maintain_order="left")


def _crossing(edges: pl.DataFrame) -> pl.DataFrame:
    """row and cut_ns of the events that began inside their parent and end after it."""
    starts = edges.filter(col.delta == 1).select("row", "parent", "at", "end_ns")
    around = starts.select(parent="row", cut_ns="end_ns")
    met = starts.join(around, on="parent")
    return met.filter((col.at < col.cut_ns) & (col.cut_ns < col.end_ns)).select("row", "cut_ns")


def _segments(edges: pl.DataFrame) -> pl.DataFrame:
    inside = pl.when(col.delta == 1).then("row").otherwise("parent")
    pieces = edges.select("key", start_ns="at", end_ns=col.at.shift(-1).over("key"), row=inside)
    return pieces.filter(col.row.is_not_null() & (col.start_ns < col.end_ns))
