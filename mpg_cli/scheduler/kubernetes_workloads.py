"""Workloads of Kueue into attempts: from each admission until its pods had stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from mpg_cli.scheduler.kubernetes_history import Object, Row

SECOND = 10**9
NEAR = 5 * SECOND  # within this an event and a condition tell of one and the same change
# the order of what happens in one second
RANKS = ("submit", "preempt", "evict", "suspend", "resume", "stop", "pending", "hold", "requeue", "quota_reserved",
         "admit", "start", "end")  # fmt: skip
EVICTED = "EvictedDueTo"
STOPPED = "Stopped"
STATES = {
    "Preempted": "PREEMPTED",
    "NodeFailures": "NODE_FAIL",
    "MaximumExecutionTimeExceeded": "TIMEOUT",
    "DeactivatedDueToMaximumExecutionTimeExceeded": "TIMEOUT",
}
FINAL = ("COMPLETED", "FAILED")


@dataclass
class Attempt:
    """One wait and, once admitted, the allocation that ended it. Unix ns; ended_by is Kueue's reason."""

    submit: int
    eligible: int
    start: int | None = None
    ready: int | None = None
    evicted: int | None = None
    requeued: int | None = None
    ended_by: str | None = None
    end: int | None = None
    failed: bool = False
    stopped: bool = False  # the end is when its pods stopped, not when they were told to


@dataclass
class Lost:
    """Workloads of which the files miss evictions: a condition keeps only its last change."""

    names: list[str] = field(default_factory=list)
    missing: int = 0
    missing_ns: int = 0

    def notices(self) -> list[Notice]:
        """One notice, if there are any."""
        if not self.names:
            return []
        also = f", {self.missing_ns // SECOND} s of running" if self.missing_ns else ""
        some = ", ".join(self.names[:3])
        message = (
            f"{self.missing} evictions{also} of {len(self.names)} workloads ({some}) are counted but not recorded: "
            "a condition keeps only its last change, so their earlier attempts are missing; watch with "
            "`kubectl get workloads -A -o json --watch`"
        )
        return [Notice("missing_event", message, self.missing)]


def workload_attempts(workload: Object, extra: list[Row], as_of: int, lost: Lost) -> list[Row]:
    """The attempts of a workload in order, with the columns that stitching adds (see `kubernetes.stitch`).

    extra: events of the job that it is of, and ends of its pods (event "end", reason "Stopped"); as_of: Unix ns up to
    which it is followed if it has no end.
    """
    attempts = _Walk(workload).attempts(extra)
    _note(workload, attempts, lost)
    return [_row(workload, number, one, as_of) for number, one in enumerate(attempts, 1)]


class _Walk:
    """Goes through the events of a workload."""

    def __init__(self, workload: Object) -> None:
        self._workload = workload
        first = min((e["ts_ns"] for e in workload.events), default=0)
        submit = workload.row["submit_ns"]
        submit = first if submit is None else submit
        self._now = Attempt(submit, submit)
        self._done: list[Attempt] = []
        self._over = False

    def attempts(self, extra: list[Row]) -> list[Attempt]:
        events = sorted((*self._workload.events, *extra), key=lambda e: (e["ts_ns"], RANKS.index(_kind(e))))
        for event in events:
            if not self._over:
                self._step(event, _kind(event))
        if not self._over and self._now.start is not None and self._now.requeued is not None:
            self._close(self._now.requeued, stopped=False)
        inactive = self._done and (self._done[-1].ended_by or "").startswith("Deactivated")
        if not self._over and not (inactive and self._now.start is None):
            self._done.append(self._now)
        return self._done

    def _step(self, event: Row, kind: str) -> None:
        at, now = event["ts_ns"], self._now
        if kind == "end":
            self._finish(event)
        elif now.start is None:
            self._wait(kind, at)
        elif kind in ("evict", "preempt"):
            self._evict(event, kind)
        elif kind in ("stop", "pending") and at > now.start:
            # the quota is given back once the pods have stopped
            self._close(at, stopped=True)
        elif kind == "requeue" and at > now.start:
            now.requeued = at  # which may be said before the pods have stopped
        elif kind == "admit" and at > now.start + NEAR:
            self._missed(at)
        elif kind == "start" and now.ready is None and at >= now.start:
            now.ready = at

    def _wait(self, kind: str, at: int) -> None:
        last = self._done[-1] if self._done else None
        repeated = last is not None and last.start is not None and at <= last.start + NEAR
        if kind == "admit" and at >= self._now.submit and not repeated:
            self._now.start = at
        elif kind == "requeue" and at >= self._now.submit:
            self._now.eligible = at

    def _evict(self, event: Row, kind: str) -> None:
        now = self._now
        if now.evicted is None:
            now.evicted = event["ts_ns"]
        if kind == "evict":
            now.ended_by = (event["reason"] or "Evicted").removeprefix(EVICTED)
        else:
            now.ended_by = now.ended_by or "Preempted"

    def _missed(self, at: int) -> None:
        """Admitted again without a word of when its pods stopped."""
        now = self._now
        start = now.start or at
        told = [ns for ns in (now.requeued, now.evicted) if ns is not None]
        seen = [ns for s, (_, ns) in self._workload.admissions.items() if abs(s - start) <= NEAR]
        self._close(min(at, told[0] if told else max([*seen, start])), stopped=False)
        self._now.start = at

    def _close(self, at: int, *, stopped: bool) -> None:
        now = self._now
        now.end, now.stopped, now.ended_by = at, stopped, now.ended_by or "Evicted"
        self._done.append(now)
        self._now = Attempt(at, max(at, now.requeued or at))

    def _finish(self, event: Row) -> None:
        now = self._now
        now.end, now.ended_by, self._over = max(event["ts_ns"], now.start or now.submit), "Finished", True
        now.failed, now.stopped = "fail" in (event["message"] or "").lower(), True
        self._done.append(now)


