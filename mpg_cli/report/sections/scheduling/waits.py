"""Why attempts waited, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Row, Section, Table
from mpg_cli.report.sections.common import EMPTY, LONGEST_LABEL, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, SECOND, fleet_scale, shares
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import apportion, decimal, elapsed, number, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Report, WaitCause, WaitSpread

_MOST, _MOST_IN_DETAIL = 20, 100
_DEMAND = "Waiting is counted times the chips asked for: it is demand, and no part of the capacity above."
_SPREAD = "Waits of the attempts that started, by size of the job:"


def section(report: Report, *, detail: bool) -> Section:
    """Waits by cause with their sum, then how they spread by size."""
    found = report.scheduling
    if found is None or not (found.waits or found.wait_spread):
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = [_causes(found.waits), Line(_DEMAND, "dim")] if found.waits else []
    if found.wait_spread:
        spread = found.wait_spread
        blocks += [Line(_SPREAD), _spread(spread[:most]), *more(len(spread), most, "size")]
    return Section("Why jobs waited", tuple(blocks))


def _causes(waits: Sequence[WaitCause]) -> Table:
    """One row per cause, most chip-time first, and their sum; the shares add up."""
    rows = sorted(waits, key=lambda wait: -wait.chip_ns)
    amounts = [wait.chip_ns for wait in rows]
    time = fleet_scale([sum(amounts)])
    units = apportion(amounts, time.count(sum(amounts)))
    parts = shares(apportion(amounts, 1000))
    longest = max(amounts, default=0) or 1
    columns = (
        Column("waiting for", "left"),
        Column(f"chip-{time.unit}"),
        Column("share %"),
        Column("attempts", drop=1),
        Column("mean wait", drop=2),
    )
    body = (
        Row(
            (
                cut(wait.label or wait.cause, LONGEST_LABEL) or NONE,
                decimal(amount, time.decimals),
                share,
                number(wait.attempts),
                elapsed(ratio(wait.wait_ns, wait.attempts * SECOND)),
            ),
            "plain" if wait.chip_ns else "dim",
            wait.chip_ns / longest,
            "scheduling",
        )
        for wait, amount, share in zip(rows, units, parts, strict=True)
    )
    whole = "100.0" if sum(amounts) else NONE
    total = Row(("total", time.cell(sum(amounts)), whole, "", ""), "total")
    return Table(columns, (*body, total), bars=True)


def _spread(rows: Sequence[WaitSpread]) -> Table:
    return table(
        (
            (Column("size", "left", least=8), lambda row: cut(row.size, LONGEST_NAME) or NONE),
            (Column("attempts"), lambda row: number(row.attempts)),
            (Column("median"), lambda row: elapsed(row.median_s)),
            (Column("mean"), lambda row: elapsed(row.mean_s)),
            (Column("90 %\nwaited less"), lambda row: elapsed(row.p90_s)),
            (Column("longest", drop=1), lambda row: elapsed(row.max_s)),
        ),
        rows,
    )
