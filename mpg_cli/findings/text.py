"""Sentences that rules have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.report.model import Evidence
from mpg_cli.report.units import duration, number, percent

if TYPE_CHECKING:
    from mpg_cli.findings.facts import Facts
    from mpg_cli.findings.waits import Blame
    from mpg_cli.report.model import Hotspot

UNEVEN = 1.5  # a device with this many times its even share is named


def amount(facts: Facts, ns: int, what: str) -> Evidence:
    """`what` with its chip-time, its share, and per step where there are steps."""
    share = percent(ns / facts.capacity_ns)
    steps = facts.device_steps
    per_step = f", {duration(ns // steps)} {per(facts)}" if steps else ""
    return Evidence(f"{what}: {duration(ns)} of chip-time ({share}){per_step}")


def per(facts: Facts) -> str:
    """What a figure per `Facts.device_steps` is of."""
    return "per step" if facts.chips == 1 else "per step and device"


def hotspots(facts: Facts, cause: str, count: int = 2) -> tuple[Evidence, ...]:
    """What the host did in most of a cause's time."""
    return tuple(hotspot(spot, _on(facts, spot)) for spot in _of(facts, cause)[:count])


def _of(facts: Facts, cause: str) -> list[Hotspot]:
    """Its hotspots, largest first; that the host was late comes after what it did."""
    named = [spot for spot in facts.hotspots if spot.cause == cause]
    return sorted(named, key=lambda spot: (spot.thread is None, -spot.chip_ns, spot.name))


def _on(facts: Facts, spot: Hotspot) -> str:
    """The words `, rank 3`, or where other ranks have a part in it, `, longest on rank 3`; "" where it has no rank."""
    if spot.rank is None:
        return ""
    key = (spot.cause, spot.name, spot.frame, spot.chip_ns)
    own = facts.chips == 1 or any(
        (each.cause, each.name, each.frame, each.chip_ns) == key for each in facts.rank_hotspots(spot.rank)
    )
    return f", {'' if own else 'longest on '}rank {spot.rank}"


def hotspot(spot: Hotspot, on: str = "") -> Evidence:
    """One hotspot as evidence; `on`: which ranks it is summed over."""
    text = f"{label(spot)}: {duration(spot.chip_ns)} in {plural(spot.count, 'piece')}{on}"
    return Evidence(text, spot.source, spot.name, spot.thread, spot.start_ns, spot.dur_ns)


def label(spot: Hotspot) -> str:
    """An operator or call, with the Python frame around it."""
    return f"{spot.name} in {spot.frame}" if spot.frame and spot.frame != spot.name else spot.name


def longest(facts: Facts, cause: str) -> tuple[Evidence, ...]:
    """The longest piece of a cause with its place, if there is any."""
    return tuple(_piece(facts, row) for row in facts.largest(cause))


def _piece(facts: Facts, row: dict[str, Any]) -> Evidence:
    source, at, length = row["source"], row["start_ns"], row["length_ns"]
    text = f"longest: {duration(length)}{facts.on(source)}{facts.in_step(source, at)}"
    if row["at_ns"] is None:
        return Evidence(text, facts.paths[source], "", None, at, length)
    text = f"{text}, {_within(row)}"
    return Evidence(text, facts.paths[source], row["name"], row["thread"], row["at_ns"], row["dur_ns"])


def _within(row: dict[str, Any]) -> str:
    """How much of the longest piece rests on the event, and whether it lies in it."""
    part, length = row["part_ns"], row["length_ns"]
    if part == length:
        return f"{'during' if row['inside'] else 'because of'} {row['name']}"
    most = "most" if 2 * part > length else "the largest part"
    return f"{most} of it {'in' if row['inside'] else 'because of'} {row['name']} ({duration(part)})"


def where(facts: Facts, cause: str) -> str:
    """What the host did in most of a cause's time, and the device with more than its share of it."""
    spots = _of(facts, cause)
    parts = [label(spots[0])] if spots else []
    return "; ".join([*parts, *uneven(facts, cause)])


def uneven(facts: Facts, cause: str) -> list[str]:
    """The device that most of a cause's time is on, if it has clearly more than its share."""
    rows = facts.by_subject.filter(cause=cause).sort("chip_ns", descending=True)
    total = int(rows["chip_ns"].sum())
    if facts.chips < 2 or not total:
        return []
    most, source = rows.row(0, named=True)["chip_ns"], rows.row(0, named=True)["source"]
    if most * facts.chips < UNEVEN * total:
        return []
    return [f"{facts.place(source)} has {percent(most / total)} of it"]


def margins(late: Blame) -> str:
    """By how much the next-to-last ranks came before the last: one time, or the shortest and the longest."""
    shortest, longest_ = late.margins
    return duration(shortest) if shortest == longest_ else f"{duration(shortest)} to {duration(longest_)}"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"
