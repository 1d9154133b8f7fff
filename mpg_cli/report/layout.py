"""Fitting tables into a width, counted in terminal cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from mpg_cli.report.text import abbreviate

if TYPE_CHECKING:
    from mpg_cli.report.blocks import Column, Row, Table

GAP = 2
BAR_LEAST = 8
BAR_MOST = 40
# A line may break at a space, but not before a separator, a percent sign or a unit of time.
_BREAK = re.compile(r" (?!(?:[·|%×x]|[nµum]?s|min|h|d|chip-\w+)(?:[\s,.;)]|$))")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table with only the columns that fit, the width of each, and the width of the bars (0: none)."""

    table: Table
    widths: tuple[int, ...]
    bar: int


def natural_widths(table: Table) -> list[int]:
    """The width of the widest header line or cell of every column."""
    cells = ([c, *(row.cells[i] for row in table.rows)] for i, c in enumerate(_headers(table)))
    return [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in cells]


def _headers(table: Table) -> list[str]:
    return [column.header for column in table.columns]


def fit(table: Table, width: int) -> Fitted:
    """Drop the columns that may go, then shorten those that may shrink, until the table is `width` wide.

    A table that still does not fit keeps its least widths; the renderer crops its lines.
    """
    table = _without_spare(table, width)
    while _least(table) > width and (index := _next_to_drop(table)) is not None:
        table = _without(table, index)
    natural = natural_widths(table)
    widths = _shortest(table, natural)
    room = width - _sum(widths)
    kept = GAP + BAR_LEAST if table.bars and room >= GAP + BAR_LEAST else 0
    for i in sorted(range(len(widths)), key=lambda i: (table.columns[i].spare, -i)):
        grown = min(natural[i], widths[i] + max(room - kept, 0))
        room -= grown - widths[i]
        widths[i] = grown
    bar = min(room - GAP, BAR_MOST) if table.bars else 0
    return Fitted(table, tuple(widths), bar if bar >= BAR_LEAST else 0)


def _without_spare(table: Table, width: int) -> Table:
    """Without the spare column, unless it fits beside the full widths of the others and the shortest bars."""
    spare = next((i for i, column in enumerate(table.columns) if column.spare), None)
    if spare is None:
        return table
    widths = natural_widths(table)
    widths[spare] = min(widths[spare], table.columns[spare].least)
    return table if _sum(widths) + (GAP + BAR_LEAST) * table.bars <= width else _without(table, spare)


def _sum(widths: list[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _shortest(table: Table, natural: list[int]) -> list[int]:
    least = (column.least for column in table.columns)
    return [min(most, few) if few else most for most, few in zip(natural, least, strict=True)]


def _least(table: Table) -> int:
    return _sum(_shortest(table, natural_widths(table)))


def _next_to_drop(table: Table) -> int | None:
    """The column with the highest drop number, if any may be dropped."""
    drops = [column.drop for column in table.columns]
    return drops.index(max(drops)) if any(drops) else None


def _without(table: Table, index: int) -> Table:
    rows = tuple(replace(row, cells=row.cells[:index] + row.cells[index + 1 :]) for row in table.rows)
    return replace(table, columns=table.columns[:index] + table.columns[index + 1 :], rows=rows)


def header_lines(fitted: Fitted, ellipsis: str) -> list[str]:
    """The header as one or two lines, aligned like the columns; one-line headers sit at the bottom."""
    parts = [column.header.split("\n") for column in fitted.table.columns]
    height = max((len(part) for part in parts), default=1)
    padded = [[""] * (height - len(part)) + part for part in parts]
    return [_joined(fitted, [part[i] for part in padded], ellipsis) for i in range(height)]


def row_line(fitted: Fitted, row: Row, ellipsis: str) -> str:
    """The cells of one row, shortened and aligned, without its bar."""
    return _joined(fitted, list(row.cells), ellipsis)


def _joined(fitted: Fitted, cells: list[str], ellipsis: str) -> str:
    columns = zip(fitted.table.columns, cells, fitted.widths, strict=True)
    return (" " * GAP).join(
        aligned(column, _cell(column, cell, width, ellipsis), width) for column, cell, width in columns
    )


def _cell(column: Column, text: str, width: int, ellipsis: str) -> str:
    """The text in at most `width` cells; a C++ name first loses what matters least."""
    if column.code and cell_len(text) > width:
        return shorten(abbreviate(text).replace("…", ellipsis), width, ellipsis, head=0.75)
    return shorten(text, width, ellipsis, column.head)


def aligned(column: Column, cell: str, width: int) -> str:
    """`cell` padded to `width`."""
    pad = " " * max(width - cell_len(cell), 0)
    return pad + cell if column.align == "right" else cell + pad


def shorten(text: str, width: int, ellipsis: str = "…", head: float = 0.5) -> str:
    """`text` in at most `width` cells; a longer one has `ellipsis` between its `head` share and its tail."""
    if cell_len(text) <= width:
        return text
    keep = width - len(ellipsis)
    if keep <= 0:
        return ellipsis[:width]
    start = _prefix(text, ceil(keep * head))
    return start + ellipsis + _prefix(text[::-1], keep - cell_len(start))[::-1]


def _prefix(text: str, width: int) -> str:
    """The longest start of `text` of at most `width` cells."""
    used = 0
    for i, char in enumerate(text):
        used += get_character_cell_size(char)
        if used > width:
            return text[:i]
    return text


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells (at least one line); a word longer than a line is broken."""
    lines = [""]
    for word in _BREAK.split(text):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        lines += _broken(word, width)
    return lines if lines[0] else lines[1:] or lines


def _broken(word: str, width: int) -> list[str]:
    parts = []
    while cell_len(word) > width:
        part = _prefix(word, width) or word[:1]
        parts.append(part)
        word = word[len(part) :]
    return [*parts, word]


def crop(line: str, width: int, ellipsis: str) -> str:
    """`line` cut at the right to at most `width` cells."""
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, max(width - len(ellipsis), 0)).rstrip() + ellipsis[:width]


def bar(length: float, width: int, *, ascii_only: bool) -> str:
    """A horizontal bar of `length` (0 to 1) of `width`, in eighths of a cell; a cell of `#` in ASCII."""
    share = min(max(length, 0.0), 1.0)
    if ascii_only:
        return "#" * round(share * width)
    whole, part = divmod(round(share * width * 8), 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")
