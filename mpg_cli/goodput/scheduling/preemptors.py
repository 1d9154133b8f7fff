"""Who was preempted by whom, from the controller's log."""

from __future__ import annotations

import polars as pl
from polars import col

NEAR = 60 * 10**9  # between a preemption in the log and the end of the victim, which may have a grace time


def with_preemptors(attempts: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The attempts with preempted_by (raw id of the other job) and ended_by, where a log tells."""
    told = events.filter(col.event == "preempt", col.raw_id.is_not_null())
    named = col.cluster.fill_null("")  # what has no name is not joined by it
    found = told.select(_cluster=named, raw_id="raw_id", at="ts_ns", preempted_by="other").sort("at")
    if found.is_empty():
        return attempts.with_columns(preempted_by=pl.lit(None, pl.String))
    keyed = attempts.with_columns(_cluster=named, at=col.end_ns.fill_null(-1)).sort("at")
    met = keyed.join_asof(
        found, on="at", by=["_cluster", "raw_id"], strategy="nearest", tolerance=NEAR, check_sortedness=False
    )
    ended = col.start_ns.is_not_null() & col.preempted_by.is_not_null()
    return (
        met.with_columns(
            preempted_by=pl.when(ended).then("preempted_by"),
            ended_by=pl.when(ended).then(pl.lit("Preempted")).otherwise("ended_by"),
        )
        .drop("at", "_cluster")
        .sort("id")
    )
