"""Attempts of one job among the rows of a table."""

from __future__ import annotations

import polars as pl
from polars import col


def requeued(attempts: pl.DataFrame) -> pl.DataFrame:
    """A later attempt of a job is submitted when the one before it ends: tables repeat the job's first submission.

    The rows are as `attempts` has them; they come back ordered by start within the job.
    """
    order = attempts.sort("raw_id", "start_ns", "line", nulls_last=True)
    before = col("end_ns").shift(1).over("raw_id")
    told = col("submit_ns") >= before
    follows = before.is_not_null() & (before <= col("start_ns")) & ~told.fill_null(value=False)
    submit = pl.when(follows).then(before).otherwise("submit_ns")
    number = pl.int_range(pl.len()).over("raw_id")
    restarts = pl.coalesce("restarts", pl.when(pl.len().over("raw_id") > 1).then(number))
    return order.with_columns(submit_ns=submit, restarts=restarts).sort("line")
