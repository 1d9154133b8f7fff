"""PyTorch-profiler traces (Kineto, Chrome JSON): NVIDIA, AMD, Intel XPU and MTIA, from 2019 on."""

from __future__ import annotations

import gc
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpg_parsers.chrome.reader import TraceReader
from mpg_parsers.chrome.syntax import TRACE_SIGN
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.kineto.columns import Packed, Packer
from mpg_parsers.kineto.events import Events, decode
from mpg_parsers.kineto.parallel import Workers
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.kineto.tables import Batch, TableBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import ByteStream, Source

FLUSH_ROWS = 25_000
FLUSH_BLOCKS = 64
PADDING_READ = 1 << 20
SIGN_WITHIN, SIGN_READ, SIGN_OVERLAP = 1 << 20, 1 << 14, 100
# logs and settings begin with a word in brackets: [rank0]:
START = re.compile(rb"\s*(?:\{|\[(?:[\s,]|null\b)*(?:[{\]]|\Z))")


@dataclass(frozen=True)
class PyTorchParser:
    """Reads Kineto traces and the autograd profiler's older Chrome export."""

    name: str = "pytorch"
    description: str = "PyTorch profiler trace (Kineto / Chrome JSON), plain or compressed"
    tables: tuple[str, ...] = ("sources", "devices", "device_ops", "host_events", "steps")

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """Any JSON object or array of objects will do: what kind it is shows only later."""
        text = Utf8Stream(io.BytesIO(head)).read(1 << 16)
        return "" if START.match(text) else "it does not start as a JSON object or array of objects"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of all five tables; host_events come first, then device_ops, which need the whole file.

        Raises InputError: empty_input, truncated_input, corrupt_input, not_a_trace, unsupported_format,
        unsupported_accelerator.
        """
        tables = TableBuilder(source.path, keep_names=options.keep_names)
        read = _parse_in_parallel if options.jobs > 1 else _parse_alone
        return read(tables, source, options)


PYTORCH = PyTorchParser()


def _parse_in_parallel(tables: TableBuilder, source: Source, options: ParseOptions) -> Iterator[Batch]:
    with Workers(source, options.jobs, keep_names=options.keep_names) as workers:
        for packed, stored in workers:
            yield from tables.take(packed)
            if options.progress:
                options.progress(stored)
    yield from tables.finish(workers.document)


def _parse_alone(tables: TableBuilder, source: Source, options: ParseOptions) -> Iterator[Batch]:
    packer = Packer(None if options.keep_names else strip_directories)
    with source.open() as stream:
        with _judging_damage(source):
            reader = TraceReader(stream, source.path, decode)
            for packed in _packed(iter(reader), packer, _report(stream, options)):
                yield from tables.take(packed)
        tables.notices += [*_container_notices(stream, source), *reader.notices]
    yield from tables.finish(reader.document)


@contextmanager
def _judging_damage(source: Source) -> Iterator[None]:
    """Damaged compressed data are no trace if nothing before the damage is a sign of one."""
    try:
        yield
    except InputError as error:
        if error.kind != "corrupt_input" or _has_trace_sign(source):
            raise
        message = f"nothing of a trace before the damage: {error.message.removeprefix(f'{source.path}: ')}"
        raise InputError("not_a_trace", source.path, message, hint=error.hint) from error


def _has_trace_sign(source: Source) -> bool:
    """Whether there is a sign of a trace in the first MiB, or in what precedes the damage."""
    text = b""
    with source.open() as stream:
        while stream.position < SIGN_WITHIN and (more := stream.read_before_damage(SIGN_READ)):
            text = text[-SIGN_OVERLAP:] + more.replace(b"\0", b"")  # whatever UTF it is
            if TRACE_SIGN.search(text):
                return True
    return False


def _report(stream: ByteStream, options: ParseOptions) -> Callable[[], None]:
    progress = options.progress
    return (lambda: progress(stream.stored_position)) if progress else (lambda: None)


def _packed(batches: Iterator[Events], packer: Packer, report: Callable[[], None]) -> Iterator[Packed]:
    """Packed columns, whenever enough have come together."""
    blocks = 0
    while True:
        with _no_collection():
            batch = next(batches, None)
            if batch is None:
                break
            packer.take(batch)
            del batch
        blocks += 1
        report()
        if packer.rows >= FLUSH_ROWS or blocks >= FLUSH_BLOCKS:
            yield packer.pack()
            blocks = 0
    yield packer.pack()


@contextmanager
def _no_collection() -> Iterator[None]:
    """The garbage collector off: events make no cycles, only work for it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _container_notices(stream: ByteStream, source: Source) -> Iterator[Notice]:
    if stream.truncated:
        yield Notice("truncated_input", stream.truncated)
    if stream.trailing and not _is_padding(source, stream.trailing):
        message = f"{stream.trailing} bytes after the end of the gzip data were ignored"
        yield Notice("repaired_input", message)


def _is_padding(source: Source, count: int) -> bool:
    """Whether the last `count` stored bytes are zero, which some tools add: as far back as 1 MiB."""
    extent = source.extent
    end = extent.offset + extent.length if extent else source.size
    size = min(count, PADDING_READ)
    with Path(source.file).open("rb") as file:
        file.seek(end - size)
        return not any(file.read(size))
