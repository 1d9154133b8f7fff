"""Profiles of XLA programs on TPUs and GPUs: *.xplane.pb, or the *.trace.json.gz that was made from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.errors import Notice
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source
    from mpg_parsers.xla.space import Space

READ = 1 << 24
LARGEST = (1 << 31) - 1  # bytes of a protobuf message; the profiler itself writes nothing beyond
PROTOBUF = b"\x0a\x12\x1a\x22"  # how an XSpace may begin: a field of texts or messages
JSON = b"{[ \t\r\n\xef\xfe\xff"


@dataclass(frozen=True)
class XlaProfileParser:
    """Reads what the profiler of JAX, TensorFlow or PyTorch/XLA recorded, one host a file."""

    name: str = "xla"
    description: str = "XLA profile of JAX, TensorFlow or PyTorch/XLA: .xplane.pb, or its .trace.json.gz"
    tables: tuple[str, ...] = (
        "sources", "devices", "device_ops", "host_events", "steps", "hlo_ops", "programs", "program_runs",
    )  # fmt: skip

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """By the first bytes: planes of devices or hosts."""
        return "" if _kind(head) else "it begins like no XPlane file and no trace of XLA"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """Batches of all tables. Held in memory: the file, and the rows of one line, or of some short ones.

        Raises InputError: truncated_input, corrupt_input, unsupported_format, no_device_activity.
        """
        from mpg_parsers.xla.private import without_directories
        from mpg_parsers.xla.reading import batches

        space, notices = _profile(source, options)
        read = batches(space, notices, source.path, self.name, options)
        yield from read if options.keep_names else without_directories(read)


XLA_PROFILE = XlaProfileParser()


def _kind(head: bytes) -> str:
    """xplane, json or nothing."""
    if head[:1] and head[0] in PROTOBUF:
        from mpg_parsers.xla import xplane_sniff

        return "xplane" if xplane_sniff.looks_like(head) else ""
    if head[:1] and head[0] in JSON:
        from mpg_parsers.xla import trace_json

        return "json" if trace_json.looks_like(head) else ""
    return ""


def _profile(source: Source, options: ParseOptions) -> tuple[Space, list[Notice]]:
    from mpg_parsers.xla import trace_json, xplane

    with source.open() as stream:
        if _kind(source.head()) == "json":
            progress = options.progress
            report = (lambda: progress(stream.stored_position)) if progress else None
            return trace_json.read(stream, source.path, report)
        data = bytearray()
        while more := stream.read(READ):
            data += more
            if len(data) > LARGEST:
                raise _too_large(source.path)
            if options.progress:
                options.progress(stream.stored_position)
        if stream.truncated:
            raise InputError("truncated_input", source.path, f"truncated: {stream.truncated}", hint=AGAIN)
    return xplane.read(memoryview(data), source.path), []


AGAIN = "copy the profile again, or record it again"


def _too_large(path: str) -> InputError:
    hint = "record fewer steps, or with a lower host_tracer_level and without python_tracer_level"
    return InputError("unsupported_format", path, "larger than 2 GB, which no XPlane file can be", hint=hint)
