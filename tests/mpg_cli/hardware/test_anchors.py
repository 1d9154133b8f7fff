"""Published MFU and HFU whose every input is published too, recomputed with the catalogue's peaks."""

from __future__ import annotations

import pytest

from mpg_cli.hardware import find

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("what", "chip", "flops", "chips", "window_ns", "expected"),
    [
        # metaseq chronicles, final update: 4.30e23 FLOPs executed in about 33 days on 1024 A100 80 GB
        ("OPT-175B, HFU", "NVIDIA A100-SXM4-80GB", 430 * 10**21, 1024, 33 * DAY_NS, 0.472),
        # the same run by 6·N·D with N = 175e9 parameters and D = 300e9 tokens
        ("OPT-175B, MFU", "NVIDIA A100-SXM4-80GB", 6 * 175 * 300 * 10**18, 1024, 33 * DAY_NS, 0.346),
        # bigscience tr11 chronicles: 149 to 150 TFLOP/s per GPU on A100 80 GB; over a step of 105 s
        ("BLOOM-176B, HFU", "NVIDIA A100-SXM4-80GB", 1495 * 10**11 * 105, 1, 105 * 10**9, 0.479),
    ],
)
def test_published_utilisation(
    what: str, chip: str, flops: int, chips: int, window_ns: int, expected: float
) -> None:
    found = find(chip)
    peak = found.peak("bf16") if found else None
    assert peak is not None, what
    assert peak.ideal_ns(flops) / (chips * window_ns) == pytest.approx(expected, abs=0.0006), what