def _kind(event: Row) -> str:
    stop = event["event"] == "end" and event["reason"] == STOPPED
    return "stop" if stop else event["event"] if event["event"] in RANKS else "hold"


def _row(workload: Object, number: int, one: Attempt, as_of: int) -> Row:
    open_ = one.end is None
    until = max(as_of if one.end is None else one.end, one.submit if one.start is None else one.start)
    held = 0 if one.start is None else until - one.start
    begun = until if one.start is None else one.start
    row = _admitted(workload, one.start)
    return {
        **row, "attempt": number, "submit_ns": one.submit, "eligible_ns": one.eligible, "start_ns": one.start,
        "end_ns": until, "open": open_, "state": _state(workload.row["state"], one), "ended_by": one.ended_by,
        "chips": row["chips_requested"] if one.start is None else row["chips"] or row["chips_requested"],
        "run_ns": held, "ran_ns": held, "held_ns": held, "failed_scheduling": 0,
        "queue_wait_ns": max(0, begun - one.submit), "queue_wait_min_ns": None, "queue_wait_max_ns": None,
        "schedule_to_start_ns": None if one.ready is None or one.start is None else max(0, one.ready - one.start),
    }  # fmt: skip


def _admitted(workload: Object, start: int | None) -> Row:
    """The row that tells of this admission, else the last one; nodes are those of their own admission only."""
    if start is None:
        return {**workload.row, **dict.fromkeys(("nodes", "chips_by_node", "placed"))}
    for at, (row, _) in workload.admissions.items():
        if abs(at - start) <= NEAR:
            return {name: row.get(name) for name in workload.row}
    if workload.admissions:
        return {**workload.row, **dict.fromkeys(("nodes", "chips_by_node", "placed"))}
    return workload.row


def _state(told: str | None, one: Attempt) -> str:
    if one.start is None and one.end is None:
        return "PENDING"
    if one.end is None:
        return "RUNNING"
    if one.ended_by == "Finished":
        return told if told in FINAL else "FAILED" if one.failed else "COMPLETED"
    return STATES.get(one.ended_by or "", "EVICTED")


def _note(workload: Object, attempts: list[Attempt], lost: Lost) -> None:
    """Note evictions that the workload counts and no file has."""
    closed = [
        one
        for one in attempts
        if one.start is not None and one.end is not None and one.ended_by != "Finished"
    ]
    counted, past = workload.row["restarts"] or 0, workload.row["run_ns"] or 0
    ran = sum((one.end or 0) - (one.start or 0) for one in closed)
    if counted > len(closed):
        lost.names.append(workload.row["job"])
        lost.missing += counted - len(closed)
        lost.missing_ns += max(0, past - ran)
