"""Attempts of all jobs of a dataset, whatever scheduler wrote them down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.scheduler import kubernetes, merge, records, redaction, stitch
from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.scheduler.records import Records
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

# what a fleet's report has no use for, and every copy of a million attempts would carry along
UNUSED = ("exit_code", "line", "chips_least", "constraints", "reservation", "shape", "topology")
HINT = "ask for a period in which jobs ran, of all users: sacct -a -S … -E …"


@dataclass(frozen=True)
class Gathered:
    """attempts: one row for each, with the columns of the table and of `stitch.stitched`, and id (its number) and
    eligible_known (bool); ready: id, start_ns, end_ns: when all parts of the job were there, of the attempts that are
    parts of one; as_of_ns: the latest instant known; naive: the zone of the times is not known.
    """

    records: Records
    attempts: pl.DataFrame
    ready: pl.DataFrame
    as_of_ns: int
    naive: bool
    notices: list[Notice]


def gather(dataset: Dataset, options: FleetOptions) -> Gathered:
    """The attempts of the jobs in `dataset`. Raises InputError: no_jobs, naive_time."""
    found = records.load(dataset, tz=options.tz, cut=options.cut)
    if options.redact:
        found = redaction.redacted(found)
    jobs, notices = _of_jobs(found, options.as_of_ns)
    pods, told = _of_pods(found, options.as_of_ns)
    attempts = pl.concat([jobs, _shifted(pods, jobs)], how="diagonal_relaxed")
    if attempts.is_empty():
        path = found.sources.filter(col.scheduler)["path"][0]
        raise InputError("no_jobs", path, "no jobs are in it: SG is not defined", hint=HINT)
    attempts = attempts.with_row_index("id").cast({"id": pl.Int64})
    as_of = options.as_of_ns or _latest(found, attempts)
    found = found.with_frames({"attempts": found.attempts.clear()})  # they are large, and in `attempts` now
    return Gathered(found, attempts, _ready(attempts), as_of, found.naive, [*found.notices, *notices, *told])


def _of_pods(found: Records, as_of: int | None) -> tuple[pl.DataFrame, list[Notice]]:
    """Attempts from pods and workloads; pods whose chips are those of their workload are left out."""
    rows = found.attempts.filter(col.kind != "job")
    if rows.is_empty():
        return rows.clear().with_columns(job_id=pl.lit(None, pl.Int64)), []
    of = found.sources.filter(col.source.is_in(rows["source"].unique().to_list()))
    events = found.scheduler_events.join(of, on="source", how="semi")
    instants = dict(of.select("source", col.as_of_ns.fill_null(0)).iter_rows())
    attempts, notices = kubernetes.stitch(rows, events, instants if as_of is None else as_of)
    counted = attempts.filter(col.counted)
    return counted.with_columns(
        job_id=pl.struct("cluster", "kind", "raw_id").rank("dense").cast(pl.Int64) - 1,
        resized=pl.lit(value=False), lost=pl.lit(value=False), recorded_start_ns="start_ns",
        suspended_ns=pl.lit(0, pl.Int64), eligible_known=pl.lit(value=True),
        run_ns=col.run_ns.fill_null(0), ran_ns=col.ran_ns.fill_null(0),
    ), notices  # fmt: skip


def _shifted(pods: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Numbers of jobs that are not those of others."""
    most = jobs["job_id"].max()
    return pods.with_columns(col.job_id + (most + 1 if isinstance(most, int) else 0))


def _of_jobs(found: Records, as_of: int | None) -> tuple[pl.DataFrame, list[Notice]]:
    """Attempts from the records of batch jobs."""
    rows = found.attempts.filter(col.kind == "job").drop(UNUSED)
    once = merge.merged(rows, found.sources)
    latest = stitch.as_of_clusters(rows, found.sources, as_of)
    attempts = stitch.stitched(once, latest, as_of)
    whole = stitch.lost(attempts, found.scheduler_events)
    doubts = [one for one in (stitch.differing(whole), stitch.endless(whole)) if one is not None]
    known = rows["eligible_ns"].null_count() < rows.height
    return whole.with_columns(eligible_known=pl.lit(known)), doubts


def _latest(found: Records, attempts: pl.DataFrame) -> int:
    """The latest instant that any file proves, or at which any attempt ended."""
    known = (found.sources.filter(col.scheduler)["as_of_ns"].max(), attempts["end_ns"].max())
    return max((int(ns) for ns in known if isinstance(ns, int)), default=0)


def _ready(attempts: pl.DataFrame) -> pl.DataFrame:
    """When all components of heterogeneous jobs, and all pods of a group, were there.

    A part of what was never complete has an empty stretch, so that it is known to be part of one.
    """
    by = ["job_id", "attempt"]
    parts = attempts.filter((col.kind == "job") & (pl.len().over(by) > 1))
    complete = col.start_ns.is_not_null().all().over(by)
    whole = (
        pl.when(complete).then(edge.over(by)).otherwise(0) for edge in (col.start_ns.max(), col.end_ns.min())
    )
    of_jobs = parts.select("id", **dict(zip(("start_ns", "end_ns"), whole, strict=True)))
    if "group" not in attempts.columns:
        return of_jobs
    grouped = attempts.filter(col.group.is_not_null(), col.kind == "pod")
    stretches = kubernetes.gang_ready(grouped).select("cluster", "group", "start_ns", "end_ns")
    of_pods = grouped.select("id", "cluster", "group").join(
        stretches, on=["cluster", "group"], how="left", nulls_equal=True
    )
    of_pods = of_pods.select("id", col.start_ns.fill_null(0), col.end_ns.fill_null(0))
    return pl.concat([of_jobs, of_pods])
