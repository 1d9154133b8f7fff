"""The report on a terminal: Rich styles, our own widths. Nothing in it is read as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from mpg_cli.report import layout, plot
from mpg_cli.report.blocks import Code, Facts, Line, Plot, Table, edited
from mpg_cli.report.sections import build
from mpg_cli.report.text import to_ascii

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from mpg_cli.report.blocks import Block, Row
    from mpg_cli.report.model import Report

_LINE_STYLES = {"plain": "", "strong": "bold", "dim": "dim"}
_ROW_STYLES = {"plain": "", "group": "bold", "total": "bold", "dim": "dim"}
_HUES = {
    "computing": "green",
    "program": "cyan",
    "runtime": "yellow",
    "scheduling": "magenta",
    "other": "red",
}


def render(
    report: Report, *, width: int | None, color: bool, ascii_only: bool, file: TextIO, detail: bool = False
) -> None:
    """Write the report to `file` in lines of at most `width` cells (None: what Rich finds, 80 in a pipe).

    `color` and `ascii_only` are the caller's decision: NO_COLOR and the locale are not looked at here. With
    `ascii_only` every character written is ASCII; without it `file` must be able to encode any character.
    """
    console = _console(file, width, color=color)
    page = _Page(console, ascii_only=ascii_only)
    for number, section in enumerate(build(report, detail=detail)):
        shown = edited(section, to_ascii) if ascii_only else section
        if number:
            page.write(Text())
        if shown.title:
            page.write(Text(shown.title, "bold underline" if color else ""))
        for before, block in zip((None, *shown.blocks), shown.blocks, strict=False):
            if _spaced(before, block):
                page.write(Text())
            page.block(block)


def _console(file: TextIO, width: int | None, *, color: bool) -> Console:
    return Console(
        file=file,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},  # COLUMNS and LINES are the caller's matter; Rich fails where they are no numbers to Python
    )


def _spaced(before: Block | None, block: Block) -> bool:
    """Whether a blank line goes between two blocks: a table keeps its heading (`…:`) and its dim footnote."""
    if before is None or _dim(block):
        return isinstance(before, Facts)
    if isinstance(before, Facts) and isinstance(block, Line):
        return True
    if isinstance(before, Line) and isinstance(block, Line) and block.text.endswith(":"):
        return True
    if isinstance(block, (Table, Code, Plot)):
        return not (isinstance(before, Line) and before.text.endswith(":"))
    return isinstance(before, (Table, Code, Plot)) or _dim(before)


def _dim(block: Block) -> bool:
    return isinstance(block, Line) and block.style == "dim"


class _Page:
    """Writes blocks to a console, each line at most as wide as it."""

    def __init__(self, console: Console, *, ascii_only: bool) -> None:
        self.console = console
        self.width = console.width
        self.ascii_only = ascii_only
        self.ellipsis = "..." if ascii_only else "…"

    def write(self, line: Text) -> None:
        line.rstrip()
        if line.cell_len > self.width:
            line = Text(layout.crop(line.plain, self.width, self.ellipsis), line.style)
        self.console.print(line, soft_wrap=True)

    def block(self, block: Block) -> None:
        match block:
            case Line():
                self.paragraph(block.text, _LINE_STYLES[block.style])
            case Facts():
                self.facts(block)
            case Table():
                self.table(block)
            case Code():
                self.lines(block.lines)
            case Plot():
                self.lines(plot.draw(block, self.width, ascii_only=self.ascii_only))

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(Text(line))

    def paragraph(self, text: str, style: str) -> None:
        for line in layout.wrap(text, self.width):
            self.write(Text(line, style))

    def facts(self, block: Facts) -> None:
        """Labels in a column, none twice in a row; their texts wrapped beside it."""
        column = min(max(cell_len(label) for label, _ in block.items), max(self.width // 2 - 2, 1))
        for (label, text), before in zip(
            block.items, ("", *(label for label, _ in block.items)), strict=False
        ):
            short = "" if label == before else layout.shorten(label, column, self.ellipsis)
            start = Text.assemble((short, "bold"), " " * (column - cell_len(short) + 2))
            for line in layout.wrap(text, max(self.width - column - 2, 1)):
                self.write(start + Text(line))
                start = Text(" " * (column + 2))

    def table(self, block: Table) -> None:
        fitted = layout.fit(block, self.width)
        for line in layout.header_lines(fitted, self.ellipsis):
            self.write(Text(line, "dim"))
        for row in fitted.table.rows:
            self.write(self.row(fitted, row))

    def row(self, fitted: layout.Fitted, row: Row) -> Text:
        line = Text(layout.row_line(fitted, row, self.ellipsis), _ROW_STYLES[row.style])
        if row.bar is not None and fitted.bar:
            drawn = layout.bar(row.bar, fitted.bar, ascii_only=self.ascii_only)
            line.append(" " * layout.GAP + drawn, _HUES[row.hue])
        return line
