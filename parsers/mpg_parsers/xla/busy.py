"""When all devices of a profile are at work: what the host does meanwhile explains no waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from collections.abc import Sequence

SPAN = pl.Schema({"start_ns": pl.Int64, "end_ns": pl.Int64})


def union(rows: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """SPAN of the time in which any of the rows (start_ns, dur_ns) of a device runs, by time."""
    spans = [part.select("start_ns", end_ns=col.start_ns + col.dur_ns) for part in rows if part.height]
    if not spans:
        return pl.DataFrame(schema=SPAN)
    ordered = pl.concat(spans).sort("start_ns")
    first = (ordered["start_ns"] > ordered["end_ns"].cum_max().shift(1)).fill_null(value=True)
    return (
        ordered.group_by(first.cum_sum().alias("island"), maintain_order=True)
        .agg(col.start_ns.first(), col.end_ns.max())
        .drop("island")
    )


def everywhere(devices: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """SPAN of the time in which every one of `devices` (each of `union`) is at work, by time."""
    if not devices:
        return pl.DataFrame(schema=SPAN)
    starts = pl.concat([each.select(at="start_ns", step=pl.lit(1, pl.Int32)) for each in devices])
    ends = pl.concat([each.select(at="end_ns", step=pl.lit(-1, pl.Int32)) for each in devices])
    edges = pl.concat([starts, ends]).group_by("at").agg(col.step.sum()).sort("at")
    spans = edges.select(start_ns="at", end_ns=col.at.shift(-1), at_work=col.step.cum_sum())
    whole = spans.filter((col.at_work == len(devices)) & col.end_ns.is_not_null())
    return union([whole.select("start_ns", dur_ns=col.end_ns - col.start_ns)])


def inside(events: pl.DataFrame, busy: pl.DataFrame) -> pl.Series:
    """Whether each of `events` (start_ns, dur_ns) lies within one of `busy` (SPAN, disjoint, by time)."""
    if busy.is_empty():
        return pl.repeat(value=False, n=events.height, dtype=pl.Boolean, eager=True)
    numbered = events.select("start_ns", end_ns=col.start_ns + col.dur_ns).with_row_index("event")
    spans = busy.select(since="start_ns", until="end_ns")
    met = numbered.sort("start_ns").join_asof(
        spans, left_on="start_ns", right_on="since", check_sortedness=False
    )
    within = met.select("event", within=(col.end_ns <= col.until).fill_null(value=False))
    return within.sort("event")["within"]
