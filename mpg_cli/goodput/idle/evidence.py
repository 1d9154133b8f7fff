"""What the host events behind idle time are called, and where the trace viewer shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.idle.host import FRAMES, RANGES, innermost
from mpg_cli.goodput.nesting import around

if TYPE_CHECKING:
    from mpg_cli.goodput.idle.host import Host

TEXT = pl.Categorical()  # few distinct texts, many rows

# op, frame, range: the innermost operator, Python frame in a file and annotation in which the event begins; of an
# annotation itself, the frame with most time in it.
# before: nothing more is known than that the time was spent before this launch call, by `op`; name is then the
# range's, or null.
SCHEMA = pl.Schema(
    {
        "evidence": pl.Int64(), "source": pl.Int32(), "kind": TEXT, "name": TEXT, "op": TEXT, "frame": TEXT,
        "range": TEXT, "before": pl.Boolean(), "thread": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(),
    }
)  # fmt: skip
# op, frame: as above, around the call
SYNC_SCHEMA = pl.Schema(
    {
        "subject": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "name": TEXT, "thread": pl.Int64(),
        "op": TEXT, "frame": TEXT,
    }
)  # fmt: skip


def describe(host: Host, source: int, segments: pl.DataFrame, first: int) -> pl.DataFrame:
    """The events that `segments` (row, until) rest on: SCHEMA, row and until, numbered from `first`."""
    pairs = segments.select("row", "until").unique().filter(col.row.is_not_null() | col.until.is_not_null())
    pairs = pairs.sort("row", "until").with_row_index("evidence", offset=first)
    used = pairs.select("until", named="row", row=pl.coalesce("until", "row"))
    events = _events(host, used["row"])
    before = used["until"].is_not_null()
    ranges = host.events["name"].gather(used["named"])
    shown = events.with_columns(
        op=_around(host, ("op",), events),
        frame=_frame(host, events, before),
        range=_around(host, RANGES, events),
        before=before,
        name=pl.when(before).then(ranges).otherwise("name"),
        source=pl.lit(source),
    )
    return pairs.hstack(shown.select(SCHEMA.names()[1:]).get_columns()).cast(SCHEMA)


def describe_syncs(host: Host, syncs: pl.DataFrame) -> pl.DataFrame:
    """The calls that wait for the device (subject, row) in the form of SYNC_SCHEMA."""
    events = _events(host, syncs["row"])
    around = events.with_columns(
        syncs["subject"],
        end_ns=col.start_ns + col.dur_ns,
        op=_around(host, ("op",), events),
        frame=_around(host, FRAMES, events),
    )
    return around.select(SYNC_SCHEMA.names()).cast(SYNC_SCHEMA)


def _events(host: Host, rows: pl.Series) -> pl.DataFrame:
    """The events with these numbers, in this order."""
    picked = host.events.select(col("row", "key", "start_ns", "end_ns", "kind", "name").gather(rows))
    return picked.with_columns(thread=host.threads.gather(picked["key"]), dur_ns=col.end_ns - col.start_ns)


def _frame(host: Host, events: pl.DataFrame, before: pl.Series) -> pl.Series:
    """The Python frame of each of `events`: of a range the one with most time in it, else that in which it begins."""
    begins = _around(host, FRAMES, events)
    ranges = events.with_row_index("place").filter((col.kind == "annotation") & ~before)
    ranges = ranges.sort("start_ns", "place").filter(
        (col.start_ns >= col.end_ns.cum_max().shift(1).over("key")).fill_null(value=True)
    )
    if ranges.is_empty():
        return begins
    frames = innermost(host, FRAMES, ranges.select("start_ns", "end_ns"))
    pieces = intervals.clip(
        frames, ranges.select("key", "start_ns", "end_ns", "place"), ["key"], keep=["place"]
    )
    named = pieces.with_columns(name=host.events["name"].gather(pieces["row"]))
    length = (col.end_ns - col.start_ns).sum()
    spent = named.group_by("place", "name").agg(ns=length, first=col.start_ns.min())
    spent = spent.sort("ns", "first", descending=[True, False])
    most = spent.unique("place", keep="first", maintain_order=True).select("place", most="name")
    found = (
        pl.DataFrame({"begins": begins})
        .with_row_index("place")
        .join(most, on="place", how="left", maintain_order="left")
    )
    return found.select(pl.coalesce("most", "begins")).to_series()


def _around(host: Host, kinds: tuple[str, ...], events: pl.DataFrame) -> pl.Series:
    """The name of the innermost event of `kinds` on the same thread in which each of `events` begins, or is itself."""
    segments = innermost(host, kinds, events.select("start_ns", end_ns=col.start_ns + 1))
    return host.events["name"].gather(around(events.select("key", at="start_ns"), segments))
