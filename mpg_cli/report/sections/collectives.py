"""Communication over the ranks: what the transfer itself took, and who waited for whom."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, ranks, table
from mpg_cli.report.sections.communicators import communicators
from mpg_cli.report.sections.remarks import arrivals
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import Scale, decimal, duration, percent, ratio, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Collective, Report

    Field = tuple[Column, Callable[[Collective], str]]

_MOST = 10
_MOST_RANKS = 4
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_ONE_RANK = (
    "Only one rank was given, so how much of this is waiting for other ranks is not known: "
    "a collective's kernel runs while it waits. Give the traces of all ranks to split it."
)


def section(report: Report, *, detail: bool) -> Section:
    """The collectives by the time ranks waited in them; for a single rank, why there is no such split."""
    communicated = sum(device.comm_ns for device in report.devices)
    if not report.collectives and not communicated:
        return EMPTY
    blocks: list[Block] = []
    if report.collectives and _waiters(report.collectives):
        blocks += _split(report.collectives, len(report.collectives) if detail else _MOST)
    else:
        text = f"{duration(communicated)} of communication on {plural(len(report.devices), 'device')}."
        alone = len(ranks(report)) <= 1 and (len(report.devices) == 1 or report.xla is None)
        blocks.append(Line(f"{text} {_ONE_RANK if alone else _unmatched()}"))
    return Section("Collectives", (*blocks, *communicators(report, detail=detail)))


def _unmatched() -> str:
    return "No collective could be matched over the ranks, so waiting and transfer are not told apart."


def _waiters(collectives: Sequence[Collective]) -> list[str]:
    """The ranks that took part; none if every collective was seen by one rank alone."""
    if all(len(collective.wait_ns) < 2 for collective in collectives):
        return []
    found = {rank for collective in collectives for rank in collective.wait_ns}
    return sorted(found, key=lambda rank: (len(rank), rank))


def _total(collective: Collective) -> int:
    return sum(collective.wait_ns.values())


def _split(collectives: Sequence[Collective], most: int) -> list[Block]:
    ordered = sorted(collectives, key=lambda collective: -_total(collective))
    blocks: list[Block] = [Line(text) for text in _sentences(collectives)]
    blocks.append(_table(ordered[:most], _waiters(collectives)))
    if any(collective.near_tie for collective in ordered[:most]):
        blocks.append(Line("~ near tie: either of the last two ranks may have been last.", "dim"))
    if rest := ordered[most:]:
        waited = duration(sum(_total(collective) for collective in rest))
        blocks.append(Line(f"{plural(len(rest), 'more collective')} with {waited} of waiting.", "dim"))
    return blocks


def _sentences(collectives: Sequence[Collective]) -> list[str]:
    wait = sum(_total(collective) for collective in collectives)
    transfer = sum(c.transfer_ns * len(c.wait_ns) for c in collectives)
    sums = (
        f"Over all ranks {duration(transfer)} of transfer and {duration(wait)} of waiting for the last rank."
    )
    texts = [sums]
    if last := arrivals(collectives):
        rank, count, of = last
        clear = "" if of == len(collectives) else " with a clear order"
        counted = f"{count:,} of {plural(of, 'collective')}{clear}"
        texts.append(f"Rank {rank} arrives last in {counted}{_left_out(collectives)}.")
    exposed = sum(collective.exposed_ns for collective in collectives)
    hidden = sum(collective.hidden_ns for collective in collectives)
    if exposed + hidden:
        texts.append(f"{percent(ratio(hidden, exposed + hidden))} of this is hidden behind computing.")
    if text := _why(collectives):
        texts.append(text)
    by = Counter(collective.matched_by for collective in collectives)
    if len(by) > 1 or "order" in by:
        texts.append(
            "Matched by "
            + ", ".join(f"{cut(name, 40) or NONE} ({count:,})" for name, count in by.most_common(4))
            + "."
        )
    return [" ".join(texts)]


def _left_out(collectives: Sequence[Collective]) -> str:
    """What does not count as an arrival, after the sentence about those that do."""
    ties = sum(one.near_tie and not one.transient for one in collectives)
    starts = sum(one.transient for one in collectives)
    found = [plural(ties, "near tie")] if ties else []
    found += [f"{starts:,} at the start of the recording"] if starts else []
    return f", not counting {' and '.join(found)}" if found else ""


def _why(collectives: Sequence[Collective]) -> str:
    """Why the last ranks were late, most frequent first."""
    by = Counter(one.reason for one in collectives if one.late_ns > 0 and not one.transient)
    shown = ", ".join(f"{cut(reason, 20) or NONE} ({count:,})" for reason, count in by.most_common(4))
    return f"The last rank was late because of: {shown}." if shown else ""


def _table(shown: Sequence[Collective], waiters: Sequence[str]) -> Table:
    unit = scale(ns for c in shown for ns in (c.transfer_ns, c.margin_ns, *c.wait_ns.values()))
    fields: list[Field] = [
        (Column("index"), lambda c: str(c.index)),
        (Column(f"transfer\n({unit.unit})"), lambda c: unit.cell(c.transfer_ns)),
        *(_per_rank(waiters, unit) if len(waiters) <= _MOST_RANKS else _longest(unit)),
        (Column("last\nrank"), lambda c: f"{c.last_rank}{' ~' if c.near_tie else ''}"),
        (Column(f"margin\n({unit.unit})", drop=2), lambda c: unit.cell(c.margin_ns)),
    ]
    if any(c.late_ns > 0 or c.transient for c in shown):
        fields.append((Column(f"why late\n({unit.unit})", "left", drop=1), lambda c: _late(c, unit)))
    if any(c.bytes is not None for c in shown):
        fields.append(_sizes(shown))
    if any(c.bus_gbps is not None for c in shown):
        fields.append((Column("bus\nGB/s", drop=4), _bandwidth))
    fields.append((Column("name", "left", code=True, least=16), lambda c: c.name or NONE))
    return table(fields, shown)


def _per_rank(waiters: Sequence[str], unit: Scale) -> list[Field]:
    def field(rank: str) -> Field:
        column = Column(f"wait r{cut(rank, 8)}\n({unit.unit})")
        return column, lambda c: unit.cell(c.wait_ns[rank]) if rank in c.wait_ns else NONE

    return [field(rank) for rank in waiters]


def _longest(unit: Scale) -> list[Field]:
    def who(collective: Collective) -> str:
        return max(collective.wait_ns, key=lambda rank: collective.wait_ns[rank], default=NONE)

    return [
        (Column(f"total wait\n({unit.unit})"), lambda c: unit.cell(_total(c))),
        (Column(f"max wait\n({unit.unit})"), lambda c: unit.cell(max(c.wait_ns.values(), default=0))),
        (Column("by\nrank", least=4), who),
    ]


def _late(collective: Collective, unit: Scale) -> str:
    """`host +535`: on what the last rank spent longer than the median of the others, and by how much."""
    if collective.transient:
        return "start"
    late = collective.late_ns > 0
    return f"{cut(collective.reason, 14)} +{unit.cell(collective.late_ns)}" if late else NONE


def _bandwidth(collective: Collective) -> str:
    return (
        NONE
        if collective.bus_gbps is None or not isfinite(collective.bus_gbps)
        else f"{collective.bus_gbps:,.1f}"
    )


def _sizes(shown: Sequence[Collective]) -> Field:
    """The bytes in a unit that suits the largest, with three decimals."""
    most = max(one.bytes or 0 for one in shown)
    unit, size = next((unit for unit in _SIZES if most >= unit[1]), _SIZES[-1])

    def cell(one: Collective) -> str:
        return NONE if one.bytes is None else decimal((one.bytes * 1000 + size // 2) // size, 3)

    return Column(f"size\n({unit})", drop=3), cell
