"""Where the chip-time went: the waterfall."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Row, RowStyle, Section, Table
from mpg_cli.report.sections.account import account
from mpg_cli.report.sections.common import EMPTY, LONGEST_LABEL, fleet_only
from mpg_cli.report.sections.remarks import remarks
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import decimal, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.blocks import Hue
    from mpg_cli.report.model import LedgerRow, Report
    from mpg_cli.report.sections.account import Account, Figure, Group

_WITHIN, _ORIGIN, _REMARK = 3, 4, 5
CAUSE = re.compile(r"[a-z_]{1,40}", re.ASCII)  # what may be shown as part of a command
_MOST_EXPLAINED = 3
AS_ASKED = "allocated as asked"  # what a scheduler knows of time that no trace covers
# of the ideal row, by a word of the basis of PG
_IDEAL = {
    "roofline": "useful work at the roofline",
    "achievable": "useful FLOPs at achievable rate",
    "peak": "useful FLOPs at peak",
}


def section(report: Report, *, detail: bool) -> Section:
    """One row per cause, grouped by layer, ending in a total that is the sum of the rows."""
    del detail
    if not report.ledger:
        return EMPTY
    books = account(report)
    said = remarks(report)
    rows = (*_rows(report, books, said), _row(books, "total", books.total, "total"))
    cells = (Column("cause", "left", least=20), Column(books.unit), Column("share %"))
    within, origin = Column(f"{_of(report)} %", drop=1), Column("origin", "left", least=8, drop=2)
    columns = (*cells, within, origin, Column("remark", "left", least=20, head=0.75, spare=True))
    used = [*_used(report, books), *([_REMARK] if any(row.cells[_REMARK] for row in rows) else [])]
    table = _chosen(Table(columns, rows, bars=True), used)
    return Section("Where the chip-time went", (table, *_residual(report, books), *_explained(report, books)))


def _of(report: Report) -> str:
    return "of computing" if report.goodput.view == "default" else "of program"


def _used(report: Report, books: Account) -> list[int]:
    """The columns that say something: shares of computing where it is split, origins beyond the trace itself."""
    computing = books.computing()
    split = computing is not None and len(computing.rows) > 1
    guessed = any(row.origin not in ("observed", "inferred") for row in report.ledger)
    return [0, 1, 2, *([_WITHIN] if split else []), *([_ORIGIN] if guessed else [])]


def _chosen(table: Table, used: list[int]) -> Table:
    rows = (Row(tuple(row.cells[i] for i in used), row.style, row.bar, row.hue) for row in table.rows)
    return Table(tuple(table.columns[i] for i in used), tuple(rows), table.bars)


def _rows(report: Report, books: Account, said: dict[str, str]) -> Iterator[Row]:
    longest = max((figure.chip_ns for group in books.groups for _, figure in group.rows), default=0) or 1
    for group in books.groups:
        if len(group.rows) > 1:
            yield _row(books, group.title, group.figure, "group", _within(group, sum(group.within)))
        for (row, figure), within in zip(group.rows, group.within, strict=True):
            label = _label(report, row)
            indented = f"  {label}" if len(group.rows) > 1 else label
            notes = (_within(group, within), row.origin, said.get(row.cause, ""))
            plain = _row(books, indented, figure, "plain", *notes)
            shade = "computing" if label == AS_ASKED else _hue(group, row)
            yield Row(plain.cells, "plain", max(figure.chip_ns / longest, 0.0), shade)


def _within(group: Group, tenths: int) -> str:
    return decimal(tenths, 1) if group.hue == "computing" else ""


def _label(report: Report, row: LedgerRow) -> str:
    if row.cause == "unobserved" and fleet_only(report):
        return AS_ASKED
    if row.cause != "ideal":
        return cut(row.label or row.cause, LONGEST_LABEL).removeprefix("computing, ")
    basis = report.goodput.pg.basis if report.goodput.pg else ""
    return next((label for word, label in _IDEAL.items() if word in basis), row.label or row.cause)


def _hue(group: Group, row: LedgerRow) -> Hue:
    lost = group.hue == "computing" and row.cause not in ("ideal", "productive")
    return "program" if lost else group.hue


def _row(
    books: Account,
    label: str,
    figure: Figure,
    style: RowStyle,
    within: str = "",
    origin: str = "",
    remark: str = "",
) -> Row:
    share = decimal(figure.tenths, 1) if books.total.tenths else NONE
    return Row((label, books.amount(figure), share, within, origin, remark), style)


def _explained(report: Report, books: Account) -> list[Block]:
    """Of a fleet, which has no findings that say so: how to read on about its largest causes."""
    if report.findings or not fleet_only(report):
        return []
    losses = sorted(books.losses(), key=lambda loss: -loss[1].chip_ns)
    causes = [row.cause for row, _ in losses if row.layer == "scheduling" and CAUSE.fullmatch(row.cause)]
    commands = [f"mpg explain {cause}" for cause in causes[:_MOST_EXPLAINED]]
    return (
        [Line(f"What each means and what usually helps: {', '.join(commands)}.", "dim")] if commands else []
    )


def _residual(report: Report, books: Account) -> list[Block]:
    missing = report.totals.capacity_ns - books.total.chip_ns
    if not missing:
        return []
    text = f"The account does not close: capacity less the rows above is {duration(missing)}. This is a bug."
    return [Line(text, "strong")]
