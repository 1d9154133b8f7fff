"""How often hardware ended attempts, by size, and the share of its time a job keeps."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, more, table
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, plain
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import duration, number, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Reliability, Report, Scheduling

_MOST, _MOST_IN_DETAIL = 8, 50
_ABOUT = (
    "MTTF: hours an attempt of that size runs per failure of hardware, with its 95 % interval (Poisson). ETTR: time "
    "run of the time from first start to last end; as measured an upper bound, as work since a checkpoint is lost too."
)


def section(report: Report, *, detail: bool) -> Section:
    """One row per size, then what the columns mean and why a figure is missing."""
    found = report.scheduling
    if found is None or not found.reliability:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    rows = found.reliability
    blocks: list[Block] = [_table(rows[:most]), *more(len(rows), most, "size"), Line(_about(found), "dim")]
    blocks += [Line(text, "dim") for text in _reasons(rows[:most])]
    return Section("Failures of hardware", (*blocks, *_detections(found, most)))


def _about(found: Scheduling) -> str:
    expected = f" Expected: from MTTF, with {plain(found.recovery, 200)}." if found.recovery else ""
    return _ABOUT + expected


def _detections(found: Scheduling, most: int) -> list[Block]:
    """How long failures went unnoticed, the dearest first."""
    if not found.detections:
        return []
    rows = sorted(found.detections, key=lambda one: -one.chip_ns)
    time = scale([sum(one.chip_ns for one in rows)])
    fields = (
        (Column("job", "left", code=True, least=6), lambda one: cut(one.job, LONGEST_NAME) or NONE),
        (Column("attempt"), lambda one: number(one.attempt)),
        (Column("node", "left", code=True, least=6), lambda one: cut(one.node, LONGEST_NAME) or NONE),
        (Column("detected after"), lambda one: duration(round(one.delay_s * 1e9))),
        (Column(f"chip-{time.unit}"), lambda one: time.cell(one.chip_ns)),
    )
    head = Line("Failures, from the node's first silence to the end of the attempt:")
    return [head, table(fields, rows[:most]), *more(len(rows), most, "failure")]


def _reasons(rows: Sequence[Reliability]) -> list[str]:
    """Every reason once, with the sizes it is of."""
    by: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            by.setdefault(plain(row.reason, 300), []).append(cut(row.size, LONGEST_NAME))
    return [f"{NONE} in {', '.join(sizes)}: {reason}" for reason, sizes in by.items()]


def _table(rows: Sequence[Reliability]) -> Table:
    return table(
        (
            (Column("size", "left", least=8), lambda row: cut(row.size, LONGEST_NAME) or NONE),
            (Column("attempts", drop=2), lambda row: number(row.attempts)),
            (Column("failures"), lambda row: number(row.failures)),
            (Column("hours run", drop=1), lambda row: _hours(row.job_hours)),
            (Column("MTTF\n(h)"), lambda row: _hours(row.mttf_h)),
            (Column("95 % interval\n(h)"), _interval),
            (Column("ETTR %\nmeasured"), lambda row: tenths(row.ettr_measured)),
            (Column("ETTR %\nexpected"), lambda row: tenths(row.ettr_expected)),
        ),
        rows,
    )


def _interval(row: Reliability) -> str:
    """The bounds; only the lower one is known without failures."""
    low, high = _hours(row.mttf_low_h), _hours(row.mttf_high_h)
    if low == NONE:
        return NONE
    return f"over {low}" if high == NONE else f"{low} to {high}"


def _hours(value: float | None) -> str:
    """Hours with about three digits."""
    if value is None or not isfinite(value):
        return NONE
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
