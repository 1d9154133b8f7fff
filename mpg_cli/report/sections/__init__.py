"""What every renderer shows, in one place: a `Report` as sections of plain, escaped, bounded strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Section, edited
from mpg_cli.report.sections import (
    breakdown,
    collectives,
    dashboard,
    devices,
    findings,
    hotspots,
    inference,
    kernels,
    ledger,
    operators,
    profiled,
    scheduling,
    segments,
    step_ledgers,
    steps,
    summary,
    trust,
    unmodelled,
    verdict,
    witness,
    xla,
)
from mpg_cli.report.text import clean

if TYPE_CHECKING:
    from mpg_cli.report.model import Report

__all__ = ["build"]

_PARTS = (
    summary.header,
    verdict.section,
    ledger.section,
    findings.section,
    hotspots.section,
    dashboard.section,
    witness.section,
    xla.section,
    operators.section,
    unmodelled.section,
    profiled.section,
    steps.section,
    step_ledgers.section,
    inference.section,
    breakdown.section,
    segments.section,
    devices.section,
    kernels.section,
    collectives.section,
    *scheduling.PARTS,
    trust.section,
    trust.warnings,
)


def build(report: Report, *, detail: bool = False) -> tuple[Section, ...]:
    """The sections of a report, in reading order; without `detail`, long lists are cut and say so.

    Every string is escaped and at most 500 characters long, so that a renderer need only mind its own syntax.
    """
    sections = (part(report, detail=detail) for part in _PARTS)
    return tuple(edited(section, clean) for section in sections if section.blocks)
