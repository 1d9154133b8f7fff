"""GPU metrics over the windows: means by hand, against plain Python, and what contradicts the account."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import runtime
from mpg_cli.goodput.windows import find_steps, find_windows
from mpg_cli.goodput.witness import FIGURES, NO_GPU, NO_SAMPLES, OUTSIDE, Witness, disagreements, measure
from tests.mpg_cli.datasets import comm, copy, dataset, op, source, step
from tests.mpg_cli.goodput.judged import activity_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.mpg_cli.datasets import Row

SM, TENSOR = "SMs Active [Throughput %]", "Tensor Active [Throughput %]"


def sample(ts: int, value: int, metric: str = SM, uuid: str | None = "A", gpu: int = 0) -> Row:
    return {"device": gpu, "uuid": uuid, "metric": metric, "ts_ns": ts, "value": value}


def file(
    ops: Iterable[Row], samples: Iterable[Row], uuids: Mapping[int, str | None] | None = None, **more: Any
) -> dict[str, list[Row]]:
    """One file; uuids: of its devices, by number."""
    made = source(list(ops), **more)
    for row in made["devices"]:
        row["uuid"] = ({0: "A"} if uuids is None else uuids)[row["device"]]
    return made | {"counters": list(samples)}


def measured(*files: dict[str, list[Row]]) -> Witness:
    made = dataset(*files)
    loaded = activity_of(made)
    spans = find_windows(loaded, find_steps(made, None), "steps").of(loaded.subjects)
    return measure(made, loaded, spans, runtime.busy_intervals(loaded.ops))


def test_a_mean() -> None:
    """Samples stand for [0, 10), [10, 20), [20, 30), [30, 40); the window is [5, 35)."""
    samples = [sample(ts, value) for ts, value in ((10, 10), (20, 40), (30, 70), (40, 20))]
    found = measured(file([op(5, 10), op(25, 10)], samples))
    row = found.devices.row(0, named=True)
    assert row["sm_active"] == pytest.approx((5 * 10 + 10 * 40 + 10 * 70 + 5 * 20) / 30 / 100)
    assert (row["window_ns"], row["covered_ns"], row["samples"], row["period_ns"]) == (30, 30, 4, 10)
    assert (row["kernels_ns"], row["tensor_active"], row["sm_clock_hz"]) == (20, None, None)
    assert found.means == {"sm_active": row["sm_active"]}
    assert (found.covered, found.kernels, found.reason) == (1, 20 / 30, "")


def test_unsampled_is_not_zero() -> None:
    """Between 20 and 60 nothing was sampled: the sample at 70 stands for [60, 70)."""
    samples = [sample(ts, 80) for ts in (10, 20, 70, 80, 90, 100)]
    found = measured(file([op(0, 100)], samples))
    assert found.means == {"sm_active": 0.8}
    assert (found.covered, found.devices["period_ns"].to_list()) == (0.6, [10])


def test_samples_that_jitter_leave_no_gaps() -> None:
    samples = [sample(ts, value) for ts, value in ((10, 0), (21, 100), (30, 0), (44, 50))]
    found = measured(file([op(0, 44)], samples))
    assert (found.covered, found.means["sm_active"]) == (1, pytest.approx((1100 + 14 * 50) / 44 / 100))


def test_the_metrics_by_name() -> None:
    values = {
        SM: 60, "SM Issue [Throughput %]": 20, TENSOR: 30, "DRAM Read Bandwidth [Throughput %]": 40,
        "DRAM Write Bandwidth [Throughput %]": 10, "GPC Clock Frequency [MHz]": 1_980_000_000,
        "Tensor Active / FP16 Active [Throughput %]": 99, "DRAM Read Bandwidth [Bytes/s]": 5, "PCIe SM Issue": 1,
    }  # fmt: skip
    samples = [sample(ts, value, name) for ts in (10, 20) for name, value in values.items()]
    found = measured(file([op(0, 20)], samples))
    assert found.means == dict(zip(FIGURES, (0.6, 0.2, 0.3, 0.4, 0.1, 1.98e9), strict=True))


def test_names_without_a_unit() -> None:
    samples = [sample(ts, 50, name) for ts in (10, 20) for name in ("SM Active", "tensor active")]
    assert measured(file([op(0, 20)], samples)).means == {"sm_active": 0.5, "tensor_active": 0.5}


def test_a_clock_in_another_unit_is_not_shown() -> None:
    samples = [sample(ts, 1980, "GPC Clock Frequency [MHz]") for ts in (10, 20)]
    assert measured(file([op(0, 20)], samples)).means == {}


def test_devices_are_matched_by_identity() -> None:
    """The process calls GPU 5 its device 0; GPU 0 is not its own."""
    samples = [sample(ts, value, uuid=uuid, gpu=gpu) for ts in (10, 20)
               for gpu, uuid, value in ((0, "X", 10), (5, "A", 90))]  # fmt: skip
    assert measured(file([op(0, 20)], samples)).means == {"sm_active": 0.9}


def test_the_means_weigh_devices_by_the_time_that_was_sampled() -> None:
    """Device 1 is sampled for 20 of its 20 ns, device 0 for 10."""
    samples = [
        *(sample(ts, 50, uuid="B", gpu=1) for ts in (10, 20)),
        *(sample(ts, 20) for ts in (20, 30)),
    ]
    ops = [op(0, 20), op(0, 20, device=1)]
    found = measured(file(ops, samples, {0: "A", 1: "B"}))
    assert found.devices["sm_active"].to_list() == [0.2, 0.5]
    assert found.means == {"sm_active": pytest.approx((10 * 20 + 20 * 50) / 30 / 100)}
    assert (found.covered, found.shared) == (30 / 40, False)


def test_devices_without_samples_lower_the_coverage() -> None:
    found = measured(
        file([op(0, 20), op(0, 20, device=1)], [sample(ts, 50) for ts in (10, 20)], {0: "A", 1: "B"})
    )
    assert (found.covered, found.devices["device"].to_list()) == (0.5, [0])


def test_copies_are_no_kernels() -> None:
    found = measured(file([op(0, 10), comm(5, 10), copy(0, 100)], [sample(ts, 50) for ts in (50, 100)]))
    assert found.kernels == 0.15


def test_one_gpu_of_two_processes() -> None:
    ops = [op(0, 20, process=1), op(0, 20, process=2)]
    found = measured(file(ops, [sample(ts, 50) for ts in (10, 20)]))
    assert (found.shared, found.devices.height) == (True, 2)


@pytest.mark.parametrize(
    ("samples", "uuids", "reason"),
    [
        ([], None, NO_SAMPLES),
        ([sample(10, 5, "PCIe RX"), sample(20, 5, "PCIe RX")], None, NO_SAMPLES),
        ([sample(ts, 5, uuid=None) for ts in (10, 20)], None, NO_SAMPLES),
        ([sample(ts, 5) for ts in (10, 20)], {0: None}, NO_GPU),
        ([sample(ts, 5, uuid="X") for ts in (10, 20)], None, NO_GPU),
        ([sample(ts, 5) for ts in (1000, 1010)], None, OUTSIDE),
        ([sample(10, 5)], None, OUTSIDE),  # of a single sample nobody knows how long it stands for
    ],
)
def test_nothing_was_counted(samples: list[Row], uuids: Any, reason: str) -> None:
    found = measured(file([op(0, 20)], samples, uuids))
    assert (found.reason, found.means, found.covered) == (reason, {}, 0)


# --------------------------------------------------------------------------------------------- plain Python


def oracle(samples: list[tuple[int, int]], start: int, end: int) -> tuple[float, int] | None:
    """Mean and covered nanoseconds, nanosecond by nanosecond."""
    series = sorted(dict(reversed(samples)).items())
    gaps = [after - before for (before, _), (after, _) in pairwise(series)]
    if not gaps:
        return None
    period = int(median(gaps))
    stretches = []
    for place, (ts, value) in enumerate(series):
        gap = gaps[place - 1] if place else None
        stretches.append((ts - (gap if gap is not None and gap <= 1.5 * period else period), ts, value))
    seen = [value for at in range(start, end) for a, b, value in stretches if a <= at < b]
    return (sum(seen) / len(seen) / 100, len(seen)) if seen else None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 90), st.integers(0, 100)), max_size=10, unique_by=lambda s: s[0]),
    st.integers(0, 30),
    st.integers(1, 40),
)
def test_against_plain_python(samples: list[tuple[int, int]], start: int, length: int) -> None:
    found = measured(file([op(start, length)], [sample(ts, value) for ts, value in samples]))
    want = oracle(samples, start, start + length)
    if want is None:
        assert found.reason
    else:
        assert found.means["sm_active"] == pytest.approx(want[0])
        assert found.devices["covered_ns"].to_list() == [want[1]]


def test_the_same_instant_twice_counts_once() -> None:
    samples = [sample(10, 20), sample(10, 20), sample(20, 40)]
    assert measured(file([op(0, 20)], samples)).means == {"sm_active": pytest.approx(0.3)}


def test_windows_of_steps() -> None:
    samples = [sample(ts, ts) for ts in (10, 20, 30, 40)]
    found = measured(file([op(0, 40)], samples, steps=[step(1, 10, 20), step(2, 20, 30)]))
    assert found.means == {"sm_active": 0.25}


# --------------------------------------------------------------------------------------------- disagreements


def told(
    flops: float | None = None,
    *,
    matrix: bool = True,
    kernels: float = 0.9,
    covered: float = 1.0,
    shared: bool = False,
    **means: float,
) -> list[str]:
    found = Witness(pl.DataFrame(), means, covered, kernels, shared)
    return list(disagreements(found, flops, matrix=matrix))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"sm_active": 0.85}, None),
        ({"sm_active": 0.95}, None),
        ({"sm_active": 0.96}, "SMs were active for 96.0 % of the time, but the trace has kernels for only 90.0 %"),
        ({"sm_active": 0.45}, None),
        ({"sm_active": 0.44}, "kernels ran for 90.0 % of the time, but on average only 44.0 % of the SMs had work"),
        ({"sm_active": 0.01, "kernels": 0.19}, None),
        ({"flops": 0.4, "tensor_active": 0.4}, None),
        ({"flops": 0.5, "tensor_active": 0.4}, None),
        ({"flops": 0.51, "tensor_active": 0.4}, "the FLOPs take 51.0 % of the time at the chip's peak, but tensor"),
        ({"flops": 0.51, "tensor_active": 0.4, "matrix": False}, None),
        ({"flops": 0.1, "tensor_active": 0.3}, None),
        ({"flops": 0.1, "tensor_active": 0.31}, "tensor cores were active for 31.0 % of the time, but the FLOPs"),
        ({"flops": None, "tensor_active": 0.9}, None),
        ({"sm_active": 0.96, "covered": 0.89}, None),
        ({"sm_active": 0.96, "shared": True}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_disagreements(about: dict[str, Any], words: str | None) -> None:
    found = told(**about)
    assert len(found) == (0 if words is None else 1)
    assert words is None or found[0].startswith(words)
