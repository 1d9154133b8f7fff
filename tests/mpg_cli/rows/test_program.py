"""Measured kernels and the second witness on their way into the report."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_cli.goodput import judging
from mpg_cli.goodput.measured import KERNEL, SHOWN
from mpg_cli.goodput.witness import FIGURES, NO_SAMPLES, Witness
from mpg_cli.report.model import Goodput, Ratio
from mpg_cli.rows.program import MOST, profiled_rows, witness_row

DEVICES = pl.DataFrame(
    [(0, 3, None, 1, 100, 80, 90, 9, 10, 0.6, None, 0.3, 0.2, 0.1, 1.5e9)],
    schema=["subject", "source", "process", "device", "window_ns", "kernels_ns", "covered_ns", "samples",
            "period_ns", *FIGURES], orient="row",
)  # fmt: skip
NOTHING = judging._nothing("")


def ratio(value: float) -> Ratio:
    return Ratio(value, 1, 1, "", 1.0)


def test_measured_kernels_as_rows() -> None:
    values = dict.fromkeys((*KERNEL, "count", "time_ns", "share", *SHOWN)) | {
        "name": "k",
        "count": 2,
        "flops": 5.0,
    }
    (row,) = profiled_rows(pl.DataFrame([values]))
    assert (row.name, row.count, row.flops, row.reason, row.launches) == ("k", 2, 5.0, None, None)
    assert len(profiled_rows(pl.DataFrame([values] * (MOST + 1)))) == MOST
    assert profiled_rows(pl.DataFrame()) == ()


def test_a_witness_as_a_row() -> None:
    means = {"sm_active": 0.6, "tensor_active": 0.3}
    row = witness_row(
        Witness(DEVICES, means, 0.9, 0.8), Goodput(None, None, None, None), NOTHING, {3: "a"}, {3: 7}
    )
    assert (row.sm_active, row.sm_issue, row.tensor_active, row.sm_clock_hz) == (0.6, None, 0.3, None)
    assert (row.coverage, row.kernels, row.reason, row.disagreements) == (0.9, 0.8, "", ())
    (device,) = row.devices
    assert (device.source, device.rank, device.process, device.device) == ("a", 7, None, 1)
    assert (device.kernels, device.coverage, device.samples, device.period_ns) == (0.8, 0.9, 9, 10)
    assert (device.sm_active, device.sm_issue, device.sm_clock_hz) == (0.6, None, 1.5e9)


def test_nothing_was_counted() -> None:
    found = Witness(pl.DataFrame(), reason=NO_SAMPLES)
    row = witness_row(found, Goodput(None, None, None, None), NOTHING, {}, {})
    assert (row.reason, row.kernels, row.sm_active, row.coverage, row.devices) == (
        NO_SAMPLES,
        None,
        None,
        0,
        (),
    )


@pytest.mark.parametrize(
    ("goodput", "dtype", "told"),
    [
        (Goodput(None, None, None, None, mfu=ratio(0.3)), "bf16", False),
        (Goodput(None, None, None, None, mfu=ratio(0.3), hfu=ratio(0.5)), "bf16", True),
        (Goodput(None, None, None, None, mfu=ratio(0.5)), "bf16", True),
        (Goodput(None, None, None, None, mfu=ratio(0.5)), "fp32", False),
        (Goodput(None, None, None, None), "bf16", False),
    ],
)
def test_all_flops_are_held_against_the_tensor_cores(goodput: Goodput, dtype: str, told: bool) -> None:
    judged = judging.Judged(
        None, "", pl.DataFrame(), pl.DataFrame(), ceilings=(("X", dtype, 1.0, None, "", ""),)
    )
    row = witness_row(Witness(DEVICES, {"tensor_active": 0.3}, 1.0, 0.8), goodput, judged, {3: "a"}, {3: 0})
    assert bool(row.disagreements) is told
