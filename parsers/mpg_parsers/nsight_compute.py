"""Nsight Compute: the raw and the details page as CSV, and `.ncu-rep` where ncu-report is installed."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kineto.metadata import node
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.ncu import report
from mpg_parsers.ncu.formulas import figures
from mpg_parsers.ncu.pages import AGAIN, HEADER, SUMMARY, Pages
from mpg_parsers.tables import KERNEL_COUNTERS, SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.ncu.launches import Launch
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

MAX_LINE = 8 << 20  # bytes
READ = 1 << 20
BATCH = 1000  # launches
LOCAL = ("127.0.0.1", "::1")  # how ncu names the host it runs on
TABLE = re.compile(rf"^(?:{HEADER.pattern}|{SUMMARY.pattern})", re.MULTILINE)
Batch = tuple[str, pl.DataFrame]


@dataclass(frozen=True)
class NsightComputeParser:
    """Reads kernel profiles: what single launches did, without a timeline."""

    name: str = "nsight-compute"
    description: str = (
        "Nsight Compute kernel profile: ncu --csv --page raw or details; .ncu-rep with mpg-cli[ncu]"
    )
    tables: tuple[str, ...] = ("sources", "kernel_counters")

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """The magic bytes of a report, or a header line after whatever the profiled program printed."""
        if head.startswith(report.MAGIC):
            return ""
        text = Utf8Stream(io.BytesIO(head)).read(len(head)).decode("utf-8", "replace")
        return "" if TABLE.search(text) else 'no line begins with "ID","Process ID","Process Name"'

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of kernel_counters, then sources. Memory does not grow with the file.

        Raises InputError: needs_export (a report without the package that reads it), unsupported_format,
        corrupt_input, truncated_input, empty_input.
        """
        pages, notices = Pages(source.path), list[Notice]()
        binary = source.head(len(report.MAGIC)) == report.MAGIC
        launches = report.launches(source) if binary else pages.launches(_lines(source, options, notices))
        count, host, rows = 0, None, list[dict[str, Any]]()
        for launch in launches:
            count, host = count + 1, host or launch.host
            rows.append(_row(launch, keep_names=options.keep_names))
            if len(rows) == BATCH:
                yield "kernel_counters", _frame(rows)
                rows.clear()
        if not count:
            message = "no kernel launch was profiled"
            hint = f"does the filter (-k, --launch-skip) match a kernel? {AGAIN}"
            raise InputError("empty_input", source.path, message, hint=hint)
        if pages.bad_rows:
            message = f"{pages.bad_rows} lines between the rows are no launches and were left out"
            notices.append(Notice("bad_row", message, pages.bad_rows))
        yield "kernel_counters", _frame(rows)
        yield "sources", _source_row(count, host, notices, keep_names=options.keep_names)


NSIGHT_COMPUTE = NsightComputeParser()


def _lines(source: Source, options: ParseOptions, notices: list[Notice]) -> Iterator[str]:
    """The lines of a text in any UTF, at most MAX_LINE long. Raises InputError corrupt_input for longer ones."""
    with source.open() as stream:
        text, rest = Utf8Stream(stream), b""
        while more := text.read(READ):
            *lines, rest = (rest + more).split(b"\n")
            yield from (line.decode("utf-8", "replace") + "\n" for line in lines)
            if len(rest) > MAX_LINE:
                message = f"a line of over {MAX_LINE >> 20} MiB"
                raise InputError("corrupt_input", source.path, message, hint=AGAIN)
            if options.progress:
                options.progress(stream.stored_position)
        if rest:
            yield rest.decode("utf-8", "replace")
        if stream.truncated:
            notices.append(Notice("truncated_input", stream.truncated))


def _row(launch: Launch, *, keep_names: bool) -> dict[str, Any]:
    return {
        "launch": launch.number,
        "process": launch.process,
        "device": launch.device,
        "device_name": launch.device_name,
        "compute_capability": launch.compute_capability,
        "name": launch.name if keep_names else strip_directories(launch.name),
        "grid": _listed(launch.shape("grid")),
        "block": _listed(launch.shape("block")),
        **figures(launch),
    }


def _listed(sides: tuple[int, ...]) -> str | None:
    return f"[{', '.join(map(str, sides))}]" if sides else None


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: dtype for name, dtype in KERNEL_COUNTERS.schema().items() if name != "source"}
    return KERNEL_COUNTERS.conform(pl.DataFrame(rows, schema=schema))


def _source_row(events: int, host: str | None, notices: list[Notice], *, keep_names: bool) -> pl.DataFrame:
    row = {
        "format": "nsight-compute",
        "framework": "Nsight Compute",
        "host": host if keep_names else None,
        "node": None if host in LOCAL else node(host),
        "events": events,
        "notices": listed(notices),
    }
    return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))
