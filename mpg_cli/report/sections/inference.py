"""Steps of an inference engine: prefill and decode apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, lane, more, table
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import Scale, number, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import InferenceStep, Report

    Group = tuple[str, list[InferenceStep]]
    Field = tuple[Column, Callable[[Group], str]]

_MOST, _MOST_IN_DETAIL = 10, 100
_MOST_PHASES = 8


def section(report: Report, *, detail: bool) -> Section:
    """Sums by phase, and the steps that kept the device longest."""
    if not report.inference:
        return EMPTY
    by_phase: dict[str, list[InferenceStep]] = {}
    for step in report.inference:
        by_phase.setdefault(step.phase, []).append(step)
    most = _MOST_IN_DETAIL if detail else _MOST
    ordered = sorted(report.inference, key=lambda step: -(step.device_ns or 0))
    text = "Engines run ahead of the device: device time is that of the work launched inside the step."
    blocks: list[Block] = [Line(text), _sums(sorted(by_phase.items())[:_MOST_PHASES])]
    blocks += [Line("The steps with the most device time:"), _steps(report, ordered[:most])]
    return Section("Inference steps", (*blocks, *more(len(ordered), most, "step")))


def _total(steps: Sequence[InferenceStep], name: str) -> int | None:
    """The sum over the steps in which it is known; None if it is in none."""
    known = [value for step in steps if (value := getattr(step, name)) is not None]
    return sum(known) if known else None


def _cell(unit: Scale, ns: int | None) -> str:
    return NONE if ns is None else unit.cell(ns)


def _part(steps: Sequence[InferenceStep], name: str) -> str:
    """That part of device time in percent, of the steps in which both are known."""
    known = [step for step in steps if step.device_ns is not None and getattr(step, name) is not None]
    whole = _total(known, "device_ns")
    return tenths((_total(known, name) or 0) / whole) if whole else NONE


def _rate(steps: Sequence[InferenceStep]) -> str:
    """Tokens per second of device time, of the steps in which both are known."""
    known = [step for step in steps if step.device_ns and step.tokens is not None]
    whole = _total(known, "device_ns")
    return f"{1e9 * (_total(known, 'tokens') or 0) / whole:,.0f}" if whole else NONE


def _sums(groups: Sequence[Group]) -> Table:
    sums = [ns for _, steps in groups for ns in (_total(steps, "host_ns"), _total(steps, "device_ns")) if ns]
    unit = scale(sums)
    fields: list[Field] = [
        (Column("phase", "left", least=8), lambda group: cut(group[0], 16) or NONE),
        (Column("steps"), lambda group: number(len(group[1]))),
        (Column("requests", drop=1), lambda group: number(_total(group[1], "requests"))),
        (Column("tokens"), lambda group: number(_total(group[1], "tokens"))),
        (Column(f"host\n({unit.unit})"), lambda group: _cell(unit, _total(group[1], "host_ns"))),
        (Column(f"device\n({unit.unit})"), lambda group: _cell(unit, _total(group[1], "device_ns"))),
        (Column("busy\n%"), lambda group: _part(group[1], "busy_ns")),
        (Column("compute\n%"), lambda group: _part(group[1], "compute_ns")),
        (Column("tokens/s\nof device"), lambda group: _rate(group[1])),
    ]
    return table(fields, groups)


def _steps(report: Report, shown: Sequence[InferenceStep]) -> Table:
    unit = scale(ns for step in shown for ns in (step.host_ns, step.device_ns or 0))
    fields: list[tuple[Column, Callable[[InferenceStep], str]]] = [
        (Column(f"device\n({unit.unit})"), lambda step: _cell(unit, step.device_ns)),
        (Column(f"host\n({unit.unit})"), lambda step: unit.cell(step.host_ns)),
        (Column("busy\n%"), lambda step: _part([step], "busy_ns")),
        (Column("compute\n%"), lambda step: _part([step], "compute_ns")),
        (Column("requests", drop=1), lambda step: number(step.requests)),
        (Column("tokens", drop=2), lambda step: number(step.tokens)),
        (Column("phase", "left"), lambda step: cut(step.phase, 16) or NONE),
    ]
    if len(report.devices) > 1:
        on = Column("on", "left", least=8)
        fields.append((on, lambda step: lane(report, step.source, step.rank, step.device)))
    fields.append((Column("step", "left", code=True, least=20), lambda step: step.name or NONE))
    return table(fields, shown)
