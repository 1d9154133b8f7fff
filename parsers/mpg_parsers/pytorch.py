"""PyTorch-profiler traces (Kineto, Chrome JSON): NVIDIA, AMD, Intel XPU and MTIA, from 2019 on."""

from __future__ import annotations

import gc
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from mpg_parsers import device_records
from mpg_parsers.chrome.reader import TraceReader
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.kineto import categories, loose, metadata
from mpg_parsers.kineto.columns import Packed, Packer
from mpg_parsers.kineto.events import Events, decode
from mpg_parsers.kineto.frames import to_frame
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.registry import ParseOptions
from mpg_parsers.source import Source
from mpg_parsers.tables import DEVICE_KINDS, DEVICE_OPS, DEVICES, HOST_EVENTS, SOURCES, STEPS

FLUSH_ROWS = 50_000
STEP_NAME = r"^ProfilerStep\s*#\s*(\d+)$"
DAY = device_records.DAY
Batch = tuple[str, pl.DataFrame]


@dataclass(frozen=True)
class PyTorchParser:
    """Reads Kineto traces and the autograd profiler's older Chrome export."""

    name: str = "pytorch"
    description: str = "PyTorch profiler trace (Kineto / Chrome JSON), plain or compressed"
    tables: tuple[str, ...] = ("sources", "devices", "device_ops", "host_events", "steps")

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """Any JSON object or array will do: what kind it is shows only later."""
        first = Utf8Stream(io.BytesIO(head)).read(1 << 16).lstrip()[:1]
        return "" if first in (b"{", b"[") else "it does not start as a JSON object or array"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of all five tables; device_ops come last, since their clean-up needs all of them."""
        run = _Run(source, options)
        with source.open() as stream:
            reader: TraceReader[Any] = TraceReader(stream, source.path, decode)
            for events in _collected_later(iter(reader)):
                yield from run.take(events)
                if options.progress:
                    options.progress(stream.stored_position)
            if stream.truncated:
                run.notices.append(Notice("truncated_input", stream.truncated))
        run.notices += reader.notices
        yield from run.finish(reader.document)


PYTORCH = PyTorchParser()


def _collected_later(batches: Iterator[Events]) -> Iterator[Events]:
    """The batches, decoded with the garbage collector off: events make no cycles, only work for it."""
    while True:
        with _no_collection():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _no_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Run:
    """The state of one reading."""

    def __init__(self, source: Source, options: ParseOptions) -> None:
        self._source = source
        self._keep = options.keep_names
        self._packer = Packer(None if options.keep_names else strip_directories)
        self._device: list[pl.DataFrame] = []
        self._loose: list[pl.DataFrame] = []
        self._steps: list[pl.DataFrame] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._meta: dict[tuple[str, str, str], None] = {}
        self._host_times: list[tuple[int, int]] = []
        self._untimed_host = 0
        self.notices: list[Notice] = []

    def take(self, events: Events) -> Iterator[Batch]:
        """Keep the events; what has become a batch."""
        with _no_collection():
            self._packer.take(events)
        if self._packer.rows >= FLUSH_ROWS:
            yield from self._unpack(self._packer.pack())

    def _unpack(self, message: Packed) -> Iterator[Batch]:
        self._counts.update({(phase, category): n for phase, category, n in message["counts"]})
        self._meta.update(dict.fromkeys(tuple(item) for item in message["meta"]))
        frames = {name: to_frame(table) for name, table in message["tables"].items()}
        if "device" in frames:
            self._device.append(_device_rows(frames["device"]))
        if "loose" in frames:
            self._loose.append(frames["loose"])
        if "host" in frames:
            yield from self._host(frames["host"])

    def _host(self, frame: pl.DataFrame) -> Iterator[Batch]:
        rows = _host_rows(frame)
        timed = rows.filter(pl.col("start_ns").is_not_null())
        self._untimed_host += rows.height - timed.height
        if timed.is_empty():
            return
        starts = timed["start_ns"]
        middle = int(starts.median() or 0)  # type: ignore[arg-type]
        near = timed.filter(pl.col("start_ns").is_between(middle - DAY, middle + DAY))
        ends = near["start_ns"] + near["dur_ns"].fill_null(0)
        self._host_times.append((int(near["start_ns"].min()), int(ends.max())))  # type: ignore[arg-type]
        self._steps.append(_step_rows(near))
        yield "host_events", near

    def finish(self, document: dict[str, Any]) -> Iterator[Batch]:
        """The batches that need the whole file. Raises InputError: empty_input, unsupported_accelerator."""
        yield from self._unpack(self._packer.pack())
        yield from self._resolve_loose()
        self._refuse_nothing()
        span = (min(a for a, _ in self._host_times), max(b for _, b in self._host_times)) if self._host_times else None
        ops = pl.concat(self._device) if self._device else DEVICE_OPS.conform(pl.DataFrame())
        ops, notices = device_records.clean(ops, span)
        self.notices += notices
        self._refuse_foreign(ops)
        yield "device_ops", ops
        yield "devices", DEVICES.conform(metadata.devices(ops, document))
        yield "steps", self._all_steps()
        yield "sources", self._source_row(document, ops, span)

    def _resolve_loose(self) -> Iterator[Batch]:
        meta = list(self._meta)
        if not self._loose:
            loose.refuse_other_producers(meta, self._source.path)
            return
        rows, notices = loose.resolve(pl.concat(self._loose, how="diagonal"), meta, self._source.path)
        self.notices += notices
        on_device = pl.col("kind").is_in(DEVICE_KINDS)
        self._device.append(_device_rows(rows.filter(on_device)))
        yield from self._host(rows.filter(~on_device))

    def _refuse_nothing(self) -> None:
        if not self._counts:
            hint = "was the profiled code run between the profiler's start and stop?"
            raise InputError("empty_input", self._source.path, "no events: traceEvents is empty", hint=hint)
        if not any(phase in ("X", "B", "E", "i", "I") for phase, _ in self._counts):
            hint = "the profiler recorded names but no activity"
            raise InputError("empty_input", self._source.path, "no timed events, only metadata", hint=hint)

    def _refuse_foreign(self, ops: pl.DataFrame) -> None:
        foreign = sorted({cat for _, cat in self._counts if cat in categories.FOREIGN_DEVICE})
        if ops.is_empty() and foreign:
            message = f"device work of an accelerator that is not supported: categories {', '.join(foreign)}"
            raise InputError("unsupported_accelerator", self._source.path, message, hint="run `mpg formats`")

    def _all_steps(self) -> pl.DataFrame:
        steps = pl.concat(self._steps) if self._steps else pl.DataFrame(schema=_step_schema())
        return STEPS.conform(steps.unique(maintain_order=True).sort("start_ns", "end_ns"))

    def _source_row(self, document: dict[str, Any], ops: pl.DataFrame, span: tuple[int, int] | None) -> pl.DataFrame:
        if self._untimed_host:
            message = f"{self._untimed_host} host events without a usable start were dropped"
            self.notices.append(Notice("dropped_events", message, self._untimed_host))
        row = {
            "format": self._source_format(),
            "events": sum(self._counts.values()),
            "notices": json.dumps([{"kind": n.kind, "message": n.message, "count": n.count} for n in self.notices]),
            **metadata.source_fields(document, keep_names=self._keep),
            **_extent(ops, span),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))

    def _source_format(self) -> str:
        return PYTORCH.name




def _host_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """host_events of packed columns: names of older versions unified, open events without a duration."""
    frame = _with_columns(frame, "external_id", "external_id_2021", "input_dims", "input_dims_2021")
    return HOST_EVENTS.conform(
        frame.with_columns(
            name=pl.col("name").fill_null(""),
            dur_ns=pl.when(pl.col("dur_ns") >= 0).then("dur_ns"),
            external_id=_nonzero(pl.coalesce("external_id", "external_id_2021")),
            input_dims=pl.coalesce("input_dims", "input_dims_2021"),
        )
    )


def _device_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """device_ops of packed columns. In Kineto rows pid is the device and tid the stream, unless args say so too."""
    return DEVICE_OPS.conform(
        frame.with_columns(
            name=pl.col("name").fill_null(""),
            device=pl.coalesce("device", "process", pl.lit(0)),
            stream=pl.coalesce("stream", "stream_mtia", "thread"),
            process=pl.lit(None, pl.Int64),
            external_id=_nonzero(pl.coalesce("external_id", "external_id_2021")),
            correlation=_nonzero(pl.col("correlation")),
        )
    )


def _nonzero(column: pl.Expr) -> pl.Expr:
    """Ids of 0 mean none."""
    return pl.when(column != 0).then(column)


def _with_columns(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    types = {"input_dims": pl.String, "input_dims_2021": pl.String}
    missing = [name for name in names if name not in frame.columns]
    return frame.with_columns(pl.lit(None, types.get(name, pl.Int64)).alias(name) for name in missing)


def _step_schema() -> dict[str, Any]:
    return {"step": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}


def _step_rows(host: pl.DataFrame) -> pl.DataFrame:
    ranges = host.filter(pl.col("kind").is_in(["annotation", "op"]) & pl.col("dur_ns").is_not_null())
    return (
        ranges.filter(pl.col("name").str.starts_with("ProfilerStep"))
        .with_columns(step=pl.col("name").str.extract(STEP_NAME).cast(pl.Int64, strict=False))
        .filter(pl.col("step").is_not_null())
        .select("step", "name", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    )


def _extent(ops: pl.DataFrame, span: tuple[int, int] | None) -> dict[str, int | None]:
    first = [span[0]] if span else []
    last = [span[1]] if span else []
    if ops.height:
        first.append(int(ops["start_ns"].min()))  # type: ignore[arg-type]
        last.append(int((ops["start_ns"] + ops["dur_ns"]).max()))  # type: ignore[arg-type]
    return {"first_ns": min(first, default=None), "last_ns": max(last, default=None)}
