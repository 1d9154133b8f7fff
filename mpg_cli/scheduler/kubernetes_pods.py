"""Pods into attempts: the wait by the scheduler's clock, the run by the node's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from mpg_cli.scheduler.kubernetes_history import Object, Row

SECOND = 10**9
# what only happens on a node
SIGNS = ("pull", "start", "end", "node_failure")


@dataclass
class Doubts:
    """What is not certain of pods, counted."""

    skews: list[int] = field(default_factory=list)
    unscheduled: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def notices(self) -> list[Notice]:
        """One of each kind that occurred."""
        found = []
        if self.skews:
            message = (
                f"clocks differ by at least {max(self.skews) // SECOND} s: {_pods(len(self.skews))} started by the "
                "node's clock before the scheduler had scheduled it; the time it ran is by the node's clock alone"
            )
            found.append(Notice("clock_skew", message, len(self.skews)))
        if self.unscheduled:
            message = (
                f"no Scheduled event of {_pods(len(self.unscheduled))} ({_some(self.unscheduled)}): events are kept "
                "for an hour; the wait is between the last FailedScheduling and the first sign of a node"
            )
            found.append(Notice("missing_event", message, len(self.unscheduled)))
        if self.gone:
            message = (
                f"{len(self.gone)} running pods ({_some(self.gone)}) are in one file and no longer in a later one, "
                "and no file has their end: they count until they were last seen"
            )
            found.append(Notice("missing_event", message, len(self.gone)))
        return found


def _pods(count: int) -> str:
    return "a pod" if count == 1 else f"{count} pods"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def pod_attempt(pod: Object, as_of: int, doubts: Doubts) -> Row:
    """The one attempt of a pod: its row with the columns that stitching adds (see `kubernetes.stitch`).

    as_of: Unix ns up to which it is followed if it has no end.
    """
    row, events = pod.row, pod.events
    failed = [e for e in events if e["event"] == "failed_scheduling"]
    scheduled = _scheduled(pod)
    started = min((e["ts_ns"] for e in events if e["event"] == "start"), default=None)
    signs = [e["ts_ns"] for e in events if e["event"] in SIGNS and e["node_clock"]]
    first = min((ns for ns in (scheduled, started, *signs) if ns is not None), default=as_of)
    submit = first if row["submit_ns"] is None else row["submit_ns"]
    never = scheduled is None and not signs and started is None
    start, end = _placed(row, scheduled, started, min(signs, default=None), submit)
    over = end is not None
    until = max(end if end is not None else as_of, submit if start is None else start)
    if row["chips_requested"]:
        _note(pod, doubts, scheduled, started, never=never, over=over)
    held = 0 if start is None else until - start
    return {
        **row, "attempt": 1, "submit_ns": submit, "start_ns": start, "end_ns": until, "open": not over,
        "chips": row["chips"] or row["chips_requested"],
        "run_ns": held, "ran_ns": held, "held_ns": held,
        "failed_scheduling": sum(e["count"] for e in failed),
        "schedule_to_start_ns": None if started is None or scheduled is None else max(0, started - scheduled),
        **_wait(submit, scheduled, signs, failed, until, never=never), **_ended(pod, over=over),
    }  # fmt: skip


def _ended(pod: Object, *, over: bool) -> Row:
    """State and what ended it, where only an event tells of the preemption or eviction."""
    told = [e for e in pod.events if e["event"] in ("preempt", "evict") and e["reason"]]
    if not over or not told or pod.row["ended_by"] or pod.row["state"] not in ("FAILED", "CANCELLED"):
        return {}
    preempted = told[-1]["event"] == "preempt"
    return {"state": "PREEMPTED" if preempted else "EVICTED", "ended_by": told[-1]["reason"]}


def _scheduled(pod: Object) -> int | None:
    """When it was bound to a node: as the event says, else as the condition says, which has whole seconds."""
    told = [e for e in pod.events if e["event"] == "allocate"]
    exact = [e["ts_ns"] for e in told if e["reason"] == "Scheduled"]
    bound: int | None = min(exact or [e["ts_ns"] for e in told], default=pod.row["start_ns"])
    return bound


def _placed(
    row: Row, scheduled: int | None, started: int | None, sign: int | None, submit: int
) -> tuple[int | None, int | None]:
    """Start and end on the scheduler's clock; the time between them is by the node's, which may be off."""
    end: int | None = row["end_ns"]
    begun = started if started is not None else sign if scheduled is None else scheduled
    if begun is None:
        return None, end
    start = max(begun, submit if scheduled is None else scheduled)
    if end is None:
        return start, None
    return start, start + max(0, end - begun)


def _wait(
    submit: int, scheduled: int | None, signs: list[int], failed: list[Row], until: int, *, never: bool
) -> Row:
    if scheduled is not None or never:
        wait = max(0, (until if scheduled is None else scheduled) - submit)
        return {"queue_wait_ns": wait, "queue_wait_min_ns": None, "queue_wait_max_ns": None}
    last = max((max(e["ts_ns"], e["last_ns"] or 0) for e in failed), default=submit)
    least, most = max(0, last - submit), max(0, min(signs, default=last) - submit)
    return {"queue_wait_ns": None, "queue_wait_min_ns": least, "queue_wait_max_ns": max(least, most)}


def _note(
    pod: Object, doubts: Doubts, scheduled: int | None, started: int | None, *, never: bool, over: bool
) -> None:
    name = pod.row["job"]
    if scheduled is None and not never:
        doubts.unscheduled.append(name)
    # whole seconds are cut, not rounded
    if scheduled is not None and started is not None and scheduled - started >= SECOND:
        doubts.skews.append(scheduled - started)
    if pod.gone and not over and not never:
        doubts.gone.append(name)
