"""Ceilings from what a file states of its device."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from mpg_cli import hardware
from mpg_cli.hardware import Stated
from mpg_cli.hardware.chip import Peak
from mpg_cli.hardware.stated import LANES, TPU_VENDOR

RTX_3080 = Stated("NVIDIA GeForce RTX 3080", "8.6", 68, 1_710_000_000, 760_080_000_000)


def test_a_chip_from_a_file() -> None:
    """2 · 68 SMs · 128 lanes · 1.71 GHz = 29.767 68 TFLOP/s; NVIDIA's own figure is 29.8."""
    chip = RTX_3080.complete(None)
    assert chip is not None
    assert chip.name == "NVIDIA GeForce RTX 3080 (from the trace)"
    assert [(peak.dtype, peak.unit, peak.tflops) for peak in chip.peaks] == [
        ("fp32", "vector", Decimal("29.76768"))
    ]
    assert chip.peaks[0].flops_per_second == 29_767_680_000_000
    assert chip.bytes_per_second == 760_080_000_000
    assert chip.sources == {
        "vector.fp32": "the trace: 2 FLOP × 68 SMs × 128 lanes × 1.710 GHz",
        "bandwidth_gbps": "the trace: 760080000000 byte/s",
    }
    assert chip.peak("bf16") is None


@pytest.mark.parametrize(
    ("name", "units", "clock_hz"),
    [("T4", 40, 1_590_000_000), ("H200 SXM", 132, 1_980_000_000), ("A100 SXM 80GB", 108, 1_410_000_000),
     ("L40S", 142, 2_520_000_000), ("V100 SXM2 16GB", 80, 1_530_000_000), ("RTX 5090", 170, 2_407_000_000)],
)  # fmt: skip
def test_the_formula_gives_the_published_rates(name: str, units: int, clock_hz: int) -> None:
    chip = hardware.lookup(name).chip
    assert chip is not None
    published = chip.peak("fp32", "vector")
    made = Stated(name, chip.compute_capability, units, clock_hz).complete(None)
    assert published is not None
    assert made is not None
    assert made.peaks[0].flops_per_second == pytest.approx(published.flops_per_second, rel=0.01)


def test_a_known_chip_gets_only_what_it_lacks() -> None:
    t4 = hardware.lookup("T4").chip
    h200 = hardware.lookup("H200 SXM").chip
    h20 = hardware.lookup("H20").chip
    assert t4
    assert h200
    assert h20
    stated = Stated("Tesla T4", "7.5", 40, 1_590_000_000, 320_064_000_000)
    found = stated.complete(t4)
    assert found == replace(
        t4, bandwidth_gbps=Decimal("320.064"), bandwidth_source="the trace: 320064000000 byte/s"
    )
    assert Stated("NVIDIA H200", "9.0", 132, 1_980_000_000, 1_000_000_000_000).complete(h200) is h200
    more = Stated("NVIDIA H20", "9.0", 78, 1_980_000_000, None).complete(h20)
    assert more is not None
    assert more.peaks[-1].tflops == Decimal("39.53664")
    assert more.peaks[:-1] == h20.peaks


@pytest.mark.parametrize(
    "changes",
    [
        {"compute_capability": None},
        {"compute_capability": "99.0"},
        {"units": None},
        {"units": 0},
        {"units": 10_001},
        {"clock_hz": None},
        {"clock_hz": -1_964_454_041},
        {"clock_hz": 1_710_000},
        {"clock_hz": 1 << 62},
    ],
)
def test_without_a_rate_there_is_no_chip(changes: dict[str, object]) -> None:
    assert replace(RTX_3080, **changes).complete(None) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("bandwidth", [None, -1, 0, 760, 1 << 62])
def test_a_bandwidth_that_cannot_be_is_none(bandwidth: int | None) -> None:
    chip = replace(RTX_3080, bandwidth=bandwidth).complete(None)
    assert chip is not None
    assert (chip.bandwidth_gbps, chip.bandwidth_source) == (None, "")
    t4 = hardware.lookup("T4").chip
    assert Stated("Tesla T4", bandwidth=bandwidth).complete(t4) is t4


