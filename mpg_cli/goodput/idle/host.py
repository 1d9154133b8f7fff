"""What the host's threads did while a device was idle: only threads that launch its work are heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.nesting import nest

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

THREAD = ("process", "thread")
KIND = pl.Enum(["annotation", "op", "python", "os", "runtime", "overhead", "device_wait"])
BARE_NUMBER = r"^\d+$"  # what a TPU calls its steps; of steps that the host made there is a range of the name
BUILT_IN = "<"  # how the name of a frame of a built-in function begins
HEARD = ("annotation", "op", "python", "os", "runtime")
CALLS, RANGES = ("op", "runtime"), ("annotation",)
FRAMES = ("python", "os")  # Python frames and calls of the operating system: where a thread is


@dataclass(frozen=True, slots=True)
class Host:
    """The host side of one process.

    events: row (its number, in order), key (number of the thread; null: of the whole process), start_ns, end_ns,
        kind, name
    threads: by key, the thread's id
    calls: call (row of the launch call), key, start_ns, end_ns, correlation
    votes: subject, key: the threads that launched work of a device, and the one that steps
    stepper: key of the thread that steps, or null
    waits: row, device, start_ns, end_ns: what devices said that they wait for
    """

    events: pl.DataFrame
    threads: pl.Series
    calls: pl.DataFrame
    votes: pl.DataFrame
    stepper: int | None
    waits: pl.DataFrame

    def of_kinds(self, kinds: tuple[str, ...]) -> pl.DataFrame:
        """row, key, start_ns, end_ns of the events of threads of these kinds.

        Of Python frames only those that are a place in a file: the built-in functions called there are many and short.
        """
        events = self.events.lazy().filter(col.kind.is_in(kinds) & col.key.is_not_null())
        if "python" in kinds:
            events = events.filter(~col.name.cat.starts_with(BUILT_IN))
        return events.select("row", "key", "start_ns", "end_ns").collect()

    def principals(self) -> pl.DataFrame:
        """subject, key: the thread that steps, or all that vote where none does."""
        return self.votes if self.stepper is None else self.votes.filter(col.key == self.stepper)


def load(dataset: Dataset, source: int, process: int | None, ops: pl.DataFrame, steps: pl.DataFrame) -> Host:
    """Read what can explain the idle time of the devices of a process (None: of the whole source).

    `ops`: subject, correlation of its device activity; `steps`: name and start_ns of its steps.
    """
    host = dataset.scan("host_events", source).filter(col.dur_ns.is_not_null())
    host = host if process is None else host.filter(col.process == process)
    host = host.with_columns(end_ns=col.start_ns + col.dur_ns)
    launches = _launches(host, ops)
    stepping = _stepping(host, steps)
    threads = pl.concat([launches.select(THREAD), stepping]).unique().sort(THREAD).with_row_index("key")
    waits = host.filter(col.kind == "device_wait").collect()
    events = _events(host, threads, waits)
    calls = _calls(launches.join(threads, on=THREAD, nulls_equal=True), events)
    steppers = threads.join(stepping, on=THREAD, nulls_equal=True)["key"].to_list()
    votes = _votes(ops, calls, steppers)
    rows = events.filter(col.kind == "device_wait").select("row").hstack(waits.select(device="thread"))
    waiting = rows.hstack(waits.select("start_ns", "end_ns"))
    return Host(events, threads["thread"], calls, votes, steppers[0] if steppers else None, waiting)


def _launches(host: pl.LazyFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The runtime calls whose correlation id a device record carries."""
    known = ops.select("correlation").filter(col.correlation != 0).unique()
    calls = host.filter((col.kind == "runtime") & (col.correlation != 0))
    columns = (*THREAD, "start_ns", "end_ns", "correlation")
    return calls.select(columns).join(known.lazy(), on="correlation", how="semi").collect()


def _stepping(host: pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The thread of the first step, if there is one; of steps that a TPU counts itself, that of the first range."""
    first = steps.sort("start_ns").head(1).select("name", "start_ns")
    ranges = host.filter(col.kind.is_in(["annotation", "op", "python"]))
    found = ranges.join(first.lazy(), on=["name", "start_ns"], how="semi").select(THREAD).head(1).collect()
    if found.height or not first["name"].str.contains(BARE_NUMBER).any():
        return found
    marked = ranges.filter(col.kind == "annotation").sort("start_ns")
    return marked.select(THREAD).head(1).collect()


def _events(host: pl.LazyFrame, threads: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The events of `threads`, the profiler's own of the whole process, and the `waits` of devices."""
    heard = host.filter(col.kind.is_in(HEARD)).join(threads.lazy(), on=THREAD, nulls_equal=True)
    everywhere = pl.lit(None, pl.UInt32).alias("key")
    overhead = host.filter(col.kind == "overhead").with_columns(everywhere)
    columns = ("key", "start_ns", "end_ns", "kind", "name")
    parts = (
        part.select(columns).cast({"kind": KIND, "name": pl.Categorical})
        for part in (heard, overhead, waits.lazy().with_columns(everywhere))
    )
    return pl.concat([part.collect() for part in parts]).with_row_index("row")


def _calls(launches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Of several calls for one correlation id the outer one counts (runtime around driver interface).

    Where the work was handed from thread to thread, that of the last thread does: it is the one that launches.
    """
    span = ["key", "start_ns", "end_ns"]
    rows = events.filter(col.kind == "runtime").select(*span, call="row")
    known = launches.join(rows.unique(span, keep="first", maintain_order=True), on=span)
    outer = known.sort("start_ns", col.end_ns, "call", descending=[False, True, False])
    last = col.start_ns == col.start_ns.max().over("correlation")
    lastly = outer.filter(col.key == col.key.filter(last).first().over("correlation"))
    first = lastly.unique("correlation", keep="first", maintain_order=True)
    return first.select("call", "key", "start_ns", "end_ns", "correlation")


def _votes(ops: pl.DataFrame, calls: pl.DataFrame, steppers: list[int]) -> pl.DataFrame:
    launched = ops.join(calls, on="correlation").select("subject", "key")
    stepping = (
        ops.select("subject").unique().join(pl.DataFrame({"key": steppers}, {"key": pl.UInt32}), how="cross")
    )
    return pl.concat([launched, stepping]).unique().sort("subject", "key")


def innermost(host: Host, kinds: tuple[str, ...], places: pl.DataFrame) -> pl.DataFrame:
    """The innermost event of `kinds` of every thread at any time in `places` (start_ns, end_ns).

    Columns key, start_ns, end_ns, row; disjoint per key.
    """
    return nest(touching(host.of_kinds(kinds), places)).segments


def touching(events: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """The `events` that meet any of the `places` (start_ns, end_ns)."""
    merged = intervals.union(places.select("start_ns", "end_ns"), [])
    ends = merged.select(since="start_ns", until="end_ns")
    found = events.sort("start_ns").join_asof(
        ends, left_on="start_ns", right_on="until", strategy="forward", allow_exact_matches=False
    )
    return found.filter(col.since < col.end_ns).drop("until", "since")
