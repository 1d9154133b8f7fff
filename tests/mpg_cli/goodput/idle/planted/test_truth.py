"""The truth of planted traces, on schedules that can be checked on paper and by asking at single instants."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.planted import truth
from fixtures.planted.machine import AUTOGRAD, MAIN, MATMUL, START_NS, TO_HOST, Machine
from fixtures.planted.scenarios import BACKWARD, SCENARIOS, Scenario
from fixtures.planted.traces import BYSTANDER, Planted, plant
from fixtures.recorder import COMM_STREAM

if TYPE_CHECKING:
    from collections.abc import Callable

HALF, CALL, LATENCY = 1_504, 4_480, 3_200  # of an operator, of a launch call, from its end to the start
KERNEL = 60_000
BUSY = {"productive": "compute", "communication": "comm", "memory_copy": "memory"}


@cache
def planted(scenario: Scenario) -> Planted:
    return plant(((scenario,),))


def machine(*, stacks: bool = True) -> Machine:
    return Machine(jitter=0, stacks=stacks)


def causes(done: Machine) -> dict[str, int]:
    (found,) = truth.by_cause(truth.stretches(done), (START_NS, done.now))
    return found


def matmul(m: Machine, **launch: Any) -> None:
    with m.op("aten::mm"):
        m.launch(**launch)


# -------------------------------------------------------------------------------------------------- on paper


def test_host_code_between_two_kernels() -> None:
    """The first kernel ends 66.7 us after its operator's body; the host has done 1.5 of its 100 us more by then."""
    m = machine()
    matmul(m)
    m.spend(100_000)
    matmul(m)
    m.spend(KERNEL)
    busy_until = HALF + CALL + LATENCY + KERNEL
    free_again = HALF + CALL + HALF + 100_000
    assert causes(m) == {
        "host_code": free_again - busy_until,
        "launch_bound": 2 * (HALF + CALL + LATENCY),
        "productive": KERNEL + (HALF + KERNEL - LATENCY),
    }


def test_what_is_queued_is_no_fault_of_the_host() -> None:
    m = machine()
    for _ in range(3):
        matmul(m)
    m.spend(1_000)
    m.catch_up()
    gaps = causes(m)
    assert (gaps["kernel_gap"], gaps["launch_bound"]) == (2 * 1_056, HALF + CALL + LATENCY)
    assert "host_code" not in gaps


def test_a_drained_queue_belongs_to_the_synchronisation_up_to_the_next_kernel() -> None:
    m = machine()
    matmul(m)
    m.synchronise()
    m.spend(30_000)
    matmul(m)
    assert causes(m) == {
        "launch_bound": HALF + CALL + LATENCY,
        "productive": KERNEL,
        "synchronisation": 2_144 + 30_000 + HALF + CALL + HALF,
    }
    later = m.activities[-1]
    assert (later.held, later.start) == ("synchronisation", later.issued + LATENCY if later.issued else None)


def test_a_synchronisation_of_an_idle_device_owns_only_itself() -> None:
    m = machine()
    matmul(m)
    m.spend(70_000)
    m.synchronise()
    m.spend(30_000)
    assert causes(m)["synchronisation"] == 2_048
    assert causes(m)["host_code"] == 30_000 + HALF + CALL + HALF + 70_000 - (HALF + CALL + LATENCY + KERNEL)


def test_firm_causes_keep_their_time_in_a_drained_queue() -> None:
    m = machine()
    matmul(m)
    m.synchronise()
    with m.owner("input", wide=True), m.op("aten::stack"):
        m.spend(50_000)
    with m.op("slow", "host_code", firm=True, ns=2_000_000):
        pass
    found = causes(m)
    assert (found["input"], found["host_code"], found["synchronisation"]) == (
        50_000 + 2 * HALF,
        2_000_000,
        2_144,
    )


def test_another_stream_holds_up_what_waits_for_it() -> None:
    m = machine()
    with m.op("aten::mm"):
        first = m.launch()
    matmul(m, stream=COMM_STREAM, after=first)
    m.spend(2 * KERNEL)
    assert causes(m)["dependency"] == 2_144


def test_an_unexplained_delay_is_unknown_in_whole() -> None:
    m = machine()
    matmul(m)
    matmul(m, stall=250_000)
    m.spend(4 * KERNEL + 250_000)
    assert causes(m)["unknown"] == 1_056 + 250_000


def test_the_profiler_owns_its_time_in_any_scope() -> None:
    m = machine()
    with m.owner("input", wide=True):
        m.profiler("Buffer Flush", 9_000)
        m.spend(1_000)
    assert causes(m) == {"profiler_overhead": 9_000, "input": 1_000}


