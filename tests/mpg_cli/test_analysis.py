"""The whole analysis against a count that walks through every nanosecond of tiny random datasets."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.analysis import AnalysisOptions, analyze
from mpg_cli.goodput.names import NameRules
from mpg_cli.report import model
from mpg_parsers.errors import InputError, Notice, UsageError
from tests.mpg_cli.datasets import call, comm, copy, dataset, graph, host, op, source, step

KINDS = {"compute": op, "comm": comm, "memory": copy, "other": graph}
ORDER = tuple(KINDS)
CAUSES = {
    "compute": "productive",
    "comm": "communication",
    "memory": "memory_copy",
    "other": "unclassified_busy",
    None: "unknown",
}
END = 40

times = st.integers(0, END)
spans = st.tuples(times, st.integers(0, 12))
records = st.tuples(st.sampled_from(ORDER), spans, st.integers(0, 1), st.integers(7, 8))
steps = st.tuples(times, st.integers(0, 20))
files = st.tuples(st.lists(records, min_size=1, max_size=8), st.lists(steps, max_size=4))
fleets = st.lists(
    files, min_size=1, max_size=6
)  # one analysis of several files costs hardly more than of one
RULES = NameRules.load()


# ---------------------------------------------------------------------------------------------- the oracle


class Device:
    """What one device does, as sets of nanoseconds."""

    def __init__(self, rows: list[tuple[str, tuple[int, int], int, int]]) -> None:
        self.rows = rows
        self.running = {kind: set[int]() for kind in ORDER}
        for kind, (start, dur), _, _ in rows:
            self.running[kind].update(range(start, start + dur))

    def doing(self, instant: int) -> str | None:
        return next((kind for kind in ORDER if instant in self.running[kind]), None)

    def spent(self, start: int, end: int) -> dict[str | None, int]:
        spent = dict.fromkeys([*ORDER, None], 0)
        for instant in range(start, end):
            spent[self.doing(instant)] += 1
        return spent

    def figures(self) -> dict[str, int]:
        start = min(start for _, (start, _), _, _ in self.rows)
        end = max(start + dur for _, (start, dur), _, _ in self.rows)
        spent = self.spent(start, end)
        return {
            "span_ns": end - start,
            "idle_ns": spent[None],
            "busy_ns": end - start - spent[None],
            **{f"{kind}_ns": len(self.running[kind]) for kind in ORDER},
            **{f"exposed_{kind}_ns": spent[kind] for kind in ORDER[1:]},
            "kernel_count": sum(kind in ("compute", "comm") for kind, *_ in self.rows),
            "memcpy_count": sum(kind == "memory" for kind, *_ in self.rows),
            "memset_count": 0,
        }


def devices_of(file: Any) -> dict[int, Device]:
    rows, _ = file
    return {number: Device([r for r in rows if r[2] == number]) for number in sorted({r[2] for r in rows})}


def window_of(file: Any) -> tuple[int, int]:
    rows, ranges = file
    if ranges:
        return min(start for start, _ in ranges), max(start + dur for start, dur in ranges)
    return min(start for _, (start, _), *_ in rows), max(start + dur for _, (start, dur), *_ in rows)


def ledger_of(fleet: Any) -> dict[str, int]:
    total = dict.fromkeys(CAUSES.values(), 0)
    for file in fleet:
        for device in devices_of(file).values():
            for kind, spent in device.spent(*window_of(file)).items():
                total[CAUSES[kind]] += spent
    return {cause: spent for cause, spent in total.items() if spent}


# ------------------------------------------------------------------------------------------- running mpg


def as_source(file: Any, index: int, order: random.Random | None = None) -> dict[str, list[Any]]:
    rows, ranges = file
    ops = [KINDS[kind](start, dur, device=device, stream=s) for kind, (start, dur), device, s in rows]
    marked = [step(n, start, start + dur) for n, (start, dur) in enumerate(ranges)]
    if order:
        order.shuffle(ops)
        order.shuffle(marked)
    return source(ops, steps=marked, path=f"file{index}.json")


def run(fleet: Any, order: random.Random | None = None, **options: Any) -> model.Report:
    made = dataset(*(as_source(file, index, order) for index, file in enumerate(fleet)))
    return analyze(made, AnalysisOptions(rules=RULES, **options))


def amounts(report: model.Report) -> dict[str, int]:
    """The ledger, with the causes of idle time in one row."""
    found: dict[str, int] = {}
    for row in report.ledger:
        cause = row.cause if row.cause in CAUSES.values() else "unknown"
        found[cause] = found.get(cause, 0) + row.chip_ns
    return {cause: ns for cause, ns in found.items() if ns}


@settings(max_examples=6, deadline=None)
@given(fleets)
def test_every_nanosecond_is_counted_once_and_under_the_right_cause(fleet: Any) -> None:
    report = run(fleet)
    check_ledger(report, fleet)
    check_devices_and_steps(report, fleet)


def check_ledger(report: model.Report, fleet: Any) -> None:
    assert amounts(report) == ledger_of(fleet)
    windows = [window_of(file) for file in fleet]
    capacity = sum(len(devices_of(f)) * (end - start) for f, (start, end) in zip(fleet, windows, strict=True))
    assert sum(row.chip_ns for row in report.ledger) == report.totals.capacity_ns == capacity
    busy = sum(ns for cause, ns in amounts(report).items() if cause != "unknown")
    assert (report.totals.device_busy_ns, report.totals.chip_seconds) == (busy, capacity / 1e9)
    assert [(window.start_ns, window.end_ns) for window in report.quality.windows] == windows
    check_ratio(report, amounts(report), capacity)


def check_ratio(report: model.Report, spent: dict[str, int], capacity: int) -> None:
    productive, other = spent.get("productive", 0), spent.get("unclassified_busy", 0)
    if not capacity:
        assert report.goodput.rg is None
        assert report.goodput.reasons["rg"] == "the window is empty"
    elif other * 100 > capacity:
        assert report.goodput.rg is None
        assert report.goodput.rg_min == productive / capacity
        assert report.goodput.rg_max == (productive + other) / capacity
    else:
        assert report.goodput.rg is not None
        assert (report.goodput.rg.numerator_ns, report.goodput.rg.denominator_ns) == (productive, capacity)


def check_devices_and_steps(report: model.Report, fleet: Any) -> None:
    expected = [device.figures() for file in fleet for device in devices_of(file).values()]
    found = [{key: getattr(device, key) for key in expected[0]} for device in report.devices]
    assert found == expected
    assert {step_key(s): step_figures(s) for s in report.steps} == expected_steps(fleet)
    assert report.totals.steps == sum(len(ranges) for _, ranges in fleet)


def step_key(found: model.Step) -> tuple[str, int, int | str]:
    return found.source, found.device, found.step


def step_figures(found: model.Step) -> tuple[int, ...]:
    exposed = found.exposed_comm_ns, found.exposed_memory_ns
    return found.wall_ns, found.busy_ns, found.compute_ns, *exposed


def expected_steps(fleet: Any) -> dict[tuple[str, int, int], tuple[int, ...]]:
    found = {}
    for index, file in enumerate(fleet):
        for number, device in devices_of(file).items():
            for n, (start, dur) in enumerate(file[1]):
                spent = device.spent(start, start + dur)
                busy = dur - spent[None]
                figures = dur, busy, spent["compute"], spent["comm"], spent["memory"]
                found[f"file{index}.json", number, n] = figures
    return found


@settings(max_examples=6, deadline=None)
@given(fleets, st.integers(0, 1000))
def test_neither_the_order_of_rows_nor_the_view_changes_an_amount(fleet: Any, seed: int) -> None:
    report = run(fleet)
    assert run(fleet, random.Random(seed)) == report
    fleet_paper = run(fleet, view="fleet-paper")
    assert (amounts(fleet_paper), fleet_paper.totals) == (amounts(report), report.totals)
    layers = {row.cause: row.layer for row in fleet_paper.ledger}
    assert layers.get("communication", "program") == "program"


@settings(max_examples=10, deadline=None)
@given(fleets, st.data())
def test_cutting_a_record_in_two_changes_counts_only(fleet: Any, data: Any) -> None:
    rows, ranges = fleet[0]
    index = data.draw(st.integers(0, len(rows) - 1))
    kind, (start, dur), device, stream = rows[index]
    at = data.draw(st.integers(0, dur))
    halves = [(kind, (start, at), device, stream), (kind, (start + at, dur - at), device, stream)]
    cut = [(rows[:index] + halves + rows[index + 1 :], ranges), *fleet[1:]]
    assert without_counts(run(cut)) == without_counts(run(fleet))


def without_counts(report: model.Report) -> Any:
    counts = {"kernel_count": 0, "memcpy_count": 0, "memset_count": 0}
    devices = [dataclasses.replace(device, **counts) for device in report.devices]
    return devices, report.steps, report.goodput, report.ledger, report.totals, report.quality.windows


# ---------------------------------------------------------------------------------------- tables of cases


def kinds(report: model.Report) -> list[str]:
    return [warning.kind for warning in report.warnings]


def messages(report: model.Report, kind: str) -> list[str]:
    return [warning.message for warning in report.warnings if warning.kind == kind]


@pytest.mark.parametrize(
    ("form", "hint"),
    [
        ("pytorch", "ProfilerActivity"),
        ("nsight-systems", "nsys profile --trace=cuda"),
        ("rocprofv3", "rocprofv3 --kernel-trace"),
        ("nsight-compute", "together with a trace"),
    ],
)
def test_what_to_record_depends_on_the_profiler(form: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        analyze(dataset(source(events=[host(0, 5, "a")], format=form)), AnalysisOptions())
    assert (caught.value.kind, hint in caught.value.hint) == ("no_device_activity", True)


@pytest.mark.parametrize(
    ("events", "kind", "words"),
    [
        ([host(0, 5, "aten::mm", "op")], "no_device_activity", "no device activity"),
        ([call(1), call(2, "cudaMemcpyAsync")], "device_records_lost", "2 launch calls"),
    ],
)
def test_nothing_on_a_device_is_an_error_that_says_why(events: Any, kind: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        analyze(dataset(source(events=events)), AnalysisOptions())
    assert caught.value.kind == kind


def test_a_file_without_device_activity_among_others_is_a_warning() -> None:
    made = dataset(
        source([op(0, 5)], path="a.json"), source(events=[host(0, 5, "aten::mm", "op")], path="b.json")
    )
    report = analyze(made, AnalysisOptions())
    assert [w.source for w in report.warnings if w.kind == "no_device_activity"] == ["b.json"]
    assert [s.path for s in report.sources] == ["a.json", "b.json"]
    assert report.totals.chips == 1
    assert report.goodput.rg
    assert report.goodput.rg.basis == "profiled window (device activity) of 1 file"


def test_notices_of_ingest_parsers_and_analysis_come_in_this_order() -> None:
    made = dataset(source([op(0, 5)], notices=[{"kind": "dropped_events", "message": "m", "count": 3}]))
    made.notices.append(Notice("skipped_files", "not a trace", 1, "x.txt"))
    report = analyze(made, AnalysisOptions())
    assert kinds(report) == ["skipped_files", "dropped_events", "no_steps"]
    assert report.warnings[1] == model.Warning("dropped_events", "m", 3, "trace.json")


@pytest.mark.parametrize(
    ("ranks", "world", "basis"),
    [
        ([0, 1], 2, "of 2 ranks"),
        ([0], 1, "of 1 rank"),
        ([3], 8, "of 1 of 8 ranks"),
        ([None], None, "of 1 file"),
        ([None, None], None, "of 2 files"),
    ],
)
def test_the_basis_says_which_ranks(ranks: list[int | None], world: int | None, basis: str) -> None:
    made = [source([op(0, 5)], rank=r, world_size=world, path=f"{i}.json") for i, r in enumerate(ranks)]
    report = analyze(dataset(*made), AnalysisOptions())
    assert report.goodput.rg
    assert report.goodput.rg.basis == f"profiled window (device activity) {basis}"


def test_steps_of_one_name_are_counted_each() -> None:
    events = [host(0, 10, "train"), host(10, 10, "train"), host(20, 10, "train")]
    report = analyze(dataset(source([op(0, 5)], events=events)), AnalysisOptions(step_regex="^train$"))
    assert [(s.step, s.busy_ns) for s in report.steps] == [("train", 5), ("train", 0), ("train", 0)]
    assert messages(report, "steps_without_device_work") == ["2 of 3 steps have no device activity at all"]


def test_steps_of_a_file_without_device_activity_are_not_counted() -> None:
    made = dataset(
        source([op(0, 5)], steps=[step(1, 0, 10)], path="a.json"),
        source(steps=[step(1, 0, 10)], events=[host(0, 5, "x", "op")], path="b.json"),
    )
    report = analyze(made, AnalysisOptions())
    assert report.totals.steps == 1
    assert len(report.steps) == 1


@pytest.mark.parametrize(("window", "warned"), [("steps", True), ("device", False), ("all", False)])
def test_missing_steps_matter_only_where_steps_were_asked_for(window: str, warned: bool) -> None:
    report = analyze(dataset(source([op(0, 5)])), AnalysisOptions(window=window))
    assert ("no_steps" in kinds(report)) == warned


def test_a_pattern_that_matches_nothing_is_named() -> None:
    report = analyze(dataset(source([op(0, 5)], steps=[step(1, 0, 9)])), AnalysisOptions(step_regex="^nope$"))
    (message,) = messages(report, "no_steps")
    assert message.startswith("no host range matches '^nope$'")
    assert report.quality.windows[0].basis == "device activity"


def test_a_bad_pattern_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--step-regex"):
        analyze(dataset(source([op(0, 5)])), AnalysisOptions(step_regex="("))


def test_lost_records_are_told_by_file() -> None:
    ops = [op(0, 5, correlation=1), op(9, 5, correlation=9)]
    events = [call(n) for n in (1, 2, 3, 9)]
    made = dataset(
        source(ops, path="a.json", events=[call(1), call(9)]), source(ops, path="b.json", events=events)
    )
    report = analyze(made, AnalysisOptions())
    lost = [(w.source, w.count) for w in report.warnings if w.kind == "device_records_lost"]
    assert lost == [("b.json", 2)]
    assert report.quality.grade == "C"


def test_activity_outside_the_window_is_told() -> None:
    ops = [op(0, 10), comm(5, 10), op(30, 10), op(95, 10), copy(110, 5)]
    report = analyze(dataset(source(ops, steps=[step(1, 10, 50), step(2, 50, 100)])), AnalysisOptions())
    (window,) = report.quality.windows
    assert (window.before_ns, window.after_ns, report.quality.outside_window_ns) == (10, 10, 20)


def test_a_cut_record_counts_with_what_is_inside() -> None:
    report = analyze(dataset(source([op(0, 30)], steps=[step(1, 10, 20)])), AnalysisOptions())
    (kernel,) = report.kernels
    assert (kernel.count, kernel.time_ns, kernel.max_ns) == (1, 10, 10)


def test_sixty_four_ranks_take_little_time() -> None:
    ops = [op(100 * n, 60, correlation=n) for n in range(200)] + [
        comm(100 * n + 50, 50, seq=n, group="0", collective="allreduce") for n in range(200)
    ]
    ranges = [step(n, 1000 * n, 1000 * n + 1000) for n in range(20)]
    made = dataset(
        *(source(ops, steps=ranges, rank=r, world_size=64, path=f"rank{r}.json") for r in range(64))
    )
    begun = time.perf_counter()
    report = analyze(made, AnalysisOptions())
    assert time.perf_counter() - begun < 60  # 1.5 s alone; quadratic work would take minutes
    assert (len(report.devices), len(report.steps), len(report.collectives)) == (64, 64 * 20, 200)


def test_processes_in_one_file_have_windows_of_their_own() -> None:
    """Process 41 steps through [0, 100) and computes in [10, 40), process 42 through [50, 250) and in [60, 160)."""
    ops = [op(10, 30, process=41), op(60, 100, process=42), op(240, 30, process=42)]
    steps = [step(1, 0, 100) | {"process": 41}, step(1, 50, 250) | {"process": 42}]
    made = dataset(source(ops, steps=steps, format="nsight-systems"))
    report = analyze(made, AnalysisOptions())
    shown = [(w.start_ns, w.end_ns, w.chips, w.steps, w.after_ns) for w in report.quality.windows]
    assert shown == [(0, 100, 1, 1, 0), (50, 250, 1, 1, 20)]
    assert (report.totals.capacity_ns, report.totals.steps) == (300, 2)
    assert [(s.wall_ns, s.busy_ns) for s in report.steps] == [(100, 30), (200, 110)]
