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
    ],
)
def test_lost_records(events: list[Any], lost: dict[int, int]) -> None:
    ops = [op(0, 1, correlation=1), op(5, 1, correlation=9), op(9, 1)]
    assert quality.lost_records(*linked(dataset(source(ops, events=events)))) == lost


def test_overhead_is_the_union_inside_the_window() -> None:
    events = [
        host(t, dur, "Activity Buffer Request", "overhead")
        for t, dur in ((0, 20), (15, 10), (90, 99), (95, None))
    ]
    windows = pl.DataFrame(
        {"source": [0], "start_ns": [10], "end_ns": [100]}, schema_overrides={"source": pl.Int32}
    )
    assert quality.overhead_ns(dataset(source([op(0, 1)], events=events)), windows) == 15 + 10


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
