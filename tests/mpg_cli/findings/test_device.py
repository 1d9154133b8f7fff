"""Rules on what the device does, on facts small enough to check on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpg_cli.findings.rules import device
from tests.mpg_cli.findings.made import copy, facts, kernel, operator, strip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpg_cli.findings.facts import Facts, Found

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
US = 1_000


def one(rule: Callable[[Facts], Iterable[Found]], made: Facts) -> Found:
    (found,) = rule(made)
    return found


def texts(found: Found) -> list[str]:
    return [row.text for row in found.evidence]


def copying() -> Facts:
    """Two pageable copies (30 of 50 ns exposed), a pinned one (10 of 10), and 10 ns of a memset."""
    return facts(
        strip(0, ("productive", 40), ("memory_copy", 30), ("productive", 10), ("memory_copy", 20)),
        ops=[
            copy(0, 30, 20, PAGEABLE, bytes=100),
            copy(0, 50, 20, PAGEABLE, bytes=100),
            copy(0, 70, 10, "Memcpy DtoH (Device -> Pageable)"),
            copy(0, 80, 10, PINNED, bytes=3_000_000),
            kernel(0, 90, 10, "Memset (Device)", kind="memset"),
            kernel(0, 80, 20, "a kernel named Pageable"),
        ],
    )


def test_pageable_copies() -> None:
    found = one(device.pageable_copies, copying())
    assert (found.id, found.cause, found.chip_ns) == ("pageable_copies", "memory_copy", 30)
    assert found.where == f"{PAGEABLE}, Memcpy DtoH (Device -> Pageable)"
    assert texts(found) == [
        "pageable copies with nothing beside them: 30 ns of chip-time (30.0 %)",
        f"{PAGEABLE}: 2 records, 40 ns, 0.0 MB at 5.0 GB/s",
        "Memcpy DtoH (Device -> Pageable): 1 record, 10 ns",
        "longest: 20 ns",
    ]
    longest = found.evidence[-1]
    assert (longest.name, longest.start_ns, longest.dur_ns) == (PAGEABLE, 30, 20)
    assert found.fix[0].startswith("Allocate the host side in pinned memory")


def test_other_copies() -> None:
    found = one(device.memory_copies, copying())
    assert (found.id, found.chip_ns) == ("memory_copy", 20)
    assert texts(found)[1] == f"{PINNED}: 1 record, 10 ns, 3.0 MB at 300,000.0 GB/s"


def test_copies_at_once_on_one_device() -> None:
    ops = [copy(0, 0, 30, PAGEABLE), copy(0, 10, 30, PAGEABLE), copy(1, 0, 20, PAGEABLE)]
    segments = strip(0, ("memory_copy", 40)) + strip(1, ("memory_copy", 20))
    assert one(device.pageable_copies, facts(segments, ops=ops)).chip_ns == 60


def small(tiny: int, large: int) -> Facts:
    """Kernels of 4 us with gaps of 1 us before them, then of 50 us with gaps of 2 us."""
    pieces, ops, at = [("launch_bound", US)], [], US
    for dur, gap, count in ((4 * US, US, tiny), (50 * US, 2 * US, large)):
        for _ in range(count):
            ops.append(kernel(0, at + gap, dur, "add" if dur < 10 * US else "gemm"))
            pieces += [("kernel_gap", gap), ("productive", dur)]
            at += gap + dur
    return facts(strip(0, *pieces), ops=ops)


def test_tiny_kernels() -> None:
    found, rest = device.small_kernels(small(3, 2))
    assert (found.id, found.cause, found.chip_ns, found.where) == (
        "tiny_kernels",
        "kernel_gap",
        15 * US,
        "add",
    )
    assert (
        texts(found)[0]
        == "3 kernels (60.0 % of those that compute) shorter than 10.00 µs: 4.000 µs on average"
    )
    assert texts(found)[1].startswith("computing in them: 12.00 µs of chip-time")
    assert texts(found)[2].startswith(
        "gaps right before them, with the next kernel queued (kernel_gap in the ledger): 3.000 µs"
    )
    assert texts(found)[4] == "most often: add, 3 times, 12.00 µs"
    assert (rest.id, rest.chip_ns) == ("kernel_gap", 4 * US)
    assert texts(rest)[1:] == ["5 gaps in all, 1.400 µs on average", "longest: 2.000 µs"]


def test_a_few_tiny_kernels_are_no_finding() -> None:
    found = one(device.small_kernels, small(2, 3))
    assert (found.id, found.chip_ns) == ("kernel_gap", 8 * US)


def test_tiny_kernels_at_once_take_their_time_once() -> None:
    ops = [kernel(0, 0, 5), kernel(0, 2, 5), kernel(0, 40, 5, activity="comm")]
    made = facts(strip(0, ("productive", 7), ("kernel_gap", 33), ("communication", 5)), ops=ops)
    assert [found.chip_ns for found in device.small_kernels(made)] == [7, 33]


def test_no_kernels() -> None:
    assert one(device.small_kernels, facts(strip(0, ("kernel_gap", 5)))).chip_ns == 5


PROGRAM = {
    "productive": 0,
    "kernel_inefficiency": 50,
    "memory_bound": 30,
    "recompute": 10,
    "ideal": 5,
    "padding": 5,
}
OPERATORS = (
    operator(
        "aten::mm", dims="[[8, 8]]", time_ns=60, recoverable_ns=20, efficiency=0.667, tflops=12.34, gbps=567.8
    ),
    operator("aten::add", time_ns=70, recoverable_ns=30, recompute_ns=10, bound="memory"),
    operator("aten::mul", time_ns=80, bound="memory", efficiency=0.5, gbps=1234.5),
)


def test_below_the_roofline() -> None:
    made = facts(strip(0, ("productive", 100)), causes=PROGRAM, operators=OPERATORS)
    found = one(device.below_roofline, made)
    assert (found.chip_ns, found.where) == (50, "aten::mm")
    assert found.title == "Kernels run below their roofline, or have none that is known"
    assert texts(found) == [
        "in the ledger: 50 ns of chip-time (50.0 %)",
        "60 ns of kernel time in it has no known roofline: all of it counts",  # 70, but 10 run again
        "aten::mm [[8, 8]]: 1 call, 60 ns, 66.7 % of its roofline, 12.3 TFLOP/s, 568 GB/s; 20 ns above the roofline",
    ]


@pytest.mark.parametrize(("unknown", "title"), [
    (0, "Kernels run below their roofline"),
    (25, "Kernels run below their roofline"),
    (26, "Kernels run below their roofline, or have none that is known"),
])  # fmt: skip
def test_most_of_it_has_no_known_roofline(unknown: int, title: str) -> None:
    ops = [operator("aten::mm", recoverable_ns=50 - unknown, efficiency=0.5)]
    ops += [operator("aten::cat", time_ns=unknown, recoverable_ns=unknown)] if unknown else []
    found = one(
        device.below_roofline, facts(strip(0, ("productive", 100)), causes=PROGRAM, operators=tuple(ops))
    )
    assert (found.title, found.where) == (title, "aten::mm")
    assert ("no known roofline" in texts(found)[1]) == bool(unknown)


def test_operators_that_are_not_listed_may_have_no_known_roofline_either() -> None:
    ops = tuple(operator("aten::cat", time_ns=1, recoverable_ns=1) for _ in range(200))
    for listed, said in ((ops, "at least 200 ns of kernel time"), (ops[1:], "199 ns of kernel time")):
        found = one(
            device.below_roofline, facts(strip(0, ("productive", 999)), causes=PROGRAM, operators=listed)
        )
        assert texts(found)[1].startswith(said)
        assert (len(found.evidence), found.where) == (2, "")


def test_long_shapes_are_cut() -> None:
    slow = operator("aten::_fused_adamw_", dims="[" * 5000, recoverable_ns=1, efficiency=0.99)
    made = facts(strip(0, ("productive", 100)), causes=PROGRAM, operators=(slow,))
    assert texts(one(device.below_roofline, made))[1].startswith(
        "aten::_fused_adamw_ " + "[" * 79 + "…: 1 call"
    )


def test_other_rows_of_the_program() -> None:
    made = facts(strip(0, ("productive", 100)), causes=PROGRAM, operators=OPERATORS)
    found = [one(rule, made) for rule in (device.memory_bound, device.recomputation, device.padding)]
    assert [(each.id, each.chip_ns, each.where) for each in found] == [
        ("memory_bound", 30, "aten::mul"),
        ("recompute", 10, "aten::add"),
        ("padding", 5, ""),
    ]
    assert texts(found[0])[1:] == ["aten::mul: 1 call, 80 ns, 50.0 % of its roofline, 1,234 GB/s"]
    assert texts(found[1])[1] == "aten::add: 10 ns of 70 ns are run again"


def test_unfilled() -> None:
    """40 ns on a quarter of the SMs leave 30 idle; full, unknown and collective kernels none."""
    ops = [
        kernel(0, 0, 40, "small", blocks_per_sm=0.25),
        kernel(0, 40, 20, blocks_per_sm=3.0),
        kernel(0, 60, 20),
        kernel(0, 80, 20, blocks_per_sm=0.1, activity="comm"),
    ]
    made = facts(strip(0, ("productive", 80), ("communication", 20)), ops=ops)
    found = one(device.unfilled, made)
    assert (found.id, found.chip_ns, found.where) == ("unfilled_sms", 30, "small")
    assert texts(found)[1] == "1 kernel with less than one block per SM, 40 ns in all"


def test_all_filled() -> None:
    made = facts(strip(0, ("productive", 40)), ops=[kernel(0, 0, 40, blocks_per_sm=1.0)])
    assert list(device.unfilled(made)) == []


def test_graph_rows_cannot_be_bounded() -> None:
    found = one(device.graph_rows, facts(strip(0, ("productive", 40), ("unclassified_busy", 60))))
    assert (found.chip_ns, found.bounded) == (60, False)
