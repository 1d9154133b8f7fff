"""What the first lines say of a fleet besides its ratios: jobs, waits, and what is odd about the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import LONGEST_LABEL
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, chip_time, fleet_scale, part, words
from mpg_cli.report.sections.scheduling.endings import unfinished
from mpg_cli.report.sections.scheduling.integrity import ordered
from mpg_cli.report.text import cut, plural
from mpg_cli.report.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_cli.report.model import Ending, Report, Scheduling


_LITTLE = 0.01


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """(label, text) of what there is."""
    found = report.scheduling
    if found is None:
        return
    yield "jobs", _jobs(found)
    if report.goodput.sg is None:
        yield from _own_time(found)
    if found.waits:
        yield "waiting", _waiting(found)
    if found.integrity:
        yield "records", _records(found)


def _jobs(found: Scheduling) -> str:
    text = f"{plural(found.jobs, 'job')} in {plural(found.attempts, 'attempt')} held {chip_time(found.claimed_ns)}"
    lost = unfinished(found)
    chip_ns = sum(ending.chip_ns for ending in lost)
    if not chip_ns:
        return text
    whole = sum(ending.chip_ns for ending in found.endings)
    most = ", ".join(
        f"{cut(one.state, LONGEST_NAME)} {percent(one.chip_ns / whole)}" for one in _notable(lost, whole)
    )
    return f"{text}; {part(chip_ns, whole)} of it, in attempts that did not finish ({most})"


def _notable(lost: Sequence[Ending], whole: int) -> Sequence[Ending]:
    """The first two, but not a second one that hardly matters."""
    return [one for i, one in enumerate(lost[:2]) if not i or one.chip_ns / whole >= _LITTLE]


def _own_time(found: Scheduling) -> Iterator[tuple[str, str]]:
    """What can be said where the capacity is not known: of the jobs' own time, which waiting is part of."""
    bys = [part.by for part in found.segments if part.basis == "jobs"]
    parts = [part for part in found.segments if part.basis == "jobs" and part.by == bys[0]]
    ran, life = sum(part.allocated_ns for part in parts), sum(part.capacity_ns for part in parts)
    if life:
        fit = fleet_scale([life])
        terms = f"{fit.cell(ran)} of {fit.cell(life)} chip-{fit.unit}"
        yield f"jobs' SG {percent(ran / life)}", f"{terms} between first submission and end; not of the fleet"


def _waiting(found: Scheduling) -> str:
    """All of it, and its largest cause."""
    whole = sum(wait.chip_ns for wait in found.waits)
    text = f"{chip_time(whole)} (demand, not capacity)"
    top = max(found.waits, key=lambda wait: wait.chip_ns)
    if not top.chip_ns:
        return text
    return f"{text}; {percent(top.chip_ns / whole)} of it: {cut(top.label or top.cause, LONGEST_LABEL)}"


def _records(found: Scheduling) -> str:
    first = ordered(found)[0]
    at_stake = f", {chip_time(first.chip_ns)} at stake" if first.chip_ns else ""
    rest = f"; {plural(len(found.integrity) - 1, 'more finding')}" if len(found.integrity) > 1 else ""
    return f"{words(first.kind)}{at_stake}{rest}, listed below"
