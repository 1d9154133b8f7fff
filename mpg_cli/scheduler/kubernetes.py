"""Kubernetes into attempts: dumps and watches of pods, workloads and events, stitched by object."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.scheduler.kubernetes_gangs import gang_ready, group_of, labels_of
from mpg_cli.scheduler.kubernetes_history import Key, Object, Row, histories, observed
from mpg_cli.scheduler.kubernetes_pods import Doubts, pod_attempt
from mpg_cli.scheduler.kubernetes_workloads import STOPPED, Lost, workload_attempts
from mpg_parsers.scheduler_tables import ATTEMPTS

if TYPE_CHECKING:
    from mpg_parsers.errors import Notice

__all__ = ["ADDED", "gang_ready", "stitch"]

WORKLOAD = "kueue.x-k8s.io/workload"
JOB_UID = "kueue.x-k8s.io/job-uid"
# of a job's own events, those that tell of its workload
OF_JOB = ("Stopped", "FinishedWorkload", "Complete", "Completed")
ADDED = {
    "attempt": pl.Int64(), "open": pl.Boolean(), "queue_wait_ns": pl.Int64(), "queue_wait_min_ns": pl.Int64(),
    "queue_wait_max_ns": pl.Int64(), "schedule_to_start_ns": pl.Int64(), "failed_scheduling": pl.Int64(),
    "held_ns": pl.Int64(), "ran_ns": pl.Int64(), "counted": pl.Boolean(), "group": pl.String(),
}  # fmt: skip


def stitch(
    attempts: pl.DataFrame, events: pl.DataFrame, as_of: dict[int, int] | int
) -> tuple[pl.DataFrame, list[Notice]]:
    """One row per allocation, or wait for one, of each pod and workload, and what is doubtful about them.

    attempts, events: rows of `attempts` (kinds pod and workload) and `scheduler_events` of all Kubernetes sources, in
    which an object may occur many times. as_of: Unix ns, of all or by source; what has no end is followed up to it,
    unless a later file no longer has it.

    Returned are the columns of `attempts` and, in ns where so named:
    attempt               from 1 within a workload
    chips                 what it holds or, without a start, what it asks for
    open                  it has no end: end_ns is as_of
    queue_wait_ns         pod: creation to Scheduled; workload: creation or requeue to Admitted; up to the end of what
                          never got there; null where it is not known, with queue_wait_min_ns and queue_wait_max_ns
    schedule_to_start_ns  Scheduled to the first container's start, or Admitted to PodsReady; null where not known
    failed_scheduling     attempts of the scheduler that failed
    run_ns, held_ns, ran_ns  start_ns to end_ns. A pod's start is that of its first container, by the node's clock
                          (moved to Scheduled where that clock is behind); of one that never got so far it is Scheduled.
                          A workload's is its admission, and its end when its pods had stopped or it was finished
    counted               false for pods of a workload that was admitted: that has their chips
    group                 the owner whose pods are one job, null for pods that stand for themselves
    """
    sources = (
        as_of if isinstance(as_of, dict) else dict.fromkeys(attempts["source"].unique().to_list(), as_of)
    )
    latest = max(sources.values(), default=0) if isinstance(as_of, dict) else as_of
    objects = observed(attempts, events, sources)
    doubts, lost = Doubts(), Lost()
    pods = [one for one in objects if one.row["kind"] == "pod"]
    rows = {one.key: pod_attempt(one, _until(one, latest), doubts) for one in pods}
    works = [one for one in objects if one.row["kind"] == "workload"]
    history = histories(events)
    links = _links(works, history)
    members: dict[Key, list[Row]] = defaultdict(list)
    for row in rows.values():
        owner = next((links[key] for key in _keys(row) if key in links), None)
        if owner is not None:
            members[owner].append(row)
    found = _workload_rows(works, members, history, latest, lost)
    admitted = {(row["cluster"], row["raw_id"]) for row in found if row["start_ns"] is not None}
    for row in rows.values():
        row["counted"], row["group"] = True, group_of(row["owner"])
    for owner in admitted & members.keys():
        for row in members[owner]:
            row["counted"] = False
    frame = pl.DataFrame([*found, *rows.values()], schema={**_schema(attempts), **ADDED})
    order = ("cluster", "kind", "submit_ns", "raw_id", "attempt")
    return frame.sort(order, maintain_order=True), [*doubts.notices(), *lost.notices()]


def _schema(attempts: pl.DataFrame) -> dict[str, pl.DataType]:
    return {name: attempts.schema.get(name, dtype) for name, dtype in ATTEMPTS.schema().items()}


def _until(one: Object, latest: int) -> int:
    """Up to when an object without an end is followed."""
    return min(one.seen_ns, latest) if one.gone else latest


def _links(works: list[Object], history: dict[Key, list[Row]]) -> dict[tuple[str | None, str], Key]:
    """Workloads by what their pods may say of them: the owner they share, or the workload's own name."""
    found: dict[tuple[str | None, str], Key] = {}
    of_job: dict[Key, Key] = {}
    for one in works:
        row = one.row
        cluster, namespace = row["cluster"], row["user"] or ""
        if row["owner"]:
            found[cluster, row["owner"]] = one.key
        found[cluster, f"Workload/{namespace}/{row['job']}"] = one.key
        if uid := labels_of(row).get(JOB_UID):
            of_job[cluster, uid] = one.key
    # objects that a workload's job has made: a RayCluster of a RayJob, a JobSet of a TrainJob
    for (cluster, _), told in history.items():
        for event in told:
            if event["event"] == "submit" and event["message"] and (cluster, event["other"] or "") in of_job:
                found.setdefault((cluster, event["message"]), of_job[cluster, event["other"]])
    return found


def _keys(pod: Row) -> list[tuple[str | None, str]]:
    """What a pod says of its workload; a pod by itself is the owner of its own."""
    namespace = pod["user"] or ""
    named = labels_of(pod).get(WORKLOAD)
    own = [f"Workload/{namespace}/{named}"] if named else []
    return [(pod["cluster"], key) for key in (*own, pod["owner"], f"Pod/{namespace}/{pod['job']}") if key]


def _workload_rows(
    works: list[Object], members: dict[Key, list[Row]], history: dict[Key, list[Row]], latest: int, lost: Lost
) -> list[Row]:
    """The attempts of all workloads."""
    found = []
    for one in works:
        job = labels_of(one.row).get(JOB_UID, "")
        told = [e for e in history.get((one.row["cluster"], job), []) if e["reason"] in OF_JOB] if job else []
        stops = _pods_stopped(one, members.get(one.key, []))
        added = {"counted": True, "group": group_of(one.row["owner"])}
        found += [row | added for row in workload_attempts(one, [*told, *stops], _until(one, latest), lost)]
    return found


def _pods_stopped(one: Object, pods: list[Row]) -> list[Row]:
    """After each eviction that no event says the pods' end of, the end of the last of them."""
    evictions = sorted({e["ts_ns"] for e in one.events if e["event"] == "evict"})
    told = [e["ts_ns"] for e in one.events if e["event"] in ("pending", "end")]
    admitted = sorted(e["ts_ns"] for e in one.events if e["event"] == "admit")
    found = []
    for at in evictions:
        following = next((ns for ns in admitted if ns > at), 1 << 62)
        if any(at <= ns <= following for ns in told):
            continue
        ends = [
            p["end_ns"]
            for p in pods
            if not p["open"] and (p["start_ns"] or 0) <= at <= p["end_ns"] < following
        ]
        if ends:
            found.append({"event": "end", "reason": STOPPED, "ts_ns": max(ends), "message": None})
    return found
