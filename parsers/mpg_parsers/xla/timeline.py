"""Events of a line placed on the profile's clock, and what each operation of a line ran alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from mpg_parsers.xla.space import Line

PS = 1000  # picoseconds in a nanosecond
LATEST = 1 << 62
SLACK_NS = 1  # by which ends may be off where two clocks meet, or picoseconds were cut


def placed(events: pl.DataFrame, line: Line) -> pl.DataFrame:
    """`events` with start_ns and dur_ns in place of offset_ps and dur_ps.

    The duration is that of the device's own clock where it is stated. Both ends are cut to whole nanoseconds, so that
    what touches still does.
    """
    length = col.dur_ps
    if "device_duration_ps" in events.columns:
        length = pl.coalesce("device_duration_ps", length)
    end = (col.offset_ps + length.clip(0)).floordiv(PS)
    start = col.offset_ps.floordiv(PS)
    known = events.filter(col.offset_ps.is_between(-LATEST, LATEST) & length.is_between(0, LATEST))
    timed = known.with_columns(start_ns=start + line.timestamp_ns, dur_ns=end - start)
    return timed.drop("offset_ps", "dur_ps", "device_duration_ps", strict=False)


def alone(events: pl.DataFrame) -> pl.DataFrame:
    """One row for each stretch in which an event of a line ran and none inside of it did.

    `events` (start_ns, dur_ns, …) follow or contain one another. Columns as there, with part: which stretch of the
    event it is, from 0; null where the event was not interrupted. Events that take no time stay.
    """
    ordered = events.with_columns(end_ns=col.start_ns + col.dur_ns)
    ordered = ordered.sort("end_ns", descending=True, maintain_order=True)
    ordered = _settled(ordered.sort("start_ns", maintain_order=True))
    inside = ordered["start_ns"] < ordered["end_ns"].cum_max().shift(1)
    if not inside.any():
        return _with_length(ordered.with_columns(part=pl.lit(None, pl.Int64)))
    rows = ordered.with_row_index("row")
    solid = rows.filter(col.end_ns > col.start_ns).select("row", "start_ns", "end_ns")
    pieces = _pieces(solid).with_columns(part=pl.int_range(pl.len()).over("row"))
    pieces = pieces.with_columns(part=pl.when(pl.len().over("row") > 1).then("part"))
    whole = rows.drop("start_ns", "end_ns").join(pieces, on="row", maintain_order="right")
    empty = rows.filter(col.end_ns <= col.start_ns).with_columns(part=pl.lit(None, pl.Int64))
    both = pl.concat([whole, empty.select(whole.columns)]).sort("start_ns", "row")
    return _with_length(both.drop("row"))


def _with_length(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(dur_ns=col.end_ns - col.start_ns).drop("end_ns")


def _settled(ordered: pl.DataFrame) -> pl.DataFrame:
    """Neighbours made to follow or contain one another: ends that cross do so by rounding, as a rule.

    A second event that outlasts the first by no more than SLACK_NS ends with it; else the first ends where it begins.
    """
    following = col.start_ns.shift(-1), col.end_ns.shift(-1)
    crossing = (following[0] < col.end_ns) & (col.end_ns < following[1])
    if not ordered.select(crossing.any()).item():
        return ordered
    near = following[1] - col.end_ns <= SLACK_NS
    cut = pl.when(crossing & ~near).then(following[0]).otherwise("end_ns")
    outlasts = (crossing & near).shift(1, fill_value=False)
    return ordered.with_columns(end_ns=pl.when(outlasts).then(col.end_ns.shift(1)).otherwise(cut))


def _pieces(solid: pl.DataFrame) -> pl.DataFrame:
    """row, start_ns, end_ns: who is innermost when, of events (row in order of start; outer before inner) that last."""
    starts = solid.select(at="start_ns", delta=pl.lit(1, pl.Int32), row="row")
    ends = solid.select(at="end_ns", delta=pl.lit(-1, pl.Int32), row="row")
    edges = pl.concat([ends, starts]).sort("at", maintain_order=True)
    level = col.delta.cum_sum()
    # after a start its event is innermost; after an end the last that began one level up, which is still open
    marked = edges.with_columns(level=level, began=pl.when(col.delta > 0).then("row"))
    open_now = marked.with_columns(owner=col.began.forward_fill().over("level"))
    spans = open_now.select("owner", "level", start_ns="at", end_ns=col.at.shift(-1))
    return spans.filter((col.level > 0) & (col.start_ns < col.end_ns)).select(
        "start_ns", "end_ns", row="owner"
    )
