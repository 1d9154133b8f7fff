"""Workloads of Kueue: what they ask for, their admission and eviction, and where they were placed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.kube.chips import MOST_CHIPS, Wish, accelerators, wish_of
from mpg_parsers.kube.events import PREEMPTOR
from mpg_parsers.kube.fields import (
    Object,
    as_json,
    conditions_of,
    count_at,
    holds,
    int_at,
    labels_of,
    listed_labels,
    node_at,
    objects_at,
    seconds_at,
    text_at,
    uid_of,
)
from mpg_parsers.kube.owners import JOB_UID, controller_of, owner_of, wish_of_template
from mpg_parsers.kube.placement import Placement, read_placement

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows, Spells

# condition and status → event. A condition keeps only its last change, so that earlier ones are in earlier dumps.
EVENTS = {
    ("QuotaReserved", "True"): "quota_reserved",
    ("QuotaReserved", "False"): "pending",
    ("Admitted", "True"): "admit",
    ("Admitted", "False"): "pending",
    ("PodsReady", "True"): "start",
    ("Evicted", "True"): "evict",
    ("Preempted", "True"): "preempt",
    ("Requeued", "True"): "requeue",
    ("Requeued", "False"): "hold",
    ("Finished", "True"): "end",
}
RECOVERY = "WaitForRecovery"


@dataclass(frozen=True, slots=True)
class PodSet:
    """One set of like pods of a workload; `placed_pods` is None before it is admitted."""

    wish: Wish
    count: int
    least: int
    level: str | None
    slices: str | None
    placed_pods: int | None
    placement: Placement | None
    flavor: str
    usage: int

    @property
    def chips_each(self) -> int:
        """Accelerators of a pod; where a default of the cluster adds them, those of the usage."""
        return self.wish.chips or (self.usage // self.placed_pods if self.placed_pods else 0)


def read_workload(value: Object, line: int, rows: Rows, spells: Spells) -> None:
    """Add a workload: its row in attempts, its conditions as events, what it waits for."""
    uid, conditions = uid_of(value, "Workload"), conditions_of(value)
    times = {name: rows.at(condition.get("lastTransitionTime")) for name, condition in conditions.items()}
    created = rows.at(node_at(value, "metadata").get("creationTimestamp"))
    for name, condition in conditions.items():
        _add_event(name, condition, times[name], uid, rows)
    admitted, finished = holds(conditions.get("Admitted")), holds(conditions.get("Finished"))
    rows.add_state(
        "attempts", uid, line, **_row(value, uid, admitted=admitted), submit_ns=created, eligible_ns=created,
        start_ns=times["Admitted"] if admitted else None, end_ns=times["Finished"] if finished else None,
        state=_state(conditions, admitted=admitted, finished=finished),
        ended_by="Finished" if finished else None, reason=_reason(conditions),
    )  # fmt: skip
    _observe_wait(conditions, times, created, uid, rows, spells)


def _add_event(name: str, condition: Object, ts: int | None, uid: str, rows: Rows) -> None:
    reason, message, status = (
        text_at(condition, "reason"),
        text_at(condition, "message"),
        condition.get("status"),
    )
    event = EVENTS.get((name, status if isinstance(status, str) else ""))
    if name == "PodsReady" and reason in (RECOVERY, "Recovered"):
        event = "suspend" if reason == RECOVERY else "resume"
    if event is None:
        return
    found = PREEMPTOR.search(message) if event in ("preempt", "evict") else None
    other = next(filter(None, found.groups())) if found else None
    rows.event(event, ts, uid, "Finished" if event == "end" else reason, message, other=other)


def _row(value: Object, uid: str, *, admitted: bool) -> dict[str, object]:
    sets, spec = pod_sets(value), node_at(value, "spec")
    chips = (
        sum(s.chips_each * (s.count if s.placed_pods is None else s.placed_pods) for s in sets)
        if admitted
        else 0
    )
    asked, least = (
        sum(s.chips_each * n for s, n in ((s, getattr(s, name)) for s in sets)) for name in ("count", "least")
    )
    chips, asked, least = (min(count, MOST_CHIPS) for count in (chips, asked, least))
    kinds, shapes = (
        {s.wish.chip_type for s in sets if s.chips_each},
        {s.wish.shape for s in sets if s.chips_each},
    )
    pools = {s.flavor or s.wish.pool for s in sets if s.chips_each}
    kind = kinds.pop() if len(kinds) == 1 else ""
    nodes = _by_node(sets) if admitted else None
    limit = seconds_at(spec, "maximumExecutionTimeSeconds")
    past = seconds_at(value, "status", "accumulatedPastExecutionTimeSeconds")
    owner = controller_of(value)
    labels = labels_of(value)
    if text_at(owner, "uid"):
        labels.setdefault(JOB_UID, text_at(owner, "uid"))
    unhealthy = [text_at(node, "name") for node in objects_at(value, "status", "unhealthyNodes")]
    return {
        "kind": "workload", "raw_id": uid, "job": text_at(value, "metadata", "name"), "owner": owner_of(value),
        "name": text_at(owner, "name") or None, "user": text_at(value, "metadata", "namespace") or None,
        "account": text_at(spec, "queueName") or None, "partition": pools.pop() or None if len(pools) == 1 else None,
        "qos": text_at(spec, "priorityClassName") or text_at(spec, "priorityClassRef", "name") or None,
        "priority": int_at(spec, "priority"), "limit_ns": limit or None,
        "run_ns": past,
        "chips": chips, "chips_requested": asked, "chips_least": least if least < asked else None,
        "chip_type": kind or None, "chips_by_type": as_json({kind: chips}) if kind and chips else None,
        "nodes": as_json(sorted(nodes)) if nodes else None, "chips_by_node": as_json(nodes) if nodes else None,
        "node_count": len(nodes) if nodes else None, "shape": shapes.pop() or None if len(shapes) == 1 else None,
        "topology": next((s.level for s in sets if s.level), None), "placed": _placed(sets) if admitted else None,
        "constraints": next((s.slices for s in sets if s.slices), None), "restarts": _restarts(value),
        "failed_node": unhealthy[0] if unhealthy else None, "labels": listed_labels(labels),
    }  # fmt: skip


def pod_sets(value: Object) -> list[PodSet]:
    """The sets of pods with what admission gave them."""
    given = {text_at(a, "name"): a for a in objects_at(value, "status", "admission", "podSetAssignments")}
    return [_pod_set(part, given.get(text_at(part, "name"))) for part in objects_at(value, "spec", "podSets")]


def _pod_set(part: Object, given: Object | None) -> PodSet:
    asked = count_at(part, "count")
    count = 1 if asked is None else asked
    wish, request = wish_of(node_at(part, "template", "spec")), node_at(part, "topologyRequest")
    level = (
        text_at(request, "required")
        or text_at(request, "preferred")
        or wish_of_template(node_at(part, "template"))
    )
    slice_level, size = text_at(request, "podSetSliceRequiredTopology"), int_at(request, "podSetSliceSize")
    got = count_at(given, "count") if given else None
    flavors = node_at(given, "flavors")
    usage = accelerators(node_at(given, "resourceUsage"))
    return PodSet(
        wish, count, min(count, count_at(part, "minCount") or count), level or None,
        f"{size or 1} pods share {slice_level}" if slice_level else None,
        None if given is None else count if got is None else got,
        read_placement(node_at(given, "topologyAssignment")),
        next((flavor for name, flavor in flavors.items() if isinstance(flavor, str) and accelerators({name: 1})), ""),
        sum(usage.values()),
    )  # fmt: skip


def _by_node(sets: list[PodSet]) -> dict[str, int] | None:
    """Chips by node; None unless all sets with chips are placed on nodes."""
    total = Counter[str]()
    for part in sets:
        if not part.chips_each:
            continue
        nodes = part.placement.by_node() if part.placement else None
        if nodes is None:
            return None
        for node, count in nodes.items():
            total[node] += count * part.chips_each
    return {node: min(chips, MOST_CHIPS) for node, chips in total.items()}


def _placed(sets: list[PodSet]) -> bool | None:
    """Whether all sets that wish to share a level do; None where the assignment does not say."""
    told = [s.placement.shares(s.level) if s.placement else None for s in sets if s.level]
    if not told or (None in told and False not in told):
        return None
    return False not in told


def _restarts(value: Object) -> int | None:
    """Evictions as counted; requeueing after a timeout has a count of its own."""
    counted = [count_at(e, "count") or 0 for e in objects_at(value, "status", "schedulingStats", "evictions")]
    requeued = count_at(value, "status", "requeueState", "count")
    return max(sum(counted), requeued or 0) if counted or requeued is not None else None


def _state(conditions: dict[str, Object], *, admitted: bool, finished: bool) -> str:
    if finished:
        told = conditions["Finished"]
        # before 0.9 the reason was JobFinished, and only the message told success from failure
        failed = text_at(told, "reason") == "Failed" or "fail" in text_at(told, "message").lower()
        return "FAILED" if failed and text_at(told, "reason") != "Succeeded" else "COMPLETED"
    return "RUNNING" if admitted else "PENDING"


def _reason(conditions: dict[str, Object]) -> str | None:
    waits = conditions.get("QuotaReserved", {})
    return (text_at(waits, "reason") or None) if waits.get("status") == "False" else None


def _observe_wait(
    conditions: dict[str, Object],
    times: dict[str, int | None],
    created: int | None,
    uid: str,
    rows: Rows,
    spells: Spells,
) -> None:
    """The stretch in which it has no quota, or has it and waits for checks."""
    waits, since = conditions.get("QuotaReserved", {}), times.get("QuotaReserved")
    ended = None
    over = next((times[name] for name in ("Finished", "Admitted") if holds(conditions.get(name))), None)
    if over is not None:
        ended = spells.end(uid, over)
    elif waits.get("status") == "False" and since is not None:
        reason, message = text_at(waits, "reason") or "Pending", text_at(waits, "message") or None
        ended = spells.observe(uid, since, raw_id=uid, reason=reason, message=message)
    elif holds(waits) and since is not None:
        ended = spells.observe(uid, since, raw_id=uid, reason="AdmissionChecks", message=None)
    elif created is not None:
        return
    if ended:
        rows.add("pending", **{**ended, "count": 1})
