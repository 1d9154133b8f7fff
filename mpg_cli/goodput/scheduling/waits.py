"""Why jobs waited: every nanosecond from submission to start, by cause.

Until it is eligible a job waits for what its user told it to (a dependency, a begin time), or for the scheduler to let
a requeued one try again. From then on free chips are replayed over time: too few of them, enough but not on the nodes
it needs, enough nodes but not in one place, or it would have fitted, and something else held it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.scheduling.demand import STATUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.goodput.scheduling.inventory import Window

# before it could start, and after; the report keeps this order
BEFORE = ("dependency", "begin_time", "hold", "array_limit", "requeue_delay", "not_eligible")
AFTER = (
    "limit", "shortage", "unavailable", "fragmentation", "topology", "priority", "latency", "unplaced", "unknown",
)  # fmt: skip
CAUSES = (*BEFORE, *AFTER)
# what the scheduler's reason says of the time before a job was eligible
_REASONS = {
    "dependency": "dependency", "begintime": "begin_time", "jobheld": "hold", "job_held": "hold",
    "jobarraytasklimit": "array_limit", "held": "hold", "dependencyneversatisfied": "dependency",
}  # fmt: skip
_HOLDS = {
    "dependency": "dependency",
    "begin_time": "begin_time",
    "held": "hold",
    "array_limit": "array_limit",
}


HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT")  # states of jobs that were requeued and are held

# what the replay needs of a waiting attempt
_KEPT = (
    "id", "kind", "cluster", "partition", "chip_type", "chips", "chips_requested", "node_count", "switches",
    "switches_wait_ns", "reason", "priority", "submit_ns", "eligible_ns", "until_ns", "before",
)  # fmt: skip


def spans(attempts: pl.DataFrame) -> pl.DataFrame:
    """The wait of each attempt that has one: what it asks for, submit_ns, eligible_ns, until_ns, and before.

    The last is the cause of the time until it was eligible, which is not after the start, and is the end of the wait
    of what never was. What is held to the end is recorded as eligible all the same.
    """
    # pods wait to be scheduled, and start later
    waits = attempts.filter(col.queue_wait_ns > 0).with_columns(until_ns=col.submit_ns + col.queue_wait_ns)
    never = pl.when(col.eligible_known).then("until_ns").otherwise("submit_ns")
    stated = pl.when(_kept_back().is_not_null()).then("until_ns").otherwise(pl.coalesce("eligible_ns", never))
    eligible = pl.min_horizontal(pl.max_horizontal(stated, "submit_ns"), "until_ns")
    return waits.with_columns(eligible_ns=eligible, before=_before()).select(_KEPT)


def _kept_back() -> pl.Expr:
    """What kept a job back that never started, if the last that was said of it is that: a hold, or an array's limit."""
    plain = col.reason.str.to_lowercase().str.replace_all("[^a-z]", "")
    held = plain.str.contains("held").fill_null(value=False) | col.state.is_in(HELD).fill_null(value=False)
    array = (plain == "jobarraytasklimit").fill_null(value=False)
    told = pl.when(held).then(pl.lit("hold")).when(array).then(pl.lit("array_limit"))
    return pl.when(col.start_ns.is_null()).then(told)


def _before() -> pl.Expr:
    """The cause of the time until the job was eligible."""
    hold = col.holds.str.json_decode(pl.List(pl.String)).list.first().replace_strict(_HOLDS, default=None)
    plain = col.reason.str.to_lowercase().str.replace_all("[^a-z]", "")
    reason = plain.replace_strict(_REASONS, default=None, return_dtype=pl.String)
    held = pl.when(plain.str.starts_with("jobheld")).then(pl.lit("hold"))
    again = pl.when((col.attempt > 1) & ~col.resized).then(pl.lit("requeue_delay"))
    array = pl.when(col.array.is_not_null()).then(pl.lit("array_limit"))
    return pl.coalesce(_kept_back(), again, reason, held, hold, array, pl.lit("not_eligible"))


