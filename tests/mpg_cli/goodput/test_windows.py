"""Which stretch of a file the account covers, and which ranges are steps."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput import activity
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import find_steps, find_windows, missing_steps, repeated_ranges
from mpg_parsers.errors import UsageError
from tests.mpg_cli.datasets import call, dataset, host, op, source, step

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


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (-5, 200, (-5, 200, "profile")), (30, 70, (30, 70, "profile")), (None, 200, (0, 100, "all events")),
        (-5, None, (0, 100, "all events")), (70, 30, (0, 100, "all events")), (30, 30, (0, 100, "all events")),
    ],
)  # fmt: skip
def test_all_is_the_whole_profile_where_the_file_states_it(
    start: int | None, end: int | None, expected: tuple[int, int, str]
) -> None:
    profiled = source(
        BUSY, steps=[step(1, 10, 40)], events=EVENTS, profile_start_ns=start, profile_end_ns=end
    )
    assert windows(profiled, choice="all") == [(0, *expected, 1)]
    assert windows(profiled, STEPLESS, choice="all")[1] == (1, 0, 100, "all events", 0)
    assert windows(profiled) == [(0, 10, 40, "steps", 1)]
    assert windows(profiled, choice="device") == [(0, 20, 80, "device activity", 1)]


def test_each_file_has_its_own_and_one_without_device_activity_none() -> None:
    silent = source(steps=[step(1, 0, 10)], events=EVENTS)
    assert windows(STEPLESS, silent, STEPPED) == [(0, 20, 80, "device activity", 0), (2, 10, 70, "steps", 2)]


def of_processes(*steps: Any, choice: str = "steps") -> tuple[list[Any], list[Any]]:
    """The windows of each process and the steps, in a file of the processes 41 and 42."""
    ops = [op(20, 10, process=41), op(60, 20, process=42), op(61, 9, process=42, device=1)]
    made = dataset(source(ops, steps=steps, format="nsight-systems"))
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    found = find_windows(loaded, find_steps(made, None), choice)
    columns = ("process", "start_ns", "end_ns", "basis", "steps")
    by_device = found.of(loaded.subjects).select("subject", "start_ns", "end_ns")
    windows = found.by_source.select(columns).rows()
    own = dict(zip(loaded.subjects["subject"], loaded.subjects["process"], strict=True))
    bounds = {row[0]: row[1:3] for row in windows}
    assert by_device.rows() == [(subject, *bounds[own[subject]]) for subject in (0, 1, 2)]
    return windows, found.steps.select("process", "start_ns").rows()


def own(process: int, *more: Any) -> Any:
    return step(*more) | {"process": process}


HULL = (20, 80, "device activity")


@pytest.mark.parametrize(
    ("steps", "choice", "windows"),
    [
        ((own(41, 1, 0, 30), own(42, 1, 5, 90)), "steps", [(41, 0, 30, "steps", 1), (42, 5, 90, "steps", 1)]),
        ((own(42, 1, 5, 90),), "steps", [(41, *HULL, 0), (42, 5, 90, "steps", 1)]),
        ((), "steps", [(41, *HULL, 0), (42, *HULL, 0)]),
        ((own(42, 1, 5, 90),), "device", [(41, *HULL, 0), (42, *HULL, 1)]),
        ((own(43, 1, 5, 90),), "steps", [(41, *HULL, 0), (42, *HULL, 0)]),
        ((step(1, 5, 90),), "steps", [(41, *HULL, 0), (42, *HULL, 0)]),
    ],
)
def test_steps_of_a_process_are_no_window_of_another(steps: Any, choice: str, windows: Any) -> None:
    found, kept = of_processes(*steps, choice=choice)
    assert found == windows
    assert kept == [(row["process"], row["start_ns"]) for row in steps if row.get("process") in (41, 42)]


def test_where_devices_are_not_told_apart_by_process_steps_of_any_count() -> None:
    events = [host(0, 50, "train", process=7), host(50, 20, "train", process=8)]
    assert windows(source(BUSY, events=events), pattern="train") == [(0, 0, 70, "steps", 2)]


def said(pattern: str | None, *files: Any) -> list[tuple[str, int, str]]:
    made = dataset(*files)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    found = find_windows(loaded, find_steps(made, pattern), "steps")
    notices = missing_steps(made, found, loaded.sources, pattern)
    assert {notice.kind for notice in notices} <= {"no_steps"}
    return [(notice.message, notice.count, notice.source) for notice in notices]


FORWARD = [host(10, 40, "forward"), host(50, 35, "forward")]
NSIGHT, ROCPROF = {"format": "nsight-systems", "path": "a.sqlite"}, {"format": "rocprofv3", "path": "b.json"}
END = ": the window is the hull of the device activity"
NO_REPEAT = "no program is seen to run twice and take most of the time"


@pytest.mark.parametrize(
    ("file", "pattern", "message"),
    [
        (source(BUSY), None, f"no ProfilerStep ranges{END}"),
        (source(BUSY), "x", f"no host range matches 'x'{END}"),
        (
            source(BUSY, format="xla"),
            None,
            f"no step was marked (jax.profiler.StepTraceAnnotation does that), and {NO_REPEAT}{END}",
        ),
        (
            source(BUSY, format="nsys-jax"),
            None,
            f"{NO_REPEAT}{END}",
        ),
        (
            source(BUSY, events=FORWARD[:1], **NSIGHT),
            None,
            f"no NVTX range is named like a step, such as `step 3`{END}",
        ),
        (
            source(BUSY, events=FORWARD[:1], **ROCPROF),
            None,
            f"no ROCTx range is named like a step, such as `step 3`{END}",
        ),
        (
            source(BUSY, events=FORWARD, **NSIGHT),
            None,
            f"{END}; a range that repeats could serve: --step-regex '^forward$'",
        ),
        (source(BUSY, **NSIGHT), "x", f"no host range matches 'x'{END}"),
        (
            source(BUSY, events=[call(1)], **NSIGHT),
            None,
            f"no NVTX ranges at all (was it traced, with a version of the package that the profiler knows?){END}",
        ),
    ],
)
def test_what_is_said_without_steps(file: Any, pattern: str | None, message: str) -> None:
    ((text, count, path),) = said(pattern, STEPPED if pattern is None else source(), file)
    assert text.endswith(message)
    assert (count, path) == (1, file["sources"][0]["path"])


def test_processes_without_steps_are_counted() -> None:
    ops = [op(0, 10, process=process) for process in (41, 42, 43)]
    message = "2 of 3 processes with device work have no steps of their own: their window is the hull of the device "
    assert said(None, source(ops, steps=[own(42, 1, 0, 9)], **NSIGHT)) == [
        (message + "activity", 2, "a.sqlite")
    ]


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
