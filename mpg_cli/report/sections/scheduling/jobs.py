"""The jobs that waited for most chip-time; without waits those that held most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.sections.scheduling.common import (
    LONGEST_NAME,
    SECOND,
    asked,
    cause_labels,
    fleet_scale,
    label,
    waiting_ns,
)
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import elapsed, number, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mpg_cli.report.model import Job, Report

    Field = tuple[Column, Callable[[Job], str]]

_MOST, _MOST_IN_DETAIL = 10, 100
_USER = "user"


def section(report: Report, *, detail: bool) -> Section:
    """A bounded table; the JSON report has every job with its attempts and their waits."""
    if not report.jobs:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    waited = sorted((job for job in report.jobs if waiting_ns(job)), key=lambda job: -waiting_ns(job))
    held = sorted(report.jobs, key=lambda job: -job.chip_seconds)
    shown = (waited or held)[:most]
    title = "Jobs that waited for most chip-time" if waited else "Jobs that held most chip-time"
    blocks: list[Block] = [_table(shown, cause_labels(report), waited=bool(waited))]
    return Section(title, (*blocks, *_rest(report, len(shown))))


def _rest(report: Report, shown: int) -> list[Block]:
    total = report.scheduling.jobs if report.scheduling else len(report.jobs)
    if total <= shown:
        return []
    return [
        Line(
            f"{plural(total - shown, 'more job')}. The JSON report lists {len(report.jobs):,}, by attempt.",
            "dim",
        )
    ]


def _table(rows: Sequence[Job], names: Mapping[str, str], *, waited: bool) -> Table:
    amount: Callable[[Job], int] = waiting_ns if waited else _held_ns
    time = fleet_scale(amount(job) for job in rows)
    word = "waited" if waited else "held"
    fields: list[Field] = [
        (Column("job", "left", code=True, least=8), lambda job: cut(job.job, LONGEST_NAME) or NONE),
        (Column(_USER, "left", code=True, least=8, drop=2), lambda job: cut(job.user or NONE, LONGEST_NAME)),
        (Column("chips"), lambda job: number(asked(job))),
        (Column(f"chip-{time.unit}\n{word}"), lambda job: time.cell(amount(job))),
        (Column("waited"), lambda job: elapsed(job.queue_wait_s)),
        (Column("mostly for", "left", least=40, head=0.8), lambda job: _mostly(job, names)),
        (Column("ran", drop=3), lambda job: elapsed(job.run_s)),
        (Column("SG %", drop=1), lambda job: tenths(job.sg)),
        (Column("tries", drop=5), lambda job: number(len(job.attempts))),
        (Column("state", "left", least=8, drop=4), lambda job: cut(job.state or NONE, LONGEST_NAME)),
    ]
    named = any(job.user for job in rows)
    return table([field for field in fields if named or field[0].header != _USER], rows)


def _held_ns(job: Job) -> int:
    return round(job.chip_seconds * SECOND)


def _mostly(job: Job, names: Mapping[str, str]) -> str:
    """The cause with most of the waiting of all its attempts."""
    sums: dict[str, float] = {}
    for attempt in job.attempts:
        for cause, seconds in attempt.waits.items():
            sums[cause] = sums.get(cause, 0.0) + seconds
    cause = max(sums, key=lambda one: sums[one], default="")
    return label(cause, names) if cause and sums[cause] > 0 else NONE
