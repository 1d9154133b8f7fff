"""The account in parts: one row per rank, and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Row, Section, Table
from mpg_cli.report.model import Segment
from mpg_cli.report.sections.common import EMPTY, labels, more, table
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import percent, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Report

    Field = tuple[Column, Callable[[Segment], str]]

_MOST, _MOST_IN_DETAIL = 16, 1_000
_NO_LOSS = ("productive", "ideal", "unmodelled")


def section(report: Report, *, detail: bool) -> Section:
    """Ratios and the largest loss of every part; those that compute least come first where not all are shown."""
    by: dict[str, list[Segment]] = {}
    for segment in report.segments:
        by.setdefault(segment.by, []).append(segment)
    if not by:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = []
    for name, found in list(by.items())[:4]:
        blocks += [_table(report, name, _chosen(found, most), found), *more(len(found), most, "part")]
    return Section("The account in parts", tuple(blocks))


def _chosen(found: Sequence[Segment], most: int) -> Sequence[Segment]:
    if len(found) <= most:
        return found
    return sorted(found, key=lambda part: _ratio(part.productive_ns, part.allocated_ns) or 0.0)[:most]


def _table(report: Report, name: str, shown: Sequence[Segment], found: Sequence[Segment]) -> Table:
    """The parts shown, then the sum of all of them."""
    time = scale([sum(part.capacity_ns for part in found)])
    names = labels(report)
    fields: list[Field] = [
        (Column(cut(name, 20) or NONE, "left", code=True, least=8), lambda part: part.key or NONE),
        (Column(f"chip-{time.unit}"), lambda part: time.cell(part.capacity_ns)),
        (Column("RG\n%"), lambda part: tenths(_ratio(part.productive_ns, part.allocated_ns))),
        (Column("PG\n%"), lambda part: tenths(_ratio(part.ideal_ns, part.productive_ns))),
        (Column("RG·PG\n%"), lambda part: tenths(_ratio(part.ideal_ns, part.allocated_ns))),
        (Column("largest loss", "left", least=20, head=0.7), lambda part: _loss(part, names)),
    ]
    return Table(
        tuple(column for column, _ in fields),
        (*table(fields, shown).rows, Row(tuple(cell(_sum(found)) for _, cell in fields), "total")),
    )


def _ratio(numerator: int | None, denominator: int) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def _sum(found: Sequence[Segment]) -> Segment:
    """All parts as one, called `total`."""
    ideals = [part.ideal_ns for part in found]
    causes: dict[str, int] = {}
    for part in found:
        for cause, ns in part.causes.items():
            causes[cause] = causes.get(cause, 0) + ns
    return Segment(
        by=found[0].by,
        key="total",
        capacity_ns=sum(part.capacity_ns for part in found),
        allocated_ns=sum(part.allocated_ns for part in found),
        productive_ns=sum(part.productive_ns for part in found),
        ideal_ns=None if None in ideals else sum(ideal for ideal in ideals if ideal is not None),
        causes=causes,
    )


def _loss(part: Segment, names: dict[str, str]) -> str:
    losses = {cause: ns for cause, ns in part.causes.items() if cause not in _NO_LOSS and ns > 0}
    if not losses or not part.capacity_ns:
        return NONE
    cause = max(losses, key=lambda one: losses[one])
    return f"{names.get(cause, cut(cause, 40)) or NONE} {percent(losses[cause] / part.capacity_ns)}"
