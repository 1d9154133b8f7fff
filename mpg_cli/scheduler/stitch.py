"""Records into attempts of jobs: resized, requeued, lost and reused ones told apart.

A job is what its user submitted; an attempt is one allocation of it, or the wait for one that never came. Requeueing
begins a new attempt with a new submission. The components of a heterogeneous job are rows of one attempt.
"""

from __future__ import annotations

import polars as pl
from polars import col

from mpg_cli.scheduler.states import AGAIN, ALIVE, WAITING
from mpg_parsers.errors import Notice

SECOND = 10**9
NEAR = 2 * SECOND  # within this two records of one instant lie, as different parts of a scheduler write it


def stitched(records: pl.DataFrame, as_of: pl.DataFrame, given: int | None = None) -> pl.DataFrame:
    """Attempts of jobs, from records that are there once each (see `merge.merged`).

    as_of: cluster, as_of_ns; given: what the user says counts as now. The columns of the table and:

    job_id             a number for each job
    attempt            from 1
    open               not over at as_of; its end_ns is as_of
    resized            goes on from the record before
    recorded_start_ns  as written; of resized ones start_ns is later
    lost               see `lost`
    run_ns, ran_ns     without suspension: as written, and from start to end
    queue_wait_ns      0 for resized ones, null where the submission is not known
    """
    rows = records.join(as_of, on="cluster", how="left", nulls_equal=True)
    rows = _clean(rows)
    rows = _numbered(rows)
    return _timed(rows, given).drop("as_of_ns", "_next")


def _clean(rows: pl.DataFrame) -> pl.DataFrame:
    """No start for what waits (controllers put the one they expect), no end before the start."""
    waits = col.state.is_in(WAITING).fill_null(value=False) & (
        col.start_ns.is_null() | col.end_ns.is_null() | (col.start_ns >= col.as_of_ns)
    )
    start = pl.when(~waits).then("start_ns")
    ends = ~waits & ~(col.end_ns < col.start_ns).fill_null(value=False)
    rows = rows.with_columns(start_ns=start, end_ns=pl.when(ends).then("end_ns"))
    # cancelled while it waited: controllers write the end as the start, accounting writes none
    never = (col.start_ns == col.end_ns) & (col.chips.fill_null(0) == 0)
    return rows.with_columns(start_ns=pl.when(~never.fill_null(value=False)).then("start_ns"))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with job_id, attempt and resized.

    A life of a raw id is one job: it goes on while records follow one another as requeueing makes them.
    """
    rows = rows.sort("cluster", "raw_id", "submit_ns", "start_ns", nulls_last=True)
    follows = (col.raw_id == col.raw_id.shift(1)) & col.cluster.eq_missing(col.cluster.shift(1))
    rows = rows.with_columns(_follows=follows.fill_null(value=False))
    at_its_end = ((col.submit_ns - col.end_ns.shift(1)).abs() <= NEAR).fill_null(value=False)
    other = pl.any_horizontal(
        (col(name) != col(name).shift(1)).fill_null(value=False) for name in ("user", "name")
    )
    was = col.state.shift(1)
    # what an older file has as not over, and a later submission follows, was requeued in between
    again = was.is_in((*AGAIN, *ALIVE)).fill_null(value=True) | at_its_end
    rows = rows.with_columns(
        _new=~col._follows | other | ~again,
        resized=col._follows & (was == "RESIZING").fill_null(value=False) & at_its_end,
        _row=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    rows = rows.with_columns(
        attempt=col._row - pl.when(col._new).then("_row").forward_fill() + 1,
        _life=col._new.cast(pl.Int64).cum_sum(),
    )
    rows = rows.with_columns(_next=pl.when(~col._new.shift(-1)).then(col.submit_ns.shift(-1)))
    first = pl.when(~col._follows).then("_life").forward_fill()
    return _with_jobs(rows.with_columns(_nth=col._life - first)).drop(
        "_follows", "_new", "_row", "_life", "_nth"
    )


def _with_jobs(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with job_id: the same for the components of a heterogeneous job, which have raw ids of their own."""
    key = ["cluster", "job", "_nth"]
    jobs = rows.select(key).unique(maintain_order=True).with_row_index("job_id").cast({"job_id": pl.Int64})
    if jobs.height == rows.height:
        return rows.with_columns(job_id="_row")
    return rows.join(jobs, on=key, how="left", nulls_equal=True, maintain_order="left")


