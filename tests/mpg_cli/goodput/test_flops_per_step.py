"""FLOPs per step that the user declares. On Tiny, 1000 of them take a nanosecond."""

from __future__ import annotations

from typing import Any

import pytest

from mpg_parsers.errors import UndecidedError, UsageError
from tests.mpg_cli.datasets import comm, step
from tests.mpg_cli.goodput.judged import (
    causes,
    file,
    judge,
    kernel,
    products,
)

STEPS = [step(1, 0, 100), step(2, 100, 200)]


def test_declared_flops() -> None:
    found = judge(products(40, 60, steps=STEPS), flops_per_step=20_000)
    assert causes(found) == {"ideal": 40, "unmodelled": 60}
    assert (found.reason, found.ideal_ns, found.mfu_ns, found.hfu_ns) == ("", 40, 40, None)
    assert found.basis == "declared FLOPs, bf16 peak of Tiny"


def test_declared_flops_are_of_each_device_and_its_own_steps() -> None:
    two = file([kernel(0, 90), kernel(0, 90, device=1)], [], steps=STEPS)
    three = products(40, 60, 80, steps=[*STEPS, step(3, 200, 300)])
    found = judge(two, three, flops_per_step=20_000)
    assert causes(found) == {"ideal": 40 + 40 + 60, "unmodelled": 50 + 50 + 120}


def test_declared_flops_of_sustained_rates_and_without_padding() -> None:
    found = judge(products(80, 80, steps=STEPS), flops_per_step=20_000, basis="achievable", useful_tokens=0.5)
    assert causes(found) == {"ideal": 40, "padding": 40, "unmodelled": 80}
    assert (found.ideal_ns, found.mfu_ns, found.basis) == (40, 20, "declared FLOPs, bf16 achievable of Tiny")


def test_declared_flops_that_do_not_fit() -> None:
    found = judge(products(40, 60, steps=STEPS), flops_per_step=60_000)
    assert (found.reason, found.rows) == ("the declared FLOPs would need 120 % of the chip's peak rate", None)


@pytest.mark.parametrize("files", [[products(40)], [products(40, steps=[step(1, 0, 99)]), products(40)]])
def test_declared_flops_need_steps(files: list[Any]) -> None:
    with pytest.raises(UndecidedError, match="needs steps"):
        judge(*files, flops_per_step=1)


def test_declared_flops_have_no_roofline() -> None:
    with pytest.raises(UsageError, match="needs operator models"):
        judge(products(40, steps=STEPS), flops_per_step=1, basis="roofline")


def test_declared_flops_on_a_chip_without_such_a_rate() -> None:
    found = judge(file([kernel(0, 40)], [], "Gaudi 9", steps=STEPS), flops_per_step=1, chip="V100 SXM2 16GB")
    assert (found.reason, found.basis) == ("", "declared FLOPs, fp16 peak of V100 SXM2 16GB")
    assert judge(products(40, chip="Blind", steps=STEPS), flops_per_step=1, basis="achievable").reason == (
        "no achievable rate of Blind in bf16 or fp16 is sourced"
    )


def test_declared_flops_of_nothing() -> None:
    assert (
        judge(file([comm(0, 40)], [], steps=STEPS), flops_per_step=1).reason == "no computing in the window"
    )


def test_a_published_figure() -> None:
    """OPT-175B: 4.30e23 FLOP on 1024 A100 in 33 days (metaseq, final update) are 47.2 % of 312 TFLOP/s each."""
    days = 33 * 86_400 * 10**9
    made = file([kernel(0, days)], [], "NVIDIA A100-SXM4-80GB", steps=[step(1, 0, days)])
    found = judge(made, flops_per_step=4.30e23 / 1024)
    assert round(found.ideal_ns / days, 3) == 0.472
