"""Why the chips were idle: idle time by cause, and by what was behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, labels, ranks, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import duration, median, number, scale, stamp, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Hotspot, Report

    Field = tuple[Column, Callable[[Hotspot], str]]

_MOST, _MOST_IN_DETAIL = 10, 50
_ABOUT = (
    "Idle time by what caused it: what the host was doing, the wait that had emptied the device, or what came next. "
    "ts, where there is room for it, is of the event with most of it, or of the launch that came next:"
)


def section(report: Report, *, detail: bool) -> Section:
    """The largest hotspots, each with the event that has most of it, as it can be found in the trace."""
    ordered = sorted(report.hotspots, key=lambda hotspot: -hotspot.chip_ns)
    if not ordered:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    shown, rest = ordered[:most], ordered[most:]
    blocks: list[Block] = [Line(_ABOUT), _table(report, shown)]
    if rest:
        left = duration(sum(hotspot.chip_ns for hotspot in rest))
        blocks.append(Line(f"The JSON report lists {plural(len(rest), 'more place')} with {left}.", "dim"))
    return Section("Why the chips were idle", tuple(blocks))


def _table(report: Report, shown: Sequence[Hotspot]) -> Table:
    time = scale(hotspot.chip_ns for hotspot in shown)
    lengths = [hotspot.dur_ns for hotspot in shown if hotspot.dur_ns is not None]
    each = scale(lengths, typical=median(lengths)) if lengths else time
    names = labels(report)
    fields: list[Field] = [
        (Column(f"idle\n(chip-{time.unit})"), lambda h: time.cell(h.chip_ns)),
        (Column("share\n%"), lambda h: tenths(h.share)),
        (Column("cause", "left", least=20, head=0.8), lambda h: names.get(h.cause, cut(h.cause, 40)) or NONE),
        (Column("pieces", drop=1), lambda h: number(h.count)),
        (Column("caused by", "left", least=20, head=0.6), lambda h: h.name or NONE),
    ]
    if any(hotspot.frame for hotspot in shown):
        fields.append((Column("Python frame", "left", least=20, drop=4, head=0.3), lambda h: h.frame or NONE))
    if any(hotspot.start_ns is not None for hotspot in shown):
        fields += [
            (
                Column(f"event\n({each.unit})", drop=5),
                lambda h: NONE if h.dur_ns is None else each.cell(h.dur_ns),
            ),
            *_where(report),
            (Column("ts\n(µs)", drop=3), lambda h: NONE if h.start_ns is None else stamp(h.start_ns)),
            (Column("thread", drop=6), lambda h: NONE if h.thread is None else str(h.thread)),
        ]
    return table(fields, shown)


def _where(report: Report) -> list[Field]:
    """The rank or file of the event shown, where there are several; the same may happen on the others."""
    if len(ranks(report)) > 1:
        return [(Column("on\nrank", drop=2), lambda h: number(h.rank))]
    if len(report.sources) > 1:
        return [
            (
                Column("in\nfile", "left", code=True, least=10, drop=2),
                lambda h: h.source.rpartition("/")[2] or NONE,
            )
        ]
    return []