def _timed(rows: pl.DataFrame, given_as_of: int | None) -> pl.DataFrame:
    """The rows with their lengths of time."""
    alive = col.state.is_in(ALIVE).fill_null(value=False)
    rows = rows.with_columns(end_ns=pl.when(alive & col.end_ns.is_null()).then("_next").otherwise("end_ns"))
    open_ = alive & (col.end_ns.is_null() | (col.end_ns > col.as_of_ns).fill_null(value=False))
    begun = pl.when(col.resized).then(pl.max_horizontal("start_ns", "submit_ns")).otherwise("start_ns")
    rows = rows.with_columns(recorded_start_ns="start_ns", lost=pl.lit(value=False))
    rows = rows.with_columns(open=open_, start_ns=begun, suspended_ns=col.suspended_ns.fill_null(0))
    # what is not over has run as long as its record says, which may be older than the latest one; likewise what
    # failed to say when it ended
    known = pl.coalesce(col.start_ns + col.run_ns + col.suspended_ns, "as_of_ns")
    rows = rows.with_columns(
        end_ns=pl.when(col.open & col.start_ns.is_null()).then("as_of_ns")
        .when(col.open).then(pl.max_horizontal("start_ns", pl.lit(given_as_of, pl.Int64).fill_null(known)))
        .otherwise(pl.coalesce("end_ns", col.start_ns + col.run_ns + col.suspended_ns))
    )  # fmt: skip
    held = (col.end_ns - col.start_ns).clip(0)
    ran = (held - pl.min_horizontal(held, "suspended_ns")).fill_null(0)
    # what the scheduler says it ran, but of a resized or open one it counts what is not this record's
    stated = pl.when(~col.resized & ~col.open).then("run_ns")
    until = pl.coalesce("start_ns", "end_ns")
    waited = pl.when(col.resized).then(0).otherwise((until - col.submit_ns).clip(0))
    return rows.with_columns(
        ran_ns=ran,
        run_ns=pl.when(col.start_ns.is_null()).then(0).otherwise(pl.coalesce(stated, ran)),
        queue_wait_ns=waited,
    )


def as_of_clusters(attempts: pl.DataFrame, sources: pl.DataFrame, given: int | None) -> pl.DataFrame:
    """The latest instant known of each cluster (cluster, as_of_ns), or the one given."""
    known = (
        attempts.select("source", "cluster").unique().join(sources.select("source", "as_of_ns"), on="source")
    )
    latest = known.group_by("cluster").agg(col.as_of_ns.max())
    return latest if given is None else latest.with_columns(as_of_ns=pl.lit(given, pl.Int64))


def differing(attempts: pl.DataFrame) -> Notice | None:
    """Where the time that a record says it ran is not that from its start to its end, without suspension."""
    told = attempts.filter(
        ~col.open, ~col.resized, col.start_ns.is_not_null(), (col.run_ns - col.ran_ns).abs() > NEAR
    )
    if told.is_empty():
        return None
    job = told["job"][0]
    message = (
        f"elapsed time of job {job} and others is not that from start to end, which chip-time is told from"
    )
    return Notice("inconsistent_times", message, told.height)


def endless(attempts: pl.DataFrame) -> Notice | None:
    """What ran and is over, but of which no record says when it ended, or how long it ran."""
    told = attempts.filter(~col.open, col.start_ns.is_not_null(), col.end_ns.is_null())
    if told.is_empty():
        return None
    message = (
        f"job {told['job'][0]} and others ran, until when is not recorded: no chip-time is counted for it"
    )
    return Notice("inconsistent_times", message, told.height)


