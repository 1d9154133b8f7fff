"""The rules on idle time, written out slowly: one instant after the other, plain Python, no frames.

An op is (stream, start, end, kind, correlation); a host event is (thread, start, end, kind, name, correlation).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mpg_cli.goodput.idle.rules import IdleRule, IdleRules


class Op(NamedTuple):
    stream: int
    start: int
    end: int
    kind: str
    correlation: int | None


class Event(NamedTuple):
    thread: int
    start: int
    end: int
    kind: str
    name: str
    correlation: int | None = None


@dataclass
class Oracle:
    """One device, its host events in the order of the file, its window and the rules."""

    ops: list[Op]
    events: list[Event]
    window: tuple[int, int]
    rules: IdleRules
    stepper: int | None = None

    def causes(self) -> dict[int, str]:
        """The cause of every idle nanosecond of the window."""
        return {at: self.cause(at) for at in range(*self.window) if not self.busy(at)}

    def busy(self, at: int) -> bool:
        return any(op.start <= at < op.end for op in self.ops)

    def calls(self) -> dict[int, Event]:
        """The outermost launch call of every correlation id that a device record carries."""
        known = {op.correlation for op in self.ops} - {None, 0}
        found: dict[int, Event] = {}
        for event in sorted(self.events, key=lambda e: (e.start, -e.end)):
            if event.kind == "runtime" and event.correlation in known and event.correlation:
                found.setdefault(event.correlation, event)
        return found

    def voters(self) -> set[int]:
        return {call.thread for call in self.calls().values()} | ({self.stepper} - {None})

    def believed(self, call: Event | None) -> set[int]:
        """The threads whose ranges and syncs count: the one that steps, or all voters, and the gap's own."""
        principal = self.voters() if self.stepper is None else {self.stepper}
        return principal | ({call.thread} if call else set())

    def gap(self, at: int) -> tuple[int, int, bool]:
        """The gap around an instant, whole; and whether nothing ends it."""
        solid = [op for op in self.ops if op.start < op.end]
        start = max([op.end for op in solid if op.end <= at], default=self.window[0])
        ends = [op.start for op in solid if op.start > at]
        return start, min(ends, default=self.window[1]), not ends

    def cause(self, at: int) -> str:
        start, end, tail = self.gap(at)
        call, next_op = self.ended_by(end) if not tail else (None, None)
        soft = self.soft_end(start, end, tail, call)
        found = (
            self.device_side(start, end, soft, call, next_op)
            if at >= soft
            else self.host_side(at, call, tail)
        )
        cause, firm = found
        drained = (
            cause in ("launch_bound", "host_code") and not firm and not tail and self.drained(start, call)
        )
        return "synchronisation" if drained else cause

    def soft_end(self, start: int, end: int, tail: bool, call: Event | None) -> int:
        if tail:
            return end
        return min(max(call.end, start), end) if call else start

    def ended_by(self, end: int) -> tuple[Event | None, Op]:
        calls = self.calls()
        begins = [op for op in self.ops if op.start == end]
        first = min(
            begins,
            key=lambda op: (calls[op.correlation].start if op.correlation in calls else 10**9, op.stream),
        )
        return calls.get(first.correlation or -1), first

    def device_side(
        self, start: int, end: int, soft: int, call: Event | None, op: Op | None
    ) -> tuple[str, bool]:
        limits, rest = self.rules.limits, end - soft
        if call is None:
            if rest <= limits.unlinked_gap_ns:
                return "kernel_gap", False
            linked = [o.start for o in self.ops if o.correlation in self.calls()]
            return ("transient" if linked and end <= min(linked) else "unknown"), False
        if call.end > start:
            return ("launch_bound" if rest <= limits.launch_latency_ns else "unknown"), False
        before = [o for o in self.ops if o.end == start]
        near = any(
            o.stream == op.stream or (o.correlation is not None and o.correlation == op.correlation)
            for o in before
        )
        if near:
            return ("kernel_gap" if rest <= limits.kernel_gap_ns else "unknown"), False
        return ("dependency" if before and rest <= limits.dependency_ns else "unknown"), False

    def host_side(self, at: int, call: Event | None, tail: bool) -> tuple[str, bool]:
        voters, owner, believed = self.voters(), self.stepper if tail else call.thread, self.believed(call)
        for rule in self.rules.ranges:
            for event in self.events:
                heard = event.kind == "overhead" or event.thread in believed
                if heard and event.start <= at < event.end and self.first_rule(event) is rule:
                    return rule.cause, True
        mine = self.blame(owner, at)
        if mine is not None:
            return mine[1:]
        others = [self.speaks(thread, at) for thread in voters]
        found = max(
            (said for said in others if said), key=lambda said: self.events[said[0]].start, default=None
        )
        return found[1:] if found else ("host_code", False)

    def first_rule(self, event: Event) -> IdleRule | None:
        for rule in self.rules.ranges:
            if event.kind in rule.kinds and matches(rule, event.name):
                return rule
        return None

    def speaks(self, thread: int, at: int) -> tuple[int, str, bool] | None:
        """What a thread has to say: its operator or call, else its frame."""
        called = self.blame(thread, at)
        if called is not None:
            return called
        frame = self.innermost(thread, at, "python")
        return None if frame is None else (frame, "host_code", False)

    def innermost(self, thread: int | None, at: int, *kinds: str) -> int | None:
        inside = [
            (event.start, -event.end, row)
            for row, event in enumerate(self.events)
            if event.thread == thread and event.kind in kinds and event.start <= at < event.end
        ]
        return max(inside)[2] if inside else None

    def blame(self, thread: int | None, at: int) -> tuple[int, str, bool] | None:
        """The event, the cause and whether it is firm, of the operators and calls that a thread is in."""
        rows = [(e.start, -e.end, row) for row, e in enumerate(self.events) if self.inside(e, thread, at)]
        if not rows:
            return None
        for *_, row in sorted(rows):
            if cause := self.named_call(self.events[row]):
                return row, cause, False
        low, high = self.stretch(thread, at)
        ops = [row for *_, row in sorted(rows) if self.events[row].kind == "op"]
        if ops and self.without_overhead(low, high) > self.rules.limits.long_self_ns:
            return ops[-1], "host_code", True
        for row in ops:
            if self.quiet(self.events[row]):
                return row, "host_code", False
        return self.outermost(thread, at), "launch_bound", False

    def inside(self, event: Event, thread: int | None, at: int) -> bool:
        return event.thread == thread and event.kind in ("op", "runtime") and event.start <= at < event.end

    def named_call(self, event: Event) -> str | None:
        if event.kind != "runtime":
            return None
        if self.blocking(event):
            return "synchronisation"
        for rule in self.rules.calls:
            if matches(rule, event.name):
                return rule.cause
        long = self.without_overhead(event.start, event.end) > self.rules.limits.long_call_ns
        return "compile" if long else None

    def outermost(self, thread: int | None, at: int) -> int:
        """The first event of the stretch that the thread's operators and calls make without a break."""
        first, reach = -1, -1
        rows = sorted(
            (e.start, -e.end, row) for row, e in enumerate(self.events) if self.inside(e, thread, e.start)
        )
        for start, end, row in rows:
            if start > at:
                break
            first = row if start >= reach else first
            reach = max(reach, -end)
        return first

    def blocking(self, event: Event) -> bool:
        if event is not self.calls().get(event.correlation or -1):
            return False
        return any(
            o.kind == "memcpy" and o.correlation == event.correlation and o.end <= event.end for o in self.ops
        )

    def without_overhead(self, start: int, end: int) -> int:
        rows = [e for e in self.events if e.kind == "overhead"]
        return sum(not any(e.start <= at < e.end for e in rows) for at in range(start, end))

    def stretch(self, thread: int | None, at: int) -> tuple[int, int]:
        """Between which edges of the thread's operators and calls an instant lies."""
        mine = [e for e in self.events if self.inside(e, thread, e.start)]
        edges = {e.start for e in mine} | {e.end for e in mine}
        return max(edge for edge in edges if edge <= at), min(edge for edge in edges if edge > at)

    def quiet(self, op: Event) -> bool:
        """Whether it is long and nothing is launched under it."""
        launches = [call.start for call in self.calls().values() if call.thread == op.thread]
        long = op.end - op.start >= self.rules.limits.quiet_op_ns
        return long and not any(op.start <= start < op.end for start in launches)

    def drained(self, start: int, call: Event | None) -> bool:
        named = (rule for rule in self.rules.calls if rule.cause == "synchronisation")
        patterns = list(named)
        return any(
            event.kind == "runtime"
            and event.thread in self.believed(call)
            and event.start <= start < event.end
            and (self.blocking(event) or any(matches(rule, event.name) for rule in patterns))
            for event in self.events
        )


def matches(rule: IdleRule, name: str) -> bool:
    found = re.search(rule.pattern, name) is not None
    return found and not (rule.exclude and re.search(rule.exclude, name))
