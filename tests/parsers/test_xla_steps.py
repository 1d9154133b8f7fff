"""Where the steps of a profile come from: annotations of the host, lines of a TPU, or the runs of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.xla.writer import Plane
from tests.parsers.reading import notices
from tests.parsers.test_xla_device import US, add, core, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

Span = tuple[str, int, int]  # name, start, length in us


def host(*steps: tuple[str, int, int, int], threads: int = 1) -> Plane:
    """Annotations: name, step_num, start, length."""
    plane = Plane("/host:CPU")
    for thread in range(threads):
        line = plane.line(f"python {thread}", 50 + thread)
        for name, number, start, dur in steps:
            line.add(name, start * US, dur * US, {"step_num": number, "_r": 1})
    return plane


def device(number: int, steps: Sequence[Span] = (), runs: Sequence[Span] = (), kind: str = "TPU") -> Plane:
    """A device that works in [0, 1000) us, with its lines Steps and XLA Modules."""
    plane = core(
        ("fusion.1", 0, 1000),
        line="XLA Ops" if kind == "TPU" else "Stream #1",
        name=f"/device:{kind}:{number}",
    )
    for line, events in (("Steps", steps), ("XLA Modules", runs)):
        if events:
            add(plane, line, *events)
    return plane


def steps(*planes: Plane) -> list[tuple[int | None, str, int, int]]:
    """step, name, start and end in us."""
    found = tables(*planes)["steps"]
    assert found["start_ns"].is_sorted()
    rows = found.select("step", "name", "start_ns", "end_ns").rows()
    return [(number, name, start // 1000, end // 1000) for number, name, start, end in rows]


def test_none() -> None:
    found = tables(device(0))
    assert found["steps"].is_empty()
    assert notices(found) == []


# ------------------------------------------------------------------------------------------ lines of the device


def test_several_cores_make_a_step_together() -> None:
    """From the first core that begins it to the last that ends it, by number and not by order."""
    one = device(0, [("4", 10, 90), ("5", 110, 90)])
    other = device(1, [("3", 0, 5), ("4", 20, 95), ("5", 105, 80)])
    assert steps(one, other) == [(3, "3", 0, 5), (4, "4", 10, 115), (5, "5", 105, 200)]


def test_a_count_that_begins_again() -> None:
    one = device(0, [("0", 0, 10), ("1", 10, 10), ("0", 50, 10)])
    other = device(1, [("0", 1, 10), ("1", 11, 10), ("0", 51, 10)])
    assert steps(one, other) == [(0, "0", 0, 11), (1, "1", 10, 21), (0, "0", 50, 61)]


def test_names_of_steps() -> None:
    names = [("eval", 0, 1), ("12", 2, 1), ("-1", 4, 1), ("1" * 30, 6, 1), ("x" * 500, 8, 1)]
    assert [(number, name) for number, name, _, _ in steps(device(0, names))] == [
        (None, "eval"), (12, "12"), (None, "-1"), (None, "1" * 30), (None, "x" * 120),
    ]  # fmt: skip


def test_steps_of_a_gpu_are_made_from_annotations() -> None:
    lone = device(0, [("0", 10, 50), ("1", 70, 50)], kind="GPU")
    assert steps(lone) == []
    assert steps(lone, host(("train", 0, 0, 60), ("train", 1, 60, 65))) == [
        (0, "train 0", 0, 60), (1, "train 1", 60, 125),
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------- annotations


def test_annotations() -> None:
    assert steps(device(0), host(("train", 7, 100, 50), ("train", 8, 160, 40))) == [
        (7, "train 7", 100, 150), (8, "train 8", 160, 200),
    ]  # fmt: skip


def test_the_outermost_of_nested_and_repeated_annotations() -> None:
    """The same mark on two threads, and inside of itself, is one step; other names are other ranges."""
    marks = host(
        ("train", 1, 0, 50), ("train", 1, 5, 20), ("train", 1, 60, 10), ("eval", 1, 10, 5), threads=2
    )
    assert steps(device(0), marks) == [
        (1, "train 1", 0, 50), (1, "eval 1", 10, 15), (1, "train 1", 60, 70),
    ]  # fmt: skip


def test_annotations_that_take_no_time_are_no_steps() -> None:
    assert steps(device(0), host(("train", 1, 0, 0))) == []


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param([("train", 4, 0, 100), ("train", 5, 100, 100)], id="each waits for its device"),
        pytest.param([("train", 4, 0, 10), ("train", 5, 10, 10)], id="the host runs ahead"),
        pytest.param([("train", 4, 300, 100), ("train", 5, 400, 100)], id="later"),
        pytest.param([], id="none"),
    ],
)
def test_a_tpu_tells_its_own_steps(marks: list[tuple[str, int, int, int]]) -> None:
    found = steps(device(0, [("4", 20, 60), ("5", 120, 60)]), host(*marks))
    assert found == [(4, "4", 20, 80), (5, "5", 120, 180)]


# ---------------------------------------------------------------------------------------------- runs of programs


def test_runs_of_the_program_that_took_most() -> None:
    one = device(0, runs=[("jit_f(5)", 10, 20), ("jit_g(6)", 40, 5), ("jit_f(5)", 50, 30)])
    other = device(1, runs=[("jit_f(5)", 12, 25), ("jit_f(5)", 49, 20)])
    found = tables(one, other)
    assert found["steps"].select("step", "name", "start_ns", "end_ns").rows() == [
        (0, "jit_f 0", 10_000, 30_000), (1, "jit_f 1", 50_000, 80_000),
    ]  # fmt: skip
    assert notices(found) == [("steps_from_programs", 2)]


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([("jit_f(5)", 0, 50)], id="it ran once"),
        pytest.param(
            [("jit_f(5)", 0, 10), ("jit_f(5)", 10, 10), ("jit_g(6)", 30, 21)], id="another took more"
        ),
        pytest.param(
            [("jit_f(5)", 0, 10), ("jit_f(5)", 10, 10), ("jit_g(6)", 30, 19), ("jit_h(7)", 60, 2)],
            id="it took less than half",
        ),
        pytest.param([("jit_f(5)", 0, 10), ("jit_f(6)", 10, 11)], id="two programs of the same name"),
    ],
)
def test_no_program_that_dominates(runs: list[Span]) -> None:
    assert steps(device(0, runs=runs)) == []


def test_half_of_all_is_enough() -> None:
    runs = [("jit_f(5)", 0, 10), ("jit_f(5)", 10, 10), ("jit_g(6)", 30, 20)]
    assert [name for _, name, _, _ in steps(device(0, runs=runs))] == ["jit_f 0", "jit_f 1"]


def test_once_on_each_of_two_devices_is_once() -> None:
    assert steps(device(0, runs=[("jit_f(5)", 0, 9)]), device(1, runs=[("jit_f(5)", 1, 9)])) == []
