"""Nsight Systems reports: exports as SQLite or as a folder of Parquet files, and .nsys-rep through nsys."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError
from mpg_parsers.nsight import exporting
from mpg_parsers.nsight.database import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.nsight.database import Database
    from mpg_parsers.nsight.parquet import ParquetExport
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

# the first line of `nsys export --type json` is its table of strings
JSON_EXPORT = re.compile(rb'\s*\{"data":\s*\["')
ARROW = {b"ARROW1\0\0": "arrowdir", b"\xff\xff\xff\xff": "arrow", b"\x89HDF\r\n\x1a\n": "hdf"}
TEXT = b"{[ \t\r\n\xef\xbb\xbf\xff\xfe\0"
OURS = re.compile(
    r"StringIds|CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS|OSRT_API|TARGET_INFO_\w+|(EXPORT_)?META_DATA\w*"
)
NVPROF = "StringTable"


@dataclass(frozen=True)
class NsightSystemsParser:
    """Reads what `nsys profile` recorded."""

    name: str = "nsight-systems"
    description: str = (
        "Nsight Systems report, exported as SQLite or parquetdir; .nsys-rep where nsys is installed"
    )
    tables: tuple[str, ...] = ("sources", "devices", "device_ops", "host_events", "steps", "counters")

    def sniff(self, head: bytes, path: str) -> str:
        """By the first bytes; a file named like a report that is nobody's is taken to say what is wrong with it."""
        if _kind(head) or _misnamed(head, path):
            return ""
        return "it is no SQLite database and no Nsight Systems report"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """Batches of all tables.

        Raises InputError: needs_export, unsupported_format, not_a_trace, no_device_activity, corrupt_input, locked.
        """
        kind = _kind(source.head())
        if kind == "report":
            with exporting.exported(source, options.nsys) as file:
                copy = replace(source, file=str(file), member=None, extent=None, size=file.stat().st_size)
                yield from _read(copy, "sqlite", options)
        elif kind in ("sqlite", "parquet"):
            yield from _read(source, kind, options)
        else:
            raise exporting.other_export(source, kind) if kind else exporting.not_a_database(source)


NSIGHT_SYSTEMS = NsightSystemsParser()


def _kind(head: bytes) -> str:
    from mpg_parsers.nsight.folder import is_packed

    if head.startswith(MAGIC):
        return "sqlite"
    if exporting.is_report(head):
        return "report"
    if is_packed(head):
        return "parquet"
    if JSON_EXPORT.match(head):
        return "json"
    return next((kind for magic, kind in ARROW.items() if head.startswith(magic)), "")


def _misnamed(head: bytes, path: str) -> bool:
    named = PurePath(path).suffix.lower() in exporting.NAMED
    return named and bool(head) and head[0] not in TEXT


def _read(source: Source, kind: str, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    from mpg_parsers.nsight.database import open_database
    from mpg_parsers.nsight.parquet import ParquetExport
    from mpg_parsers.nsight.report import Report

    with contextlib.ExitStack() as stack:
        export: Database | ParquetExport
        packed = kind == "parquet"
        export = ParquetExport(source) if packed else stack.enter_context(open_database(source))
        _refuse_foreign(export, source.path)
        progress = options.progress
        total = sum(export.rows(table) for table in export.tables) if progress else 0

        def advance(rows: int) -> None:
            if progress:
                progress(min(source.size, source.size * rows // max(total, 1)))

        yield from Report(export, source.path, options).batches(advance)


def _refuse_foreign(export: Database | ParquetExport, path: str) -> None:
    tables = export.tables
    if NVPROF in tables and "StringIds" not in tables:
        hint = "record with Nsight Systems: nsys profile --trace=cuda,nvtx"
        raise InputError("unsupported_format", path, "a database of nvprof, which is not read", hint=hint)
    if not any(OURS.fullmatch(table) for table in tables):
        what = f"its tables are {', '.join(sorted(tables)[:5])}" if tables else "it has no tables"
        message = f"a SQLite database, but not an export of Nsight Systems: {what[:200]}"
        raise InputError("not_a_trace", path, message, hint="run `mpg formats` for what mpg reads")
