"""Attempts of all jobs of a dataset, whatever scheduler wrote them down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.scheduler import merge, records, stitch
from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.scheduler.records import Records
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

HINT = "ask for a period in which jobs ran, of all users: sacct -a -S … -E …"


@dataclass(frozen=True)
class Gathered:
    """attempts: one row for each, with the columns of the table and of `stitch.stitched`, and id (its number),
    eligible_known (bool), ready_start_ns and ready_end_ns (see `account.held`); as_of_ns: the latest instant known; naive:
    the zone of the times is not known.
    """

    records: Records
    attempts: pl.DataFrame
    as_of_ns: int
    naive: bool
    notices: list[Notice]


def gather(dataset: Dataset, options: FleetOptions) -> Gathered:
    """The attempts of the jobs in `dataset`. Raises InputError: no_jobs, naive_time."""
    found = records.load(dataset, tz=options.tz, cut=options.cut)
    attempts, notices = _of_jobs(found, options.as_of_ns)
    if attempts.is_empty():
        path = found.sources.filter(col.scheduler)["path"][0]
        raise InputError("no_jobs", path, "no jobs are in it: SG is not defined", hint=HINT)
    attempts = _with_components(attempts.with_row_index("id").cast({"id": pl.Int64}))
    as_of = options.as_of_ns or _latest(found)
    naive = not options.tz and any(notice.kind == "naive_time" for notice in found.notices)
    return Gathered(found, attempts, as_of, naive, [*found.notices, *notices])


def _of_jobs(found: Records, as_of: int | None) -> tuple[pl.DataFrame, list[Notice]]:
    """Attempts from the records of batch jobs."""
    rows = found.attempts.filter(col.kind == "job")
    once = merge.merged(rows, found.sources)
    latest = stitch.as_of_clusters(rows, found.sources, as_of)
    attempts = stitch.stitched(once, latest, as_of)
    whole, notices = stitch.lost(attempts, found.scheduler_events)
    differs = stitch.differing(whole)
    known = rows["eligible_ns"].null_count() < rows.height
    return whole.with_columns(eligible_known=pl.lit(known)), [*notices, *([differs] if differs else [])]


def _latest(found: Records) -> int:
    """The latest instant that any file proves."""
    latest = found.sources.filter(col.scheduler)["as_of_ns"].max()
    return int(latest) if isinstance(latest, int) else 0


def _with_components(attempts: pl.DataFrame) -> pl.DataFrame:
    """When all components of a heterogeneous job were there, in each of its attempts."""
    by = ["job_id", "attempt"]
    many = (pl.len().over(by) > 1) & (col.start_ns.null_count().over(by) == 0)
    return attempts.with_columns(
        ready_start_ns=pl.when(many).then(col.start_ns.max().over(by)),
        ready_end_ns=pl.when(many).then(col.end_ns.min().over(by)),
    )
