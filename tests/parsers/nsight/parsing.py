"""Parsing small exports in tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from fixtures.nsight.writer import Exporter, Tables, write_parquet, write_sqlite
from mpg_parsers.nsight_systems import NSIGHT_SYSTEMS
from mpg_parsers.registry import ParseOptions
from mpg_parsers.source import expand
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

Parsed = dict[str, pl.DataFrame]


def parse_file(path: Path, **options: Any) -> Parsed:
    """The tables of the one source at `path`; every batch has the schema of its table."""
    parts: dict[str, list[pl.DataFrame]] = {}
    with expand([str(path)]) as expansion:
        (source,) = expansion.sources
        for table, frame in NSIGHT_SYSTEMS.parse(source, ParseOptions(**options)):
            assert frame.schema == TABLES[table].schema(), table
            parts.setdefault(table, []).append(frame)
    empty = {
        name: [table.conform(pl.DataFrame())]
        for name, table in TABLES.items()
        if name in NSIGHT_SYSTEMS.tables
    }
    return {name: pl.concat(parts.get(name, empty[name])) for name in empty}


def parse(folder: Path, export: Exporter | Tables, *, parquet: bool = False, **options: Any) -> Parsed:
    """Write an export below `folder` and parse it."""
    tables = export.rows() if isinstance(export, Exporter) else export
    path = folder / ("report_pqtdir" if parquet else "report.sqlite")
    (write_parquet if parquet else write_sqlite)(path, tables)
    return parse_file(path, **options)


def launch(process: int, number: int) -> int:
    """The correlation id of a launch in an export of several processes."""
    return (process << 32) + number


def notices(parsed: Parsed) -> dict[str, str]:
    """Notices by kind, the messages of one kind joined."""
    found: dict[str, str] = {}
    for item in json.loads(parsed["sources"]["notices"][0]):
        found[item["kind"]] = f"{found.get(item['kind'], '')} [{item['count']}] {item['message']}"
    return found


def counted(parsed: Parsed) -> dict[str, int]:
    """The counts of notices by kind."""
    items = json.loads(parsed["sources"]["notices"][0])
    return {kind: sum(i["count"] for i in items if i["kind"] == kind) for kind in {i["kind"] for i in items}}
