"""Idle time by what caused it, as rows of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_cli.report.model import Hotspot

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 100
EACH = 5  # of every cause, at least
ADDRESS = " at 0x[0-9a-f]+"  # of the object of a built-in method: another one in every call
ON_DEVICE = {
    "kernel_gap": "between two activities of a stream",
    "dependency": "after an activity of another stream",
    "launch_bound": "from the launch call to the start",
    "transient": "before the first activity launched in the recording",
    "unknown": "launched, and not started for a reason that is not in the file",
}
NO_TRACE = "nothing recorded on the threads that launch"


def hotspot_rows(
    segments: pl.DataFrame,
    evidence: pl.DataFrame,
    capacity_ns: int,
    paths: Mapping[int, str],
    ranks: Mapping[int, int | None],
) -> tuple[Hotspot, ...]:
    """Idle segments (subject, source, start_ns, end_ns, cause, evidence) grouped by cause and what the host did.

    Most time first: EACH of every cause and MOST in all. Events are those with the most idle time of their group; where
    it is the call that ended the gap, that time was not spent in it: it has no dur_ns.
    """
    by = ["cause", "label", "frame"]
    events = _labelled(_by_event(segments, evidence))
    order = {"length_ns": True, "source": False, "at_ns": False, "thread": False}
    events = events.sort(list(order), descending=list(order.values()), nulls_last=True, maintain_order=True)
    groups = events.group_by(by, maintain_order=True).agg(
        col("source", "thread", "at_ns", "event_ns").first(),
        total=col.length_ns.sum(),
        pieces=col.count.sum(),
    )
    groups = groups.sort("total", *by, descending=[True, False, False, False], nulls_last=True)
    place = pl.int_range(pl.len())
    kept = groups.filter((place < MOST) | (place.over("cause") < EACH))
    return tuple(_hotspot(row, capacity_ns, paths, ranks) for row in kept.iter_rows(named=True))


def _by_event(segments: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Idle time by cause, source and what the host did, each with the event of most time: thread, at_ns, event_ns.

    The many events are summed by number before any text is looked at.
    """
    sums = segments.group_by("cause", "source", "evidence").agg(
        length_ns=(col.end_ns - col.start_ns).sum(), count=pl.len()
    )
    events = evidence.drop("source", "range").rename({"start_ns": "at_ns", "dur_ns": "event_ns"})
    # down to the number of the event, so that no tie depends on the order of a join
    order = {
        "length_ns": True,
        "at_ns": False,
        "thread": False,
        "evidence": False,
        "cause": False,
        "source": False,
    }
    told = sums.join(events, on="evidence", how="left").sort(
        list(order), descending=list(order.values()), nulls_last=True
    )
    return told.group_by("cause", "source", "kind", "name", "op", "frame", "before", maintain_order=True).agg(
        col("thread", "at_ns", "event_ns").first(), col("length_ns", "count").sum()
    )


def _labelled(events: pl.DataFrame) -> pl.DataFrame:
    """`events` with label and frame as texts, and event_ns only of events in which the time was spent."""
    texts = events.cast({pl.Categorical: pl.String})
    bare = col.cause.replace_strict(ON_DEVICE, default=NO_TRACE, return_dtype=pl.String)
    texts = texts.with_columns(event_ns=pl.when(~col.before).then("event_ns"))
    own = col.frame.eq_missing(col.label)  # a frame that is the event itself says nothing more
    named = texts.with_columns(label=_label().fill_null(bare))
    placed = named.with_columns(frame=pl.when(~own).then("frame"))
    return placed.with_columns(col("label", "frame").str.replace_all(ADDRESS, ""))


def _label() -> pl.Expr:
    """What the host did: a frame, range or operator; a call with the operator around it; or what came after."""
    before = pl.concat_str(
        col.name.fill_null("host code"), pl.lit(", before "), pl.coalesce("op", pl.lit("a launch"))
    )
    call = pl.concat_str(col.op, pl.lit(" › "), col.name)
    return (
        pl.when("before")
        .then(before)
        .when((col.kind == "runtime") & col.op.is_not_null())
        .then(call)
        .otherwise("name")
    )


def _hotspot(
    row: dict[str, Any], capacity_ns: int, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> Hotspot:
    return Hotspot(
        cause=row["cause"],
        name=row["label"],
        frame=row["frame"],
        chip_ns=row["total"],
        share=row["total"] / capacity_ns,
        count=row["pieces"],
        source=paths[row["source"]],
        rank=ranks[row["source"]],
        thread=row["thread"],
        start_ns=row["at_ns"],
        dur_ns=row["event_ns"],
    )
