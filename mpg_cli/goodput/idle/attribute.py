"""Why the devices were idle: every nanosecond of idle time in the windows under one cause, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.idle import evidence as evidences
from mpg_cli.goodput.idle import gaps as gapping
from mpg_cli.goodput.idle import host as hosts
from mpg_cli.goodput.idle import layers

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.idle.host import Host
    from mpg_cli.goodput.idle.rules import IdleRules
    from mpg_cli.store import Dataset

SOFTENED = ("launch_bound", "host_code")  # what a sync that drained the device takes over
SEGMENT_SCHEMA = pl.Schema(
    {"subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.String, "evidence": pl.Int64}
)


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle time by cause.

    segments: subject, start_ns, end_ns, cause, evidence (null: none on the host); disjoint, and exactly the idle time
    evidence: see `evidence.SCHEMA`
    syncs: the calls in which a thread that launches a device's work waited for it: see `evidence.SYNC_SCHEMA`
    """

    segments: pl.DataFrame
    evidence: pl.DataFrame
    syncs: pl.DataFrame

    def rows(self) -> pl.DataFrame:
        """The segments as rows of the ledger."""
        size = (col.end_ns - col.start_ns).sum()
        sums = self.segments.group_by("subject", "cause").agg(chip_ns=size).sort("subject", "cause")
        return sums.with_columns(origin=pl.lit("inferred"), evidence=pl.lit(None, pl.Int64))


def attribute(
    dataset: Dataset, activity: Activity, spans: pl.DataFrame, steps: pl.DataFrame, rules: IdleRules
) -> Idle:
    """The idle time of every device inside its window, one process at a time.

    `spans`: subject, source, start_ns, end_ns; `steps`: source, process, name, start_ns. Where the file numbers devices
    by process, only that process's threads are asked.
    """
    parts = [
        Idle(*(pl.DataFrame(schema=s) for s in (SEGMENT_SCHEMA, evidences.SCHEMA, evidences.SYNC_SCHEMA)))
    ]
    first = 0
    owned = spans.join(activity.subjects.select("subject", "process"), on="subject", maintain_order="left")
    for (source, process), windows in owned.partition_by(
        "source", "process", as_dict=True, maintain_order=True
    ).items():
        mine = (col.source == source) & col.process.eq_missing(process)
        ops = activity.ops.filter(mine)
        host = hosts.load(dataset, source, process, ops, steps.filter(mine))
        numbers = activity.subjects.select("subject", "device")
        waits = _waits(host, rules, windows.join(numbers, on="subject"))
        parts.append(_of_process(host, ops, windows, rules, source, first, waits))
        first += parts[-1].evidence.height
    columns = zip(*((part.segments, part.evidence, part.syncs) for part in parts), strict=True)
    return Idle(*(pl.concat(column) for column in columns))


def _of_process(
    host: Host,
    ops: pl.DataFrame,
    windows: pl.DataFrame,
    rules: IdleRules,
    source: int,
    first: int,
    waits: pl.DataFrame,
) -> Idle:
    """The idle time of one process's devices, with evidence numbered from `first`; `waits`: of `_waits`."""
    linked = ops.select("subject", "stream", "start_ns", "end_ns", "kind", "correlation").join(
        host.calls.select("correlation", "call"), on="correlation", how="left", maintain_order="left"
    )
    gaps = gapping.cut(gapping.find(linked, host.calls, windows), rules.limits)
    owner = pl.when(col.tail).then(pl.lit(host.stepper, pl.UInt32)).otherwise("key")
    gaps = gaps.with_columns(key=owner)
    blocking = _blocking(linked, host)
    syncs = _syncs(host, rules, blocking)
    pieces = layers.with_waits(layers.explain(host, rules, gaps, blocking), waits)
    inside = intervals.clip(pieces, windows.select("subject", "start_ns", "end_ns"), ["subject"])
    idle = _before(_drained(inside, _emptied(gaps, syncs, host)), gaps, host)
    evidence = evidences.describe(host, source, idle, first)
    numbered = idle.join(
        evidence.select("row", "until", "evidence"), on=["row", "until"], how="left", nulls_equal=True,
        maintain_order="left",
    )  # fmt: skip
    return Idle(
        numbered.select(SEGMENT_SCHEMA.names()),
        evidence.select(evidences.SCHEMA.names()),
        evidences.describe_syncs(host, syncs),
    )


