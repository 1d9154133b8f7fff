"""Attempts as the statistics of failures and preemptions take them."""

from __future__ import annotations

from typing import Any

import polars as pl

HOUR = 3_600_000_000_000
SCHEMA = {
    "job": pl.String,
    "attempt": pl.Int64,
    "state": pl.String,
    "submit_ns": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "run_ns": pl.Int64,
    "chips": pl.Int64,
    "preempted_by": pl.String,
    "failed": pl.Boolean,
    "unfinished": pl.Boolean,
}


def attempt(
    job: str, number: int, hours: tuple[float, float] | None, chips: int | None = 8, **more: Any
) -> Any:
    """One attempt that ran from hours[0] to hours[1]; what `more` names replaces what follows from that."""
    start, end = (round(hour * HOUR) for hour in hours) if hours else (None, None)
    row = {
        "job": job,
        "attempt": number,
        "state": "COMPLETED",
        "submit_ns": start,
        "start_ns": start,
        "end_ns": end,
    }
    run = end - start if start is not None and end is not None else None
    row |= {"run_ns": run, "chips": chips, "preempted_by": None, "failed": False, "unfinished": False}
    return row | more


def frame(*rows: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)
