"""What is said of a table after reading it: the row of `sources` and its notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.errors import Notice, listed
from mpg_parsers.tables import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_parsers.jobtable.choose import Plan
    from mpg_parsers.jobtable.rows import Tally
    from mpg_parsers.jobtable.values import Clock

# what may be odd about rows that are kept: the notice's kind and what it says of a number of them
ODD = {
    "fractional": (
        "fractional_chips",
        "numbers of chips that are fractions, rounded up as shared chips count whole",
    ),
    "submit_after_start": ("submit_after_start", "jobs that the table has submitted after they start"),
    "run_differs": (
        "run_differs",
        "jobs that ran longer or shorter than from start to end, which were taken",
    ),
    "chip_time_differs": ("chip_time_differs", "rows whose chip-time is not chips times the time they ran"),
    "repeated_ids": (
        "repeated_ids",
        (
            "rows with the id and submission of an earlier row, which count as jobs of their own, named …#2 (if "
            "they are attempts of one job, name the column that numbers them: --map attempt=COLUMN)"
        ),
    ),
}
PLACED = {
    "instant": "the only time of a job, {column}, is taken for its start; if it is the submission, jobs ran later than "
    "shown. How long they waited is unknown",
    "submit": "nothing tells when jobs started: each is placed at its submission ({column}), as if it had not waited. "
    "How long they waited is unknown",
}


def source_row(
    plan: Plan, tally: Tally, clock: Clock, notices: Sequence[Notice], *, relative: bool
) -> pl.DataFrame:
    """The row of `sources` of a table of jobs."""
    every = [
        *notices,
        *bad_rows(tally.bad, tally.first_bad),
        *_unread(tally),
        *_odd(tally),
        *_times(plan, tally, clock),
    ]
    if plan.notice:
        every.append(Notice("mapping", plan.notice))
    return row(
        plan.name,
        tally.rows,
        every,
        first_ns=tally.first_ns,
        last_ns=tally.last_ns,
        naive_time=naive(clock, relative=relative),
    )


def row(version: str, events: int, notices: Sequence[Notice], **more: Any) -> pl.DataFrame:  # noqa: ANN401 - columns
    """The row of `sources`: events are rows, the latest time is what the file proves."""
    content = {
        "format": "job-table",
        "format_version": version or None,
        "as_of_ns": more.get("last_ns"),
        "events": events,
        "notices": listed(notices),
        **more,
    }
    return SOURCES.conform(pl.DataFrame([content], infer_schema_length=None))


def naive(clock: Clock, *, relative: bool) -> bool | None:
    """As in the column naive_time: null where there were no wall times."""
    if clock.naive or clock.relative or relative:
        return True
    return False if clock.walls else None


def bad_rows(bad: dict[str, int], first: dict[str, int]) -> list[Notice]:
    """A notice for every reason to leave rows out."""
    return [
        Notice(
            "bad_row",
            f"{_count(count, 'row was', 'rows were')} left out: {why} (first on line {first[why]})",
            count,
        )
        for why, count in sorted(bad.items())
    ]


def _unread(tally: Tally) -> list[Notice]:
    return [
        Notice(
            "bad_value",
            f"{_count(count, 'value', 'values')} of {name} could not be read and count as unknown",
            count,
        )
        for name, count in sorted(tally.unread.items())
    ]


def _odd(tally: Tally) -> list[Notice]:
    return [
        Notice(kind, f"{text}: {tally.odd[name]}", tally.odd[name])
        for name, (kind, text) in ODD.items()
        if tally.odd[name]
    ]


def _times(plan: Plan, tally: Tally, clock: Clock) -> list[Notice]:
    found = []
    if plan.place in PLACED:
        column = plan.columns[plan.place].columns[0]
        found.append(Notice("start_unknown", PLACED[plan.place].format(column=column), tally.kept))
    elif not plan.has("submit") and not plan.has("wait"):
        text = "nothing tells when jobs were submitted: how long they waited is unknown"
        found.append(Notice("no_submit_time", text, tally.kept))
    if not plan.has("chips") and plan.has("chips_requested"):
        column = plan.columns["chips_requested"].columns[0]
        text = f"the table has only the chips that were asked for ({column}): they count as those allocated"
        found.append(Notice("chips_requested", text, tally.kept))
    if clock.relative:
        text = "its times are no dates but count from a beginning that it does not tell: they stand in 1970"
        found.append(Notice("relative_time", text))
    if clock.unsure:
        text = f"{clock.unsure} wall times happened twice or never in the time zone given"
        found.append(Notice("ambiguous_time", text, clock.unsure))
    return found


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
