"""The renderer-neutral form of a report: sections of lines, label-text lists and tables of plain strings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Align = Literal["left", "right"]
LineStyle = Literal["plain", "strong", "dim"]
RowStyle = Literal["plain", "group", "total", "dim"]
Hue = Literal["computing", "program", "runtime", "scheduling", "other"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. A header may have two lines.

    `code`: names from the trace, which Markdown shows as code.
    `least`: the width down to which a terminal may shorten the cells (0: never).
    `head`: how much of a shortened cell comes from its start.
    `drop`: where the terminal is too narrow, the column with the highest number goes first (0: never).
    `spare`: shown only where all other columns, and the bars, have room enough.
    """

    header: str
    align: Align = "right"
    code: bool = False
    least: int = 0
    drop: int = 0
    head: float = 0.5
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One cell per column; `bar` is a length from 0 to 1."""

    cells: tuple[str, ...]
    style: RowStyle = "plain"
    bar: float | None = None
    hue: Hue = "other"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; with `bars`, one more column of horizontal bars at the right."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    bars: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of (label, text)."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One paragraph."""

    text: str
    style: LineStyle = "plain"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of `language` to copy, made of our own words and of plain identifiers only."""

    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """An operator in a roofline plot: FLOP/byte, TFLOP/s, its share of computing; `letter` in the table, or ""."""

    intensity: float
    tflops: float
    share: float
    letter: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A roofline plot, for terminals; all figures are finite and above zero."""

    title: str
    peak_tflops: float
    bandwidth_gbps: float
    points: tuple[Point, ...]

    @property
    def ridge(self) -> float:
        """The FLOP/byte from which arithmetic is the limit, not bandwidth."""
        return 1000 * self.peak_tflops / self.bandwidth_gbps


Block = Line | Facts | Table | Code | Plot


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a title ("" for none)."""

    title: str
    blocks: tuple[Block, ...]


def edited(section: Section, edit: Callable[[str], str]) -> Section:
    """The section with `edit` applied to every string in it."""
    return Section(edit(section.title), tuple(_edited(block, edit) for block in section.blocks))


def _edited(block: Block, edit: Callable[[str], str]) -> Block:
    match block:
        case Line():
            return Line(edit(block.text), block.style)
        case Facts():
            return Facts(tuple((edit(label), edit(text)) for label, text in block.items))
        case Table():
            return _edited_table(block, edit)
        case Code():
            return Code(block.language, tuple(edit(line) for line in block.lines))
        case Plot():
            return replace(block, title=edit(block.title))


def _edited_table(block: Table, edit: Callable[[str], str]) -> Table:
    columns = tuple(
        replace(c, header="\n".join(edit(h) for h in c.header.split("\n"))) for c in block.columns
    )
    rows = tuple(replace(row, cells=tuple(edit(cell) for cell in row.cells)) for row in block.rows)
    return Table(columns, rows, block.bars)
