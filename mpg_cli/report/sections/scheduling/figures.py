"""What the first lines say of a fleet besides its ratios: jobs, waits, and what is odd about the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import LONGEST_LABEL
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, chip_time, part, words
from mpg_cli.report.sections.scheduling.endings import unfinished
from mpg_cli.report.sections.scheduling.integrity import ordered
from mpg_cli.report.text import cut, plural
from mpg_cli.report.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import Report, Scheduling


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """(label, text) of what there is."""
    found = report.scheduling
    if found is None:
        return
    yield "jobs", _jobs(found)
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
    share = part(chip_ns, sum(ending.chip_ns for ending in found.endings))
    return f"{text}; {share}, in attempts that did not finish, most of it {cut(lost[0].state, LONGEST_NAME)}"


def _waiting(found: Scheduling) -> str:
    """All of it, and its largest cause."""
    whole = sum(wait.chip_ns for wait in found.waits)
    text = f"{chip_time(whole)} asked for and not yet given (demand, not capacity)"
    top = max(found.waits, key=lambda wait: wait.chip_ns)
    if not top.chip_ns:
        return text
    return f"{text}; {percent(top.chip_ns / whole)} of it: {cut(top.label or top.cause, LONGEST_LABEL)}"


def _records(found: Scheduling) -> str:
    first = ordered(found)[0]
    at_stake = f", {chip_time(first.chip_ns)} at stake" if first.chip_ns else ""
    rest = f" and {len(found.integrity) - 1:,} more" if len(found.integrity) > 1 else ""
    return f"{words(first.kind)}{at_stake}{rest}: see what is odd about them, below"
