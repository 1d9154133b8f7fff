"""Where the chip-time went: the waterfall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Row, RowStyle, Section, Table
from mpg_cli.report.sections.account import account
from mpg_cli.report.sections.common import EMPTY
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import decimal, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import LedgerRow, Report
    from mpg_cli.report.sections.account import Account, Figure, Group

_LONGEST_LABEL = 48


def section(report: Report, *, detail: bool) -> Section:
    """One row per cause, grouped by layer, ending in a total that is the sum of the rows."""
    del detail
    if not report.ledger:
        return EMPTY
    books = account(report)
    extra = any(row.origin != "observed" for row in report.ledger)
    columns = [Column("cause", "left", least=20), Column(books.unit), Column("share %")]
    columns += [Column("origin", "left", least=8, drop=1)] if extra else []
    cells = [*_rows(books), _row(books, "total", books.total, "total")]
    rows = tuple(row if extra else Row(row.cells[:3], row.style, row.bar, row.hue) for row in cells)
    return Section(
        "Where the chip-time went", (Table(tuple(columns), rows, bars=True), *_residual(report, books))
    )


def _rows(books: Account) -> Iterator[Row]:
    longest = max((figure.chip_ns for group in books.groups for _, figure in group.rows), default=0) or 1
    for group in books.groups:
        if len(group.rows) > 1:
            yield _row(books, group.title, group.figure, "group")
        for row, figure in group.rows:
            yield _cause(books, group, row, figure, figure.chip_ns / longest)


def _cause(books: Account, group: Group, row: LedgerRow, figure: Figure, bar: float) -> Row:
    label = cut(row.label or row.cause, _LONGEST_LABEL)
    indented = f"  {label}" if len(group.rows) > 1 else label
    plain = _row(books, indented, figure, "plain", row.origin)
    return Row(plain.cells, "plain", max(bar, 0.0), group.hue)


def _row(books: Account, label: str, figure: Figure, style: RowStyle, origin: str = "") -> Row:
    share = decimal(figure.tenths, 1) if books.total.tenths else NONE
    return Row((label, books.amount(figure), share, origin), style)


def _residual(report: Report, books: Account) -> list[Block]:
    missing = report.totals.capacity_ns - books.total.chip_ns
    if not missing:
        return []
    text = f"The account does not close: capacity less the rows above is {duration(missing)}. This is a bug."
    return [Line(text, "strong")]
