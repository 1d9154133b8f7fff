"""How far figures can be trusted: which launch a record belongs to, what is missing, and the grade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.goodput import activity, quality
from mpg_cli.goodput.names import NameRules
from mpg_parsers.errors import Notice
from tests.mpg_cli.datasets import call, dataset, host, op, source

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

RULES = NameRules.load()


def linked(made: Dataset) -> tuple[pl.DataFrame, pl.DataFrame]:
    calls = quality.launches(made)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    return quality.link(loaded.ops, calls), calls


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cudaLaunchKernel", (True, False)),
        ("cuLaunchKernelEx", (True, False)),
        ("hipModuleLaunchKernel", (True, False)),
        ("cudaGraphLaunch", (False, True)),
        ("hipGraphLaunch", (False, True)),
        ("cudaLaunchHostFunc", (False, False)),
        ("cudaMemcpyAsync", (False, False)),
        ("cudaMemsetAsync", (False, False)),
        ("cudaStreamSynchronize", None),
        ("cudaMalloc", None),
    ],
)
def test_launches(name: str, found: tuple[bool, bool] | None) -> None:
    calls = quality.launches(dataset(source(events=[call(1, name), host(0, 1, name, "op", correlation=1)])))
    assert calls.select("kernel", "graph").rows() == ([found] if found else [])


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param({"correlation": 1}, (True, False), id="by correlation"),
        pytest.param({"correlation": 2}, (True, True), id="a replayed graph"),
        pytest.param({"correlation": 3}, (False, False), id="no such call"),
        pytest.param({"external_id": 11}, (True, False), id="by external id"),
        pytest.param({"external_id": 12}, (True, True), id="a graph by external id"),
        pytest.param({"correlation": 3, "external_id": 11}, (False, False), id="a correlation decides"),
        pytest.param({}, (False, False), id="nothing recorded"),
        pytest.param({"correlation": 0}, (False, False), id="0 is no id"),
    ],
)
def test_link(record: Any, expected: tuple[bool, bool]) -> None:
    events = [call(1, external_id=11), call(2, "cudaGraphLaunch", external_id=12), call(0), call(None)]
    rows, _ = linked(dataset(source([op(0, 1, **record)], events=events)))
    assert rows.select("linked", "graph").rows() == [expected]


def test_one_call_may_answer_for_many_records_and_many_calls_for_one() -> None:
    ops = [op(n, 1, correlation=1) for n in range(3)]
    rows, _ = linked(dataset(source(ops, events=[call(1, "cudaGraphLaunch"), call(1, "cuLaunchKernel")])))
    assert rows.select("linked", "graph").rows() == [(True, True)] * 3


def test_calls_of_another_file_are_no_links() -> None:
    rows, _ = linked(dataset(source([op(0, 1, correlation=1)]), source([op(0, 1)], events=[call(1)])))
    assert rows["linked"].to_list() == [False, False]


def measure(ops: list[Any], events: list[Any]) -> tuple[int | None, ...]:
    found = quality.measure_linking(*linked(dataset(source(ops, events=events))))
    return found.total_ns, found.unlinked_ns, found.carry_over_ns, found.graph_ns


@pytest.mark.parametrize(
    ("ops", "events", "expected"),
    [
        pytest.param([op(0, 9, correlation=5)], [call(5)], (9, 0, 0, 0), id="linked"),
        pytest.param([op(0, 9, correlation=4)], [call(5)], (9, 9, 9, 0), id="launched before the first call"),
        pytest.param([op(0, 9, correlation=6)], [call(5)], (9, 9, 0, 0), id="a later call is missing"),
        pytest.param([op(0, 9)], [call(5)], (9, 9, 0, 0), id="nothing is known of it"),
        pytest.param([op(0, 9, correlation=4)], [], (9, None, 0, 0), id="no calls recorded"),
        pytest.param(
            [
                op(0, 9, "Unified memory migration HtoD", kind="memcpy"),
                op(9, 3, "Memcpy HtoD", kind="memcpy"),
            ],
            [call(5)],
            (12, 3, 0, 0),
            id="a migration has no call",
        ),
        pytest.param([op(0, 9, correlation=5)], [call(5, "cudaGraphLaunch")], (9, 0, 0, 9), id="a replay"),
        pytest.param(
            [op(0, 9, correlation=6, graph_node=1)], [call(5)], (9, 9, 0, 9), id="a node of a graph"
        ),
        pytest.param(
            [op(0, 9, correlation=5), op(3, 9, correlation=5)], [call(5)], (18, 0, 0, 0), id="summed"
        ),
    ],
)
def test_measure_linking(ops: list[Any], events: list[Any], expected: tuple[int | None, ...]) -> None:
    assert measure(ops, events) == expected


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param([call(1), call(2), call(9)], {0: 1}, id="between others"),
        pytest.param([call(1), call(9), call(10)], {}, id="the last may not have run yet"),
        pytest.param([call(1), call(2, "cudaMemcpyAsync"), call(9)], {}, id="a copy of no bytes leaves none"),
        pytest.param([call(1), call(2, "cudaGraphLaunch"), call(9)], {}, id="an empty graph"),
        pytest.param([call(1), call(2, "cudaLaunchHostFunc"), call(9)], {}, id="it runs on the host"),
        pytest.param([call(1), call(0), call(None), call(9)], {}, id="no id"),
        pytest.param([], {}, id="no calls"),
        pytest.param(
            [
                call(1),
                call(2, "cudaStreamBeginCapture", at=10),
                call(3, at=20),
                call(4, at=20, thread=2),
                call(5, "cudaStreamEndCapture", at=30),
                call(6, at=40),
                call(9),
            ],
            {0: 2},
            id="what is captured is not run",
        ),
        pytest.param(
            [call(2, "hipStreamBeginCapture", at=1, thread=None), call(3, at=2, thread=None), call(9)],
            {},
            id="a capture that does not end on a thread without a number",
        ),
    ],
)
def test_lost_records(events: list[Any], lost: dict[int, int]) -> None:
    ops = [op(0, 1, correlation=1), op(5, 1, correlation=9), op(9, 1)]
    assert quality.lost_records(*linked(dataset(source(ops, events=events)))) == lost


APART = 1 << 32  # by which the ids of two processes in one file differ at least


def test_carried_over_is_judged_by_process() -> None:
    """Of process 3 the calls from 5 on are in the file, of process 2 those from 9 on."""
    events = [call(3 * APART + 5), call(2 * APART + 9)]
    ops = [op(0, 1, correlation=3 * APART + 4), op(0, 10, correlation=2 * APART + 8)]
    late = [op(0, 100, correlation=3 * APART + 8), op(0, 1000, correlation=2 * APART + 11), op(0, 10_000)]
    other = [op(0, 100_000, correlation=4 * APART + 1)]  # no call of process 4 is in the file
    assert measure(ops + late + other, events) == (111_111, 111_111, 11, 0)


def test_lost_records_are_counted_by_process() -> None:
    """Of process 3 the last record is of call 5, of process 2 of call 9."""
    ops = [op(0, 1, correlation=3 * APART + 5), op(0, 1, correlation=2 * APART + 9)]
    events = [call(process * APART + n) for process in (2, 3, 4) for n in (4, 6)]
    assert quality.lost_records(*linked(dataset(source(ops, events=events)))) == {0: 3}


def windows(*rows: tuple[int, int | None, int, int]) -> pl.DataFrame:
    schema = {"source": pl.Int32, "process": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def overhead(start: int, dur: int | None, name: str = "Activity Buffer Request", **more: Any) -> Any:
    return host(start, dur, name, "overhead", **more)


def test_overhead_is_the_union_inside_the_window() -> None:
    events = [overhead(t, dur) for t, dur in ((0, 20), (15, 10), (90, 99), (95, None))]
    made = dataset(source([op(0, 1)], events=events))
    assert quality.overhead_ns(made, windows((0, None, 10, 100))) == 15 + 10


@pytest.mark.parametrize("name", ["Lazy Function Loading", "Runtime Triggered Module Loading"])
def test_loading_code_is_no_overhead_of_the_profiler(name: str) -> None:
    made = dataset(source([op(0, 1)], events=[overhead(0, 20, name), overhead(10, 20, "Resource")]))
    assert quality.overhead_ns(made, windows((0, None, 0, 100))) == 20


def test_overhead_of_several_processes() -> None:
    """Each in the window of its own process; process 9 has no device."""
    events = [overhead(0, 20, process=process) for process in (7, 8, 9)]
    made = dataset(source([op(0, 1)], events=events))
    assert quality.overhead_ns(made, windows((0, 7, 10, 100), (0, 8, 5, 12))) == 10 + 7


def test_busy_time_outside_the_window_of_each_device() -> None:
    busy = pl.DataFrame({"subject": [0, 0, 0, 1], "start_ns": [0, 5, 90, 0], "end_ns": [10, 12, 99, 5]})
    spans = pl.DataFrame({"subject": [0, 1, 2], "start_ns": [8, 0, 0], "end_ns": [95, 4, 9]})
    assert quality.outside_ns(busy, spans).sort("subject").rows() == [(0, 8, 4), (1, 0, 1), (2, 0, 0)]


@pytest.mark.parametrize(
    ("kinds", "shares", "letter", "words"),
    [
        ([], (0.0, 0.0, 0.0), "A", []),
        ([], (None, 0.0, 0.0), "A", []),
        (["no_steps"], (0.0, 0.0, 0.0), "B", ["no steps"]),
        (["no_steps", "no_steps"], (0.0, 0.0, 0.0), "B", ["no steps"]),
        (["rank_from_name", "clock_skew"], (0.0, 0.0, 0.0), "A", []),
        (["truncated_input"], (0.0, 0.0, 0.0), "C", ["cut short"]),
        (["truncated_input", "device_records_lost"], (0.0, 0.0, 0.0), "D", ["device records", "cut short"]),
        ([], (0.05, 0.0, 0.0), "A", []),
        ([], (0.051, 0.0, 0.0), "B", ["5.1 % of device time is work without a launch"]),
        ([], (0.51, 0.0, 0.0), "C", ["51.0 %"]),
        ([], (0.30, 0.30, 0.0), "B", ["30.0 % of device time is work carried over"]),
        ([], (0.60, 0.60, 0.0), "C", ["60.0 % of device time is work carried over"]),
        ([], (0.36, 0.30, 0.0), "B", ["30.0 %", "6.0 % of device time is work without"]),
        ([], (0.0, 0.0, 0.2), "B", ["name no rule knows"]),
        ([], (0.0, 0.0, 0.6), "C", ["name no rule knows"]),
        (["truncated_input"], (0.0, 0.0, 0.6), "D", ["cut short", "name no rule knows"]),
    ],
)
def test_grade(kinds: list[str], shares: Any, letter: str, words: list[str]) -> None:
    found, reasons = quality.grade([Notice(kind, "") for kind in kinds], *shares)
    assert found == letter
    assert len(reasons) == len(words)
    assert all(any(word in reason for reason in reasons) for word in words)
