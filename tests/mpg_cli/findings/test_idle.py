"""Rules on idle devices, on facts small enough to check on paper."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli.findings.rules import idle
from tests.mpg_cli.findings.made import (
    SEGMENTS,
    collective,
    facts,
    frame,
    hotspot,
    kernel,
    moving,
    step,
    strip,
    sync,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpg_cli.findings.facts import Facts, Found
    from mpg_cli.report.model import Hotspot

MS = 1_000_000


def one(rule: Callable[[Facts], Iterable[Found]], made: Facts) -> Found:
    (found,) = rule(made)
    return found


def texts(found: Found) -> list[str]:
    return [row.text for row in found.evidence]


def host(number: int, name: str, **more: Any) -> dict[str, Any]:
    about = {"before": False, "thread": 7, "start_ns": 3, "dur_ns": 99}
    return {"evidence": number, "name": name, **about, **more}


def test_input_on_one_device() -> None:
    made = facts(
        strip(0, ("productive", 6 * MS), ("input", 3 * MS, 1), ("productive", 10 * MS), ("input", MS)),
        evidence=[host(1, "DataLoader.__next__", start_ns=5 * MS, dur_ns=4 * MS)],
        steps=[step(0, 1, 0, 10 * MS), step(0, 2, 10 * MS, 20 * MS)],
        hotspots=(hotspot("input", "DataLoader.__next__", 4 * MS, frame="train.py(3): main", count=2),),
    )
    found = one(idle.input_starvation, made)
    assert (found.id, found.chip_ns, found.where) == (
        "input",
        4 * MS,
        "DataLoader.__next__ in train.py(3): main",
    )
    assert texts(found) == [
        "idle for want of a batch: 4.000 ms of chip-time (20.0 %), 2.000 ms per step",
        "DataLoader.__next__ in train.py(3): main: 4.000 ms in 2 pieces, rank 0",
        "longest: 3.000 ms in ProfilerStep#1, during DataLoader.__next__",
    ]
    last = found.evidence[-1]
    assert (last.source, last.name, last.thread, last.start_ns, last.dur_ns) == (
        "rank0.json", "DataLoader.__next__", 7, 5 * MS, 4 * MS,
    )  # fmt: skip


def test_input_and_the_waits_for_it() -> None:
    """Rank 0 has no batch for 40 ns; rank 1 waits 35 ns for it in a collective of 10."""
    made = facts(
        strip(0, ("input", 40), ("communication", 10), ("productive", 50))
        + strip(1, ("productive", 5), ("communication_wait", 35), ("communication", 10), ("productive", 50)),
        communication=[moving(0, 40, 50, 0, 10), moving(1, 5, 50, 0, 10)],
        collectives=(collective(0, last=0, reason="input", late=40),),
    )
    found = one(idle.input_starvation, made)
    assert found.chip_ns == 75
    assert found.where == "rank 0 has 100.0 % of it"
    assert texts(found)[1] == (
        "in 1 collective the last rank (0) was late because of its input: the others waited 35 ns of chip-time, "
        "which the ledger has under communication_wait"
    )


def test_waits_for_input_count_after_the_next_to_last_rank() -> None:
    """Rank 1 waits 35 ns for the batch of rank 0, rank 2 for the last 9 of them."""
    made = facts(
        strip(0, ("input", 40), ("communication", 10))
        + strip(1, ("productive", 5), ("communication_wait", 35), ("communication", 10))
        + strip(2, ("productive", 31), ("communication_wait", 9), ("communication", 10)),
        communication=[moving(0, 40, 50, 0, 10), moving(1, 5, 50, 0, 10), moving(2, 31, 50, 0, 10)],
        collectives=(collective(0, last=0, reason="input", late=40, margin=9),),
    )
    found = one(idle.input_starvation, made)
    assert found.chip_ns == 40 + 9 + 9
    assert texts(found)[1].endswith(
        "the others waited 44 ns of chip-time, which the ledger has under communication_wait; 18 ns of it counts here: "
        "the rank before it comes 9 ns earlier"
    )


@pytest.mark.parametrize("doubt", [{"near_tie": True}, {"transient": True}, {"reason": "host"}])
def test_waits_of_another_or_no_certain_origin_are_not_the_inputs(doubt: dict[str, Any]) -> None:
    made = facts(
        strip(0, ("input", 40), ("communication", 10))
        + strip(1, ("communication_wait", 40), ("communication", 10)),
        communication=[moving(0, 40, 50, 0, 10), moving(1, 0, 50, 0, 10)],
        collectives=(collective(0, last=0, **{"reason": "input"} | doubt),),
    )
    assert one(idle.input_starvation, made).chip_ns == 40


def test_waits_hidden_behind_computing_are_not_counted() -> None:
    made = facts(
        strip(0, ("input", 40), ("communication", 10))
        + strip(1, ("productive", 30), ("communication_wait", 10), ("communication", 10)),
        communication=[moving(0, 40, 50, 0, 10), moving(1, 0, 50, 0, 10)],
        collectives=(collective(0, last=0, reason="input"),),
    )
    assert one(idle.input_starvation, made).chip_ns == 50


SIMPLE = {
    "checkpoint": idle.checkpoint,
    "restore": idle.restore,
    "allocator": idle.allocator,
    "host_code": idle.host_code,
    "dependency": idle.dependency,
    "launch_bound": idle.launch_bound,
    "profiler_overhead": idle.profiler_overhead,
    "transient": idle.start_of_recording,
    "unknown": idle.unexplained,
    "compile": idle.compilation,
    "synchronisation": idle.synchronisation,
}


@pytest.mark.parametrize("cause", SIMPLE)
def test_a_row_of_the_ledger(cause: str) -> None:
    made = facts(
        strip(0, ("productive", 50), (cause, 30), ("productive", 10), (cause, 10)),
        hotspots=(
            hotspot(cause, "small", 10),
            hotspot(cause, "large", 30, frame="large"),
            hotspot("other", "x", 90),
        ),
    )
    found = one(SIMPLE[cause], made)
    assert (found.id, found.cause, found.chip_ns, found.where) == (cause, cause, 40, "large")
    assert found.bounded == (cause not in ("profiler_overhead", "transient", "unknown"))
    what = "idle or waiting, because of what came before the recording" if cause == "transient" else "idle"
    assert texts(found)[0] == f"{what}: 40 ns of chip-time (40.0 %)"
    assert texts(found)[-3:] == ["large: 30 ns in 1 piece, rank 0", "small: 10 ns in 1 piece, rank 0",
                                 "longest: 30 ns"]  # fmt: skip
    assert (found.evidence[-1].start_ns, found.evidence[-1].dur_ns) == (50, 30)


def test_the_profiler_is_no_reason_to_change_the_program() -> None:
    made = facts(strip(0, ("productive", 50), ("profiler_overhead", 50)))
    assert one(idle.profiler_overhead, made).fix[0].startswith("Do not read RG from this recording")


STEPS = [step(0, 2, 100, 200), step(0, 1, 0, 100)]


@pytest.mark.parametrize(
    ("first", "second", "said", "again"),
    [
        (30, 5, "5 ns of it after the first step, 30 ns before or in it", False),
        (5, 30, "30 ns of it after the first step, 5 ns before or in it", True),
    ],
)
def test_compilation_after_the_first_step(first: int, second: int, said: str, again: bool) -> None:
    segments = strip(0, ("compile", first), ("productive", 100 - first), ("compile", second))
    found = one(idle.compilation, facts(segments, steps=STEPS))
    assert found.chip_ns == 35
    assert said in texts(found)
    assert ("again" in found.title) == again


def test_launch_bound_counts_kernels() -> None:
    ops = [kernel(0, 0, 10), kernel(0, 20, 30), kernel(0, 60, 20), kernel(0, 90, 4, kind="memcpy")]
    made = facts(strip(0, ("productive", 60), ("launch_bound", 40)), ops=ops, steps=STEPS)
    assert "2 kernels per step, 3 kernels in all, 20 ns on average" in texts(one(idle.launch_bound, made))


def test_a_wait_in_every_step() -> None:
    """Blocked for 15 and 35 ns on a busy device: both idle stretches, of 10 and 20 ns, would be covered."""
    segments = strip(
        0,
        ("productive", 90),
        ("synchronisation", 6),
        ("launch_bound", 4),
        ("productive", 80),
        ("host_code", 20),
    )
    waits = [
        sync(0, 75, 15, op="aten::item", frame="train.py(9): step"),
        sync(0, 140, 30, op="aten::item", frame="train.py(9): step"),
        sync(0, 170, 5, "cudaMemcpy"),
    ]
    found = one(idle.synchronisation, facts(segments, steps=STEPS, syncs=waits))
    assert (found.id, found.cause, found.chip_ns) == ("sync_per_step", "synchronisation", 30)
    assert found.where == "aten::item in train.py(9): step"
    assert found.title == "The host waits for the chips in every step"
    assert texts(found)[:3] == [
        (
            "1.5 per step, 3 waits in all; without them the host would be further ahead and cover at most "
            "30 ns of the idle time under launch_bound, host_code and synchronisation (6 ns of it is under "
            "synchronisation)"
        ),
        "aten::item in train.py(9): step: 2 waits, 45 ns blocked",
        "cudaMemcpy: 1 wait, 5 ns blocked",
    ]
    longest = found.evidence[1]
    assert (longest.name, longest.thread, longest.start_ns, longest.dur_ns) == (
        "cudaStreamSynchronize",
        7,
        140,
        30,
    )


@pytest.mark.parametrize("waits", [[sync(0, 75, 15), sync(0, 80, 10)], [sync(0, 140, 30)]])
def test_waits_in_some_steps(waits: list[dict[str, Any]]) -> None:
    segments = strip(0, ("productive", 90), ("launch_bound", 10), ("productive", 80), ("host_code", 20))
    found = one(idle.synchronisation, facts(segments, steps=STEPS, syncs=waits))
    assert (found.id, found.title) == ("synchronisation", "The host waits for the chips")


def test_waits_outside_the_window_do_not_count() -> None:
    segments = strip(0, ("productive", 90), ("launch_bound", 10), at=50)
    found = one(
        idle.synchronisation, facts(segments, syncs=[sync(0, 0, 40), sync(0, 48, 7), sync(0, 150, 9)])
    )
    assert found.chip_ns == 5
    assert texts(found)[0].startswith("1 wait in all; ")


def test_waits_without_steps() -> None:
    segments = strip(0, ("productive", 90), ("launch_bound", 10))
    found = one(idle.synchronisation, facts(segments, syncs=[sync(0, 85, 5)]))
    assert (found.id, found.chip_ns) == ("synchronisation", 5)
    assert texts(found)[0].startswith("1 wait in all; ")


def test_a_gap_whose_end_alone_is_known_is_shown_itself() -> None:
    segments = strip(0, ("productive", 50), ("host_code", 20, 1))
    last = one(idle.host_code, facts(segments, evidence=[host(1, "cudaLaunchKernel", before=True)])).evidence[
        -1
    ]
    assert (last.text, last.name, last.thread, last.start_ns, last.dur_ns) == (
        "longest: 20 ns",
        "",
        None,
        50,
        20,
    )


def test_the_innermost_step_is_named() -> None:
    steps = [step(0, 1, 0, 100), step(0, 2, 40, 80), step(1, 3, 0, 100)]
    segments = strip(0, ("productive", 50), ("host_code", 20)) + strip(1, ("productive", 70))
    found = one(idle.host_code, facts(segments, steps=steps))
    assert texts(found)[-1] == "longest: 20 ns on rank 0 in ProfilerStep#2"


@pytest.mark.parametrize(("other", "named"), [(1, " in ProfilerStep#1"), (7, "")])
def test_a_step_is_named_if_all_processes_are_in_it(other: int, named: str) -> None:
    steps = [step(0, 1, 0, 100) | {"process": 41}, step(0, other, 10, 90) | {"process": 42}]
    found = one(idle.host_code, facts(strip(0, ("productive", 50), ("host_code", 20)), steps=steps))
    assert texts(found)[-1] == f"longest: 20 ns{named}"


# ------------------------------------------------------------------------------------------- places and events


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ((hotspot("host_code", "sleep", 30, rank=1),), "sleep: 30 ns in 1 piece, rank 1"),
        ((hotspot("host_code", "sleep", 20, rank=1),), "sleep: 30 ns in 1 piece, longest on rank 1"),
        ((hotspot("input", "sleep", 30, rank=1),), "sleep: 30 ns in 1 piece, longest on rank 1"),
        ((), "sleep: 30 ns in 1 piece, longest on rank 1"),
    ],
)
def test_a_hotspot_of_several_ranks_says_so(own: tuple[Hotspot, ...], said: str) -> None:
    segments = strip(0, ("productive", 50), ("host_code", 10)) + strip(1, ("host_code", 20))
    made = facts(
        segments,
        hotspots=(hotspot("host_code", "sleep", 30, rank=1),),
        rank_hotspots=lambda rank: own if rank == 1 else (),
    )
    assert texts(one(idle.host_code, made))[1] == said


def test_a_hotspot_of_an_unknown_rank() -> None:
    spots = (hotspot("host_code", "sleep", 30, rank=None),)
    assert texts(one(idle.host_code, facts(strip(0, ("host_code", 30)), hotspots=spots)))[1] == (
        "sleep: 30 ns in 1 piece"
    )


EVENTS = [
    host(1, "aten::a", start_ns=0, dur_ns=90),
    host(2, "aten::b", start_ns=48, dur_ns=13),
    host(3, "cudaStreamSynchronize", start_ns=0, dur_ns=50),
    host(4, "cudaLaunchKernel", before=True),
]


@pytest.mark.parametrize(
    ("pieces", "said", "event"),
    [
        ([(20, 1)], ", during aten::a", "aten::a"),
        ([(20, 3)], ", because of cudaStreamSynchronize", "cudaStreamSynchronize"),
        ([(9, 2), (7, 1), (4, 1)], ", most of it in aten::a (11 ns)", "aten::a"),
        ([(11, 2), (9, 1)], ", most of it in aten::b (11 ns)", "aten::b"),
        ([(14, 2), (6, 1)], ", most of it because of aten::b (14 ns)", "aten::b"),
        ([(9, 2), (7, 1), (4, None)], ", the largest part of it in aten::b (9 ns)", "aten::b"),
        ([(10, 2), (10, 1)], ", the largest part of it in aten::b (10 ns)", "aten::b"),
        ([(9, 1), (11, 4)], "", ""),
        ([(9, 1), (11, None)], "", ""),
    ],
)
def test_the_event_behind_most_of_the_longest_stretch(
    pieces: list[tuple[int, int | None]], said: str, event: str
) -> None:
    """20 ns from 50 to 70; another stretch of the same event does not count."""
    fine = strip(
        0, ("productive", 50), *(("host_code", *piece) for piece in pieces), ("productive", 10), at=0
    )
    fine += strip(0, ("host_code", 19, 1), at=80)
    whole = strip(0, ("productive", 50), ("host_code", 20), ("productive", 10), ("host_code", 19))
    made = dataclasses.replace(facts(whole, evidence=EVENTS), idle=frame(fine, SEGMENTS))
    last = one(idle.host_code, made).evidence[-1]
    assert (last.text, last.name) == (f"longest: 20 ns{said}", event)
