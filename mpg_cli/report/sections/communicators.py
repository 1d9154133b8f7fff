"""Communication by collective and process group: how much is hidden, how fast, and who is last."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Table
from mpg_cli.report.sections.common import more, table
from mpg_cli.report.text import NONE, cut, ranges
from mpg_cli.report.units import number, ratio, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Communicator, Report

    Field = tuple[Column, Callable[[Communicator], str]]

_MOST, _MOST_IN_DETAIL = 8, 100
_MOST_REASONS = 3


def communicators(report: Report, *, detail: bool) -> list[Block]:
    """One row per communicator, most exposed time first; then why some cells are empty."""
    ordered = sorted(report.communicators, key=lambda one: -one.exposed_ns)
    if not ordered:
        return []
    most = _MOST_IN_DETAIL if detail else _MOST
    shown = ordered[:most]
    reasons = list(dict.fromkeys(cut(one.reason, 200) for one in shown if one.reason))
    notes = [Line(f"Transfer and waiting not known: {reason}.", "dim") for reason in reasons[:_MOST_REASONS]]
    heading = Line("By collective and process group, summed over the ranks:")
    return [heading, _table(shown), *more(len(ordered), most, "group"), *notes]


def _table(shown: Sequence[Communicator]) -> Table:
    time = scale(one.time_ns for one in shown)
    split: list[Field] = [
        (Column(f"transfer\n({time.unit})", drop=2), lambda one: _cell(one.transfer_ns)),
        (Column(f"wait\n({time.unit})"), lambda one: _cell(one.wait_ns)),
        (Column("last most\noften", "left", drop=1), _last),
    ]

    def _cell(ns: int | None) -> str:
        return NONE if ns is None else time.cell(ns)

    fields: list[Field] = [
        (Column("count"), lambda one: number(one.count)),
        (Column(f"time\n({time.unit})", drop=4), lambda one: time.cell(one.time_ns)),
        (Column("hidden\n%"), lambda one: tenths(ratio(one.hidden_ns, one.time_ns))),
        (Column(f"exposed\n({time.unit})"), lambda one: time.cell(one.exposed_ns)),
        *(split if any(one.wait_ns is not None for one in shown) else []),
    ]
    if any(one.bus_gbps is not None for one in shown):
        fields.append((Column("bus\nGB/s"), _bandwidth))
    fields += [
        (Column("ranks", "left", least=5, drop=3), _ranks),
        (Column("scope", "left", least=7, drop=5), lambda one: cut(one.scope, 12) or NONE),
        (Column("collective, group", "left", code=True, least=16), _name),
    ]
    return table(fields, shown)


def _last(one: Communicator) -> str:
    """The rank that was last most often, and in how many."""
    if not one.last:
        return NONE
    rank = max(one.last, key=lambda name: one.last[name])
    return f"rank {cut(rank, 8)} ({one.last[rank]:,})"


def _bandwidth(one: Communicator) -> str:
    """A lower bound where the ranks' waiting could not be taken off."""
    if one.bus_gbps is None or not isfinite(one.bus_gbps):
        return NONE
    return f"{'' if one.transfer_ns is not None else '≥'}{one.bus_gbps:,.1f}"


def _ranks(one: Communicator) -> str:
    size = f" of {one.size}" if one.size and one.size > len(one.ranks) else ""
    return f"{cut(ranges(one.ranks), 24)}{size}" if one.ranks else NONE


def _name(one: Communicator) -> str:
    return ", ".join(text for text in (one.name, one.group) if text) or NONE
