"""The cluster rule of the program layer against exact fractions."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import program
from tests.mpg_cli.goodput import oracles

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = {
    "subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "ideal_ps": pl.Int64, "roofline_ps": pl.Int64,
    "recompute": pl.Boolean, "inferred": pl.Boolean,
}  # fmt: skip
Kernel = tuple[int, int, int, int | None, int | None, bool, bool]


def kernel(
    start: int, end: int, ideal: int | None = None, roofline: int | None = None, **more: Any
) -> Kernel:
    """Times in nanoseconds; those of the hardware too."""
    ideal_ps, roofline_ps = (None if ns is None else ns * 1000 for ns in (ideal, roofline))
    return more.get("subject", 0), start, end, ideal_ps, roofline_ps, more.get("recompute", False), False


def account(kernels: Sequence[Kernel]) -> program.Program:
    return program.account(pl.DataFrame(kernels, SCHEMA, orient="row"))


def rows(kernels: Sequence[Kernel]) -> dict[str, int]:
    return {cause: ns for (_, cause), ns in oracles.amounts(account(kernels).rows).items()}


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        pytest.param([kernel(0, 10, 2, 6)], {"ideal": 2, "memory_bound": 4, "kernel_inefficiency": 4}, id="one"),
        pytest.param([kernel(0, 10, 2, 2)], {"ideal": 2, "kernel_inefficiency": 8}, id="compute-bound"),
        pytest.param([kernel(0, 10, 0, 8)], {"memory_bound": 8, "kernel_inefficiency": 2}, id="element-wise"),
        pytest.param([kernel(0, 10, 0, 0)], {"kernel_inefficiency": 10}, id="bytes unknown"),
        pytest.param([kernel(0, 10, 2, 14)], {"ideal": 2, "memory_bound": 8}, id="faster than the memory"),
        pytest.param([kernel(0, 10, 6, 2)], {"ideal": 6, "kernel_inefficiency": 4}, id="ideal above the roofline"),
        pytest.param([kernel(0, 10)], {"unmodelled": 10}, id="no model"),
        pytest.param([kernel(0, 10, 4, 4, recompute=True)], {"recompute": 10}, id="recomputing"),
        pytest.param([kernel(0, 10, recompute=True)], {"recompute": 10}, id="recomputing, no model"),
        # a cluster of 10 ns, three kernels of 10 ns: each kind has a third of it
        pytest.param([kernel(0, 10), kernel(0, 10, 9, 9, recompute=True), kernel(0, 10, 1, 2)],
                     {"unmodelled": 4, "recompute": 3, "ideal": 1, "memory_bound": 1, "kernel_inefficiency": 1},
                     id="three at once"),
        # 15 ns for 20 ns of kernels: the modelled one has half of it
        pytest.param([kernel(0, 10, 6, 6), kernel(5, 15)],
                     {"ideal": 6, "kernel_inefficiency": 2, "unmodelled": 7}, id="half hidden"),
        pytest.param([kernel(0, 10, 4, 6), kernel(0, 10, 4, 6)], {"ideal": 8, "memory_bound": 2}, id="two modelled"),
        pytest.param([kernel(0, 10, 9, 9), kernel(10, 20, 1, 1)], {"ideal": 10, "kernel_inefficiency": 10},
                     id="touching is not overlapping"),
        pytest.param([kernel(5, 5, 3, 3), kernel(7, 9, 1, 1)], {"ideal": 1, "kernel_inefficiency": 1},
                     id="nothing in no time"),
        pytest.param([kernel(0, 100, 0, 0), kernel(2, 4, 2, 2), kernel(50, 60, 10, 10)],
                     {"ideal": 12, "kernel_inefficiency": 88}, id="one cluster"),
        pytest.param([], {}, id="nothing"),
    ],
)  # fmt: skip
def test_rows(kernels: list[Kernel], expected: dict[str, int]) -> None:
    assert rows(kernels) == expected
    assert rows(kernels[::-1]) == expected


def test_figures_beside_the_rows() -> None:
    kernels = [
        kernel(0, 10, 2, 2),
        (0, 10, 14, 1000, 1000, False, True),
        kernel(20, 26),
        kernel(30, 40, 3, 3, recompute=True),
    ]
    found = account(kernels)
    assert (found.ideal_ns, found.hardware_ideal_ns) == (3, 6)
    assert (found.total_ns, found.modelled_ns, found.inferred_ns) == (30, 24, 4)
    assert found.coverage == 0.8
    assert account([]).coverage == 0


def test_the_hardware_cannot_have_done_more_than_fits() -> None:
    kernels = [kernel(0, 10, 8, 8), kernel(0, 10, 8, 8, recompute=True)]
    found = account(kernels)
    assert (found.ideal_ns, found.hardware_ideal_ns) == (5, 10)


def test_a_long_trace_does_not_overflow() -> None:
    day = 86_400 * 10**9
    kernels = [kernel(0, day, day // 2, day // 2), kernel(1, day - 1), kernel(5, day, 7, 9, recompute=True)]
    assert sum(rows(kernels).values()) == day


# --------------------------------------------------------------------------------------------- the oracle


def clusters(kernels: Sequence[Kernel]) -> list[list[Kernel]]:
    """Overlapping kernels of one device."""
    found: list[list[Kernel]] = []
    reach = {}
    for one in sorted((k for k in kernels if k[2] > k[1]), key=lambda k: k[:3]):
        if one[0] in reach and one[1] < reach[one[0]]:
            found[-1].append(one)
        else:
            found.append([one])
        reach[one[0]] = max(one[2], reach.get(one[0], one[2]))
    return found


def exact(kernels: Sequence[Kernel]) -> dict[tuple[int, str], Fraction]:
    """The rows by the rule of the module, in nanoseconds and without any rounding."""
    sums: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
    for group in clusters(kernels):
        subject, length = group[0][0], max(k[2] for k in group) - min(k[1] for k in group)
        total = sum(k[2] - k[1] for k in group)
        recomputing = [k for k in group if k[5]]
        modelled = [k for k in group if k[3] is not None and not k[5]]
        share = {
            "recompute": Fraction(length * sum(k[2] - k[1] for k in recomputing), total),
            "mine": Fraction(length * sum(k[2] - k[1] for k in modelled), total),
        }
        ideal = min(sum((Fraction(k[3] or 0, 1000) for k in modelled), Fraction()), share["mine"])
        roofline = sum((Fraction(k[4] or 0, 1000) for k in modelled), Fraction())
        reached = min(max(roofline, ideal), share["mine"])
        sums[subject, "ideal"] += ideal
        sums[subject, "memory_bound"] += reached - ideal
        sums[subject, "kernel_inefficiency"] += share["mine"] - reached
        sums[subject, "recompute"] += share["recompute"]
        sums[subject, "unmodelled"] += length - share["mine"] - share["recompute"]
    return sums


@st.composite
def some_kernel(draw: st.DrawFn) -> Kernel:
    start, length = draw(st.integers(0, 60)), draw(st.integers(0, 12))
    ideal = draw(st.none() | st.integers(0, 15_000))
    more = draw(st.integers(-10_000, 10_000))
    flags = draw(st.booleans()), draw(st.booleans())
    subject = draw(st.integers(0, 1))
    return subject, start, start + length, ideal, None if ideal is None else max(0, ideal + more), *flags


@settings(max_examples=80, deadline=None)
@given(st.lists(some_kernel(), max_size=14))
def test_against_fractions(kernels: list[Kernel]) -> None:
    found, want = oracles.amounts(account(kernels).rows), exact(kernels)
    for key, value in want.items():
        # a picosecond per cluster is rounded down, and the sum to a nanosecond
        assert abs(found.get(key, 0) - value) < 1 + Fraction(3 * len(kernels), 1000)
    assert set(found) <= set(want)
    covered = oracles.moments([(k[0], k[1], k[2]) for k in kernels])
    for subject in (0, 1):
        assert sum(ns for (s, _), ns in found.items() if s == subject) == len(covered[subject])


@settings(max_examples=40, deadline=None)
@given(st.lists(some_kernel(), max_size=10), st.integers(2, 50))
def test_scaling_every_time_scales_every_row(kernels: list[Kernel], factor: int) -> None:
    scaled = [
        (
            s,
            start * factor,
            end * factor,
            *(p if p is None else p * factor for p in (ideal, roofline)),
            *flags,
        )
        for s, start, end, ideal, roofline, *flags in kernels
    ]
    once, many = (oracles.amounts(account(k).rows) for k in (kernels, scaled))
    for key in {*once, *many}:
        assert abs(many.get(key, 0) - factor * once.get(key, 0)) <= 2 * factor


@settings(max_examples=40, deadline=None)
@given(st.lists(some_kernel(), max_size=12).flatmap(lambda k: st.tuples(st.just(k), st.permutations(k))))
def test_order_changes_nothing(pair: tuple[list[Kernel], list[Kernel]]) -> None:
    one, other = map(account, pair)
    assert oracles.amounts(one.rows) == oracles.amounts(other.rows)
    assert (one.hardware_ideal_ns, one.coverage) == (other.hardware_ideal_ns, other.coverage)


@settings(max_examples=40, deadline=None)
@given(st.lists(some_kernel(), max_size=12))
def test_ideal_is_never_above_its_share(kernels: list[Kernel]) -> None:
    found = account(kernels)
    amounts = oracles.amounts(found.rows)
    assert all(ns >= 0 for ns in amounts.values())
    for subject in (0, 1):
        modelled = [k for k in kernels if k[0] == subject and k[3] is not None and not k[5]]
        ideal = amounts.get((subject, "ideal"), 0)
        assert ideal <= sum(k[2] - k[1] for k in modelled)
        assert ideal <= sum(k[3] or 0 for k in modelled) / 1000 + 1
    assert found.ideal_ns <= found.hardware_ideal_ns <= sum(amounts.values())
