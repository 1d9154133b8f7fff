"""A few words beside a row of the ledger: what most of it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import fleet_only
from mpg_cli.report.text import cut
from mpg_cli.report.units import percent, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Collective, Communicator, Hotspot, Report, Scheduling

_LONGEST_NAME = 48
_MOST_OF_IT = 0.6


def remarks(report: Report) -> dict[str, str]:
    """By cause: its largest hotspot, who arrives last, the largest exposed communication, the largest operator."""
    found = _idle(report)
    if last := arrivals(report.collectives):
        rank, count, of = last
        all_clear = of == len(report.collectives)
        counted = f" in {count:,} of {of:,}" if all_clear else f", {count:,} of {of:,} with a clear order"
        found["communication_wait"] = f"rank {rank} last{counted}"
    if report.communicators:
        found["communication"] = _hidden(max(report.communicators, key=lambda one: one.exposed_ns))
    if not report.unmodelled and not report.ops and any(row.cause == "unmodelled" for row in report.ledger):
        found["unmodelled"] = "the rest: FLOPs are known of the whole"
    if report.unmodelled:
        found["unmodelled"] = cut(max(report.unmodelled, key=lambda one: one.time_ns).op, _LONGEST_NAME)
    return found if report.scheduling is None or not fleet_only(report) else _pools(report.scheduling)


def _pools(found: Scheduling) -> dict[str, str]:
    """By cause, the pool or type of chips in which most of it is, where there are several."""
    fleet = [part for part in found.segments if part.basis == "fleet"]
    pools = [part for part in fleet if part.by == fleet[0].by]
    told: dict[str, str] = {}
    for cause in dict.fromkeys(cause for pool in pools for cause in pool.causes):
        most = max(pools, key=lambda pool: pool.causes.get(cause, 0))
        share = ratio(most.causes.get(cause, 0), sum(pool.causes.get(cause, 0) for pool in pools))
        if len(pools) > 1 and share and share > _MOST_OF_IT:
            amount = "all" if share == 1 else percent(share)
            told[cause] = f"{amount} in {cut(most.key, _LONGEST_NAME)}"
    return told


def _idle(report: Report) -> dict[str, str]:
    """The largest hotspot of every cause that has one."""
    largest: dict[str, Hotspot] = {}
    for hotspot in report.hotspots:
        known = largest.get(hotspot.cause)
        # what the host did says more than that it was late
        if known is None or (hotspot.thread is not None, hotspot.chip_ns) > (
            known.thread is not None,
            known.chip_ns,
        ):
            largest[hotspot.cause] = hotspot
    return {cause: cut(hotspot.name, _LONGEST_NAME) for cause, hotspot in largest.items()}


def settled(collectives: Sequence[Collective]) -> list[Collective]:
    """The collectives in which ranks waited and one was last: neither a near tie nor the start of the recording."""
    return [c for c in collectives if sum(c.wait_ns.values()) > 0 and not c.near_tie and not c.transient]


def arrivals(collectives: Sequence[Collective]) -> tuple[int, int, int] | None:
    """The rank that is last in more than half of the settled collectives, in how many, and of how many."""
    counted = settled(collectives)
    if not counted:
        return None
    last, count = Counter(one.last_rank for one in counted).most_common(1)[0]
    return (last, count, len(counted)) if 2 * count > len(counted) else None


def _hidden(communicator: Communicator) -> str:
    share = ratio(communicator.hidden_ns, communicator.time_ns)
    return f"{cut(communicator.name, _LONGEST_NAME)} {percent(share)} hidden"
