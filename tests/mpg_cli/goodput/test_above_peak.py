"""Computing above the peak is named with its likely reason, and counts as unmodelled.

Of the chips in `judged`, Tiny does 1000 bf16 FLOP and moves 100 bytes in a nanosecond; a product is 2000 FLOP and
600 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mpg_cli.goodput.judged import (
    ADD,
    causes,
    file,
    judge,
    kernel,
    operator,
    product,
    products,
    told,
)
from tests.mpg_cli.goodput.models.calls import bf, t

if TYPE_CHECKING:
    from tests.mpg_cli.datasets import Row


def test_an_operator_above_peak_is_named_and_not_averaged_in() -> None:
    large = operator(0, 1, "aten::mm", bf(100, 10), bf(10, 100), external_id=1)  # 200 ns at peak
    event, ran = product(100, 40, 2)
    found = judge(file([kernel(0, 1, 1), kernel(20, 1, 1), ran], [large, event]))
    assert causes(found) == {"ideal": 2, "memory_bound": 4, "kernel_inefficiency": 34, "unmodelled": 2}
    assert told(found)["above_peak"] == (
        "aten::mm would have run at 10000 % of the chip's peak (4.8 % of computing); likely: a lower operand type than "
        "recorded, sparse operands, or cut kernel times. It counts as unmodelled"
    )
    assert found.unmodelled["op"].to_list() == ["aten::mm (above its peak)"]
    assert found.ops["time_ns"].to_list() == [40]


def fast(name: str) -> str:
    """What is said of a float product above the peak whose kernel has this name."""
    event = operator(0, 1, "aten::mm", t(100, 10), t(10, 100), external_id=1)
    slow = operator(0, 1, "aten::add", *ADD, external_id=2)
    return told(judge(file([kernel(0, 20, 1, name), kernel(90, 980, 2)], [event, slow], "Tensor")))[
        "above_peak"
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "winograd_fwd",
            "a Winograd convolution multiplies less than a direct one, which is what is counted",
        ),
        ("fft2d_r2c_32x32", "an FFT convolution multiplies less than a direct one"),
        ("sgemm", "float operands were held against fp32, but may have run in TF32 or a lower type"),
        ("sgemm_tf32", "a lower operand type than recorded, sparse operands, or cut kernel times"),
    ],
)
def test_the_likely_reason(name: str, words: str) -> None:
    assert words in fast(name)


@pytest.mark.parametrize("durations", [[1], [1, 1], [2], [1000]])
def test_a_clock_tick_is_no_fault(durations: list[int]) -> None:
    """A product takes 2 ns, and a nanosecond may have been cut off its end."""
    assert "above_peak" not in told(judge(products(*durations, 90)))


def big(dur: int, id_: int = 1) -> tuple[Row, Row]:
    """1600 ns at peak."""
    return operator(0, 1, "aten::mm", bf(100, 80), bf(80, 100), external_id=id_), kernel(0, dur, id_)


@pytest.mark.parametrize(("dur", "above"), [(1_000, False), (1_001, True), (599, True), (1_600, False)])
def test_the_tick_is_a_microsecond_if_all_times_are_whole(dur: int, above: bool) -> None:
    event, ran = big(dur)
    pad = product(10_000, 100_000, 2)
    found = judge(file([ran, pad[1]], [event, pad[0]]))
    assert ("above_peak" in told(found)) == above


def test_every_file_has_its_own_tick() -> None:
    """1600 ns are needed. 1000 may have been nearly 2000 in whole microseconds; 1401 is what it says."""
    event, ran = big(1_000)
    pads = [product(10_000, dur, 2) for dur in (100_000, 100_001)]
    files = [
        file([ran | {"dur_ns": 1_401 if i else 1_000}, pad[1]], [event, pad[0]]) for i, pad in enumerate(pads)
    ]
    assert ["above_peak" in told(judge(one)) for one in files] == [False, True]
    assert causes(judge(*files))["unmodelled"] == 1_401


def test_only_the_largest_faults_are_named_one_by_one() -> None:
    events = [
        operator(9 * i, 1, "aten::mm", bf(100 + i, 80), bf(80, 100), external_id=i) for i in range(1, 9)
    ]
    ops = [kernel(100 * i, 10 + i, i) for i in range(1, 9)]
    long = product(5000, 5000, 9)
    found = judge(file([*ops, long[1]], [*events, long[0]]))
    messages = [notice.message for notice in found.notices if notice.kind == "above_peak"]
    assert len(messages) == 6
    assert messages[-1] == "3 more operators would have run above the chip's peak (0.7 % of computing)"


def test_faults_are_told_by_chip() -> None:
    event, ran = big(900)
    pad = product(10_000, 9_000, 2)
    files = [file([ran, pad[1]], [event, pad[0]], chip) for chip in ("Tiny", "Blind")]
    found = judge(*files)
    assert causes(found)["unmodelled"] == 900
    assert found.ops.filter(found.ops["operator"] == "aten::mm").height == 2


def test_all_above_peak_leaves_pg_null() -> None:
    event, ran = big(500)
    found = judge(file([ran], [event]))
    assert (
        found.reason
        == "models without a fault cover 0.0 % of computing time, under 90 %: above peak: 100.0 %"
    )
    assert causes(found) == {"unmodelled": 500}


def test_only_the_calls_above_peak_are_faults() -> None:
    """Two calls of one operator, of which one ran another algorithm: together they would pass."""
    calls = [big(1_000), big(9_001, 2)]
    calls[0][1]["dur_ns"], calls[1][0]["start_ns"] = 1_001, 50
    found = judge(file([calls[0][1], calls[1][1] | {"start_ns": 2_000}], [calls[0][0], calls[1][0]]))
    assert causes(found) == {"ideal": 1_600, "kernel_inefficiency": 7_401, "unmodelled": 1_001}
    assert "aten::mm would have run at 160 %" in told(found)["above_peak"]


def test_what_overlaps_shares_the_chip() -> None:
    """Two products of 1600 ns in 1701 ns: each would pass alone. An addition beside them is not at fault."""
    events = [big(0)[0], big(0, 2)[0] | {"start_ns": 50}, operator(90, 1, "aten::add", *ADD, external_id=3)]
    ops = [kernel(0, 1_701, 1), kernel(0, 1_701, 2, stream=8), kernel(0, 1_701, 3, stream=9)]
    found = judge(file(ops, events))
    assert causes(found)["unmodelled"] == 1_134
    assert found.ops["operator"].to_list() == ["aten::add"]
    assert "kernels that overlap would need more than the chip can do" in told(found)["above_peak"]
    apart = judge(file([ops[0], ops[1] | {"start_ns": 1_701}], events))
    assert "above_peak" not in told(apart)


def test_kernels_that_last_no_time_are_counted() -> None:
    found = judge(file([kernel(0, 0, 1), kernel(20, 10, 1)], [product(0, 1)[0]]))
    assert found.ops.select("kernels", "time_ns").row(0) == (2, 10)


def test_a_product_beside_a_kernel_without_a_model_is_no_fault() -> None:
    event, ran = big(1_701)
    found = judge(file([ran, kernel(0, 1_701, name="other", stream=8)], [event]))
    assert "above_peak" not in told(found)


def test_an_element_wise_kernel_beside_a_fault_keeps_its_model() -> None:
    event, ran = big(1_001)
    beside = operator(50, 1, "aten::add", *ADD, external_id=2)
    found = judge(file([ran, kernel(0, 1_001, 2, stream=8)], [event, beside]))
    assert found.ops["operator"].to_list() == ["aten::add"]
    assert found.coverage == 0.5
