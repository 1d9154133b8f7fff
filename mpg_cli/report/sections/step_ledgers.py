"""Steps by cause: those that stick out, and with --per-step every one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Row, Section, Table
from mpg_cli.report.sections.common import EMPTY, labels, lane, more, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import apportion, decimal, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Report, StepLedger, StepOutlier

    Field = tuple[Column, Callable[[StepLedger], str]]

_MOST_OUTLIERS, _MOST_OUTLIERS_IN_DETAIL = 5, 50
_MOST_STEPS, _MOST_STEPS_IN_DETAIL = 50, 1_000
_MOST_CAUSES = 6


def section(report: Report, *, detail: bool) -> Section:
    """The account of every step; a column for each of the largest causes and one for the rest."""
    if not report.per_step:
        return EMPTY
    most = _MOST_STEPS_IN_DETAIL if detail else _MOST_STEPS
    totals: Counter[str] = Counter()
    for row in report.per_step:
        totals.update(row.causes)
    causes = [cause for cause, ns in totals.most_common() if ns]
    blocks: list[Block] = [_table(report, report.per_step[:most], causes), *_notes(report, causes, most)]
    return Section("Every step by cause, in percent of its wall time", tuple(blocks))


def _notes(report: Report, causes: Sequence[str], most: int) -> list[Block]:
    names = labels(report)
    rest = [names.get(cause, cut(cause, 40)) for cause in causes[_MOST_CAUSES:]]
    others = f"rest: {'; '.join(rest[:12])}. " if rest else ""
    note = f"{others}Where there is no room for all columns, those of the smallest causes are left out."
    return [Line(note, "dim"), *more(len(report.per_step), most, "step")]


def _table(report: Report, shown: Sequence[StepLedger], causes: Sequence[str]) -> Table:
    time = scale(row.wall_ns for row in shown)
    named = any(isinstance(row.step, str) for row in shown)
    fields: list[Field] = [
        (Column("step", "left" if named else "right", code=named, least=12), lambda row: str(row.step)),
        *_lanes(report, shown),
        (Column(f"wall\n({time.unit})"), lambda row: time.cell(row.wall_ns)),
    ]
    first, rest = causes[:_MOST_CAUSES], causes[_MOST_CAUSES:]
    columns = [_headed(cause, number) for number, cause in enumerate(first)]
    columns += [Column("rest\n%", drop=_MOST_CAUSES)] if rest else []
    plain = table(fields, shown)
    rows = (
        Row((*row.cells, *_shares(step, first, rest))) for row, step in zip(plain.rows, shown, strict=True)
    )
    return Table((*plain.columns, *columns), tuple(rows))


def _shares(step: StepLedger, first: Sequence[str], rest: Sequence[str]) -> list[str]:
    """The step's causes in percent of its wall time; they sum to 100.0."""
    values = [step.causes.get(cause, 0) for cause in first]
    values += [sum(step.causes.get(cause, 0) for cause in rest)] if rest else []
    return [decimal(part, 1) if step.wall_ns else NONE for part in apportion(values, 1000)]


def _lanes(report: Report, shown: Sequence[StepLedger]) -> list[Field]:
    if len({(row.source, row.device) for row in shown}) <= 1:
        return []
    return [(Column("on", "left", least=8), lambda row: lane(report, row.source, row.rank, row.device))]


def _headed(cause: str, number: int) -> Column:
    """A column headed by the cause's id, its words one above the other; the smallest go first for want of room."""
    first, _, rest = cut(cause, 24).partition("_")
    header = f"{first}\n{rest.replace('_', ' ')} %".replace("\n %", "\n%")
    return Column(header, drop=number)


def outliers(report: Report, *, detail: bool) -> list[Block]:
    """The steps that took longer than the others of their device, and what grew in them."""
    ordered = sorted(report.outliers, key=lambda step: -step.excess_ns)
    if not ordered:
        return []
    most = _MOST_OUTLIERS_IN_DETAIL if detail else _MOST_OUTLIERS
    text = (
        f"{plural(len(ordered), 'step')} longer than the others of the same device, and what grew most in it:"
    )
    return [Line(text), _outlier_table(report, ordered[:most]), *more(len(ordered), most, "step")]


def _outlier_table(report: Report, shown: Sequence[StepOutlier]) -> Table:
    time = scale(step.wall_ns for step in shown)
    names = labels(report)
    fields: list[tuple[Column, Callable[[StepOutlier], str]]] = [
        (
            Column("step", "left", code=any(isinstance(s.step, str) for s in shown), least=12),
            lambda s: str(s.step),
        ),
        (Column("on", "left", least=8), lambda s: lane(report, s.source, s.rank, s.device) or NONE),
        (Column(f"wall\n({time.unit})"), lambda s: time.cell(s.wall_ns)),
        (Column(f"longer by\n({time.unit})"), lambda s: time.cell(s.excess_ns)),
        (Column("most of it", "left", least=12), lambda s: names.get(s.cause, cut(s.cause, 40)) or NONE),
        (Column(f"grew by\n({time.unit})"), lambda s: time.cell(s.cause_excess_ns)),
    ]
    return table(fields, shown)
