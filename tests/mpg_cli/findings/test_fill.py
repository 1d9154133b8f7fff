"""Idle SMs, against a walk over nanoseconds."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.findings.fill import unfilled_ns
from tests.mpg_cli.findings.made import OPS, Row, frame, kernel


def unfilled(kernels: list[Row]) -> int:
    return unfilled_ns(frame(kernels, OPS))


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([0.25], 30),
        ([1.0], 0),
        ([7.5], 0),
        ([None], 0),
        ([0.25, 0.25], 20),
        ([0.25] * 4, 0),
        ([0.25, None], 0),
        ([0.0], 40),
    ],
)
def test_by_hand(blocks: list[float | None], expected: int) -> None:
    kernels = [kernel(0, 0, 40, blocks_per_sm=share) for share in blocks]
    assert unfilled(kernels) == expected


def test_only_computing_counts() -> None:
    half = {"blocks_per_sm": 0.5}
    comm = [kernel(0, 0, 20, activity="comm", **half), kernel(0, 10, 30, **half)]
    assert unfilled(comm) == 10  # 10 ns of both fill the chip, 20 ns of one half of it
    assert unfilled(comm[:1]) == 0


def test_devices_are_apart() -> None:
    kernels = [kernel(0, 0, 40, blocks_per_sm=0.75), kernel(1, 0, 40, blocks_per_sm=0.5)]
    assert unfilled(kernels) == 10 + 20


def walk(kernels: list[Row]) -> Fraction:
    idle = Fraction(0)
    for subject in (0, 1):
        for at in range(50):
            here = [k for k in kernels if k["subject"] == subject and k["start_ns"] <= at < k["end_ns"]]
            shares = [1 if k["blocks_per_sm"] is None else min(Fraction(k["blocks_per_sm"]), 1) for k in here]
            computing = any(k["activity"] == "compute" for k in here)
            idle += max(Fraction(0), 1 - sum(shares)) if computing else 0
    return idle


KERNELS = st.builds(
    kernel,
    st.integers(0, 1),
    st.integers(0, 30),
    st.integers(0, 15),
    activity=st.sampled_from(["compute", "comm"]),
    blocks_per_sm=st.sampled_from([None, 0.125, 0.25, 0.5, 1.0, 2.0]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(KERNELS, max_size=8))
def test_against_a_walk(kernels: list[Row]) -> None:
    assert unfilled(kernels) == int(walk(kernels))
