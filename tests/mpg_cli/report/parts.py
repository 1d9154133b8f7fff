"""What a report's sections are made of, in a form to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Line, Section, Table
from mpg_cli.report.sections import build

if TYPE_CHECKING:
    from mpg_cli.report.model import Report


def section(report: Report, title: str, *, detail: bool = False) -> Section:
    return next(found for found in build(report, detail=detail) if found.title.startswith(title))


def titles(report: Report) -> list[str]:
    return [found.title for found in build(report)]


def lines(found: Section) -> list[str]:
    return [block.text for block in found.blocks if isinstance(block, Line)]


def facts(found: Section) -> list[tuple[str, str]]:
    return [item for block in found.blocks if isinstance(block, Facts) for item in block.items]


def tables(found: Section) -> list[Table]:
    return [block for block in found.blocks if isinstance(block, Table)]


def headers(table: Table) -> list[str]:
    return [column.header.replace("\n", " ") for column in table.columns]


def cells(table: Table) -> list[list[str]]:
    return [list(row.cells) for row in table.rows]
