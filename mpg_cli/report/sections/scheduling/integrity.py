"""What is odd about the records and bears on the figures: it comes before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Section
from mpg_cli.report.sections.common import EMPTY, more
from mpg_cli.report.sections.scheduling.common import chip_time, part, plain, words
from mpg_cli.report.units import number

if TYPE_CHECKING:
    from mpg_cli.report.model import Integrity, Report, Scheduling

TITLE = "What to know about the records"
_MOST, _MOST_IN_DETAIL = 8, 100


def section(report: Report, *, detail: bool) -> Section:
    """What was found, how often, and the chip-time at stake; most at stake first."""
    found = report.scheduling
    if found is None or not found.integrity:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    shown = ordered(found)[:most]
    items = tuple((words(one.kind), _text(one, found)) for one in shown)
    return Section(TITLE, (Facts(items), *more(len(found.integrity), most, "finding")))


def ordered(found: Scheduling) -> list[Integrity]:
    """Most chip-time at stake first; then those of which it is not known, as that can be anything."""
    return sorted(found.integrity, key=lambda one: (one.chip_ns is None, -(one.chip_ns or 0)))


def _text(one: Integrity, found: Scheduling) -> str:
    count = f" (×{number(one.count)})" if one.count != 1 else ""
    return f"{plain(one.message)}{count}; {_stake(one, found)}"


def _stake(one: Integrity, found: Scheduling) -> str:
    if one.chip_ns is None:
        return "how much is at stake is not known"
    if not one.chip_ns:
        return "no chip-time at stake"
    known = 0 < one.chip_ns <= found.claimed_ns
    return (
        f"at stake {part(one.chip_ns, found.claimed_ns)} of what jobs held"
        if known
        else f"at stake {chip_time(one.chip_ns)}"
    )
