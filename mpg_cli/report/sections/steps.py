"""How long the steps took, and how alike they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Facts, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, lane, table
from mpg_cli.report.sections.step_ledgers import outliers
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import Scale, decimal, duration, median, percent, ratio, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Report, Step

    Lane = tuple[str, int | None, int]
    Field = tuple[Column, Callable[["_Row"], str]]

_MOST_STEPS = 12
_MOST_LANES = 4


@dataclass(frozen=True, slots=True)
class _Row:
    """One step on all the devices that ran it."""

    name: str
    steps: dict[Lane, Step]


def section(report: Report, *, detail: bool) -> Section:
    """Statistics over all steps of all devices, and one row per step while they are few."""
    if not report.steps:
        return EMPTY
    rows = _rows(report.steps)
    blocks: list[Block] = [Facts(tuple(_facts(report, len(rows))))]
    if len(rows) <= _MOST_STEPS or detail:
        blocks.append(_table(report, rows))
    else:
        blocks.append(Line(f"{plural(len(rows), 'step')}, not listed one by one.", "dim"))
    return Section("Steps", (*blocks, *outliers(report, detail=detail)))


def _lane(step: Step) -> Lane:
    return step.source, step.rank, step.device


def _lanes(report: Report) -> list[Lane]:
    return list(dict.fromkeys(_lane(step) for step in report.steps))


def _rows(steps: Sequence[Step]) -> list[_Row]:
    """Steps by name; where a device ran a name several times, by its turn as well."""
    turns: Counter[tuple[Lane, int | str]] = Counter()
    rows: dict[tuple[int | str, int], _Row] = {}
    for step in steps:
        key = (_lane(step), step.step)
        turns[key] += 1
        again = f" ({turns[key]})" if turns[key] > 1 else ""
        row = rows.setdefault((step.step, turns[key]), _Row(f"{step.step}{again}", {}))
        row.steps[_lane(step)] = step
    return list(rows.values())


def _facts(report: Report, count: int) -> list[tuple[str, str]]:
    each = f"{plural(count, 'step')} on {plural(len(_lanes(report)), 'device')}"
    shares = f"{_share(report.steps, 'busy_ns')} busy · {_share(report.steps, 'compute_ns')} computing"
    return [("count", each), *_walls(report), ("device", shares)]


def _walls(report: Report) -> list[tuple[str, str]]:
    walls = [step.wall_ns for step in report.steps]
    middle, low, high = median(walls), min(walls), max(walls)
    if low == high:
        return [("wall", duration(low) if len(walls) == 1 else f"{duration(low)} each")]
    wall = " · ".join(f"{name} {duration(ns)}" for name, ns in _statistics(report, walls).items())
    return [
        ("wall", wall),
        ("spread", _spread(report, middle, high - low)),
        ("slowest", _slowest(report, middle)),
    ]


def _statistics(report: Report, walls: Sequence[int]) -> dict[str, int]:
    """Of all steps; `steps` may hold only the first of them, the spread has all."""
    found = report.step_spread
    if found is None:
        return {
            "median": median(walls),
            "mean": sum(walls) // len(walls),
            "min": min(walls),
            "max": max(walls),
        }
    return {
        "median": found.median_ns,
        "min": found.min_ns,
        "95th percentile": found.p95_ns,
        "max": found.max_ns,
    }


def _spread(report: Report, middle: int, extent: int) -> str:
    """The median absolute deviation; without it the largest less the smallest."""
    found = report.step_spread
    if found is None:
        return f"{percent(ratio(extent, middle))} of the median between the shortest and the longest"
    share = percent(ratio(found.mad_ns, found.median_ns))
    return f"{duration(found.mad_ns)} median absolute deviation, {share} of the median"


def _share(steps: Sequence[Step], name: str) -> str:
    return percent(_part(steps, name))


def _part(steps: Sequence[Step], name: str) -> float | None:
    return ratio(sum(getattr(step, name) for step in steps), sum(step.wall_ns for step in steps))


def _slowest(report: Report, middle: int) -> str:
    step = max(report.steps, key=lambda step: step.wall_ns)
    where = f" on {lane(report, *_lane(step))}" if len(_lanes(report)) > 1 else ""
    times = f", {decimal(step.wall_ns * 100 // middle, 2)} × the median" if middle else ""
    return f"step {cut(str(step.step), 60)}{where}: {duration(step.wall_ns)}{times}"


def _table(report: Report, rows: Sequence[_Row]) -> Table:
    named = any(isinstance(step.step, str) for step in report.steps)
    unit = scale(step.wall_ns for step in report.steps)
    lanes = _lanes(report)
    fields: list[Field] = [
        (Column("step", "left" if named else "right", code=named, least=12), lambda row: row.name)
    ]
    if len(lanes) <= _MOST_LANES:
        fields += [_wall(report, key, unit, alone=len(lanes) == 1) for key in lanes]
    else:
        fields += _extremes(report, unit)
    return table([*fields, *_shares()], rows)


def _wall(report: Report, key: Lane, unit: Scale, *, alone: bool) -> Field:
    title = "wall" if alone else lane(report, *key)
    column = Column(f"{cut(title, 16)}\n({unit.unit})")
    return column, lambda row: unit.cell(row.steps[key].wall_ns) if key in row.steps else NONE


def _extremes(report: Report, unit: Scale) -> list[Field]:
    def slowest(row: _Row) -> Step:
        return max(row.steps.values(), key=lambda step: step.wall_ns)

    return [
        (
            Column(f"fastest\n({unit.unit})"),
            lambda row: unit.cell(min(s.wall_ns for s in row.steps.values())),
        ),
        (Column(f"slowest\n({unit.unit})"), lambda row: unit.cell(slowest(row).wall_ns)),
        (Column("slowest\non", "left", least=8), lambda row: lane(report, *_lane(slowest(row)))),
    ]


def _shares() -> list[Field]:
    def field(header: str, name: str) -> Field:
        return Column(header), lambda row: tenths(_part(list(row.steps.values()), name))

    return [
        field("busy\n%", "busy_ns"),
        field("compute\n%", "compute_ns"),
        field("exposed\ncomm %", "exposed_comm_ns"),
        field("exposed\nmemory %", "exposed_memory_ns"),
    ]
