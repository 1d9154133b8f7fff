"""What the host did: CUDA calls, NVTX ranges, calls into the operating system, the profiler's overhead, waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col, lit

from mpg_parsers.nsight.columns import in_time
from mpg_parsers.nsight.names import (
    OVERHEAD_KINDS,
    SYNC_KINDS,
    UNSTATED,
    Names,
    correlation,
    labels,
    process,
    thread,
)
from mpg_parsers.ranges import operators
from mpg_parsers.tables import HOST_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpg_parsers.nsight.columns import Export

RUNTIME, SYNC = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
NVTX, OS = "NVTX_EVENTS", "OSRT_API"
OVERHEADS = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
TABLES = (RUNTIME, NVTX, OS, *OVERHEADS, SYNC)
CALL = ("start", "end", "globalTid", "nameId")
UNNAMED = "(unnamed)"
# overheadType of the CUDA driver's compiler and of full command buffers: work of CUDA, not of the profiler
CUDA_OWN = (2, 8)
# of NVTX eventType: push/pop and start/end ranges, and both kinds read from a text file; all others are no ranges
RANGES = (59, 60, 70, 71)
# cudaLaunchKernel_v7000 is version 7.0 of the call; cuMemAlloc_v2 is the call's own name
VERSION = r"_v\d{4,}$"


@dataclass(slots=True)
class Span:
    """First and last instant seen; None before any."""

    ends: tuple[int, int] | None = None

    def take(self, events: pl.DataFrame) -> None:
        """Widen it by the rows of host_events."""
        if events.is_empty():
            return
        last = (col.start_ns + col.dur_ns.fill_null(0)).max()
        row = events.select(col.start_ns.min(), last=last).row(0)
        first, end = self.ends or row
        self.ends = min(first, row[0]), max(end, row[1])


class HostReader:
    """Reads host_events in batches."""

    def __init__(self, export: Export, names: Names, *, several: bool) -> None:
        """several: launches of several processes are in the export."""
        self._export = export
        self._names = names
        self._several = several
        self.span = Span()
        self.counts: dict[str, int] = {}

    def read(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """(table of the export, rows of host_events)."""
        readers: dict[str, Callable[[str], Iterator[pl.DataFrame]]] = {
            RUNTIME: self._calls,
            NVTX: self._ranges,
            OS: self._os_calls,
            **dict.fromkeys(OVERHEADS, self._overheads),
            SYNC: self._syncs,
        }
        for table, read in readers.items():
            self.counts[table] = 0
            for batch in read(table):
                usable = self._usable(table, batch)
                self.counts[table] += usable.height
                self.span.take(usable)
                yield table, HOST_EVENTS.conform(usable)

    def _usable(self, table: str, batch: pl.DataFrame) -> pl.DataFrame:
        good = batch.filter(in_time())
        if lost := batch.height - good.height:
            self._export.bad.rows[table, "start or end"] += lost
        return good.with_columns(col.name.fill_null(UNNAMED))

    def _calls(self, table: str) -> Iterator[pl.DataFrame]:
        for batch in self._export.batches(table, (*CALL, "correlationId")):
            named = self._names.attach(batch, "nameId", "name")
            yield named.select(
                *_times("runtime"),
                *_thread("globalTid"),
                col.name.str.replace(VERSION, ""),
                correlation=correlation("globalTid", several=self._several),
            )

    def _os_calls(self, table: str) -> Iterator[pl.DataFrame]:
        for batch in self._export.batches(table, CALL):
            yield self._names.attach(batch, "nameId", "name").select(
                *_times("os"), *_thread("globalTid"), "name"
            )

    def _overheads(self, table: str) -> Iterator[pl.DataFrame]:
        """CUPTI counts among its overheads what CUDA itself does; those are calls like any other."""
        kinds = labels(self._export, "ENUM_CUPTI_OVERHEAD_TYPE", OVERHEAD_KINDS)
        for batch in self._export.batches(table, (*CALL, "overheadType")):
            kind = col.overheadType.replace_strict(kinds, default=None, return_dtype=pl.String)
            named = self._names.attach(batch, "nameId", "name")
            own = pl.when(col.overheadType.is_in(CUDA_OWN)).then(lit("runtime")).otherwise("kind")
            yield named.select(
                *_times("overhead"), *_thread("globalTid"), "overheadType", name=pl.coalesce("name", kind)
            ).with_columns(kind=own)

    def _syncs(self, table: str) -> Iterator[pl.DataFrame]:
        there = self._export.columns(table)
        columns = ["start", "end", "globalPid", "streamId", "correlationId", "syncType"]
        old = "deprecatedSyncType" in there
        for batch in self._export.batches(table, [*columns, "deprecatedSyncType"] if old else columns):
            kind = pl.coalesce("syncType", "deprecatedSyncType") if old else col.syncType
            yield batch.select(
                *_times("sync"),
                process("globalPid").alias("process"),
                pl.when(col.streamId != UNSTATED).then("streamId").alias("thread"),
                name=kind.replace_strict(SYNC_KINDS, default="Unknown", return_dtype=pl.String),
                correlation=correlation("globalPid", several=self._several),
            )

    def _ranges(self, table: str) -> Iterator[pl.DataFrame]:
        typed = "eventType" in self._export.columns(table)
        columns = ("start", "end", "eventType", "globalTid", "textId")
        for batch in self._export.batches(table, columns, ["text"]):
            ranges = batch.filter(col.eventType.is_in(RANGES) if typed else col.end.is_not_null())
            named = self._names.attach(ranges, "textId", "_text")
            own = self._names.clean(named["text"])
            yield operators(
                named.with_columns(own).select(
                    *_times("annotation"), *_thread("globalTid"), name=pl.coalesce("text", "_text")
                )
            )


def _times(kind: str) -> list[pl.Expr]:
    return [col.start.alias("start_ns"), (col.end - col.start).alias("dur_ns"), lit(kind).alias("kind")]


def _thread(column: str) -> list[pl.Expr]:
    return [process(column).alias("process"), thread(column).alias("thread")]
