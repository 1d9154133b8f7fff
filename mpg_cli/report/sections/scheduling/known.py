"""What was known: clusters, window, capacity, and how many jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Section
from mpg_cli.report.sections.common import EMPTY
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, SECOND, chip_time, part, plain, stretch
from mpg_cli.report.text import cut, plural
from mpg_cli.report.units import elapsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import Report, Scheduling

_MOST_CLUSTERS = 8
_LEFT_OUT = "not in the account"


def section(report: Report, *, detail: bool) -> Section:
    """The facts that every figure rests on."""
    del detail
    found = report.scheduling
    if found is None:
        return EMPTY
    return Section("What is known of the fleet", (Facts(tuple(_facts(report, found))),))


def _facts(report: Report, found: Scheduling) -> Iterator[tuple[str, str]]:
    yield "clusters", clusters(found) or "the records name none"
    yield "window", ", ".join(fleet_window(found))
    zone = "; the records do not say in which zone, --tz does" if found.naive else ""
    yield "as of", f"{cut(found.as_of, LONGEST_NAME)}; what was not over then counts up to it{zone}"
    yield "capacity", _capacity(report, found)
    yield "jobs", _jobs(found)
    yield "held", f"{chip_time(found.claimed_ns)} by attempts, within the window"
    if found.outside_ns:
        where = "on nodes or at times without known capacity"
        yield "outside", f"{part(found.outside_ns, found.claimed_ns)} of that, {where}: {_LEFT_OUT}"
    if found.excess_ns:
        where = "beyond the chips that its nodes have"
        yield "excess", f"{part(found.excess_ns, found.claimed_ns)} of that, {where}: {_LEFT_OUT}"


def clusters(found: Scheduling) -> str:
    """The clusters' names."""
    names = [cut(name, LONGEST_NAME) for name in found.clusters[:_MOST_CLUSTERS]]
    rest = len(found.clusters) - len(names)
    return ", ".join([*names, f"{rest} more"] if rest else names)


def of_fleet(found: Scheduling) -> Iterator[str]:
    """The clusters, if they have names, and the number of chips, if it is known."""
    if names := clusters(found):
        yield f"cluster {names}" if len(found.clusters) == 1 else f"clusters {names}"
    if found.chips is not None:
        yield plural(found.chips, "chip")


def fleet_window(found: Scheduling) -> list[str]:
    """From when to when, and how long that is."""
    return [stretch(found), elapsed(found.window_ns / SECOND)]


def _capacity(report: Report, found: Scheduling) -> str:
    if found.chips is None:
        return f"not known{_why(report)}"
    basis = plain(found.capacity_basis)
    return f"{plural(found.chips, 'chip')}: {basis}" if basis else plural(found.chips, "chip")


def _why(report: Report) -> str:
    reason = plain(report.goodput.reasons.get("sg", "")).removeprefix("the capacity is not known")
    return reason if reason.startswith(":") else f": {reason}" if reason else ""


def _jobs(found: Scheduling) -> str:
    counted = f"{plural(found.jobs, 'job')}, {plural(found.attempts, 'attempt')}"
    listed = (
        f"; the JSON report lists {found.jobs_listed:,} of them" if found.jobs_listed < found.jobs else ""
    )
    return counted + listed
