"""Events: what the scheduler, the kubelet, the node controller and Kueue said of an object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_parsers.kube.chips import accelerators
from mpg_parsers.kube.fields import MAX_MESSAGE, Object, as_json, count_at, node_at, text_at, uid_of

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows

POD = {
    "FailedScheduling": "failed_scheduling",
    "NotTriggerScaleUp": "pending",
    "Scheduled": "allocate",
    "Pulling": "pull",
    "Pulled": "pull",
    "Started": "start",
    "Preempted": "preempt",
    "Preempting": "preempt",
    "Evicted": "evict",
    "TaintManagerEviction": "evict",
    "DeadlineExceeded": "evict",
    "NodeNotReady": "node_failure",
    "NodeShutdown": "node_failure",
}
NODE = {
    "NodeNotReady": "node_down",
    "Shutdown": "node_down",
    "RemovingNode": "node_down",
    "DeletingNode": "node_down",
    "Rebooted": "node_failure",
    "NodeReady": "node_up",
    "NodeSchedulable": "node_up",
    "NodeNotSchedulable": "node_drain",
}
# of Kueue's workloads, and of jobs, which Kueue stops and starts
WORKLOAD = {
    "QuotaReserved": "quota_reserved",
    "Admitted": "admit",
    "Pending": "pending",
    "Preempted": "preempt",
    "Stopped": "end",
    "FinishedWorkload": "end",
    "Finished": "end",
    "Requeued": "requeue",
    "Started": "start",
    "Suspended": "suspend",
    "Resumed": "resume",
    "Completed": "end",
    "JobSetCompleted": "end",
    "AllJobsCompleted": "end",
    "BackoffLimitExceeded": "end",
    "DeadlineExceeded": "end",
}
EVICTED = "EvictedDueTo"
KINDS = {"Pod": POD, "Node": NODE}
NAMES = ("Pod", "Node", "Workload", "Job", "JobSet")
# the scheduler names the pod by its uid or, before 1.26, by namespace/name; Kueue the workload by its uid
PREEMPTOR = re.compile(r"\(UID: ([\w-]+)|\bby (?:pod )?([\w.-]+(?:/[\w.-]+)?) on node")
ASSIGNED = re.compile(r"^Successfully assigned \S+ to (\S+)$")
UNAVAILABLE = re.compile(r"^\d+/\d+ nodes are available: (.*?)\.?(?: preemption: .*)?$", re.DOTALL)
PART = re.compile(r"(?:^|[,.] )(\d+) ((?:(?![,.] \d).)+)", re.DOTALL)


def read_event(value: Object, rows: Rows) -> None:
    """Add what an Event of core/v1 or events.k8s.io/v1 says, if it concerns us."""
    about = node_at(value, "involvedObject") or node_at(value, "regarding")
    kind, reason = text_at(about, "kind"), text_at(value, "reason")
    first, last, count = _times(value, rows)
    event = _event(kind, reason)
    if event is None or first is None:
        return
    message = text_at(value, "message") or text_at(value, "note")
    on_node = kind == "Node"
    raw_id = None if on_node else text_at(about, "uid") or uid_of({"metadata": about}, kind)
    preemptor = PREEMPTOR.search(message) if event == "preempt" else None
    node = text_at(about, "name") if on_node else _assigned(message)
    rows.event(
        event, first, raw_id, reason, message, last_ns=last if last != first else None, count=count,
        other=next(filter(None, preemptor.groups())) if preemptor else None,
        nodes=as_json([node]) if node else None, node_clock=_from_node(value),
    )  # fmt: skip
    if event in ("failed_scheduling", "pending") and raw_id and (kind == "Pod" or message):
        why = why_unschedulable(message) if event == "failed_scheduling" else reason
        said = message[:MAX_MESSAGE] or None
        end = last if last != first else None
        rows.add("pending", raw_id=raw_id, start_ns=first, end_ns=end, reason=why, message=said, count=count)


def _event(kind: str, reason: str) -> str | None:
    if kind not in NAMES:
        return None
    if kind not in KINDS and reason.startswith(EVICTED):
        return "evict"
    return KINDS.get(kind, WORKLOAD).get(reason)


def _times(value: Object, rows: Rows) -> tuple[int | None, int | None, int]:
    """The first time, the last time and how often; a series counts what its own event does not."""
    series = node_at(value, "series")
    firsts = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime", "lastTimestamp")
    times = [rows.at(value.get(key)) for key in (*firsts, "deprecatedLastTimestamp")]
    created, observed = (
        rows.at(node_at(value, "metadata").get("creationTimestamp")),
        series.get("lastObservedTime"),
    )
    known = [ns for ns in (*times, rows.at(observed)) if ns is not None]
    # eventTime has microseconds, which firstTimestamp, cut to seconds, has not
    precise = times[2]
    first = precise if precise is not None else next((ns for ns in times if ns is not None), created)
    counts = [count_at(value, "count"), count_at(value, "deprecatedCount"), count_at(series, "count"), 1]
    last = max(known, default=first)
    return first, None if first is None or last is None else max(first, last), max(filter(None, counts))


def _from_node(value: Object) -> bool | None:
    component = text_at(value, "source", "component") or text_at(value, "deprecatedSource", "component")
    component = component or text_at(value, "reportingComponent") or text_at(value, "reportingController")
    return True if component.rpartition("/")[2] == "kubelet" else None


def _assigned(message: str) -> str:
    found = ASSIGNED.match(message)
    return found[1] if found else ""


def why_unschedulable(message: str) -> str:
    """The reason that matters most in "0/64 nodes are available: 64 Insufficient nvidia.com/gpu, …".

    A lack of accelerators before any other lack: the nodes that do not match are often those of other pools.
    """
    found = UNAVAILABLE.match(message)
    parts: list[tuple[int, str]] = (
        [(int(count), text.partition(". ")[0].strip(" .")) for count, text in PART.findall(found[1])]
        if found
        else []
    )
    if not parts:
        return message.partition(":")[0][:200].strip(" .") or "FailedScheduling"
    _, text = max(parts, key=lambda part: (_weight(part[1]), part[0]))
    return text[:200]


def _weight(text: str) -> int:
    if not text.startswith("Insufficient "):
        return 0
    return 2 if accelerators({text.removeprefix("Insufficient ").split(" ")[0]: 1}) else 1
