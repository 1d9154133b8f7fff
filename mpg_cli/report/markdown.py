"""The report as GitHub-flavoured Markdown, for pull requests; tables are padded, for pipes. Plots are left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

from mpg_cli.report import layout
from mpg_cli.report.blocks import Code, Column, Facts, Line, Plot, Row, Table
from mpg_cli.report.sections import build
from mpg_cli.report.text import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.blocks import Section
    from mpg_cli.report.model import Report

_LONGEST_NAME = 120
_BAR = 24
_ACTIVE = re.compile(
    r"[`*_\[\]<>&|\\#@$~!{}^]|://|www\.|:(?!\d\d:)\w+:|^\s*(?:[-+]|\d+[.)])\s", re.IGNORECASE
)


def render(report: Report, *, detail: bool = False) -> str:
    """The report as Markdown, ending in a newline."""
    return "\n\n".join(_section(section) for section in build(report, detail=detail)) + "\n"


def inline(text: str) -> str:
    r"""`text` such that Markdown shows it and does nothing else.

    Text with any active character becomes a code span: there GitHub resolves no HTML, links, images,
    @mentions, #references or maths, and C++ names stay readable. Inside it a backtick, which could end the
    span, is written ``\x60``; a pipe, which could end the table cell, is escaped; a backslash before a pipe
    or at the end is written ``\x5c``.
    """
    return code(text) if _ACTIVE.search(text) else text


def code(text: str) -> str:
    """`text` as a code span, whatever is in it."""
    safe = re.sub(r"\\+(?=\||$)", lambda found: r"\x5c" * len(found[0]), text.replace("`", r"\x60"))
    return "`" + safe.replace("|", r"\|") + "`" if text.strip() else text


def _section(section: Section) -> str:
    title = [f"### {inline(section.title)}"] if section.title else []
    blocks = (_block(block) for block in section.blocks if not isinstance(block, Plot))
    return "\n\n".join([*title, *blocks])


def _block(block: Line | Facts | Table | Code) -> str:
    match block:
        case Line():
            return _strong(inline(block.text)) if block.style == "strong" else inline(block.text)
        case Facts():
            return "\n".join(f"- {_strong(inline(label))}: {inline(text)}" for label, text in block.items)
        case Table():
            return _table(block)
        case Code():
            return "\n".join((f"```{block.language}", *block.lines, "```"))


def _table(block: Table) -> str:
    columns = [*block.columns, *([Column("", "left")] if block.bars else [])]
    head = [inline(column.header.replace("\n", " ")) for column in columns]
    body = [_cells(block, row) for row in block.rows]
    widths = [max(3, *(cell_len(row[i]) for row in (head, *body))) for i in range(len(columns))]
    rule = [
        ("-" * (w - 1) + ":") if c.align == "right" else "-" * w for c, w in zip(columns, widths, strict=True)
    ]
    return "\n".join(_line(columns, cells, widths) for cells in (head, rule, *body))


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [layout.aligned(column, cell, w) for column, cell, w in zip(columns, cells, widths, strict=True)]
    return "| " + " | ".join(padded) + " |"


def _cells(block: Table, row: Row) -> list[str]:
    strong = row.style in {"group", "total"}
    cells = [
        _cell(column, cell, strong=strong) for column, cell in zip(block.columns, row.cells, strict=True)
    ]
    return [*cells, layout.bar(row.bar or 0.0, _BAR, ascii_only=False)] if block.bars else cells


def _cell(column: Column, text: str, *, strong: bool) -> str:
    short = cut(text, _LONGEST_NAME)
    safe = code(short) if column.code else inline(short)
    return _strong(safe) if strong else safe


def _strong(safe: str) -> str:
    return f"**{safe}**" if safe.strip() else safe
