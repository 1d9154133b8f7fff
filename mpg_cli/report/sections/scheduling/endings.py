"""How attempts ended, and the chip-time of those that did not finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Column, Line, Row, Section, Table
from mpg_cli.report.sections.common import EMPTY, more
from mpg_cli.report.sections.scheduling.common import LONGEST_NAME, fleet_scale, part, shares
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import apportion, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.blocks import Hue
    from mpg_cli.report.model import Ending, Report, Scheduling

_MOST, _MOST_IN_DETAIL = 12, 100
_FINISHED, _OPEN, _WENT_ON, _LOST = "finished", "not over", "went on, resized", "did not finish"
_UNKNOWN = "not known"
_OPEN_STATES = {"RUNNING", "PENDING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING"}
_HUES: dict[str, Hue] = {
    _FINISHED: "computing",
    _OPEN: "computing",
    _WENT_ON: "computing",
    _LOST: "runtime",
    _UNKNOWN: "other",
}


def section(report: Report, *, detail: bool) -> Section:
    """The states by chip-time, and what those that did not finish sum to."""
    found = report.scheduling
    if found is None or not found.endings:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    rest = more(len(found.endings), most, "state")
    return Section("How attempts ended", (Line(_summary(found)), _table(found.endings, most), *rest))


def outcome(ending: Ending) -> str:
    """What the state means for the work."""
    if ending.finished is None:
        return _UNKNOWN
    if ending.finished:
        return _FINISHED
    state = ending.state.upper()
    return _OPEN if state in _OPEN_STATES else _WENT_ON if state == "RESIZING" else _LOST


def unfinished(found: Scheduling) -> list[Ending]:
    """The endings without a result, most chip-time first."""
    return sorted((e for e in found.endings if outcome(e) == _LOST), key=lambda e: -e.chip_ns)


def _summary(found: Scheduling) -> str:
    lost = sum(ending.chip_ns for ending in unfinished(found))
    if all(ending.finished is None for ending in found.endings):
        return "The records do not say how attempts ended."
    if not lost:
        return "No chip-time went to attempts that did not finish."
    whole = sum(ending.chip_ns for ending in found.endings)
    return (
        f"{part(lost, whole)} of the chip-time, went to attempts that did not finish. How much of it a checkpoint "
        "saved, the scheduler does not know:"
    )


def _table(endings: Sequence[Ending], most: int) -> Table:
    rows = sorted(endings, key=lambda ending: -ending.chip_ns)
    amounts = [ending.chip_ns for ending in rows]
    time = fleet_scale(amounts)
    parts = shares(apportion(amounts, 1000))
    longest = max(amounts, default=0) or 1
    body = tuple(
        Row(
            (
                cut(ending.state, LONGEST_NAME) or NONE,
                outcome(ending),
                time.cell(ending.chip_ns),
                share,
                number(ending.attempts),
            ),
            "plain" if ending.chip_ns else "dim",
            ending.chip_ns / longest,
            _HUES[outcome(ending)],
        )
        for ending, share in zip(rows[:most], parts, strict=False)
    )
    columns = (
        Column("state", "left", least=12),
        Column("work", "left", least=8),
        Column(f"chip-{time.unit}"),
        Column("share %"),
        Column("attempts", drop=1),
    )
    return Table(columns, body, bars=True)
