"""What several sections share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mpg_cli.report.blocks import Block, Column, Hue, Line, Row, RowStyle, Section, Table
from mpg_cli.report.text import cut, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mpg_cli.report.model import Report

T = TypeVar("T")
EMPTY = Section("", ())
LONGEST_LABEL = 48


def table(
    fields: Sequence[tuple[Column, Callable[[T], str]]], items: Iterable[T], style: RowStyle = "plain"
) -> Table:
    """One row per item, one column per (column, how to write its cell)."""
    rows = tuple(Row(tuple(cell(item) for _, cell in fields), style) for item in items)
    return Table(tuple(column for column, _ in fields), rows)


def hue(layer: str) -> Hue:
    """The hue of a layer; `productive` and `ideal` are what the program layer splits into."""
    match layer:
        case "program" | "productive" | "ideal":
            return "computing"
        case "runtime":
            return "runtime"
        case "scheduling":
            return "scheduling"
        case _:
            return "other"


def brief(path: str, limit: int = 60) -> str:
    """A path that fits into a sentence."""
    return cut(path, limit)


def ranks(report: Report) -> set[int]:
    """The ranks that the sources and devices name."""
    named = (*(source.rank for source in report.sources), *(device.rank for device in report.devices))
    return {rank for rank in named if rank is not None}


def fleet_only(report: Report) -> bool:
    """Whether all there is are the records of a scheduler: no device was looked at."""
    return report.scheduling is not None and not report.devices and not report.quality.windows


def labels(report: Report) -> dict[str, str]:
    """The label of every cause in the ledger, by its id."""
    return {row.cause: cut(row.label or row.cause, LONGEST_LABEL) for row in report.ledger}


def more(count: int, most: int, noun: str) -> list[Block]:
    """A note on what a table of at most `most` rows leaves out, if it does."""
    return [] if count <= most else [Line(f"{plural(count - most, f'more {noun}')}.", "dim")]


def lane(report: Report, source: str, rank: int | None, device: int) -> str:
    """A short name for one device of one source: its rank if known, and its number where it has siblings."""
    base = f"rank {rank}" if rank is not None else _file(report, source)
    alone = len({d.device for d in report.devices if d.source == source}) <= 1
    return base if alone and base else f"{base} device {device}".strip()


def _file(report: Report, source: str) -> str:
    paths = [entry.path for entry in report.sources]
    return f"file {paths.index(source) + 1}" if len(paths) > 1 and source in paths else ""
