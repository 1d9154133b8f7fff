"""What had to be assumed, and is told.

Of the chips in `judged`, Tiny does 1000 bf16 FLOP and moves 100 bytes in a nanosecond; a product is 2000 FLOP and
600 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mpg_cli.datasets import host
from tests.mpg_cli.goodput.judged import (
    ADD,
    causes,
    file,
    judge,
    kernel,
    launch,
    operator,
    product,
    products,
    told,
)
from tests.mpg_cli.goodput.models.calls import bf, t

if TYPE_CHECKING:
    from mpg_cli.goodput.judging import Judged


def sgemm(dur: int, name: str = "sgemm", chip: str = "Tensor") -> Judged:
    """A float product of 20 ns at fp32 and 4 at TF32, and one of bf16."""
    event, ran = product(500, 60, 2)
    return judge(file([kernel(0, dur, 1, name), ran], [operator(0, 1, "aten::mm", t(10, 10), t(10, 10), external_id=1),
                                                       event], chip))  # fmt: skip


def test_float_without_tf32_in_a_name_is_held_against_fp32() -> None:
    found = sgemm(40)
    assert (found.ideal_ns, found.basis) == (22, "bf16 peak of Tensor")
    assert told(found)["tf32_assumed_off"] == (
        "40.0 % of computing multiplies float, and no kernel's name says TF32: held against fp32. "
        "If it ran in TF32, PG is 27 % of what is shown"  # 6 of 22 ns
    )


@pytest.mark.parametrize("found", [sgemm(40, "sgemm_tf32"), judge(products(40, chip="Tensor"))])
def test_no_assumption_no_notice(found: Judged) -> None:
    assert "tf32_assumed_off" not in told(found)


def test_a_chip_without_tf32_needs_no_assumption() -> None:
    event = operator(0, 1, "aten::mm", t(10, 10), t(10, 10), external_id=1)
    found = judge(file([kernel(0, 40, 1)], [event], "Blind"))
    assert "tf32_assumed_off" not in told(found)
    assert (found.ideal_ns, found.basis) == (10, "fp32 peak of Blind")


def test_float_that_recomputes_is_in_no_useful_flops() -> None:
    node = operator(0, 40, "autograd::engine::evaluate_function: CheckpointBackward", external_id=8)
    again = operator(2, 20, "aten::mm", t(10, 10), t(10, 10), external_id=9, sequence=3)
    event, ran = product(100, 60, 2)
    found = judge(file([ran, kernel(200, 40, 9)], [event, node, again, launch(39, 99)], "Tensor"))
    assert told(found)["tf32_assumed_off"].endswith("If it ran in TF32, PG is 100 % of what is shown")


def test_unknown_bytes_are_told() -> None:
    event, ran = product(500, 60, 2)
    gather = operator(0, 1, "aten::index", bf(4, 4), [t(4)], external_id=1)
    found = judge(file([kernel(0, 40, 1), ran], [gather, event]))
    assert told(found)["bytes_unknown"].startswith(
        "40.0 % of computing moves bytes that shapes do not tell (aten::index)"
    )


def test_lower_bounds_are_told() -> None:
    heads = (bf(5, 2, 8),) * 3
    attention = operator(5, 10, "vllm::unified_attention", *heads, external_id=1)
    range_ = host(0, 20, "execute_context_1(5)_generation_0(0)")
    found = judge(file([kernel(30, 40, 1, "fmhaPagedKvCausal")], [attention, range_]))
    assert told(found)["lower_bounds"].startswith(
        "100.0 % of computing has FLOPs that are lower bounds (vllm::unified_attention): PG may be higher"
    )


def test_without_flops_there_is_no_padding_to_ask_for() -> None:
    found = judge(file([kernel(0, 40, 1)], [operator(0, 1, "aten::add", *ADD, external_id=1)]))
    assert told(found) == {}
    assert (found.reason, found.ideal_ns, found.basis, found.ceilings) == (
        "",
        0,
        "peak of Tiny, no matrix product ran",
        (),
    )


@pytest.mark.parametrize(
    ("useful", "expected"),
    [(0.5, {"ideal": 50, "padding": 50}), (0.25, {"ideal": 25, "padding": 75}), (1.0, {"ideal": 100}),
     (0.0, {"padding": 100})],
)  # fmt: skip
def test_padding_is_no_useful_work(useful: float, expected: dict[str, int]) -> None:
    made = file([kernel(0, 200, 1)], [operator(0, 1, "aten::mm", bf(100, 10), bf(10, 50), external_id=1)])
    found = judge(made, useful_tokens=useful)
    amounts = causes(found)
    assert {cause: amounts[cause] for cause in ("ideal", "padding") if cause in amounts} == expected
    assert sum(amounts.values()) == 200
    assert (found.ideal_ns, found.mfu_ns, found.hfu_ns) == (expected.get("ideal", 0),) * 2 + (100,)
    assert "padding_unknown" not in told(found)
