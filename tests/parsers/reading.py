"""All tables a parser makes of a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.registry import ParseOptions, Parser
from mpg_parsers.source import expand
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path


def read(parser: Parser, path: Path, **options: bool) -> dict[str, pl.DataFrame]:
    parts = {name: [table.conform(pl.DataFrame())] for name, table in TABLES.items()}
    with expand([str(path)]) as expansion:
        source = expansion.sources[0]
        assert parser.sniff(source.head(), source.path) == ""
        for table, frame in parser.parse(source, ParseOptions(**options)):
            assert table in parser.tables
            parts[table].append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}


def read_text(parser: Parser, folder: Path, content: bytes | str, **options: bool) -> dict[str, pl.DataFrame]:
    path = folder / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(parser, path, **options)


def notices(found: dict[str, pl.DataFrame]) -> list[tuple[str, int]]:
    """(kind, count) of what was noticed."""
    return [(item["kind"], item["count"]) for item in json.loads(found["sources"]["notices"][0])]
