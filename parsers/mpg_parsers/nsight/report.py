"""One export into batches of the canonical tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.nsight import about, counters, device, host
from mpg_parsers.nsight.names import Names
from mpg_parsers.nsight.steps import Steps
from mpg_parsers.tables import DEVICE_OPS, DEVICES, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpg_parsers.nsight.columns import Export
    from mpg_parsers.registry import ParseOptions

Batch = tuple[str, pl.DataFrame]
LAUNCH = r"(?i)launch|memcpy|memset"
CUDA_HINT = (
    "record with `nsys profile --trace=cuda,nvtx` on the machine with the GPU, and see what nsys warned of"
)
LISTED = 3
BATCH_ROWS = 100_000


class Report:
    """Reads one export once."""

    def __init__(self, export: Export, path: str, options: ParseOptions) -> None:
        self._export = export
        self._path = path
        self._keep_names = options.keep_names
        names = Names(export, keep_names=options.keep_names)
        several = _launching(export) > 1
        self._host = host.HostReader(export, names, several=several)
        self._device = device.DeviceReader(export, names, several=several)
        self._counters = counters.CounterReader(export)
        self._steps = Steps()
        self._launches = False

    def batches(self, advance: Callable[[int], None]) -> Iterator[Batch]:
        """All tables; `advance` is called with the rows read so far. Raises InputError(no_device_activity)."""
        for table, events in self._host.read():
            if table == host.NVTX:
                self._steps.take(events)
            elif table == host.RUNTIME and not self._launches:
                self._launches = bool(events["name"].str.contains(LAUNCH).any())
            advance(sum(self._host.counts.values()))
            yield "host_events", events
        ops = self._device.read(self._host.span.ends)
        if ops.is_empty() and not self._launches:
            raise self._nothing()
        for batch in self._counters.read():
            yield "counters", batch
        yield from self._finish(ops)

    def _finish(self, ops: pl.DataFrame) -> Iterator[Batch]:
        keys = ops.select("process", "device").unique().sort("process", "device")
        devices = about.devices(self._export, keys)
        for part in ops.iter_slices(BATCH_ROWS):
            yield "device_ops", DEVICE_OPS.conform(_with_density(part, devices))
        yield "devices", DEVICES.conform(devices)
        yield "steps", self._steps.table(keys["process"].to_list())
        yield "sources", self._source_row(ops)

    def _nothing(self) -> InputError:
        """What to say of an export without device activity."""
        there = [table for table in device.TABLES if self._export.columns(table)]
        if there:
            found = f"0 kernels, and nothing else, in {', '.join(there)}"
        else:
            found = f"no table {device.KERNEL}, nor any other of device activity"
        lost = sum(count for (table, _), count in self._export.bad.rows.items() if table in device.TABLES)
        found += f" ({lost} rows without a usable start, end or device)" if lost else ""
        reasons = [n.message for n in about.complaints(self._export, keep_names=self._keep_names)][:LISTED]
        said = f" ({'; '.join(reasons)})" if reasons else ""
        message = f"no device activity in the report: {found}; was CUDA traced?{said}"
        return InputError("no_device_activity", self._path, message, hint=CUDA_HINT)

    def _source_row(self, ops: pl.DataFrame) -> pl.DataFrame:
        session = about.session(self._export)
        first, last = _extent(ops, self._host.span.ends)
        row = {
            "format": "nsight-systems",
            "events": sum(self._host.counts.values()) + sum(self._device.counts.values()),
            "notices": listed(self._notices()),
            "first_ns": first,
            "last_ns": last,
            "base_ns": session.base_ns(first),
            **session.fields(keep_names=self._keep_names),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))

    def _notices(self) -> Iterator[Notice]:
        yield from self._device.notices
        yield from self._steps.notices
        yield from self._counters.notices()
        yield from _bad(self._export)
        yield from about.complaints(self._export, keep_names=self._keep_names)


def _launching(export: Export) -> int:
    """How many processes have device work or CUDA calls; more than two count as two."""
    found = [export.processes(table, "globalPid") for table in device.TABLES]
    return min(2, len(export.processes(host.RUNTIME, "globalTid").union(*found)))


def _bad(export: Export) -> Iterator[Notice]:
    for (table, what), count in sorted(export.bad.rows.items()):
        yield Notice("bad_row", f"{count} rows of {table} without a usable {what} were dropped", count)
    for (table, column), count in sorted(export.bad.values.items()):
        if count:
            message = f"{count} values of {table}.{column} are of the wrong type and were left out"
            yield Notice("bad_row", message, count)


def _with_density(ops: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """`ops` with blocks_per_sm: blocks of the grid / SMs of the device."""
    sms = devices.select("process", "device", "sm_count")
    found = ops.join(sms, on=["process", "device"], how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(blocks_per_sm=col.blocks / col.sm_count)


def _extent(ops: pl.DataFrame, span: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """First start and last end of any event; (None, None) without events."""
    row = ops.select(col.start_ns.min(), last=(col.start_ns + col.dur_ns).max()).row(0)
    firsts = [row[0], *([span[0]] if span else [])]
    lasts = [row[1], *([span[1]] if span else [])]
    known = [value for value in firsts if value is not None]
    return (min(known), max(value for value in lasts if value is not None)) if known else (None, None)