def within(waits: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The parts of the waits that lie in the window."""
    edges = pl.lit(window.start_ns), pl.lit(window.end_ns)
    cut = waits.with_columns(col("submit_ns", "eligible_ns", "until_ns").clip(*edges))
    return cut.filter(col.submit_ns < col.until_ns)


def decompose(waits: pl.DataFrame, segments: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """Every wait by cause: id, cause, wait_ns; the rows of one id add up to its wait.

    waits: see `spans` and `demand.classify`; segments: see `demand.timelines`; first: see `demand.first_in_line`.
    """
    before = waits.select("id", cause="before", wait_ns=col.eligible_ns - col.submit_ns)
    after = _by_status(waits, segments)
    mine = first.join(waits.select("id"), on="id", how="semi")
    latency = _first_and_fits(mine, segments)
    return _named(pl.concat([before, after]), latency)


def _by_status(waits: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The time from eligible to start by status: differences of running totals, so that it is linear in both."""
    length = col.end_ns - col.start_ns
    totals = segments.sort("class", "start_ns").with_columns(
        pl.when(col.status == status).then(length).otherwise(0).cum_sum().over("class").alias(status)
        for status in STATUSES
    )
    since = _totals_at(waits.select("id", "class", at="eligible_ns"), totals)
    until = _totals_at(waits.select("id", "class", at="until_ns"), totals)
    both = (
        waits.select("id", whole=col.until_ns - col.eligible_ns)
        .join(since, on="id")
        .join(until, on="id", suffix="_b")
    )
    parts = both.select(
        "id", "whole", *((col(f"{status}_b") - col(status)).alias(status) for status in STATUSES)
    )
    parts = parts.with_columns(unknown=col.whole - pl.sum_horizontal(STATUSES)).drop("whole")
    return parts.unpivot(index="id", variable_name="cause", value_name="wait_ns").filter(col.wait_ns != 0)


def _totals_at(points: pl.DataFrame, totals: pl.DataFrame) -> pl.DataFrame:
    """How long each status had lasted by `at`, for the class of each point: id, and a column for each status."""
    keyed = points.with_columns(col("class").fill_null(-1)).sort("at")
    met = keyed.join_asof(
        totals.sort("start_ns"), left_on="at", right_on="start_ns", by="class", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    left = (col.end_ns - col.at).clip(0)
    return met.select(
        "id",
        *(
            (col(status) - pl.when(col.status == status).then(left).otherwise(0)).fill_null(0).alias(status)
            for status in STATUSES
        ),
    )


def _first_and_fits(first: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """How long each was first in line somewhere and would have fitted: id, latency_ns."""
    own = intervals.union(first.select("id", "class", "start_ns", "end_ns"), ["id", "class"])
    fits = segments.filter(col.status == "fits")
    pieces = intervals.clip(own, fits, ["class"])
    return pieces.group_by("id").agg(latency_ns=(col.end_ns - col.start_ns).sum())


def _named(rows: pl.DataFrame, latency: pl.DataFrame) -> pl.DataFrame:
    """Time in which a job would have fitted, by what held it: another before it in line, or the scheduler's cycle."""
    rows = rows.join(latency, on="id", how="left")
    fits = rows.filter(col.cause == "fits").with_columns(latency_ns=col.latency_ns.fill_null(0))
    split = [
        fits.select("id", cause=pl.lit("latency"), wait_ns=pl.min_horizontal("latency_ns", "wait_ns")),
        fits.select("id", cause=pl.lit("priority"), wait_ns=(col.wait_ns - col.latency_ns).clip(0)),
    ]
    rest = rows.filter(col.cause != "fits").select("id", "cause", "wait_ns")
    whole = pl.concat([rest, *split]).filter(col.wait_ns > 0)
    return whole.group_by("id", "cause", maintain_order=True).agg(col.wait_ns.sum())


def pieces(waits: pl.DataFrame, segments: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The same as stretches of time, in order: id, start_ns, end_ns, cause. For a few waits: it grows with events."""
    before = waits.filter(col.submit_ns < col.eligible_ns).select(
        "id", start_ns="submit_ns", end_ns="eligible_ns", cause="before"
    )
    after = waits.filter(col.eligible_ns < col.until_ns, col("class").is_not_null()).select(
        "id", "class", start_ns="eligible_ns", end_ns="until_ns"
    )
    cut = intervals.clip(after, segments, ["class"], keep=["status"])
    late = waits.select("id", start_ns="eligible_ns", end_ns="until_ns")
    mine = first.join(waits.select("id"), on="id", how="semi")
    own = intervals.union(mine, ["id"])
    fits = cut.filter(col.status == "fits")
    free = fits.select("id", "start_ns", "end_ns")
    parts = [
        before,
        _stretch(cut.filter(col.status != "fits"), col.status),
        _stretch(intervals.subtract(late, cut, ["id"]), pl.lit("unknown")),
        _stretch(intervals.intersect(free, own, ["id"]), pl.lit("latency")),
        _stretch(intervals.subtract(free, own, ["id"]), pl.lit("priority")),
    ]
    return pl.concat(parts).sort("id", "start_ns")


def _stretch(rows: pl.DataFrame, cause: pl.Expr) -> pl.DataFrame:
    return rows.select("id", "start_ns", "end_ns", cause=cause)


def in_order(causes: Sequence[str]) -> list[str]:
    """The causes in the order of the report."""
    return sorted(causes, key=CAUSES.index)
