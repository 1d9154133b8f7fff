"""Communication over the ranks: what the transfer itself took, and who waited for whom."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, ranks, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import Scale, decimal, duration, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Collective, Report

    Field = tuple[Column, Callable[[Collective], str]]

_MOST = 10
_MOST_RANKS = 4
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
        blocks.append(Line(f"{text} {_ONE_RANK}" if len(ranks(report)) <= 1 else f"{text} {_unmatched()}"))
    return Section("Collectives", tuple(blocks))


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
    waited_for = [collective for collective in collectives if _total(collective) > 0]
    texts = [sums]
    late, times = (
        Counter(collective.last_rank for collective in waited_for).most_common(1)[0] if waited_for else (0, 0)
    )
    if 2 * times > len(waited_for):
        texts.append(f"Rank {late} arrives last in {times:,} of {plural(len(waited_for), 'collective')}.")
    by = Counter(collective.matched_by for collective in collectives)
    if len(by) > 1 or "order" in by:
        texts.append(
            "Matched by "
            + ", ".join(f"{cut(name, 40) or NONE} ({count:,})" for name, count in by.most_common(4))
            + "."
        )
    return [" ".join(texts)]


def _table(shown: Sequence[Collective], waiters: Sequence[str]) -> Table:
    unit = scale(ns for c in shown for ns in (c.transfer_ns, c.margin_ns, *c.wait_ns.values()))
    fields: list[Field] = [
        (Column("index"), lambda c: str(c.index)),
        (Column(f"transfer\n({unit.unit})"), lambda c: unit.cell(c.transfer_ns)),
        *(_per_rank(waiters, unit) if len(waiters) <= _MOST_RANKS else _longest(unit)),
        (Column("last\nrank"), lambda c: str(c.last_rank)),
        (Column(f"margin\n({unit.unit})", drop=2), lambda c: unit.cell(c.margin_ns)),
    ]
    if any(c.bytes is not None for c in shown):
        fields.append((Column("size\n(MB)", drop=1), _megabytes))
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


def _megabytes(collective: Collective) -> str:
    return NONE if collective.bytes is None else decimal((collective.bytes + 500) // 1000, 3)