def test_a_long_or_missing_name() -> None:
    long, none = (replace(RTX_3080, name=name).complete(None) for name in ("x" * 500, None))
    assert long
    assert none
    assert (len(long.name), none.name) == (80 + len(" (from the trace)"), "device (from the trace)")


def test_every_capability_of_an_nvidia_chip_with_units_is_known_or_too_new() -> None:
    chips = [chip for chip in hardware.load().chips if chip.vendor == "NVIDIA" and chip.units]
    assert {chip.compute_capability for chip in chips} <= LANES.keys()


@pytest.mark.parametrize(
    ("name", "units", "part"),
    [("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, True), ("NVIDIA H200", 60, True), ("NVIDIA H200", 132, False),
     ("NVIDIA GeForce RTX 3080", 68, False)],
)  # fmt: skip
def test_a_part_of_a_chip_is_told(name: str, units: int, part: bool) -> None:
    assert hardware.lookup(name, sm_count=units).part is part


# ------------------------------------------------------------------------------- devices that state their peak

# 918 TFLOP/s and 1638 GB/s in the catalogue
V6E = Stated("TPU v6 Lite", bandwidth=1_637_990_000_000, peak_flops=917_500_000_000_000)


def test_a_tpu_in_the_catalogue_is_held_against_what_it_states() -> None:
    known = hardware.lookup("TPU v6e").chip
    assert known is not None
    found = V6E.complete(known)
    assert found is not None
    assert found.peak("bf16") == Peak("bf16", "matrix", Decimal("917.5"), "the trace: 917.5 TFLOP/s")
    assert (found.bytes_per_second, found.bandwidth_source) == (
        1_637_990_000_000, "the trace: 1637990000000 byte/s",
    )  # fmt: skip
    others = [peak for peak in known.peaks if (peak.dtype, peak.unit) != ("bf16", "matrix")]
    assert found.peaks[1:] == tuple(others)
    assert (found.name, found.vendor, found.memory_gb) == (known.name, TPU_VENDOR, known.memory_gb)
    without = replace(V6E, bandwidth=None).complete(known)
    assert without is not None
    assert without.bytes_per_second == known.bytes_per_second


def test_a_tpu_that_the_catalogue_lacks() -> None:
    found = replace(V6E, name="TPU v99").complete(None)
    assert found is not None
    assert (found.name, found.vendor) == ("TPU v99 (from the trace)", TPU_VENDOR)
    assert found.peaks == (Peak("bf16", "matrix", Decimal("917.5"), "the trace: 917.5 TFLOP/s"),)
    assert found.bytes_per_second == 1_637_990_000_000
    assert found.measured == ()


@pytest.mark.parametrize("peak", [None, -1, 0, 918, 10**12 - 1, 10**17 + 1, 1 << 62])
def test_a_peak_that_cannot_be_is_ignored(peak: int | None) -> None:
    assert replace(V6E, peak_flops=peak).complete(None) is None
    known = hardware.lookup("TPU v6e").chip
    assert replace(V6E, peak_flops=peak).complete(known) is known


@pytest.mark.parametrize("peak", [10**12, 10**17])
def test_the_smallest_and_the_largest_peak(peak: int) -> None:
    found = replace(V6E, peak_flops=peak).complete(None)
    assert found is not None
    assert found.peaks[0].flops_per_second == peak


def test_a_damaged_bandwidth_beside_a_peak() -> None:
    known = hardware.lookup("TPU v6e").chip
    assert known is not None
    with_catalogue, without = (replace(V6E, bandwidth=5).complete(chip) for chip in (known, None))
    assert with_catalogue is not None
    assert without is not None
    assert (with_catalogue.bytes_per_second, without.bytes_per_second) == (known.bytes_per_second, None)
