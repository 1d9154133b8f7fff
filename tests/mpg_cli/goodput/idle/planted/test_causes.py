"""Planted causes through the whole analysis: alone and in ordered pairs, to a microsecond, and called by name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from fixtures.planted.scenarios import SCENARIOS, Scenario
from fixtures.planted.traces import BYSTANDER, Planted, plant
from tests.mpg_cli.goodput.idle.planted.answers import apart, by_step, names, report

if TYPE_CHECKING:
    from mpg_cli.report.model import Report

# the same cause again, told in another way
VARIANTS = {
    *("loader_frame", "module_load", "free", "function", "synchronize", "late_synchronize", "graph"),
    *("backward_operator", "late_start", "late_stream", "host_operators", "early_starts"),
}
LATER = tuple(s for s in SCENARIOS if not s.first and s.name not in VARIANTS)
FIRST = tuple(s for s in SCENARIOS if s.first)
STACKLESS = tuple(s for s in SCENARIOS if not s.first and not s.frames)
AFTER_FIRST = {"input", "first_use", "frame", "small_operators", "item", "backward"}
# the host is at work when the window ends
LAST = {"input", "checkpoint", "compile", "frame", "quiet_operator", "item"}


def mismatches(traces: list[Planted], labels: list[str]) -> list[str]:
    """What differs by more than a microsecond, step by step."""
    found = by_step(report(traces), len(traces))
    return [
        f"{label}, step {step}: {wrong} (truth, found)"
        for trace, steps, label in zip(traces, found, labels, strict=True)
        for step, causes in trace.steps.items()
        if (wrong := apart(causes, steps[step]))
    ]


@cache
def alone() -> tuple[list[Planted], Report]:
    traces = [plant(((scenario,),)) for scenario in SCENARIOS]
    return traces, report(traces)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_alone(scenario: Scenario) -> None:
    traces, found = alone()
    at = SCENARIOS.index(scenario)
    assert {
        step: apart(causes, by_step(found, len(traces))[at][step])
        for step, causes in traces[at].steps.items()
    } == {0: {}}


def test_the_ledger_of_all_is_the_sum_of_the_truths() -> None:
    traces, found = alone()
    ledger = {row.cause: row.chip_ns for row in found.ledger if row.layer == "runtime"}
    causes = {cause for trace in traces for cause in trace.window} - {"productive"}
    truth = {cause: sum(trace.window.get(cause, 0) for trace in traces) for cause in causes}
    assert {cause: pair for cause, pair in apart(truth, ledger).items() if pair[0] != pair[1]} == {}
    computing = sum(trace.window["productive"] for trace in traces)
    assert sum(row.chip_ns for row in found.ledger if row.layer == "program") == computing
    assert found.totals.capacity_ns == sum(sum(trace.window.values()) for trace in traces)


def test_nothing_is_launched_afterwards() -> None:
    last = [scenario for scenario in SCENARIOS if scenario.name in LAST]
    traces = [plant(((scenario,),), closing=False) for scenario in last]
    assert mismatches(traces, [scenario.name for scenario in last]) == []


def test_without_python_frames() -> None:
    trace = plant(*(((scenario,),) for scenario in STACKLESS), stacks=False)
    assert "python_function" not in trace.text
    assert mismatches([trace], ["without stacks"]) == []


def test_ordered_pairs_in_two_steps_and_in_one() -> None:
    pairs = [(a, b) for a in LATER for b in LATER]
    trace = plant(*(((a,), (b,), (a, b)) for a, b in pairs))
    (steps,) = by_step(report([trace]), 1)
    wrong = {
        f"{pairs[step // 3][0].name}, {pairs[step // 3][1].name}, step {step % 3}": apart(causes, steps[step])
        for step, causes in trace.steps.items()
    }
    assert len(wrong) == 3 * len(LATER) ** 2
    assert {pair: causes for pair, causes in wrong.items() if causes} == {}


def test_pairs_that_begin_before_the_recording() -> None:
    pairs = [(a, b) for a in FIRST for b in LATER if b.name in AFTER_FIRST]
    traces = [plant(((a, b), (b,))) for a, b in pairs]
    assert mismatches(traces, [f"{a.name}, {b.name}" for a, b in pairs]) == []


# ----------------------------------------------------------------------------------------------- what is named


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.names], ids=lambda scenario: scenario.name)
def test_what_the_host_did_is_named(scenario: Scenario) -> None:
    found = [row for row in alone()[1].hotspots if row.cause == scenario.cause]
    assert [row for row in found if any(name in names(row) for name in scenario.names)], found


def test_nothing_is_laid_to_a_thread_that_launches_nothing() -> None:
    threads = {row.thread for row in alone()[1].hotspots}
    assert len(threads) > 2
    assert BYSTANDER not in threads
