"""JSON of AMD's rocprofv3 (ROCprofiler-SDK): kernels, copies, HIP and RCCL calls, ROCTx ranges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import polars as pl

from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kineto.metadata import node
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.kineto.rows import extent
from mpg_parsers.launches import in_file
from mpg_parsers.nsight.steps import Steps
from mpg_parsers.rocprof import frames
from mpg_parsers.rocprof.records import Call, Copy, Document, Kernel, Process
from mpg_parsers.tables import DEVICE_OPS, DEVICES, HOST_EVENTS, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import ByteStream, Source

START = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
MAX_TEXT = 1 << 30  # bytes of JSON that are read: about 2.4 million kernels
READ = 1 << 22
CHUNK = 50_000  # records that are decoded at a time
CALLS = ("hip_api", "rccl_api")
Batch = tuple[str, pl.DataFrame]
Record = TypeVar("Record", Kernel, Copy, Call)


@dataclass(frozen=True)
class Rocprofv3Parser:
    """Reads what `rocprofv3 --output-format json` writes, one or several processes in a file."""

    name: str = "rocprofv3"
    description: str = "rocprofv3 JSON (AMD ROCprofiler-SDK, --output-format json), plain or compressed"
    tables: tuple[str, ...] = ("sources", "devices", "device_ops", "host_events", "steps")

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """The document begins with the tool's name."""
        return "" if START.match(head) else 'it does not begin with {"rocprofiler-sdk-tool":'

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of all five tables. Held in memory: the text (at most MAX_TEXT) and the device rows.

        Raises InputError: truncated_input, corrupt_input, unsupported_format (larger than MAX_TEXT).
        """
        clean = _same if options.keep_names else strip_directories
        document = _document(source, options)
        several = len(document.processes) > 1
        reading = _Reading(source.path)
        for process in document.processes:
            yield from reading.process(process, clean, process.metadata.pid if several else None)
        yield "steps", reading.steps.table(reading.working)
        yield "devices", DEVICES.conform(pl.DataFrame(reading.devices, infer_schema_length=None))
        yield "sources", reading.source_row(document, keep_names=options.keep_names)


ROCPROFV3 = Rocprofv3Parser()


def _same(name: str) -> str:
    return name


def _document(source: Source, options: ParseOptions) -> Document:
    with source.open() as stream:
        text = _text(stream, source.path, options)
        cut = stream.truncated
    try:
        return msgspec.json.decode(text, type=Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(source.path, error, cut) from error


def _text(stream: ByteStream, path: str, options: ParseOptions) -> bytearray:
    text = bytearray()
    while more := stream.read(READ):
        text += more
        if len(text) > MAX_TEXT:
            message = f"more than {MAX_TEXT >> 20} MiB of JSON"
            hint = (
                "profile a shorter stretch: rocprofv3 --collection-period, or roctxProfilerPause and Resume"
            )
            raise InputError("unsupported_format", path, message, hint=hint)
        if options.progress:
            options.progress(stream.stored_position)
    return text


def _damaged(path: str, error: Exception, cut: str | None) -> InputError:
    if cut or "truncated" in str(error):
        message = cut or "the JSON ends in the middle"
        hint = "was the job killed before rocprofv3 wrote the file? Copy or record it again"
        return InputError("truncated_input", path, message, hint=hint)
    hint = "copy it again; only JSON as rocprofv3 writes it is read"
    return InputError("corrupt_input", path, f"not rocprofv3's JSON: {error}"[:400], hint=hint)


def _launched(rows: pl.DataFrame, number: int | None) -> pl.DataFrame:
    """`rows` with correlation ids that are unique in the file."""
    if number is None:
        return rows
    return rows.with_columns(correlation=in_file(pl.lit(number, pl.Int64), pl.col("correlation")))


@dataclass
class _Reading:
    """What is gathered over the processes of a file."""

    path: str
    devices: list[dict[str, object]] = field(default_factory=list)
    span: tuple[int, int] | None = None
    events: int = 0
    steps: Steps = field(default_factory=Steps)
    working: set[int | None] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)

    def process(self, process: Process, clean: Callable[[str], str], number: int | None) -> Iterator[Batch]:
        """Batches of one process; `number`, null if it is the only one, stands in `process` of its device work."""
        namer = frames.Namer(process, clean)
        used: set[int] = set()
        for rows in self._device_rows(process, namer):
            used.update(rows["device"].unique())
            placed = _launched(rows, number).with_columns(process=pl.lit(number, pl.Int64))
            yield "device_ops", DEVICE_OPS.conform(placed)
        for rows in self._host_rows(process, namer):
            placed = _launched(rows, number).with_columns(process=pl.lit(process.metadata.pid, pl.Int64))
            host = HOST_EVENTS.conform(placed)
            yield "host_events", host
            self.steps.take(host.filter(pl.col("kind") == "annotation"))
        self.devices += frames.device_rows(process, dict.fromkeys(used, number))
        if used:
            self.working.add(number)

    def _device_rows(self, process: Process, namer: frames.Namer) -> Iterator[pl.DataFrame]:
        kernels = [
            frames.kernel_rows(chunk, namer) for chunk in self._chunks(process, "kernel_dispatch", Kernel)
        ]
        copies = [frames.copy_rows(chunk, namer) for chunk in self._chunks(process, "memory_copy", Copy)]
        # all streams are 0 where they were not recorded: then only the queues tell kernels apart that may overlap
        by_stream = any(rows["hip_stream"].sum() for rows in (*kernels, *copies))
        for rows in (*kernels, *copies):
            stream = rows.with_columns(stream=pl.col("hip_stream" if by_stream else "queue"))
            yield self._timed(stream, "device records of no known GPU or without a time", "dur_ns", "device")

    def _host_rows(self, process: Process, namer: frames.Namer) -> Iterator[pl.DataFrame]:
        for name in CALLS:
            for chunk in self._chunks(process, name, Call):
                yield self._timed(frames.call_rows(chunk, namer, "runtime"), "host events without a start")
        for chunk in self._chunks(process, "marker_api", Call):
            yield self._timed(frames.range_rows(chunk, namer), "host events without a start")

    def _chunks(self, process: Process, name: str, record: type[Record]) -> Iterator[list[Record]]:
        """The records of one kind. Raises InputError corrupt_input, naming the kind."""
        try:
            records = msgspec.json.decode(process.buffer_records.get(name, b"[]"), type=list[msgspec.Raw])
            self.events += len(records)
            for start in range(0, len(records), CHUNK):
                text = b"[" + b",".join(records[start : start + CHUNK]) + b"]"
                yield msgspec.json.decode(text, type=list[record])  # type: ignore[valid-type]
        except (msgspec.DecodeError, RecursionError) as error:
            hint = "copy it again; only JSON as rocprofv3 writes it is read"
            message = f"buffer_records.{name}: {error}"[:400]
            raise InputError("corrupt_input", self.path, message, hint=hint) from error

    def _timed(self, rows: pl.DataFrame, what: str, *needed: str) -> pl.DataFrame:
        kept = rows.drop_nulls(["start_ns", *needed])
        if lost := rows.height - kept.height:
            self.dropped[what] += lost
        if kept.height:
            first, last = extent(kept, self.span)
            self.span = (first or 0, last or 0)
        return kept

    def source_row(self, document: Document, *, keep_names: bool) -> pl.DataFrame:
        """The row of sources. The clock is the machine's uptime: there is no base to make it Unix time."""
        notices = [
            Notice("dropped_events", f"{n} {what} were dropped", n) for what, n in self.dropped.items()
        ]
        host = next((process.metadata.node.hostname for process in document.processes), "")
        notices += self.steps.notices
        row: dict[str, Any] = {
            "format": "rocprofv3",
            "framework": "ROCm",
            "host": (host or None) if keep_names else None,
            "node": node(host),
            "first_ns": self.span and self.span[0],
            "last_ns": self.span and self.span[1],
            "events": self.events,
            "notices": listed(notices),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))
