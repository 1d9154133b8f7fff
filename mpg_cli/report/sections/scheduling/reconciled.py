"""The scheduler's own roll-up beside the same figures from the records."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Facts, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, plain
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Reconciled, Report

_MOST, _MOST_IN_DETAIL = 10, 200
_MOST_REASONS = 6
_ALL = "all"
_NOT_EXPLAINED = "not explained"
_EQUAL_S = 0.5  # the roll-up counts whole seconds


def section(report: Report, *, detail: bool) -> Section:
    """How many figures agree; those of all users and those that differ, and why. All are in the JSON report."""
    found = report.scheduling
    if found is None or not found.reconciled:
        return EMPTY
    rows = found.reconciled
    matter = (
        rows
        if detail
        else [row for row in rows if _differs(row) or (row.account is None and row.user is None)]
    )
    most = _MOST_IN_DETAIL if detail else _MOST
    # of all first, then by account, then by user
    ordered = sorted(
        matter, key=lambda row: (row.user is not None, row.account is not None, -abs(row.difference_s))
    )
    blocks: list[Block] = [Line(_summary(rows))]
    if ordered:
        blocks += [_table(ordered[:most]), *more(len(ordered), most, "figure"), *_why(ordered)]
    return Section("Beside the scheduler's own roll-up", tuple(blocks))


def _differs(row: Reconciled) -> bool:
    return not abs(row.difference_s) < _EQUAL_S


def _unexplained(row: Reconciled) -> bool:
    return not row.explanation or _NOT_EXPLAINED in row.explanation


def _summary(rows: Sequence[Reconciled]) -> str:
    differing = sum(_differs(row) for row in rows)
    compared = plural(len(rows), "figure")
    if not differing:
        return f"{compared} compared, in seconds of the resource: all agree."
    unexplained = sum(_differs(row) and _unexplained(row) for row in rows)
    rest = f", {unexplained:,} of them not wholly explained" if unexplained else ", all explained below"
    counts = f"{len(rows) - differing:,} agree, {differing:,} differ{rest}"
    return f"{compared} compared, in seconds of the resource: {counts}."


def _table(rows: Sequence[Reconciled]) -> Table:
    fields = [
        (Column("resource", "left", code=True, least=8), lambda row: cut(row.resource, LONGEST_NAME) or NONE),
        (Column("figure", "left", least=8), lambda row: cut(row.measure, LONGEST_NAME) or NONE),
        (Column("of", "left", code=True, least=8), _whose),
        (Column("theirs (s)"), lambda row: number(row.theirs_s)),
        (Column("ours (s)"), lambda row: _seconds(row.ours_s)),
        (Column("difference"), lambda row: _seconds(row.difference_s) if _differs(row) else "0"),
    ]
    return table(fields, rows)


def _whose(row: Reconciled) -> str:
    named = [cut(name, LONGEST_NAME) for name in (row.account, row.user) if name]
    return " / ".join(named) or _ALL


def _seconds(value: float) -> str:
    if not isfinite(value):
        return NONE
    return f"{value:,.0f}" if abs(value - round(value)) < 0.05 else f"{value:,.1f}"


def _why(rows: Sequence[Reconciled]) -> list[Block]:
    """Every explanation once, with the figures it is of."""
    by: dict[str, list[str]] = {}
    for row in rows:
        if _differs(row):
            whose = _whose(row)
            what = cut(row.measure, 20) + ("" if whose == _ALL else f", {cut(whose, 30)}")
            by.setdefault(plain(row.explanation) or _NOT_EXPLAINED, []).append(what)
    items = tuple(
        (what[0] + (f" and {len(what) - 1} more" if len(what) > 1 else ""), text) for text, what in by.items()
    )
    return [Facts(items)] if items else []
