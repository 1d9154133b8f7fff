"""What is wrong with the records, where it bears on the figures: counted, with the chip-time at stake.

The notices of reading and stitching say what was met; these are checks on what the records, taken together, imply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling import account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.goodput.scheduling.account import Account
    from mpg_cli.goodput.scheduling.inventory import Inventory, Window

SECOND = 10**9
NEAR = 2 * SECOND
# the columns of attempts that the checks look at
LOOKED_AT = (
    "cluster", "kind", "raw_id", "job", "job_id", "attempt", "array", "restarts", "submit_ns", "start_ns", "end_ns",
    "recorded_start_ns", "resized", "lost", "chips", "state",
)  # fmt: skip
NAMING = ("allocate", "submit")  # events of jobs that the accounting should have


@dataclass(frozen=True)
class Found:
    """One finding; chip_ns is None where the chip-time at stake is not known."""

    kind: str
    message: str
    count: int
    chip_ns: int | None


def without_duplicates(attempts: pl.DataFrame) -> Iterator[Found]:
    """Jobs that were requeued, of which only the last record is there: exported without -D (--duplicates).

    Told by the number of restarts, or by a submission later than that of jobs with higher numbers, which requeueing
    resets. Members of arrays get their numbers late, and are no measure for the others.
    """
    first = attempts.filter(col.kind == "job", col.attempt == 1)
    counted = attempts.group_by("job_id").agg(records=col.attempt.max(), restarts=col.restarts.max())
    short = counted.filter(col.restarts + 1 > col.records)
    missing = set(short["job_id"]) | set(_resubmitted(first, attempts["end_ns"].min())["job_id"])
    if not missing:
        return
    one = attempts.filter(col.job_id.is_in(list(missing)))["job"][0]
    message = (
        f"{len(missing)} job{'s were' if len(missing) != 1 else ' was'} requeued (such as {one}), but earlier attempts "
        "are not in the records: what they held is missing, and SG is too low. Ask sacct with -D (--duplicates)"
    )
    yield Found("no_duplicates", message, len(missing), None)


def _resubmitted(first: pl.DataFrame, since: object) -> pl.DataFrame:
    """First records that were submitted after a job with a higher number was, though not after one with a lower.

    The latter are those whose numbers have begun anew. since: the first end of any; what ended before that may only lie
    outside the period that was asked for.
    """
    numbered = first.with_columns(number=col.raw_id.cast(pl.Int64, strict=False)).filter(
        col.number.is_not_null(), col.submit_ns.is_not_null(), col.array.is_null()
    )
    later = numbered.sort("cluster", "number", descending=True)
    above = col.submit_ns.cum_min().shift(1).over("cluster")
    below = col.submit_ns.cum_min(reverse=True).shift(-1).over("cluster")
    again = (col.submit_ns > above + NEAR) & (below <= above)
    return later.filter(again, col.submit_ns >= pl.lit(since, pl.Int64))


def resized(attempts: pl.DataFrame, window: Window) -> Iterator[Found]:
    """Resized jobs, whose second record may begin with the first: what a plain sum counts twice."""
    twice = account.counted_twice(attempts)
    if twice.is_empty():
        return
    ns = account.chip_time(account.clipped(twice, window))
    jobs = ", ".join(sorted(set(twice["job"]))[:5])
    message = (
        f"the record of a resized job (job {jobs}) begins where the first one did: counted from the resize on"
    )
    yield Found("resized_twice", message, twice.height, ns)


def lost(attempts: pl.DataFrame, window: Window) -> Iterator[Found]:
    """Attempts that the controller's log has and the accounting has not."""
    rows = attempts.filter(col.lost)
    if rows.is_empty():
        return
    ns = account.chip_time(account.clipped(rows.with_columns(col.chips.fill_null(0)), window))
    jobs = ", ".join(sorted(set(rows["job"]))[:5])
    message = (
        f"attempts that only the controller's log has (job {jobs}): the accounting lost them, we count them"
    )
    yield Found("lost_attempts", message, rows.height, ns)


