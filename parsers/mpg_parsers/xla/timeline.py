"""Events of a line placed on the profile's clock, and what each operation of a line ran alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from mpg_parsers.xla.space import Line

PS = 1000  # picoseconds in a nanosecond
LATEST = 1 << 62  # ps of an offset or a length; two of them can be added
FIRST_NS, LAST_NS = -(1 << 61), (1 << 62) - 1  # times between which any two can be subtracted in 64 bits


def placed(events: pl.DataFrame, line: Line) -> pl.DataFrame:
    """`events` of a line with start_ns and dur_ns in place of offset_ps and dur_ps.

    Both ends are cut to whole nanoseconds, so that what touches still does. Events at times that cannot be (outside of
    FIRST_NS to LAST_NS) are left out.
    """
    return placed_from(events, pl.lit(line.timestamp_ns, pl.Int64))


def placed_from(events: pl.DataFrame, base_ns: pl.Expr) -> pl.DataFrame:
    """The same where `base_ns`, what offsets are relative to, differs."""
    end = (col.offset_ps + col.dur_ps).floordiv(PS)
    start = col.offset_ps.floordiv(PS)
    possible = col.offset_ps.is_between(-LATEST, LATEST, "none") & col.dur_ps.is_between(0, LATEST, "left")
    known = events.filter(possible & base_ns.is_between(FIRST_NS, LAST_NS))
    timed = known.with_columns(start_ns=start + base_ns, dur_ns=end - start)
    within = (col.start_ns >= FIRST_NS) & (col.start_ns + col.dur_ns <= LAST_NS)
    return timed.filter(within).drop("offset_ps", "dur_ps")


def alone(events: pl.DataFrame) -> pl.DataFrame:
    """One row for each stretch in which an event of a line ran and none inside of it did.

    `events` (start_ns, dur_ns, …) follow or contain one another; where ends cross, the one that began last is taken to
    run. Columns as there, with part: which stretch of the event it is, from 0; null where the event was not
    interrupted. Events that take no time stay, and one that others fill has a row without a length.
    """
    ordered = events.with_columns(end_ns=col.start_ns + col.dur_ns)
    ordered = ordered.sort("end_ns", descending=True, maintain_order=True)
    rows = ordered.sort("start_ns", maintain_order=True).with_row_index("row")
    solid = rows.filter(col.end_ns > col.start_ns).select("row", "start_ns", "end_ns")
    if not (solid["start_ns"] < solid["end_ns"].cum_max().shift(1)).any():
        return rows.with_columns(part=pl.lit(None, pl.Int64)).drop("row", "end_ns")
    pieces = _pieces(solid).with_columns(part=pl.int_range(pl.len()).over("row"))
    pieces = pieces.with_columns(part=pl.when(pl.len().over("row") > 1).then("part"))
    whole = rows.drop("start_ns", "end_ns").join(pieces, on="row", maintain_order="right")
    others = rows.join(pieces, on="row", how="anti").with_columns(
        end_ns="start_ns", part=pl.lit(None, pl.Int64)
    )
    both = pl.concat([whole, others.select(whole.columns)]).sort("start_ns", "row")
    return both.with_columns(dur_ns=col.end_ns - col.start_ns).select(*events.columns, "part")


def _pieces(solid: pl.DataFrame) -> pl.DataFrame:
    """row, start_ns, end_ns: who is innermost when, of events (row in order of start; outer before inner) that last."""
    edges = _edges(solid)
    if edges.filter((col.delta < 0) & (col.open != col.row)).height:
        edges = _edges(_nested(solid))
    # after a start its event is innermost; after an end the last that began one level up, which is still open
    level = col.delta.cum_sum()
    owned = edges.with_columns(level=level).with_columns(owner=col.began.forward_fill().over("level"))
    spans = owned.select("level", start_ns="at", end_ns=col.at.shift(-1), row="owner")
    return spans.filter((col.level > 0) & (col.start_ns < col.end_ns)).drop("level")


def _edges(solid: pl.DataFrame) -> pl.DataFrame:
    """Starts and ends in order: at, delta (1 or -1), row, began (row of a start, null for an end), and open: the event
    that began last as deep as this one. At an end that is the event that ends, if events contain or follow one another.
    """
    starts = solid.select(at="start_ns", delta=pl.lit(1, pl.Int32), row="row", began="row")
    ends = solid.select(at="end_ns", delta=pl.lit(-1, pl.Int32), row="row", began=pl.lit(None, pl.UInt32))
    edges = pl.concat([ends.reverse(), starts]).sort("at", maintain_order=True)
    depth = col.delta.cum_sum() - (col.delta > 0).cast(pl.Int32)
    return edges.with_columns(depth=depth).with_columns(open=col.began.forward_fill().over("depth"))


def _nested(solid: pl.DataFrame) -> pl.DataFrame:
    """Events that contain or follow one another: one in which another begins that outlasts it ends there."""
    ends = solid["end_ns"].to_list()
    running: list[int] = []  # from outer to inner
    for place, start in enumerate(solid["start_ns"]):
        while running and ends[running[-1]] <= start:
            running.pop()
        while running and ends[running[-1]] < ends[place]:
            ends[running.pop()] = start
        running.append(place)
    return solid.with_columns(end_ns=pl.Series(ends, dtype=pl.Int64))
