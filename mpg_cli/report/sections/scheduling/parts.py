"""SG in parts: of the fleet's capacity, and of the jobs' own time. The two are never summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Row, Section, Table
from mpg_cli.report.sections.common import EMPTY, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, cause_labels, fleet_scale, label, words
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import number, percent, ratio, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mpg_cli.report.model import Report, ScheduleSegment

    Field = tuple[Column, Callable[[ScheduleSegment], str]]

_MOST, _MOST_IN_DETAIL = 6, 100
_MOST_KINDS = 12
_JOBS = "jobs"
_OWN_TIME = (
    "The jobs' own time is their chips times the time from first submission to end: it holds their waiting, which is "
    "demand, so it is never summed with capacity."
)
_BASES = {
    "fleet": "of the fleet's capacity",
    "jobs": "of the jobs' own time",
}


def section(report: Report, *, detail: bool) -> Section:
    """A table for each division; those into a single part say nothing new and are left to the JSON report."""
    found = report.scheduling
    by: dict[tuple[str, str], list[ScheduleSegment]] = {}
    for segment in found.segments if found else ():
        by.setdefault((segment.basis, segment.by), []).append(segment)
    several = [(kind, rows) for kind, rows in by.items() if detail or len(rows) > 1]
    most = _MOST_IN_DETAIL if detail else _MOST
    labels = {basis: cause_labels(report, basis) for basis in _BASES}
    blocks: list[Block] = []
    for (basis, name), rows in several[:_MOST_KINDS]:
        ordered = sorted(rows, key=lambda one: one.allocated_ns - one.capacity_ns)
        blocks += [
            Line(_heading(basis, name)),
            _table(name, ordered, most, labels.get(basis, labels["jobs"])),
            *more(len(rows), most, "part"),
        ]
    if not blocks:
        return EMPTY
    note = [Line(_OWN_TIME, "dim")] if any(basis == "jobs" for (basis, _), _ in several) else []
    return Section("SG in parts, most chip-time lost first", (*blocks, *note))


def _heading(basis: str, name: str) -> str:
    return f"By {words(name)}, SG {_BASES.get(basis) or cut(basis, LONGEST_NAME)}:"


def _table(name: str, rows: Sequence[ScheduleSegment], most: int, names: Mapping[str, str]) -> Table:
    """The parts shown, then all parts together."""
    whole = sum(one.capacity_ns for one in rows)
    time = fleet_scale([whole])
    fields: list[Field] = [
        (Column(words(name), "left", code=True, least=8), lambda one: cut(one.key, 80) or NONE),
        (Column(_JOBS, drop=1), lambda one: number(one.jobs)),
        (Column(f"chip-{time.unit}"), lambda one: time.cell(one.capacity_ns)),
        (Column("SG %"), lambda one: tenths(one.sg)),
        (Column("largest loss", "left", least=20, head=0.7), lambda one: _loss(one, names)),
    ]
    counted = any(one.jobs for one in rows)
    used = [field for field in fields if counted or field[0].header != _JOBS]
    shown = table(used, rows[:most])
    allocated = sum(one.allocated_ns for one in rows)
    total = ("total", *([""] * counted), time.cell(whole), tenths(ratio(allocated, whole)), "")
    return Table(shown.columns, (*shown.rows, Row(total, "total")))


def _loss(one: ScheduleSegment, names: Mapping[str, str]) -> str:
    cause = max(one.causes, key=lambda cause: one.causes[cause], default="")
    if not cause or one.causes[cause] <= 0 or not one.capacity_ns:
        return NONE
    return f"{label(cause, names)} {percent(one.causes[cause] / one.capacity_ns)}"