def lost(attempts: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Attempts that the accounting lost, as the controller's log has them, put in their place.

    A requeue after a node failure may leave one record with the first submission: the log has one more allocation.
    Returns all attempts, renumbered; what was added is marked as `lost`.
    """
    named = col.cluster.fill_null("")  # what has no name is not joined by it
    known = attempts.with_columns(cluster=named)
    begun = _missing_allocations(known, events.with_columns(cluster=named))
    added = _as_attempts(begun, known) if begun.height else begun
    if added.is_empty():
        return attempts
    whole = _resubmitted(known, added)
    rows = pl.concat([whole, added.select(whole.columns)], how="vertical_relaxed")
    order = col.start_ns.fill_null(2**62)
    rows = rows.with_columns(_order=order).sort("cluster", "raw_id", "job_id", "_order")
    rows = rows.with_columns(
        attempt=pl.int_range(1, pl.len() + 1).over("cluster", "raw_id", "job_id"),
        cluster=pl.when(col.cluster != "").then("cluster"),
    )
    return rows.drop("_order")


def _missing_allocations(attempts: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Allocations in the log of a job that is in the records, of which no record has the start.

    Columns of the event and end_ns, from the next event that ends it. Where the job starts again before that, when
    it ended is not known, and it is left out; likewise what is told twice.
    """
    begun = events.filter(col.event.is_in(["allocate", "start"]), col.raw_id.is_not_null())
    if begun.is_empty() or attempts.is_empty():
        return begun.with_columns(end_ns=pl.lit(None, pl.Int64))
    starts = attempts.filter(col.start_ns.is_not_null()).select("cluster", "raw_id", at="start_ns").sort("at")
    begun = begun.with_columns(at="ts_ns").sort("at")
    before = col.at.shift(1).over("cluster", "raw_id")
    begun = begun.filter((col.at - before > NEAR).fill_null(value=True))
    near = begun.join_asof(
        starts.with_columns(found="at"),
        on="at",
        by=["cluster", "raw_id"],
        strategy="nearest",
        tolerance=NEAR,
        check_sortedness=False,
    )
    known = attempts.select("cluster", "raw_id").unique()
    missing = near.filter(col.found.is_null()).join(
        known, on=["cluster", "raw_id"], how="semi", nulls_equal=True
    )
    ends = (
        events.filter(
            col.event.is_in(["end", "requeue", "preempt", "node_failure"]), col.raw_id.is_not_null()
        )
        .select("cluster", "raw_id", at="ts_ns", end_ns="ts_ns", ended="event")
        .sort("at")
    )
    closed = missing.sort("at").join_asof(
        ends, on="at", by=["cluster", "raw_id"], strategy="forward", check_sortedness=False
    )
    again = pl.concat([starts, begun.select("cluster", "raw_id", "at")]).sort("at").with_columns(next_ns="at")
    closed = closed.join_asof(
        again, on="at", by=["cluster", "raw_id"], strategy="forward", allow_exact_matches=False,
        check_sortedness=False,
    )  # fmt: skip
    # records have whole seconds, a log has fractions
    known_end = (col.end_ns < col.next_ns + SECOND).fill_null(value=True)
    return closed.filter(col.end_ns.is_not_null(), known_end).drop("at", "found", "next_ns")


def _as_attempts(begun: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """One attempt for each of the allocations, like the job's first later record but for the times and the nodes."""
    like = attempts.sort("submit_ns").with_columns(_submit="submit_ns")
    rows = (
        begun.select(
            "cluster", "raw_id", _nodes="nodes",
            start_at=col.ts_ns // SECOND * SECOND, end_at=col.end_ns // SECOND * SECOND, _source="source",
        )
        .sort("start_at")
        .join_asof(
            like, left_on="start_at", right_on="submit_ns", by=["cluster", "raw_id"],
            strategy="backward",
            check_sortedness=False,
        )
        .filter(col.job_id.is_not_null())
    )  # fmt: skip
    ran = col.end_at - col.start_at
    none, nothing = pl.lit(value=False), pl.lit(0, pl.Int64)
    return rows.with_columns(
        submit_ns="_submit", start_ns="start_at", end_ns="end_at", nodes=pl.coalesce("_nodes", "nodes"),
        source="_source", run_ns=ran, ran_ns=ran, recorded_start_ns="start_at", lost=pl.lit(value=True),
        suspended_ns=nothing, open=none, resized=none,
        queue_wait_ns=(col.start_at - col._submit).clip(0), state=pl.lit("NODE_FAIL"),
        chips_by_node=pl.lit(None, pl.String),
    )  # fmt: skip


def _resubmitted(attempts: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """The recorded attempts, those after a lost one with the end of that as their submission."""
    ends = added.select("cluster", "raw_id", at="end_ns", requeued="end_ns").sort("at")
    rows = attempts.with_columns(at=col.start_ns.fill_null(2**62)).sort("at")
    rows = rows.join_asof(
        ends, on="at", by=["cluster", "raw_id"], strategy="backward", check_sortedness=False
    )
    late = col.requeued.is_not_null() & (col.submit_ns < col.requeued)
    waited = (pl.coalesce("start_ns", "end_ns") - col.requeued).clip(0)
    rows = rows.with_columns(
        submit_ns=pl.when(late).then("requeued").otherwise("submit_ns"),
        eligible_ns=pl.when(late & (col.eligible_ns < col.requeued))
        .then("requeued")
        .otherwise("eligible_ns"),
        queue_wait_ns=pl.when(late).then(waited).otherwise("queue_wait_ns"),
    )
    return rows.drop("at", "requeued")