def test_a_frame_in_an_operator_is_the_operators_with_and_without_stacks() -> None:
    for stacks in (True, False):
        m = machine(stacks=stacks)
        with m.op("op"), m.frame("f.py(1): f"):
            m.spend(5_000)
        with m.frame("f.py(1): g"):
            m.spend(7_000)
        assert causes(m) == {"launch_bound": 5_000 + 2 * HALF, "host_code": 7_000}
        assert any(e["cat"] == "python_function" for e in m.events) == stacks


def test_a_blocking_copy_drains() -> None:
    m = machine()
    m.copy_and_wait(TO_HOST)
    m.spend(10_000)
    assert causes(m) == {"host_code": 10_000, "memory_copy": 1_376, "synchronisation": CALL + 2_144}


def test_a_blocking_copy_makes_what_is_launched_next_late() -> None:
    m = machine()
    m.copy_and_wait(TO_HOST)
    m.spend(10_000)
    with m.op("aten::mm"):
        m.launch(MATMUL)
    found = causes(m)
    assert found["synchronisation"] > CALL + 2_144 + 10_000
    assert "host_code" not in found


def test_carried_over_work_waits_from_the_beginning() -> None:
    m = machine()
    m.carry_over(MATMUL, 0, "kernel_gap")
    m.carry_over(MATMUL, 500_000, "transient")
    m.spend(700_000)
    assert causes(m) == {"host_code": 700_000 - 90_000 - 500_000, "productive": 90_000, "transient": 500_000}


def test_autograds_own_time_is_that_of_the_frame_that_waits() -> None:
    m = machine()
    with m.frame(BACKWARD), m.thread(AUTOGRAD):
        m.spend(1_000)
        with m.op("MulBackward0"):
            m.spend(2_000)
    assert causes(m) == {"host_code": 1_000, "launch_bound": 2_000 + 2 * HALF}
    assert [e["tid"] for e in m.events] == [MAIN, AUTOGRAD]


# ------------------------------------------------------------------------------------------ at single instants


def state(m: Machine, now: int) -> str:
    """What the chip's time at one instant is charged to."""
    running = {a.work.kind for a in m.activities if a.start <= now < a.end}
    for cause, kind in BUSY.items():
        if kind in running:
            return cause
    queued = [a for a in m.activities if (a.issued or 0) <= now < a.start]
    if queued:
        return min(queued, key=lambda a: a.start).held
    (piece,) = (p for p in m.pieces if p.start <= now < p.end)
    return piece.cause


def driven(act: Callable[[Machine], None]) -> Machine:
    m = Machine()
    matmul(m)
    act(m)
    matmul(m)
    m.catch_up()
    return m


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_stretches_partition_the_time_and_agree_with_the_state(scenario: Scenario) -> None:
    m = driven(scenario.act)
    found = truth.stretches(m)
    assert [start for start, _, _ in found[1:]] == [end for _, end, _ in found[:-1]]
    assert (found[0][0], found[-1][1]) == (START_NS, m.now)
    for start, end, cause in found:
        assert {state(m, instant) for instant in (start, (start + end) // 2, end - 1)} == {cause}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_is_planted_is_most_of_what_is_idle(scenario: Scenario) -> None:
    (step,) = planted(scenario).steps.values()
    idle = {cause: ns for cause, ns in step.items() if cause not in BUSY}
    assert max(idle, key=lambda cause: idle[cause]) == scenario.cause
    assert idle[scenario.cause] > 0.5 * sum(idle.values())


# ------------------------------------------------------------------------------------------------ in the file


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_file_has_the_busy_time_and_the_steps_of_the_truth(scenario: Scenario) -> None:
    """Walks the instants at which anything on the device starts or ends, as the file has them."""
    events = json.loads(planted(scenario).text, parse_float=Decimal)["traceEvents"]
    ((low, high),) = [bounds(e) for e in events if e["name"].startswith("ProfilerStep#")]
    rows = [bounds(e) for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    (truth_of_step,) = planted(scenario).steps.values()
    busy, until = 0, low
    for start, end in sorted(rows):
        busy += max(min(end, high) - max(start, until), 0)
        until = max(until, end)
    assert sum(truth_of_step.get(cause, 0) for cause in BUSY) == busy
    assert sum(truth_of_step.values()) == high - low


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_launch_is_in_the_file_and_none_is_the_bystanders(scenario: Scenario) -> None:
    events = json.loads(planted(scenario).text)["traceEvents"]
    calls = {
        e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime" and "cbid" in e["args"]
    }
    launched = {e["args"]["correlation"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy")}
    assert (launched <= calls) != scenario.first
    bystander = [e for e in events if e["tid"] == BYSTANDER]
    assert len(bystander) > 4
    assert not any("correlation" in e["args"] for e in bystander)


def bounds(event: dict[str, Any]) -> tuple[int, int]:
    start = int(event["ts"] * 1000)
    return start, start + int(event["dur"] * 1000)
