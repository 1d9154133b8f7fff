"""Figures of devices, steps and windows on cases for paper; test_analysis.py counts random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.analysis import AnalysisOptions, analyze
from mpg_cli.goodput import activity, runtime
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import find_steps, find_windows
from tests.mpg_cli.datasets import comm, copy, dataset, graph, op, source, step

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

RULES = NameRules.load()
NS = (
    "span",
    "busy",
    "idle",
    "compute",
    "comm",
    "memory",
    "other",
    "exposed_comm",
    "exposed_memory",
    "exposed_other",
)


def load(made: Dataset) -> Activity:
    return activity.load(made, made.scan("sources").collect(), RULES)


def device(*ops: Any) -> tuple[int, ...]:
    loaded = load(dataset(source(ops)))
    figures = runtime.device_figures(loaded.ops, runtime.busy_intervals(loaded.ops))
    return figures.select(f"{name}_ns" for name in NS).row(0)


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        pytest.param([op(5, 10)], (10, 10, 0, 10, 0, 0, 0, 0, 0, 0), id="one kernel"),
        pytest.param([op(5, 10), op(8, 10, stream=8)], (13, 13, 0, 13, 0, 0, 0, 0, 0, 0), id="two streams"),
        pytest.param([op(0, 2), op(8, 2)], (10, 4, 6, 4, 0, 0, 0, 0, 0, 0), id="a gap"),
        pytest.param(
            [op(0, 10), comm(5, 10)], (15, 15, 0, 10, 10, 0, 0, 5, 0, 0), id="communication half hidden"
        ),
        pytest.param([comm(0, 10), copy(5, 10)], (15, 15, 0, 0, 10, 10, 0, 10, 5, 0), id="a copy beside it"),
        pytest.param([copy(0, 10), op(2, 3), comm(4, 3)], (10, 10, 0, 3, 3, 10, 0, 2, 5, 0), id="all three"),
        pytest.param([graph(0, 10), op(4, 2)], (10, 10, 0, 2, 0, 0, 10, 0, 0, 8), id="a graph-level row"),
        pytest.param([op(5, 0)], (0, 0, 0, 0, 0, 0, 0, 0, 0, 0), id="no length"),
        pytest.param(
            [op(5, 0), op(9, 1)], (5, 1, 4, 1, 0, 0, 0, 0, 0, 0), id="a record without length spans"
        ),
    ],
)
def test_device_figures(ops: list[Any], expected: tuple[int, ...]) -> None:
    assert device(*ops) == expected


def test_times_beyond_what_a_double_holds_are_exact() -> None:
    start = (1 << 61) + 1
    assert device(op(start, 1), comm(start + 1, 2), op(start + 2, 5))[:3] == (7, 7, 0)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([step(1, 0, 10)], [(10, 5, 4, 1, 0)], id="all of it"),
        pytest.param(
            [step(1, 0, 3), step(2, 3, 10)], [(3, 1, 1, 0, 0), (7, 4, 3, 1, 0)], id="cut at the border"
        ),
        pytest.param(
            [step(1, 0, 10), step(2, 2, 4)], [(10, 5, 4, 1, 0), (2, 2, 2, 0, 0)], id="one in the other"
        ),
        pytest.param([step(1, 6, 6)], [(0, 0, 0, 0, 0)], id="no length"),
        pytest.param([step(1, 7, 99)], [(92, 0, 0, 0, 0)], id="after all work"),
        pytest.param([step(1, -9, 2)], [(11, 0, 0, 0, 0)], id="before all work"),
        pytest.param([], [], id="none"),
    ],
)
def test_step_figures(steps: list[Any], expected: list[Any]) -> None:
    made = dataset(source([op(2, 4), comm(5, 2)], steps=steps))
    loaded = load(made)
    busy = runtime.busy_intervals(loaded.ops)
    figures = runtime.step_figures(loaded, busy, find_steps(made, None))
    names = ("wall_ns", "busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns")
    assert figures.select(names).rows() == expected


def test_every_device_of_a_source_has_the_sources_window() -> None:
    made = dataset(source([op(0, 10), comm(8, 5), op(4, 2, device=1)], steps=[step(1, 2, 20)]))
    loaded = load(made)
    windows = find_windows(loaded, find_steps(made, None), "steps")
    busy = runtime.busy_intervals(loaded.ops)
    spans = windows.of(loaded.subjects)
    communication = busy.filter(activity="comm").with_columns(cause=pl.lit("communication"))
    found = runtime.resolve_windows(runtime.claims(busy, communication), spans).rows
    assert set(found.select("subject", "cause", "chip_ns").rows()) == {
        (0, "productive", 8),
        (0, "communication", 3),
        (0, "unknown", 7),
        (1, "productive", 2),
        (1, "unknown", 16),
    }


def test_the_list_of_steps_ends_with_whole_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = source([op(0, 1, device=n) for n in range(3)], steps=[step(n, n, n + 1) for n in range(2)])
    made = dataset(
        wide, source([op(0, 1)], steps=[step(7, 0, 1), step(8, 1, 2)]), source(steps=[step(9, 0, 1)])
    )
    subjects = load(made).subjects
    for most, expected in ((1, [0]), (3, [0]), (5, [0]), (6, [0, 1]), (7, [0, 1, 7]), (99, [0, 1, 7, 8])):
        monkeypatch.setattr(runtime, "MAX_STEP_ROWS", most)
        assert runtime.listed_steps(find_steps(made, None), subjects)["step"].to_list() == expected


def test_steps_in_which_no_device_works() -> None:
    steps = [step(1, 0, 5), step(2, 5, 10), step(3, 10, 20), step(4, 12, 13), step(5, 30, 40)]
    made = dataset(
        source([op(2, 1), op(15, 9, device=1), comm(24, 1)], steps=steps),
        source([op(0, 9)], steps=[step(1, 0, 9)]),
        source(steps=steps),
    )
    loaded = load(made)
    found = runtime.idle_steps(loaded, runtime.busy_intervals(loaded.ops), find_steps(made, None))
    assert found.select("source", "total", "idle").rows() == [(0, 5, 3), (1, 1, 0)]


def infeed(start: int, dur: int, **more: Any) -> Any:
    return op(start, dur, "infeed.1", kind="infeed", **more)


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        pytest.param([infeed(5, 10)], (10, 10, 0, 0, 0, 0, 10, 0, 0, 10), id="alone"),
        pytest.param([infeed(0, 10), op(4, 10)], (14, 14, 0, 10, 0, 0, 10, 0, 0, 4), id="computing beside it"),
        pytest.param(
            [infeed(0, 10), comm(8, 4), copy(1, 2)], (12, 12, 0, 0, 4, 2, 10, 4, 2, 6), id="all else goes first"
        ),
        pytest.param([infeed(0, 10), graph(5, 10)], (15, 15, 0, 0, 0, 0, 15, 0, 0, 15), id="both kinds of other"),
    ],
)  # fmt: skip
def test_infeed_counts_as_other(ops: list[Any], expected: tuple[int, ...]) -> None:
    assert device(*ops) == expected


def test_waiting_for_infeed_is_input_in_the_ledger() -> None:
    """Of 40 ns: computing 10 to 20, infeed from 0 to 15, a graph from 14 to 30."""
    ops = [infeed(0, 15), op(10, 10), graph(14, 16)]
    report = analyze(dataset(source(ops, steps=[step(1, 0, 40)])), AnalysisOptions(by=("kernel",)))
    amounts = {row.cause: row.chip_ns for row in report.ledger}
    assert {name: amounts.pop(name) for name in ("productive", "input", "unclassified_busy")} == {
        "productive": 10, "input": 10, "unclassified_busy": 10,
    }  # fmt: skip
    assert sum(amounts.values()) == 10
    assert report.totals.capacity_ns == 40
    (row,) = report.devices
    assert (row.exposed_other_ns, row.busy_ns, row.kernel_count) == (20, 30, 1)
    by_name = {row.key: (row.other_ns, row.incl_ns) for row in report.breakdown}
    assert by_name == {"sgemm_128x64": (0, 10), "infeed.1": (15, 15), "graph": (16, 16)}


def test_an_interrupted_operation_is_one_kernel() -> None:
    """A loop with its passes inside, and another that ran whole."""
    loop = [op(at, 5, "while.1", hlo=1, part=part) for part, at in enumerate((0, 20, 40))]
    ops = [*loop, op(5, 15, hlo=0), op(25, 15, hlo=0), op(50, 5, "while.1", hlo=1)]
    made = source(ops) | {"hlo_ops": [{"hlo": n, "name": "x", "category": "while"} for n in (0, 1)]}
    loaded = load(dataset(made))
    figures = runtime.device_figures(loaded.ops, runtime.busy_intervals(loaded.ops))
    assert figures.select("kernel_count", "memcpy_count", "busy_ns", "compute_ns").rows() == [(4, 0, 50, 50)]