def phantoms(inventory: Inventory, window: Window) -> Iterator[Found]:
    """Chips that the scheduler counts as in use where nothing runs."""
    rows = account.clipped(inventory.unavailable.filter(col.cause == "leaked"), window)
    if rows.is_empty():
        return
    named = (
        rows.join(inventory.nodes.select(subject="node", name="name"), on="subject")["name"].unique().sort()
    )
    nodes = ", ".join(named.head(5)) + (", …" if named.len() > 5 else "")
    message = (
        f"nodes whose chips count as in use, though nothing runs there ({nodes}): they can be given to no job"
    )
    yield Found("phantom_allocation", message, named.len(), account.chip_time(rows))


def absent(attempts: pl.DataFrame, pending: pl.DataFrame, events: pl.DataFrame) -> Iterator[Found]:
    """Jobs that a queue or a log names, and no record has: never eligible ones are in no `sacct -S` query."""
    known = attempts.select("cluster", "raw_id").unique()
    named = pl.concat(
        [
            pending.select("cluster", "raw_id"),
            events.filter(col.raw_id.is_not_null(), col.event.is_in(NAMING)).select("cluster", "raw_id"),
        ]
    ).unique()
    missing = named.join(known, on=["cluster", "raw_id"], how="anti", nulls_equal=True)
    if missing.is_empty() or missing.height == named.height:
        return
    ids = ", ".join(missing["raw_id"].sort().head(5))
    message = (
        f"jobs that a log or queue names, but not the records (such as {ids}): other periods, or never eligible, which "
        "only `sacct -j` shows"
    )
    yield Found("jobs_absent", message, missing.height, None)


def clipped_by_window(attempts: pl.DataFrame, window: Window) -> Iterator[Found]:
    """Attempts of which part lies outside the window."""
    held = attempts.filter(col.start_ns.is_not_null(), col.end_ns > col.start_ns)
    over = held.filter(
        (col.start_ns < window.start_ns) & (col.end_ns > window.start_ns)
        | (col.start_ns < window.end_ns) & (col.end_ns > window.end_ns)
    )
    if over.is_empty():
        return
    rows = over.with_columns(col.chips.fill_null(0))
    outside = account.chip_time(rows) - account.chip_time(account.clipped(rows, window))
    message = "attempts that began before the window or went on after it: only what lies inside is counted"
    yield Found("window_clipping", message, over.height, outside)


def of_capacity(inventory: Inventory, closed: Account | None, attempts: pl.DataFrame) -> Iterator[Found]:
    """Capacity that is not known, or not what the allocations say."""
    unknown = attempts.filter(col.start_ns.is_not_null(), col.chips.is_null())
    if unknown.height:
        message = (
            "attempts whose chips are not recorded: is gres/gpu in AccountingStorageTRES? They count as none"
        )
        yield Found("chips_unknown", message, unknown.height, None)
    if closed is None:
        message = "the capacity is not known: SG of the fleet is not defined; it is not guessed from the most in use"
        yield Found("capacity_unknown", message, 1, None)
        return
    if "all the time" in inventory.basis or inventory.basis == "--capacity":
        message = "the capacity is assumed to have been the same all the time: no history of it is given"
        yield Found("capacity_assumed", message, 1, None)
    if closed.outside_ns:
        message = "held by attempts on nodes, or at times, for which no capacity is known: not in the account"
        yield Found("outside_capacity", message, 1, closed.outside_ns)
    if closed.excess_ns:
        message = "held by attempts beyond the chips that their nodes have: not in the account"
        yield Found("oversubscribed", message, 1, closed.excess_ns)


def reused(attempts: pl.DataFrame) -> Iterator[Found]:
    """Numbers that more than one job had."""
    jobs = attempts.filter(col.kind == "job").group_by("cluster", "job").agg(col.job_id.n_unique())
    again = jobs.filter(col.job_id > 1)
    if again.height:
        message = f"job numbers that more than one job had (such as {again['job'].sort()[0]}): told apart"
        yield Found("job_id_reused", message, again.height, None)
