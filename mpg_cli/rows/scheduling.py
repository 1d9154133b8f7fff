"""Attempts, jobs and waits as rows of the report."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling import waits
from mpg_cli.report import model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND = 1_000_000_000
MOST_JOBS = 10_000  # listed in the report
MOST_PIECES = 2_000  # waits of which the stretches are listed
FINISHED = ("COMPLETED",)
UNSTATED = "(not stated)"
WAIT_LABELS = {
    "dependency": "dependency on another job",
    "begin_time": "begin time asked for",
    "hold": "held by user or admin",
    "array_limit": "limit of the job array",
    "requeue_delay": "delay after a requeue",
    "not_eligible": "not eligible, why is not recorded",
    "shortage": "too few chips free",
    "unavailable": "too few free, down or leaked ones would do",
    "fragmentation": "enough chips, not on the nodes needed",
    "topology": "enough nodes, not under few enough switches",
    "limit": "a limit: QOS, account or reservation",
    "priority": "fits, others before it",
    "latency": "fits and first in line: the scheduler",
    "unplaced": "enough chips, their nodes are not known",
    "unknown": "not known",
}


def instant(ns: int | None, *, naive: bool) -> str | None:
    """An instant as ISO 8601, with a Z unless the zone is not known; seconds have decimals only where needed."""
    if ns is None:
        return None
    whole = datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    rest = f"{ns % SECOND:09d}".rstrip("0")
    return f"{whole}{'.' + rest if rest else ''}{'' if naive else 'Z'}"


def seconds(ns: int | None) -> float | None:
    """Nanoseconds as seconds."""
    return None if ns is None else ns / SECOND


def chosen_jobs(attempts: pl.DataFrame) -> pl.DataFrame:
    """The attempts of the jobs to list: all, or those with most chip-time and waiting."""
    if attempts["job_id"].n_unique() <= MOST_JOBS:
        return attempts
    size = (col.queue_wait_ns.fill_null(0) + col.ran_ns).cast(pl.Int128) * pl.coalesce(
        "chips_requested", "chips", 1
    )
    most = attempts.group_by("job_id").agg(size=size.sum()).sort("size", "job_id", descending=[True, False])
    return attempts.join(most.head(MOST_JOBS), on="job_id", how="semi", maintain_order="left")


def pieces(chosen: pl.DataFrame, segments: pl.DataFrame, first: pl.DataFrame) -> dict[int, list[model.Wait]]:
    """The stretches of the waits in `chosen`, by attempt. See `waits.pieces`."""
    found: dict[int, list[model.Wait]] = {}
    for row, start, end, cause in waits.pieces(chosen, segments, first).iter_rows():
        found.setdefault(row, []).append(model.Wait(cause, start, end))
    return found


def jobs(
    attempts: pl.DataFrame,
    waited: pl.DataFrame,
    pieces: Mapping[int, Sequence[model.Wait]] | None,
    chip_ns: Mapping[int, int],
    *,
    naive: bool,
) -> tuple[model.Job, ...]:
    """The jobs of `attempts`, by submission.

    waited: id, cause, wait_ns; pieces: stretches by attempt, None for too many; chip_ns: chip-time in the window by
    attempt.
    """
    by_id = _by_id(waited)
    ordered = attempts.sort("job_id", "attempt", "id")
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in ordered.iter_rows(named=True):
        groups.setdefault(row["job_id"], []).append(row)
    made = [_job(group, by_id, pieces, chip_ns, naive=naive) for group in groups.values()]
    return tuple(sorted(made, key=lambda job: (job.submit or "", job.job)))


def _by_id(waited: pl.DataFrame) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for row, cause, ns in waited.select("id", "cause", "wait_ns").iter_rows():
        found.setdefault(row, {})[cause] = ns
    return found


def _job(
    group: list[dict[str, Any]],
    waited: Mapping[int, Mapping[str, int]],
    pieces: Mapping[int, Sequence[model.Wait]] | None,
    chip_ns: Mapping[int, int],
    *,
    naive: bool,
) -> model.Job:
    turns: dict[int, list[dict[str, Any]]] = {}
    for row in group:
        turns.setdefault(row["attempt"], []).append(row)
    listed = [_attempt(n, rows, waited, pieces, naive=naive) for n, rows in sorted(turns.items())]
    first, last = group[0], max(group, key=lambda row: (row["attempt"], row["chips"] or 0))
    known = [one.queue_wait_s for one in listed]
    runs = [one.run_s for one in listed]
    ended = [one for one in listed if one.state in FINISHED]
    return model.Job(
        job=first["job"],
        kind=first["kind"],
        name=last["name"],
        cluster=last["cluster"],
        user=last["user"],
        account=last["account"],
        partition=last["partition"],
        qos=last["qos"],
        chip_type=_same(group, "chip_type"),
        submit=instant(first["submit_ns"], naive=naive),
        state=last["state"],
        queue_wait_s=None if None in known else sum(wait for wait in known if wait is not None),
        queue_wait_bounds_s=_bounds(first),
        run_s=sum(runs),
        suspended_s=sum(one.suspended_s for one in listed),
        start_to_end_s=_start_to_end(turns),
        run_s_in_failed_attempts=sum(runs) - sum(one.run_s for one in listed if one in ended or one.open),
        run_s_in_last_attempt=runs[-1],
        timelimit_s=seconds(last["limit_ns"]),
        total_cpu_s=seconds(last["cpu_ns"]),
        chips=listed[-1].chips,
        chips_requested=_sum(turns[max(turns)], "chips_requested"),
        chip_seconds=sum(chip_ns.get(row["id"], 0) for row in group) / SECOND,
        sg=_sg(group),
        nodes=listed[-1].nodes,
        ended_by=listed[-1].ended_by,
        cancelled_by=last["cancelled_by"],
        open=any(one.open for one in listed),
        failed_scheduling_count=first.get("failed_scheduling"),
        schedule_to_start_s=seconds(first.get("schedule_to_start_ns")),
        attempts=tuple(listed),
    )


def _attempt(
    number: int,
    parts: list[dict[str, Any]],
    waited: Mapping[int, Mapping[str, int]],
    pieces: Mapping[int, Sequence[model.Wait]] | None,
    *,
    naive: bool,
) -> model.Attempt:
    """One attempt; of the components of a heterogeneous job the wait is the longest, the run is where all ran."""
    lead = max(parts, key=lambda row: row["queue_wait_ns"] or 0)
    causes = waited.get(lead["id"], {})
    nodes = tuple(name for row in parts for name in json.loads(row["nodes"] or "[]"))
    return model.Attempt(
        attempt=number,
        state=lead["state"],
        submit=instant(lead["submit_ns"], naive=naive),
        eligible=instant(lead["eligible_ns"], naive=naive),
        start=instant(lead["start_ns"], naive=naive),
        end=None if lead["open"] else instant(lead["end_ns"], naive=naive),
        queue_wait_s=seconds(lead["queue_wait_ns"]),
        run_s=min(row["run_ns"] for row in parts) / SECOND,
        suspended_s=max(row["suspended_ns"] for row in parts) / SECOND,
        chips=_chips(parts),
        nodes=nodes,
        ended_by=lead["ended_by"],
        preempted_by=lead.get("preempted_by"),
        open=any(row["open"] for row in parts),
        waits={cause: causes[cause] / SECOND for cause in waits.in_order(list(causes))},
        wait_pieces=None if pieces is None else tuple(pieces.get(lead["id"], ())),
    )


def _chips(parts: list[dict[str, Any]]) -> int | None:
    """Chips allocated; of a pod or workload that never got any, those it asks for, which is how it is spoken of."""
    found = _sum(parts, "chips")
    return found or _sum(parts, "chips_requested") if parts[0]["kind"] != "job" else found


def _sum(parts: list[dict[str, Any]], name: str) -> int | None:
    known = [row[name] for row in parts if row[name] is not None]
    return sum(known) if known else None


def _same(parts: list[dict[str, Any]], name: str) -> str | None:
    values = {row[name] for row in parts}
    return values.pop() if len(values) == 1 else None


def _bounds(row: Mapping[str, Any]) -> tuple[float, float] | None:
    low, high = row.get("queue_wait_min_ns"), row.get("queue_wait_max_ns")
    return None if low is None or high is None else (low / SECOND, high / SECOND)


def _start_to_end(turns: Mapping[int, list[dict[str, Any]]]) -> float:
    """The time from start to end, suspension included, over all attempts."""
    known = (
        [row for row in parts if None not in (row["start_ns"], row["end_ns"])] for parts in turns.values()
    )
    lengths = (max((row["end_ns"] - row["start_ns"] for row in parts), default=0) for parts in known)
    return sum(lengths) / SECOND


def _sg(group: list[dict[str, Any]]) -> float | None:
    """The time in which it ran as asked, of the time from first submission to end, weighted by chips."""
    submits = [row["submit_ns"] for row in group]
    ends = [row["end_ns"] for row in group if row["end_ns"] is not None]
    if None in submits or not ends or max(ends) <= min(submits):
        return None
    life: int = max(ends) - min(submits)
    turns: dict[int, list[dict[str, Any]]] = {}
    for row in group:
        turns.setdefault(row["attempt"], []).append(row)
    ran = sum(min(row["as_asked_ns"] for row in parts) for parts in turns.values())
    return float(min(ran / life, 1.0))


def wait_causes(
    waited: pl.DataFrame, asked: pl.DataFrame, labels: Mapping[str, str] = WAIT_LABELS
) -> tuple[model.WaitCause, ...]:
    """All waits by cause. waited: id, cause, wait_ns; asked: id, need (chips)."""
    met = waited.join(asked.select("id", "need"), on="id").filter(col.need > 0)
    sums = met.group_by("cause").agg(
        attempts=col.id.n_unique(),
        wait_ns=col.wait_ns.sum(),
        chip_ns=(col.wait_ns.cast(pl.Int128) * col.need).sum(),
    )
    whole = sum(sums["chip_ns"])
    found = {row["cause"]: row for row in sums.iter_rows(named=True)}
    return tuple(
        model.WaitCause(
            cause, labels[cause], found[cause]["attempts"], found[cause]["wait_ns"], int(found[cause]["chip_ns"]),
            int(found[cause]["chip_ns"]) / whole if whole else 0.0,
        )
        for cause in waits.in_order(list(found))
    )  # fmt: skip


def endings(attempts: pl.DataFrame, chip_ns: pl.DataFrame) -> tuple[model.Ending, ...]:
    """Attempts by state, most chip-time first. chip_ns: id, chip_ns."""
    met = attempts.select("id", state=col.state.fill_null(UNSTATED)).join(chip_ns, on="id", how="left")
    sums = met.group_by("state").agg(
        attempts=pl.len(), chip_ns=col.chip_ns.fill_null(0).cast(pl.Int128).sum()
    )
    whole = sum(sums["chip_ns"])
    ordered = sums.sort(["chip_ns", "attempts", "state"], descending=[True, True, False])
    return tuple(
        model.Ending(
            state, count, ns, ns / whole if whole else 0.0, None if state == UNSTATED else state in FINISHED
        )
        for state, count, ns in ordered.iter_rows()
    )
