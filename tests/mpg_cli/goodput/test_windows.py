"""Which stretch of a file the account covers, and which ranges are steps."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput import activity
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import find_steps, find_windows, repeated_ranges
from mpg_parsers.errors import UsageError
from tests.mpg_cli.datasets import dataset, host, op, source, step

RULES = NameRules.load()
BUSY = [op(20, 10), op(60, 20)]
EVENTS = [host(0, 5, "start"), host(5, 95, "aten::mm", "op"), host(50, None, "open")]


def windows(*files: dict[str, list[Any]], choice: str = "steps", pattern: str | None = None) -> list[Any]:
    """(source, start, end, basis, steps) of each window."""
    made = dataset(*files)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    found = find_windows(loaded, find_steps(made, pattern), choice)
    return found.by_source.select("source", "start_ns", "end_ns", "basis", "steps").rows()


STEPPED = source(BUSY, steps=[step(2, 40, 70), step(1, 10, 40)], events=EVENTS)
STEPLESS = source(BUSY, events=EVENTS)


@pytest.mark.parametrize(
    ("file", "choice", "expected"),
    [
        (STEPPED, "steps", (0, 10, 70, "steps", 2)),
        (STEPPED, "device", (0, 20, 80, "device activity", 2)),
        (STEPPED, "all", (0, 0, 100, "all events", 2)),
        (STEPLESS, "steps", (0, 20, 80, "device activity", 0)),
        (STEPLESS, "device", (0, 20, 80, "device activity", 0)),
        (STEPLESS, "all", (0, 0, 100, "all events", 0)),
        (source(BUSY, steps=[step(1, 0, 60), step(2, 30, 40)]), "steps", (0, 0, 60, "steps", 2)),
        (source(BUSY, steps=[step(1, 500, 600)]), "steps", (0, 500, 600, "steps", 1)),
    ],
)
def test_the_window(file: Any, choice: str, expected: Any) -> None:
    assert windows(file, choice=choice) == [expected]


def test_each_file_has_its_own_and_one_without_device_activity_none() -> None:
    silent = source(steps=[step(1, 0, 10)], events=EVENTS)
    assert windows(STEPLESS, silent, STEPPED) == [(0, 20, 80, "device activity", 0), (2, 10, 70, "steps", 2)]


RANGES = [
    host(0, 10, "step[DECODE bs=4] 1"),
    host(10, 10, "step[DECODE bs=4] 2", "python"),
    host(20, 10, "forward", "op"),
    host(30, 10, "train"),
    host(40, None, "step still open"),
    host(50, 10, "step runtime", "runtime"),
    host(60, 10, "step 99999999999999999999"),
]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^step\[", [(4, "step[DECODE bs=4] 1", 0, 10), (4, "step[DECODE bs=4] 2", 10, 20)]),
        ("^train$", [(None, "train", 30, 40)]),
        ("FORWARD", []),
        ("(?i)FORWARD", [(None, "forward", 20, 30)]),
        ("still open|runtime", []),
        ("step 9", [(None, "step 99999999999999999999", 60, 70)]),
    ],
)
def test_a_pattern_names_the_steps(pattern: str, expected: list[Any]) -> None:
    found = find_steps(dataset(source(BUSY, steps=[step(7, 0, 1)], events=RANGES)), pattern)
    assert found.select("step", "name", "start_ns", "end_ns").rows() == expected


def test_ranges_recorded_twice_are_one_step() -> None:
    found = find_steps(dataset(source(BUSY, steps=[step(1, 0, 10), step(1, 0, 10), step(2, 0, 10)])), None)
    assert found["step"].to_list() == [1, 2]


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "a" * 9 + "{1000000}"])
def test_a_pattern_that_is_none_is_refused_even_without_events(pattern: str) -> None:
    with pytest.raises(UsageError, match="--step-regex"):
        find_steps(dataset(source(BUSY)), pattern)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([host(0, 30, "train (a|b) [x]"), host(50, 30, "train (a|b) [x]")], r"^train \(a\|b\) \[x\]$"),
        ([host(0, 40, "big"), host(0, 25, "small"), host(40, 25, "small")], "^small$"),
        (
            [host(0, 20, "nn.Module: Net_0", "python"), host(30, 30, "nn.Module: Net_0", "python")],
            r"^nn\.Module: Net_0$",
        ),
        ([host(0, 20, "helper", "python"), host(30, 30, "helper", "python")], None),
        ([host(0, 5, "tiny"), host(20, 5, "tiny")], None),
        ([host(0, 60, "once")], None),
        ([host(0, 30, "Optimizer.step#Adam.step"), host(50, 30, "Optimizer.step#Adam.step")], None),
        ([host(0, 30, "x" * 200), host(50, 30, "x" * 200)], None),
        ([], None),
    ],
)
def test_a_range_that_could_serve_as_step_is_suggested_as_a_pattern(
    events: Any, expected: str | None
) -> None:
    made = dataset(source(BUSY), source(BUSY, events=events))
    windows = pl.DataFrame({"source": [0, 1], "start_ns": [0, 0], "end_ns": [100, 100]}).cast(
        {"source": pl.Int32}
    )
    found = repeated_ranges(made, windows)
    assert found == ({1: expected} if expected else {})
    if expected:
        assert find_steps(made, found[1]).height == 2
