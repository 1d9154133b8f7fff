"""Idle time of which a device says what it waits for, and launches that threads hand on to one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.analysis import AnalysisOptions, analyze
from mpg_cli.goodput import activity, idle
from mpg_cli.goodput.idle import host as hosts
from mpg_cli.goodput.idle.rules import IdleRule, IdleRules
from mpg_cli.goodput.names import NameRules
from mpg_cli.sources import load_sources
from tests.mpg_cli.datasets import Row, dataset, host, op, source, step
from tests.mpg_cli.goodput.idle.oracle import Event, Op, Oracle
from tests.mpg_cli.goodput.idle.test_attribute import CALLS, LIMITS, RANGES, STEPPER, causes, devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.goodput.idle import Idle

WAITS = (
    IdleRule("b", "communication_wait", ("device_wait",), "barrier"),
    IdleRule("d", "dependency", ("device_wait",), "dependency"),
)
RULES = IdleRules(LIMITS, RANGES, CALLS, WAITS)
NAMES = {"barrier-cores": "communication_wait", "dependency-wait": "dependency", "something else": None}


class Wait(NamedTuple):
    start: int
    end: int
    name: str
    device: int = 0


def rows_of(ops: Sequence[Op], events: Sequence[Event], waits: Sequence[Wait]) -> tuple[list[Row], list[Row]]:
    records = [
        op(o.start, o.end - o.start, stream=o.stream, kind=o.kind, correlation=o.correlation) for o in ops
    ]
    said = [
        host(w.start, w.end - w.start, w.name, "device_wait", process=None, thread=w.device) for w in waits
    ]
    told = [
        host(e.start, e.end - e.start, e.name, e.kind, thread=e.thread, correlation=e.correlation)
        for e in events
    ]
    return records, [*said, *told]


def attribute(made: tuple[list[Row], list[Row]], window: tuple[int, int], rules: IdleRules = RULES) -> Idle:
    records, events = made
    data = dataset(source(records, events=events, steps=[step(1, *window)]))
    loaded = activity.load(data, load_sources(data)[0], NameRules.load())
    start, end = window
    spans = loaded.subjects.select("subject", "source", start_ns=pl.lit(start), end_ns=pl.lit(end))
    spans = spans.cast({"start_ns": pl.Int64, "end_ns": pl.Int64})
    return idle.attribute(data, loaded, spans, data.scan("steps").collect(), rules)


def said_by(waits: Sequence[Wait], at: int) -> Wait | None:
    """The wait that holds at a time, of those that a rule knows: the one that began first, if only one did."""
    open_now = [w for w in waits if w.device == 0 and w.start <= at < w.end and NAMES[w.name]]
    return min(open_now, key=lambda w: w.start, default=None)


@st.composite
def said(draw: st.DrawFn) -> list[Wait]:
    starts = draw(st.lists(st.integers(0, 45), max_size=5, unique=True))
    lengths = st.integers(0, 12)
    names = st.sampled_from(list(NAMES))
    return [Wait(at, at + draw(lengths), draw(names), draw(st.sampled_from([0, 0, 1]))) for at in starts]


@settings(max_examples=12, deadline=None)
@given(devices(), said(), st.sampled_from([None, STEPPER]))
def test_any_trace_agrees_with_the_oracle_but_for_the_waits(made, waits, stepper):
    ops, events = made
    window = (5, 45)
    stepping = [] if stepper is None else [Event(stepper, *window, "annotation", "ProfilerStep#1")]
    expected = Oracle(ops, [*events, *stepping], window, RULES, stepper).causes()
    for at in expected:
        if wait := said_by(waits, at):
            expected[at] = NAMES[wait.name]
    assert causes(attribute(rows_of(ops, [*events, *stepping], waits), window)) == expected


GAP = [Op(7, 0, 10, "kernel", None), Op(7, 30, 40, "kernel", None)]


def segments(*waits: Wait, events: Sequence[Event] = ()) -> list[tuple[int, int, str, str | None]]:
    """start, end, cause and what the evidence is called, of the gap from 10 to 30."""
    found = attribute(rows_of(GAP, events, waits), (0, 40))
    assert found.segments.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() == 20
    named = found.segments.join(found.evidence.select("evidence", "name", "kind"), on="evidence", how="left")
    assert named.filter(pl.col("name").is_not_null())["kind"].cast(pl.String).is_in(["device_wait"]).all()
    return named.select("start_ns", "end_ns", "cause", pl.col("name").cast(pl.String)).rows()


WAITED, BEHIND = "communication_wait", "dependency"


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        pytest.param(
            [Wait(12, 20, "barrier-cores")],
            [(10, 12, "unknown", None), (12, 20, WAITED, "barrier-cores"), (20, 30, "unknown", None)],
            id="its part of a gap",
        ),
        pytest.param(
            [Wait(0, 40, "barrier-cores")], [(10, 30, WAITED, "barrier-cores")], id="not where it is busy"
        ),
        pytest.param(
            [Wait(10, 20, "barrier-cores"), Wait(15, 30, "dependency-wait")],
            [(10, 20, WAITED, "barrier-cores"), (20, 30, BEHIND, "dependency-wait")],
            id="two at one time: the first",
        ),
        pytest.param(
            [Wait(10, 30, "barrier-cores"), Wait(15, 20, "dependency-wait")],
            [(10, 30, WAITED, "barrier-cores")],
            id="one in the other",
        ),
        pytest.param(
            [Wait(10, 30, "barrier-cores", device=1)], [(10, 30, "unknown", None)], id="of another device"
        ),
        pytest.param([Wait(10, 30, "something else")], [(10, 30, "unknown", None)], id="no rule knows it"),
        pytest.param([Wait(15, 15, "barrier-cores")], [(10, 30, "unknown", None)], id="no length"),
    ],
)
def test_waits(waits: list[Wait], expected: list[tuple[int, int, str, str | None]]) -> None:
    assert segments(*waits) == expected


def test_whatever_the_host_did_meanwhile() -> None:
    """A synchronisation that drained the device, and a range that a rule takes."""
    busy = [Op(7, 0, 10, "kernel", 1), Op(7, 30, 40, "kernel", 2)]
    events = [
        Event(1, 0, 1, "runtime", "launch", 1), Event(1, 5, 15, "runtime", "sync"),
        Event(1, 15, 26, "annotation", "load"), Event(1, 26, 27, "runtime", "launch", 2),
    ]  # fmt: skip
    without = causes(attribute(rows_of(busy, events, []), (0, 40)))
    assert {without[at] for at in range(12, 24)} == {"synchronisation", "input"}
    found = causes(attribute(rows_of(busy, events, [Wait(12, 24, "barrier-cores")]), (0, 40)))
    assert found == without | dict.fromkeys(range(12, 24), WAITED)


def test_the_ledger_closes_with_the_shipped_rules() -> None:
    records, events = rows_of(GAP, [], [Wait(12, 20, "barrier-cores"), Wait(18, 25, "dependency-wait")])
    report = analyze(dataset(source(records, events=events, steps=[step(1, 0, 50)])), AnalysisOptions())
    amounts = {row.cause: row.chip_ns for row in report.ledger}
    assert (amounts[WAITED], amounts[BEHIND]) == (8, 5)
    assert sum(amounts.values()) == report.totals.capacity_ns == 50
    told = {(spot.cause, spot.name): spot.chip_ns for spot in report.hotspots}
    assert (told[WAITED, "barrier-cores"], told[BEHIND, "dependency-wait"]) == (8, 5)


# -------------------------------------------------------------------------------------- launches handed on


def calls_of(*events: Event) -> list[tuple[int, int, int]]:
    """correlation, thread and start of the calls that count as launches."""
    numbers = {event.correlation for event in events}
    records, told = rows_of(
        [Op(7, 100, 110, "kernel", n) for n in sorted(n for n in numbers if n)], events, []
    )
    data = dataset(source(records, events=told))
    loaded = activity.load(data, load_sources(data)[0], NameRules.load())
    found = hosts.load(data, 0, None, loaded.ops, data.scan("steps").collect())
    threads = found.calls.with_columns(thread=found.threads.gather(found.calls["key"]))
    return sorted(threads.select("correlation", "thread", "start_ns").rows())


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([(1, 0, 9, 5), (1, 2, 4, 5)], [(5, 1, 0)], id="the outer of two on a thread"),
        pytest.param([(1, 0, 9, 5), (2, 6, 20, 5)], [(5, 2, 6)], id="the last of two threads"),
        pytest.param(
            [(1, 0, 40, 5), (2, 6, 20, 5), (2, 8, 15, 5)], [(5, 2, 6)], id="the outer on the last thread"
        ),
        pytest.param(
            [(1, 0, 2, 5), (2, 4, 6, 5), (3, 8, 9, 5), (1, 10, 11, 6)], [(5, 3, 8), (6, 1, 10)], id="three"
        ),
        pytest.param([(1, 0, 2, None), (2, 3, 4, 0)], [], id="no launches"),
    ],
)
def test_work_that_is_handed_on(
    events: list[tuple[int, int, int, int | None]], expected: list[tuple[int, int, int]]
) -> None:
    assert calls_of(*(Event(t, a, b, "runtime", "Execute", n) for t, a, b, n in events)) == expected


def test_calls_at_one_time_launch_one_activity_each() -> None:
    """Names and times alone do not tell such calls apart: the first stands for all, and nothing is multiplied."""
    assert calls_of(*(Event(1, 0, 9, "runtime", "Execute", n) for n in (5, 6, 7))) == [
        (5, 1, 0),
        (6, 1, 0),
        (7, 1, 0),
    ]
    numbers = range(1, 2000)
    ops = [Op(7, 10, 20, "kernel", n) for n in numbers]
    events = [Event(1, 0, 9, "runtime", "Execute", n) for n in numbers]
    assert causes(attribute(rows_of(ops, events, []), (0, 30)))[5] == "launch_bound"


def test_the_time_until_the_hand_over_is_that_of_the_thread_that_launches() -> None:
    """Thread 1 returns at 12; thread 2, which launches, is in the loader from 14 to 20."""
    ops = [Op(7, 0, 10, "kernel", 1), Op(7, 22, 30, "kernel", 2)]
    events = [
        Event(2, 0, 1, "runtime", "launch", 1), Event(1, 10, 12, "runtime", "enqueue", 2),
        Event(2, 14, 20, "annotation", "load"), Event(2, 20, 21, "runtime", "launch", 2),
    ]  # fmt: skip
    found = causes(attribute(rows_of(ops, events, []), (0, 30)))
    assert [found[at] for at in (15, 19, 20, 21)] == ["input", "input", "launch_bound", "launch_bound"]
