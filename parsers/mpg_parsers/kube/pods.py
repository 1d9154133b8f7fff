"""Pods: what they ask for, when they got a node, ran and ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.kube.chips import POOL_LABELS, type_of, wish_of
from mpg_parsers.kube.events import why_unschedulable
from mpg_parsers.kube.fields import (
    Object,
    annotations_of,
    as_json,
    conditions_of,
    count_at,
    holds,
    instant,
    int_at,
    labels_of,
    listed_labels,
    node_at,
    objects_at,
    seconds_at,
    text_at,
    uid_of,
)
from mpg_parsers.kube.owners import QUEUE, WORKLOAD, owner_of, topology_wish

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows, Spells

STATES = {"Succeeded": "COMPLETED", "Failed": "FAILED", "Running": "RUNNING", "Pending": "PENDING"}
# why a pod failed, in the words of status.reason, of a container, or of the condition DisruptionTarget
ENDS = {
    "OOMKilled": "OUT_OF_MEMORY",
    "DeadlineExceeded": "TIMEOUT",
    "Preempting": "PREEMPTED",
    "Preempted": "PREEMPTED",
    "PreemptionByScheduler": "PREEMPTED",
    "PreemptionByKubeScheduler": "PREEMPTED",
    "NodeLost": "NODE_FAIL",
    "NodeShutdown": "NODE_FAIL",
    "Terminated": "NODE_FAIL",
    "Shutdown": "NODE_FAIL",
    "NodeAffinity": "NODE_FAIL",
    "UnexpectedAdmissionError": "NODE_FAIL",
    "DeletionByTaintManager": "NODE_FAIL",
    "DeletionByPodGC": "NODE_FAIL",
    "Evicted": "EVICTED",
    "TerminationByKubelet": "EVICTED",
    "EvictionByEvictionAPI": "EVICTED",
}


@dataclass(frozen=True, slots=True)
class Run:
    """When a pod's containers ran, by the node's clock, and how they ended."""

    start: int | None
    end: int | None
    exit_code: int | None
    reason: str
    restarts: int


def read_pod(value: Object, line: int, rows: Rows, spells: Spells, *, deleted: bool) -> None:
    """Add a pod: its row in attempts, its times as events, what it waits for."""
    uid, conditions, run = uid_of(value, "Pod"), conditions_of(value), _run(value, rows)
    times = {name: rows.at(condition.get("lastTransitionTime")) for name, condition in conditions.items()}
    created = rows.at(node_at(value, "metadata").get("creationTimestamp"))
    bound = times.get("PodScheduled") if holds(conditions.get("PodScheduled")) else None
    ended_by = _ended_by(value, run, conditions)
    end = _end(value, run, conditions, times, deleted=deleted)
    _add_events(value, rows, uid, run, bound)
    disrupted = conditions.get("DisruptionTarget")
    if holds(disrupted):
        event = "preempt" if ENDS.get(ended_by) == "PREEMPTED" else "evict"
        rows.event(
            event, times["DisruptionTarget"], uid, text_at(disrupted, "reason"), text_at(disrupted, "message")
        )
    rows.add_state("attempts", uid, line, **_row(value, uid, run), submit_ns=created, start_ns=bound, end_ns=end,
                   eligible_ns=None if _gates(value) else created,
                   state=_state(value, run, ended_by, end, deleted=deleted),
                   ended_by=(ended_by or None) if end is not None else None)  # fmt: skip
    _observe_wait(conditions, times, uid, rows, spells, end if end is not None else bound)


def _row(value: Object, uid: str, run: Run) -> dict[str, object]:
    spec, labels = node_at(value, "spec"), labels_of(value)
    wish, node = wish_of(spec), text_at(value, "spec", "nodeName")
    kept = {**labels, **{key: text for key, text in annotations_of(value).items() if key == WORKLOAD}}
    chips = wish.chips if node or run.start is not None else 0
    limit, kind = seconds_at(spec, "activeDeadlineSeconds"), wish.chip_type or None
    pool = wish.pool or next((labels[key] for key in POOL_LABELS if key in labels), None)
    ran = None if run.start is None or run.end is None else max(0, run.end - run.start)
    return {
        "kind": "pod", "raw_id": uid, "job": text_at(value, "metadata", "name"), "name": None,
        "owner": owner_of(value), "user": text_at(value, "metadata", "namespace") or None,
        "account": labels.get(QUEUE), "partition": pool, "qos": text_at(spec, "priorityClassName") or None,
        "priority": int_at(spec, "priority"), "run_ns": ran, "limit_ns": limit or None,
        "chips": chips, "chips_requested": wish.chips, "chip_type": kind,
        "chips_by_type": as_json({kind: chips}) if kind and chips else _by_resource(wish.resources, chips),
        "nodes": as_json([node]) if node else None, "chips_by_node": as_json({node: chips}) if node else None,
        "node_count": 1, "shape": wish.shape or None, "topology": topology_wish(annotations_of(value)),
        "exit_code": None if run.exit_code is None else str(run.exit_code), "restarts": run.restarts,
        "holds": as_json(["held"]) if _gates(value) else None, "labels": listed_labels(kept),
    }  # fmt: skip


def _by_resource(resources: frozenset[str], chips: int) -> str | None:
    """Of one resource whose name says the type."""
    kinds = [type_of(name) for name in resources]
    return as_json({kinds[0]: chips}) if len(kinds) == 1 and kinds[0] and chips else None


def _run(value: Object, rows: Rows) -> Run:
    """From the statuses of all containers; the end only where all have ended for good."""
    starts, ends, codes, reasons, restarts = list[int](), list[int](), list[int](), list[str](), 0
    running = False
    main = objects_at(value, "status", "containerStatuses")
    for status in (*objects_at(value, "status", "initContainerStatuses"), *main):
        restarts += count_at(status, "restartCount") or 0
        for state in (node_at(status, "state"), node_at(status, "lastState")):
            for part in (node_at(state, "running"), node_at(state, "terminated")):
                started = rows.at(part.get("startedAt"))
                starts += [] if started is None else [started]
    for status in main:
        over = node_at(status, "state", "terminated")
        finished = rows.at(over.get("finishedAt"))
        running = running or finished is None
        ends += [] if finished is None else [finished]
        codes.append(int_at(over, "exitCode") or 0)  # a number that is left out is 0 in Go
        reasons.append(text_at(over, "reason"))
    acknowledged = rows.at(node_at(value, "status").get("startTime"))
    if restarts > len(main) and acknowledged is not None:
        starts.append(acknowledged)  # the first start is no longer told
    if running or not ends:
        return Run(min(starts, default=None), None, None, "", restarts)
    worst = max(range(len(codes)), key=lambda at: (codes[at] != 0, ends[at]))
    return Run(min(starts, default=None), max(ends), codes[worst], reasons[worst], restarts)


def _end(
    value: Object, run: Run, conditions: dict[str, Object], times: dict[str, int | None], *, deleted: bool
) -> int | None:
    """When it gave its chips back."""
    over = text_at(value, "status", "phase") in ("Succeeded", "Failed")
    if run.end is not None:
        return run.end
    if over:
        told = [
            times[name] for name in ("Ready", "ContainersReady", "DisruptionTarget") if name in conditions
        ]
        return max((ns for ns in told if ns is not None), default=None)
    return instant(text_at(value, "metadata", "deletionTimestamp")) if deleted else None


def _ended_by(value: Object, run: Run, conditions: dict[str, Object]) -> str:
    """Kubernetes' own word for what ended it, "" where it ended by itself."""
    disrupted = conditions.get("DisruptionTarget")
    reason = text_at(disrupted, "reason") if holds(disrupted) else ""
    status = text_at(value, "status", "reason")
    return reason or status or ("" if run.reason in ("Completed", "Error") else run.reason)


