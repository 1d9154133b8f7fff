"""Idle time by cause: hand-made gaps, and any small trace against the slow oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import activity, idle
from mpg_cli.goodput.idle.rules import IdleRule, IdleRules, Limits
from mpg_cli.goodput.names import NameRules
from mpg_cli.sources import load_sources
from tests.mpg_cli.datasets import dataset, host, op, source, step
from tests.mpg_cli.goodput.idle.oracle import Event, Op, Oracle

if TYPE_CHECKING:
    from mpg_cli.goodput.idle import Idle

LIMITS = Limits(
    kernel_gap_ns=4,
    dependency_ns=6,
    unlinked_gap_ns=2,
    launch_latency_ns=5,
    long_call_ns=9,
    long_self_ns=8,
    quiet_op_ns=5,
)
RANGES = (
    IdleRule("p", "profiler_overhead", ("overhead",), "."),
    IdleRule("i", "input", ("annotation", "op", "python"), "load"),
    IdleRule("c", "checkpoint", ("annotation", "python"), "save"),
)
CALLS = (
    IdleRule("s", "synchronisation", ("runtime",), "sync"),
    IdleRule("a", "allocator", ("runtime",), "malloc"),
)
RULES = IdleRules(LIMITS, RANGES, CALLS)
STEPPER = 3


def attribute(ops: list[Op], events: list[Event], window: tuple[int, int], rules: IdleRules = RULES) -> Idle:
    rows = [
        op(o.start, o.end - o.start, stream=o.stream, kind=o.kind, correlation=o.correlation) for o in ops
    ]
    told = [
        host(e.start, e.end - e.start, e.name, e.kind, thread=e.thread, correlation=e.correlation)
        for e in events
    ]
    about = step(1, *window)
    made = dataset(source(rows, events=told, steps=[about]))
    loaded = activity.load(made, load_sources(made)[0], NameRules.load())
    spans = pl.DataFrame(
        {"subject": [0], "source": [0], "start_ns": [window[0]], "end_ns": [window[1]]},
        schema_overrides={"source": pl.Int32},
    )
    return idle.attribute(made, loaded, spans, made.scan("steps").collect(), rules)


def causes(found: Idle) -> dict[int, str]:
    told: dict[int, str] = {}
    for start, end, cause in found.segments.select("start_ns", "end_ns", "cause").iter_rows():
        for at in range(start, end):
            assert at not in told, "segments overlap"
            told[at] = cause
    return told


@st.composite
def hosts(draw: st.DrawFn, correlations: range) -> list[Event]:
    """Nested events on three threads: 1 and 2 launch, 4 never does; 3 holds the step."""
    events: list[Event] = []
    waiting = list(correlations)
    names = {
        "op": ("aten::add", "load_op"),
        "runtime": ("launch", "sync", "malloc", "other"),
        "annotation": ("## forward ##", "load", "save"),
        "python": ("f.py(1): g", "data.py(2): load"),
    }

    def fill(thread: int, low: int, high: int, depth: int) -> None:
        at = low
        for _ in range(draw(st.integers(0, 3 if depth < 3 else 0))):
            if at >= high:
                return
            start = draw(st.integers(at, high - 1))
            end = draw(st.integers(start + 1, high))
            kind = draw(st.sampled_from(list(names)))
            name = draw(st.sampled_from(names[kind]))
            launches = kind == "runtime" and name in ("launch", "sync") and thread != 4 and waiting
            correlation = waiting.pop(0) if launches and draw(st.booleans()) else None
            events.append(Event(thread, start, end, kind, name, correlation))
            if kind != "runtime":
                fill(thread, start, end, depth + 1)
            at = end

    for thread in (1, 2, 4):
        fill(thread, 0, 40, 0)
    if draw(st.booleans()):
        start = draw(st.integers(0, 30))
        events.append(Event(9, start, start + draw(st.integers(1, 5)), "overhead", "flush"))
    return events


@st.composite
def devices(draw: st.DrawFn) -> tuple[list[Op], list[Event]]:
    events = draw(hosts(range(1, 7)))
    starts = {event.correlation: event.start for event in events if event.correlation}
    ops, free = [], {7: 0, 20: 0}
    for correlation in range(1, 7):
        stream = draw(st.sampled_from([7, 20]))
        earliest = max(free[stream], starts.get(correlation, 0))
        start = earliest + draw(st.integers(0, 7))
        end = start + draw(st.integers(1, 6))
        free[stream] = end
        ops.append(Op(stream, start, end, draw(st.sampled_from(["kernel", "kernel", "memcpy"])), correlation))
    return ops, events


@settings(max_examples=25, deadline=None)
@given(devices(), st.integers(0, 10), st.integers(40, 50), st.sampled_from([None, 1, STEPPER]))
def test_any_trace_agrees_with_the_oracle(made, low, high, stepper):
    ops, events = made
    stepping = [] if stepper is None else [Event(stepper, low, high, "annotation", "ProfilerStep#1")]
    found = causes(attribute(ops, [*events, *stepping], (low, high)))
    assert found == Oracle(ops, [*events, *stepping], (low, high), RULES, stepper).causes()


def launch(thread: int, start: int, end: int, correlation: int, name: str = "launch") -> Event:
    return Event(thread, start, end, "runtime", name, correlation)


BEFORE = Op(7, 0, 10, "kernel", 1)
FIRST = launch(1, 0, 1, 1)


@pytest.mark.parametrize(
    ("ops", "events", "want"),
    [
        pytest.param(
            [BEFORE, Op(7, 20, 30, "kernel", 2)],
            [FIRST, Event(1, 8, 18, "op", "aten::add"), launch(1, 15, 18, 2)],
            {"launch_bound": 10},
            id="inside an operator that launches, then the launch's latency",
        ),
        pytest.param(
            [BEFORE, Op(7, 14, 30, "kernel", 2)],
            [FIRST, launch(1, 3, 4, 2), Event(1, 5, 30, "annotation", "load")],
            {"kernel_gap": 4},
            id="queued long before: what the host does now does not matter",
        ),
        pytest.param(
            [BEFORE, Op(7, 18, 30, "kernel", 2)],
            [FIRST, launch(1, 3, 4, 2)],
            {"unknown": 8},
            id="queued, and still not started after the usual gap",
        ),
        pytest.param(
            [Op(20, 0, 10, "kernel", 1), Op(7, 14, 30, "kernel", 2)],
            [FIRST, launch(1, 3, 4, 2)],
            {"dependency": 4},
            id="queued behind another stream",
        ),
        pytest.param(
            [BEFORE, Op(7, 20, 30, "kernel", 2)],
            [FIRST, Event(1, 9, 16, "annotation", "load"), launch(1, 17, 18, 2)],
            {"input": 6, "host_code": 1, "launch_bound": 3},
            id="the loader, then nothing recorded, then the call and its latency",
        ),
        pytest.param(
            [BEFORE, Op(7, 20, 30, "kernel", 2)],
            [FIRST, Event(4, 9, 16, "annotation", "load"), launch(1, 17, 18, 2)],
            {"host_code": 7, "launch_bound": 3},
            id="a thread that launches nothing is not heard",
        ),
        pytest.param(
            [BEFORE, Op(7, 20, 30, "kernel", 2)],
            [FIRST, launch(1, 17, 18, 2), Event(1, 4, 12, "runtime", "sync")],
            {"synchronisation": 10},
            id="a sync that was waiting when the device ran dry owns the whole gap",
        ),
        pytest.param(
            [BEFORE, Op(7, 20, 30, "kernel", 2)],
            [FIRST, Event(1, 11, 14, "runtime", "malloc"), launch(1, 17, 18, 2), Event(1, 4, 11, "runtime", "sync")],
            {"synchronisation": 7, "allocator": 3},
            id="but for an allocation",
        ),
        pytest.param(
            [BEFORE, Op(7, 26, 40, "kernel", 2)],
            [FIRST, Event(1, 10, 26, "python", "f.py(1): g"), Event(2, 12, 24, "op", "aten::mm"),
             launch(2, 22, 23, 2), Event(2, 13, 14, "runtime", "other")],
            {"host_code": 2, "launch_bound": 14},
            id="another thread's operator goes before the frame of the one that waits for it",
        ),
        pytest.param(
            [Op(7, 0, 10, "kernel", 1), Op(7, 15, 20, "kernel", 2), Op(7, 26, 30, "kernel", 3)],
            [launch(1, 22, 23, 3)],
            {"transient": 5, "launch_bound": 4, "host_code": 2},
            id="before the first launch that is in the file",
        ),
        pytest.param(
            [BEFORE, Op(7, 30, 40, "kernel", 2)],
            [FIRST, launch(1, 12, 28, 2)],
            {"host_code": 2, "compile": 16, "launch_bound": 2},
            id="a long launch call loads or compiles something",
        ),
        pytest.param(
            [BEFORE, Op(7, 30, 40, "memcpy", 2)],
            [FIRST, launch(1, 12, 42, 2)],
            {"host_code": 2, "synchronisation": 18},
            id="a copy that is over before its call returns",
        ),
    ],
)  # fmt: skip
def test_a_gap(ops, events, want):
    window = (min(o.start for o in ops), max(o.end for o in ops))
    found = causes(attribute(ops, events, window))
    told = {cause: sum(1 for each in found.values() if each == cause) for cause in set(found.values())}
    assert told == want
    assert found == Oracle(ops, events, window, RULES).causes()


def test_after_the_last_activity_the_stepping_thread_is_asked():
    span = Event(STEPPER, 0, 30, "annotation", "ProfilerStep#1")
    events = [FIRST, span, Event(STEPPER, 12, 25, "annotation", "save")]
    found = attribute([BEFORE], events, (0, 30))
    rows = dict(found.rows().select("cause", "chip_ns").iter_rows())
    assert rows == {"checkpoint": 13, "host_code": 7}


def test_evidence_says_what_where_and_when():
    events = [
        FIRST,
        Event(1, 8, 25, "python", "train.py(7): step"),
        Event(1, 9, 18, "op", "aten::add"),
        launch(1, 15, 18, 2),
        Event(1, 2, 30, "annotation", "## forward ##"),
    ]
    found = attribute([BEFORE, Op(7, 20, 30, "kernel", 2)], events, (0, 30))
    told = found.segments.join(found.evidence, on="evidence", how="left").sort("start_ns")
    rows = told.select("start_ns", "end_ns", "kind", "name", "op", "frame", "range", "thread").rows()
    assert rows == [
        (10, 15, "op", "aten::add", "aten::add", "train.py(7): step", "## forward ##", 1),
        (15, 20, "runtime", "launch", "aten::add", "train.py(7): step", "## forward ##", 1),
    ]
    assert found.evidence["source"].to_list() == [0, 0]


def test_late_launches_name_what_the_host_was_in():
    """The outermost operator that began in the gap, and before that the innermost that was open already."""
    events = [
        FIRST,
        Event(1, 2, 30, "op", "compiled region"),
        Event(1, 14, 22, "op", "aten::linear"),
        Event(1, 15, 21, "op", "aten::addmm"),
        launch(1, 19, 20, 2),
    ]
    found = attribute([BEFORE, Op(7, 20, 30, "kernel", 2)], events, (0, 30))
    told = found.segments.join(found.evidence, on="evidence").sort("start_ns")
    assert told.select("start_ns", "end_ns", "name").rows() == [
        (10, 14, "compiled region"),
        (14, 20, "aten::linear"),
    ]


def test_a_range_names_the_frame_with_most_time_in_it():
    events = [
        FIRST,
        Event(1, 10, 17, "annotation", "load"),
        Event(1, 1, 19, "python", "train.py(1): main"),
        Event(1, 10, 11, "python", "profiler.py(1): enter"),
        Event(1, 11, 16, "python", "image.py(7): resize"),
        launch(1, 17, 18, 2),
    ]
    found = attribute([BEFORE, Op(7, 20, 30, "kernel", 2)], events, (0, 30))
    assert found.evidence.filter(name="load")["frame"].to_list() == ["image.py(7): resize"]


def test_nothing_is_late_after_the_last_activity():
    span = Event(1, 0, 30, "annotation", "ProfilerStep#1")
    sync = Event(1, 2, 12, "runtime", "sync")
    found = attribute([BEFORE], [FIRST, span, sync], (0, 30))
    assert dict(found.rows().select("cause", "chip_ns").iter_rows()) == {
        "synchronisation": 2,
        "host_code": 18,
    }


def test_host_code_that_nothing_names_is_placed_by_what_came_next():
    events = [
        FIRST,
        Event(1, 16, 19, "op", "aten::mm"),
        launch(1, 17, 18, 2),
        Event(1, 2, 30, "annotation", "## forward ##"),
    ]
    found = attribute([BEFORE, Op(7, 20, 30, "kernel", 2)], events, (0, 30))
    named = found.evidence.filter("before").select("name", "op", "start_ns").rows()
    assert named == [("## forward ##", "aten::mm", 17)]


def test_syncs_name_who_asked():
    events = [
        FIRST,
        Event(1, 3, 14, "python", "train.py(9): log"),
        Event(1, 4, 13, "op", "aten::item"),
        Event(1, 5, 12, "runtime", "sync"),
        Event(4, 5, 12, "runtime", "sync"),
    ]
    found = attribute([BEFORE], events, (0, 10))
    rows = found.syncs.select("start_ns", "end_ns", "name", "thread", "op", "frame").rows()
    assert rows == [(5, 12, "sync", 1, "aten::item", "train.py(9): log")]


def test_without_host_events_gaps_are_short_or_unknown():
    found = attribute(
        [Op(7, 0, 10, "kernel", None), Op(7, 11, 20, "kernel", None), Op(7, 30, 40, "kernel", None)],
        [],
        (0, 40),
    )
    assert dict(found.rows().select("cause", "chip_ns").iter_rows()) == {"kernel_gap": 1, "unknown": 10}
    assert found.evidence.is_empty()