def _waits(host: Host, rules: IdleRules, devices: pl.DataFrame) -> pl.DataFrame:
    """subject, start_ns, end_ns, cause, row: what the devices (subject, device) said that they wait for."""
    if host.waits.is_empty():
        return pl.DataFrame(schema=layers.SCHEMA)
    named = host.waits.with_columns(name=host.events["name"].gather(host.waits["row"]))
    told = named.join(rules.cause_of_wait(named), on="name").join(
        devices.select("subject", "device"), on="device"
    )
    return told.select("subject", "start_ns", "end_ns", "row", cause="called")


def _before(idle: pl.DataFrame, gaps: pl.DataFrame, host: Host) -> pl.DataFrame:
    """`idle` with until: for host code that no frame or operator names, the call that ended the gap it is in."""
    ranges = host.events.filter(col.kind == "annotation")["row"]
    nameless = (col.cause == "host_code") & (col.row.is_null() | col.row.is_in(ranges.implode()))
    ended = gaps.select("subject", "call", gap_ns="start_ns").sort("gap_ns")
    met = idle.sort("start_ns").join_asof(
        ended, left_on="start_ns", right_on="gap_ns", by="subject", check_sortedness=False
    )
    found = met.with_columns(until=pl.when(nameless).then("call")).drop("gap_ns", "call")
    return found.sort("subject", "start_ns")


def _blocking(ops: pl.DataFrame, host: Host) -> pl.Series:
    """The rows of the calls whose own copy ended on the device before they returned."""
    copies = ops.filter(col.kind == "memcpy").select("call", done="end_ns")
    met = copies.join(host.calls.select("call", "end_ns").unique(), on="call")
    return met.filter(col.done <= col.end_ns)["call"].unique()


def _syncs(host: Host, rules: IdleRules, blocking: pl.Series) -> pl.DataFrame:
    """The calls that wait for the device: subject, row, key, start_ns, end_ns."""
    calls = host.events.filter((col.kind == "runtime") & col.key.is_not_null())
    names = rules.cause_of_call(calls).filter(col.called == "synchronisation")
    by_name = calls.join(names, on="name", how="semi")
    by_copy = calls.filter(col.row.is_in(blocking.implode()))
    waits = pl.concat([by_name, by_copy]).unique("row").join(host.votes, on="key")
    return waits.select("subject", "row", "key", "start_ns", "end_ns").sort("subject", "start_ns", "row")


def _waiting(gaps: pl.DataFrame, syncs: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """`gaps` with sync, the row of a call of `syncs` (by…, row, start_ns, end_ns) that covers the gap's start, or null.

    Of the calls that began by then, the one that ends last is looked at: those that an earlier one outlasts go.
    """
    ordered = syncs.sort("start_ns", col.end_ns, descending=[False, True])
    before = col.end_ns.cum_max().shift(1).over(by)
    longest = ordered.filter(before.is_null() | (col.end_ns > before))
    calls = longest.select(*by, since="start_ns", until="end_ns", sync="row")
    met = gaps.sort("start_ns").join_asof(
        calls, left_on="start_ns", right_on="since", by=by, check_sortedness=False
    )
    return met.with_columns(sync=pl.when(col.start_ns < col.until).then("sync")).drop("since", "until")


def _emptied(gaps: pl.DataFrame, syncs: pl.DataFrame, host: Host) -> pl.DataFrame:
    """subject, gap_ns, gap_end_ns, sync of the gaps that began while a sync of a believed thread was waiting.

    Not of a tail: where nothing is launched any more, nothing is late because of it.
    """
    known = gaps.filter(~col.tail).select("subject", "key", "start_ns", "end_ns")
    own = _waiting(known, syncs, ["subject", "key"]).rename({"sync": "own"})
    principal = syncs.join(host.principals(), on=["subject", "key"], how="semi")
    both = _waiting(own, principal, ["subject"]).with_columns(sync=pl.coalesce("own", "sync"))
    drained = both.filter(col.sync.is_not_null())
    return drained.select("subject", "sync", gap_ns="start_ns", gap_end_ns="end_ns").sort("gap_ns")


def _drained(idle: pl.DataFrame, emptied: pl.DataFrame) -> pl.DataFrame:
    """A sync that was waiting when the device ran dry owns what is left of the gap: the host had no way to be ahead."""
    met = idle.sort("start_ns").join_asof(
        emptied, left_on="start_ns", right_on="gap_ns", by="subject", check_sortedness=False
    )
    taken = (col.start_ns < col.gap_end_ns) & col.cause.is_in(SOFTENED) & ~col.firm
    taken = taken.fill_null(value=False)
    return met.select(
        "subject",
        "start_ns",
        "end_ns",
        cause=pl.when(taken).then(pl.lit("synchronisation")).otherwise("cause"),
        row=pl.when(taken).then("sync").otherwise("row"),
    )