def _state(value: Object, run: Run, ended_by: str, end: int | None, *, deleted: bool) -> str | None:
    phase = STATES.get(text_at(value, "status", "phase"))
    if end is None and not (deleted and phase in ("RUNNING", "PENDING")):
        return phase
    if phase == "COMPLETED" or (phase != "FAILED" and run.end is not None and not run.exit_code):
        return "COMPLETED"
    return ENDS.get(ended_by) or ("CANCELLED" if phase in ("RUNNING", "PENDING") and deleted else "FAILED")


def _gates(value: Object) -> bool:
    return bool(objects_at(value, "spec", "schedulingGates"))


def _add_events(value: Object, rows: Rows, uid: str, run: Run, bound: int | None) -> None:
    node = text_at(value, "spec", "nodeName")
    nodes = as_json([node]) if node else None
    rows.event("allocate", bound, uid, "PodScheduled", nodes=nodes)
    acknowledged = rows.at(node_at(value, "status").get("startTime"))
    rows.event("pull", acknowledged, uid, "startTime", nodes=nodes, node_clock=True)
    rows.event("start", run.start, uid, "startedAt", nodes=nodes, node_clock=True)
    rows.event("end", run.end, uid, "finishedAt", nodes=nodes, node_clock=True)


def _observe_wait(
    conditions: dict[str, Object],
    times: dict[str, int | None],
    uid: str,
    rows: Rows,
    spells: Spells,
    over: int | None,
) -> None:
    """The stretch in which it waits, by the reason of PodScheduled."""
    waits, since = conditions.get("PodScheduled", {}), times.get("PodScheduled")
    ended = None
    if waits.get("status") == "False" and since is not None and over is None:
        message = text_at(waits, "message")
        gated = text_at(waits, "reason") != "Unschedulable"
        reason = text_at(waits, "reason") if gated else why_unschedulable(message)
        ended = spells.observe(
            uid, since, raw_id=uid, reason=reason or "Unschedulable", message=message or None
        )
    elif over is not None:
        ended = spells.end(uid, over)
    if ended:
        rows.add("pending", **{**ended, "count": 1})
