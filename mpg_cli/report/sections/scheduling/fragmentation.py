"""Free chips that the usual jobs cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import number, tenths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Fragmentation, Report

_MOST, _MOST_IN_DETAIL = 8, 100
_TITLE = "Fragmentation of the free chips"
_ABOUT = "Unusable: free chips that the fleet's usual jobs cannot use, as too few are free together on a node (FGD)."
_ABOUT_BOXES = "Of a mesh or torus: free chips outside of its largest free box."


def section(report: Report, *, detail: bool) -> Section:
    """One row per pool, most unusable chips first."""
    found = report.scheduling
    if found is None or not found.fragmentation:
        return EMPTY
    if not detail and not any(one.index_max or one.index_mean for one in found.fragmentation):
        free = sum(one.free_mean for one in found.fragmentation)
        return Section(
            _TITLE, (Line(f"None: the usual jobs could use all free chips, {free:,.1f} on average."),)
        )
    most = _MOST_IN_DETAIL if detail else _MOST
    rows = sorted(found.fragmentation, key=lambda one: -one.free_mean * (one.index_mean or 0))
    about = f"{_ABOUT} {_ABOUT_BOXES}" if any(one.kind != "nodes" for one in rows) else _ABOUT
    blocks: list[Block] = [_table(rows[:most]), *more(len(rows), most, "pool"), Line(about, "dim")]
    return Section(_TITLE, tuple(blocks))


def _table(rows: Sequence[Fragmentation]) -> Table:
    return table(
        (
            (Column("pool", "left", code=True, least=8), lambda row: cut(row.pool, LONGEST_NAME) or NONE),
            (Column("chips"), lambda row: number(row.chips)),
            (Column("free\non average"), lambda row: f"{row.free_mean:,.1f}"),
            (Column("unusable %\non average"), lambda row: tenths(row.index_mean)),
            (Column("unusable %\nat most"), lambda row: tenths(row.index_max)),
        ),
        rows,
    )
