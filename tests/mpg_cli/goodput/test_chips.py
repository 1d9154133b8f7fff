"""Which chip each device is held against: what the file states, what the user says, and why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from mpg_cli.goodput.chips import find_chips
from tests.mpg_cli.datasets import dataset, op, source
from tests.mpg_cli.goodput.judged import CATALOGUE, activity_of

PEAK, BANDWIDTH = 917_500_000_000_000, 1_637_990_000_000


def found(named: str | None = None, **device: Any) -> tuple[dict[int, Any], str]:
    made = source([op(0, 10)])
    made["devices"][0].update(device)
    data = dataset(made)
    return find_chips(data, activity_of(data), CATALOGUE, named)


@pytest.mark.parametrize(
    ("device", "named", "name", "bf16"),
    [
        ({"name": "TPU v6 Lite", "peak_flops": PEAK, "bandwidth": BANDWIDTH}, None, "TPU v6e", 917.5),
        ({"name": "TPU v6 Lite"}, None, "TPU v6e", 918),
        ({"name": "TPU v6 Lite", "peak_flops": 7}, None, "TPU v6e", 918),
        ({"name": "TPU v99", "peak_flops": PEAK}, None, "TPU v99 (from the trace)", 917.5),
        ({"name": None, "peak_flops": PEAK}, None, "device (from the trace)", 917.5),
        ({"name": "TPU v6 Lite", "peak_flops": PEAK}, "TPU v5p", "TPU v5p", 459),
        ({"name": "TPU v99", "peak_flops": PEAK}, "Tiny", "Tiny", 1),
        ({"name": None}, "TPU v6e", "TPU v6e", 918),
    ],
)
def test_a_tpu(device: dict[str, Any], named: str | None, name: str, bf16: float) -> None:
    chips, reason = found(named, **device)
    peak = chips[0].peak("bf16")
    assert (chips[0].name, float(peak.tflops), reason) == (name, bf16, "")


@pytest.mark.parametrize(
    ("device", "named", "why"),
    [
        ({"name": None}, None, "the file does not say what it is"),
        ({"name": None, "peak_flops": 7}, None, "the file does not say what it is"),
        ({"name": "TPU v99"}, None, "'TPU v99' is not in the catalogue"),
        ({"name": None, "compute_capability": "99.0"}, None, "the name does not tell the chip"),
        ({"name": "TPU v6 Lite"}, "TPU v99", "'TPU v99' is not in the catalogue"),
    ],
)
def test_no_chip(device: dict[str, Any], named: str | None, why: str) -> None:
    chips, reason = found(named, **device)
    assert chips == {}
    assert reason.startswith(f"the chip is not known: {why}")
    assert reason.endswith("; say --chip NAME (see mpg hardware)")
