"""Who was preempted by whom, and what that cost at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, chip_time, fleet_scale
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Preemption, Report

_MOST, _MOST_IN_DETAIL = 8, 50
_MOST_VICTIMS = 6
_ORDER = "order"
_UNKNOWN = "(unknown)"


def section(report: Report, *, detail: bool) -> Section:
    """The jobs that took the chips of most chip-time first."""
    found = report.scheduling
    if found is None or not found.preemptions:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    rows = sorted(found.preemptions, key=lambda one: -one.chip_ns)
    blocks: list[Block] = [Line(_summary(rows)), _table(rows[:most]), *more(len(rows), most, "job")]
    return Section("Preemptions", tuple(blocks))


def _summary(rows: Sequence[Preemption]) -> str:
    count = sum(one.count for one in rows)
    cost = chip_time(sum(one.chip_ns for one in rows))
    text = f"{plural(count, 'attempt')} preempted after {cost}: at most that was lost."
    second = [one for one in rows if one.second_order]
    if not second:
        return text
    again = chip_time(sum(one.chip_ns for one in second))
    number_of = sum(one.count for one in second)
    return f"{text} Second order, by jobs that had themselves been requeued: {number_of:,}, {again}."


def _table(rows: Sequence[Preemption]) -> Table:
    time = fleet_scale(one.chip_ns for one in rows)
    fields: list[tuple[Column, Callable[[Preemption], str]]] = [
        (Column("preempted by", "left", code=True, least=12), _preemptor),
        (Column(f"chip-{time.unit}\nlost at most"), lambda one: time.cell(one.chip_ns)),
        (Column("attempts"), lambda one: number(one.count)),
        (Column(_ORDER, "left"), lambda one: "second" if one.second_order else "first"),
        (Column("jobs preempted", "left", code=True, least=16), _victims),
    ]
    several = any(one.second_order for one in rows)
    return table([field for field in fields if several or field[0].header != _ORDER], rows)


def _preemptor(one: Preemption) -> str:
    return cut(one.preemptor, LONGEST_NAME) or _UNKNOWN


def _victims(one: Preemption) -> str:
    shown = [cut(name, LONGEST_NAME) for name in one.victims[:_MOST_VICTIMS]]
    rest = len(one.victims) - len(shown)
    return ", ".join([*shown, f"{rest:,} more"] if rest else shown) or NONE
