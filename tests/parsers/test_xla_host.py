"""Threads of the host: what their events are, whose they are, and which run of a device they led to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fixtures.xla.writer import Plane, Ref, Stats, Unsigned
from mpg_parsers.xla.host import frame_name, kind_of
from tests.parsers.test_xla_device import US, add, core, tables

if TYPE_CHECKING:
    import polars as pl

Event = tuple[Any, ...]  # name, start and length in us[, stats]
DEVICE = core(("fusion.1", 0, 10))


def threads(*lines: tuple[int, str, list[Event]]) -> Plane:
    """Lines of the host: id, name, events."""
    plane = Plane("/host:CPU")
    for number, name, events in lines:
        line = plane.line(name, number)
        for what, start, dur, *stats in events:
            line.add(what, start * US, dur * US, stats[0] if stats else {})
    return plane


def events(*planes: Plane, **options: bool) -> pl.DataFrame:
    return tables(DEVICE, *planes, **options)["host_events"]


def of_thread(*found: Event, **options: bool) -> list[Any]:
    """kind and name of the events of one thread."""
    frame = events(threads((7, "python", list(found))), **options)
    return frame.sort("start_ns").select("kind", "name").rows()


# ------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("$train.py:88 step", "python"),
        ("$isinstance", "python"),
        ("cuLaunchKernel", "runtime"),
        ("cudaMemcpyAsync", "runtime"),
        ("hipModuleLaunchKernel", "runtime"),
        ("ncclGroupEnd", "runtime"),
        ("hsa_signal_wait", "runtime"),
        ("cumsum", "op"),
        ("cublas", "op"),
        ("np.asarray(jax.Array)", "runtime"),
        ("PjRtBuffer::ToLiteral", "runtime"),
        ("BlockHostUntilReady", "runtime"),
        ("PjitFunction(f)", "op"),
        ("Iterator::Prefetch", "op"),
        ("", "op"),
    ],
)
def test_kind_of(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("$train.py:88 step", "train.py(88): step"),
        ("$/usr/lib/a b.py:1 <lambda>", "/usr/lib/a b.py(1): <lambda>"),
        ("$C:/x.py:12 f", "C:/x.py(12): f"),
        ("$len", "<built-in len>"),
        ("$x.py:step", "<built-in x.py:step>"),
        ("$", "<built-in >"),
    ],
)
def test_frame_name(name: str, shown: str) -> None:
    assert frame_name(name) == shown


def test_events_of_a_thread() -> None:
    assert of_thread(
        ("$train.py:88 step", 100, 9), ("train", 110, 5, {"step_num": 3, "_r": 1}), ("PjitFunction(f)", 120, 1),
        ("anything", 130, 1, {"correlation_id": Unsigned(5)}), ("no length", 140, 0),
        ("ThreadpoolListener::StartRegion", 150, 1), ("MemoryAllocation", 160, 1), ("", 170, 1),
    ) == [
        ("python", "train.py(88): step"), ("annotation", "train 3"), ("op", "PjitFunction(f)"), ("runtime", "anything"),
    ]  # fmt: skip


def test_folders_of_private_paths() -> None:
    frame: Event = ("$/home/someone/project/train.py:88 step", 100, 9)
    assert of_thread(frame, keep_names=True) == [("python", "/home/someone/project/train.py(88): step")]
    ((_, name),) = of_thread(frame)
    assert "someone" not in name
    assert name.endswith("train.py(88): step")


def test_all_host_planes_but_the_programs() -> None:
    tracer = add(Plane("/host:python-tracer"), "7", ("$a.py:1 f", 20, 5))
    metadata = add(Plane("/host:metadata"), "x", ("g", 20, 5))
    found = events(tracer, metadata, threads((3, "main", [("h", 20, 5)])))
    assert sorted(found["name"]) == ["a.py(1): f", "h"]


def test_metadata_that_is_missing() -> None:
    plane = Plane("/host:CPU")
    plane.line("main", 3).add(99, 20 * US, US)
    assert events(plane).is_empty()


# --------------------------------------------------------------------------------- calls on lines of their own


def call(operation: str, correlation: int) -> Stats:
    return {"hlo_op": Ref(operation), "correlation_id": Unsigned(correlation)}


def test_calls_go_to_the_thread_that_made_them() -> None:
    """As ROCm's tracer writes them; the thread is the one whose events around them have the operation's name."""
    plane = threads(
        (10, "tf_XLAEigen/10", [("fusion.1", 100, 10), ("fusion.2", 120, 10)]),
        (11, "tf_XLAEigen/11", [("fusion.1", 50, 10), ("other", 100, 100)]),
        (900, "Host Threads/12345", [("hipLaunchKernel", 103, 2, call("fusion.1", 1)),
                                     ("hipLaunchKernel", 124, 2, call("fusion.2", 2)),
                                     ("hipStreamSynchronize", 140, 5)]),
        (901, "Host Threads/777", [("hipLaunchKernel", 300, 2, call("fusion.9", 3))]),
    )  # fmt: skip
    found = events(plane).filter(kind="runtime").sort("start_ns")
    assert found.select("name", "thread", "correlation").rows() == [
        ("hipLaunchKernel", 10, 1), ("hipLaunchKernel", 10, 2), ("hipStreamSynchronize", 10, None),
        ("hipLaunchKernel", 901, 3),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------ launches of a TPU's programs


def enqueued(*handed: tuple[int, str, list[Event]]) -> list[Any]:
    """thread, kind, name and correlation of the calls that led to run 77; the last thread enqueues it."""
    plane = core(("fusion.1", 500, 10))
    add(plane, "XLA Modules", ("jit_f(5)", 500, 20, {}, {"_ct": 12, "_c": 77}))
    found = tables(plane, threads(*handed))
    assert found["device_ops"]["correlation"].to_list() == [77]
    calls = found["host_events"].drop_nulls("correlation").sort("start_ns")
    return calls.select("thread", "kind", "name", "correlation").rows()


ENQUEUE: Event = ("DoEnqueueProgram", 300, 9, {"_pt": 12, "_p": 77})


def test_the_call_that_enqueues_a_run() -> None:
    assert enqueued((7, "tpu", [ENQUEUE])) == [(7, "runtime", "DoEnqueueProgram", 77)]


def test_calls_that_led_to_a_run() -> None:
    """The main thread gives 5 to a worker, which gives 6 to the thread that enqueues."""
    found = enqueued(
        (1, "main", [("PjitFunction(f)", 90, 30), ("Execute", 100, 10, {"_pt": 3, "_p": 5})]),
        (2, "worker", [("Worker", 200, 20, {"_ct": 3, "_c": 5}), ("Hand over", 205, 5, {"_pt": 4, "_p": 6})]),
        (3, "tpu", [("Run", 290, 40, {"_ct": 4, "_c": 6}), ENQUEUE]),
    )
    assert found == [
        (1, "runtime", "Execute", 77), (2, "runtime", "Hand over", 77), (3, "runtime", "DoEnqueueProgram", 77),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("giver", "taker"),
    [
        pytest.param({"_pt": 3, "_p": 5}, {"_ct": 3, "_c": 6}, id="another context"),
        pytest.param({"_pt": 3, "_p": 5}, {"_ct": 4, "_c": 5}, id="another kind of context"),
        pytest.param({"_p": 5}, {"_ct": 3, "_c": 5}, id="no kind"),
        pytest.param({}, {}, id="none"),
    ],
)
def test_calls_that_did_not(giver: Stats, taker: Stats) -> None:
    found = enqueued(
        (1, "main", [("Execute", 100, 10, giver)]), (3, "tpu", [("Run", 290, 40, taker), ENQUEUE])
    )
    assert found == [(3, "runtime", "DoEnqueueProgram", 77)]


def test_an_order_that_had_ended() -> None:
    found = enqueued(
        (1, "main", [("Execute", 100, 10, {"_pt": 3, "_p": 5})]),
        (3, "tpu", [("Run", 200, 40, {"_ct": 3, "_c": 5}), ENQUEUE]),
    )
    assert found == [(3, "runtime", "DoEnqueueProgram", 77)]


def test_contexts_that_go_round_in_circles() -> None:
    """Each of two threads takes from the other: it ends."""
    found = enqueued(
        (1, "a", [("A", 100, 300, {"_ct": 3, "_c": 5, "_pt": 4, "_p": 6})]),
        (2, "b", [("B", 100, 300, {"_ct": 4, "_c": 6, "_pt": 3, "_p": 5}), ENQUEUE]),
    )
    assert {name for _, _, name, _ in found} == {"A", "B", "DoEnqueueProgram"}
    assert {run for *_, run in found} == {77}
