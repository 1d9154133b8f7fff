"""Rates, operand types and exact times."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.hardware import DTYPES, Chip, Peak, dtype_name, find, load


def chip(name: str) -> Chip:
    found = find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        *[(name, name) for name in DTYPES],
        ("c10::BFloat16", "bf16"),
        ("bfloat16", "bf16"),
        ("BFloat16", "bf16"),
        ("torch.bfloat16", "bf16"),
        ("c10::Half", "fp16"),
        ("f16", "fp16"),
        ("float", "fp32"),
        ("torch.float32", "fp32"),
        ("double", "fp64"),
        ("c10::Float8_e4m3fn", "fp8"),
        ("c10::Float8_e5m2", "fp8"),
        ("c10::Float8_e4m3fnuz", "fp8"),
        ("Float8_e5m2fnuz", "fp8"),
        ("f8e4m3fn", "fp8"),
        ("signed char", "int8"),
        ("s8", "int8"),
        ("c10::qint8", "int8"),
        ("c10::Float4_e2m1fn_x2", "fp4"),
        ("unsigned char", None),
        ("long int", None),
        ("c10::complex<float>", None),
        ("Scalar", None),
        ("", None),
    ],
)
def test_dtype_names(reported: str, name: str | None) -> None:
    assert dtype_name(reported) == name


@pytest.mark.parametrize(
    ("name", "dtype", "unit", "flops_per_second"),
    [
        ("NVIDIA H100 80GB HBM3", "c10::BFloat16", "matrix", 989_400_000_000_000),
        ("NVIDIA H100 80GB HBM3", "float", "matrix", None),
        ("NVIDIA H100 80GB HBM3", "float", "vector", 67_000_000_000_000),
        ("NVIDIA H100 80GB HBM3", "c10::BFloat16", "vector", None),
        ("AMD Instinct MI300X", "float", "matrix", 163_400_000_000_000),
        ("AMD Instinct MI300X", "double", "vector", 81_700_000_000_000),
        ("Trainium3", "mxfp8", "matrix", 2_517_000_000_000_000),
        ("Trainium3", "fp8", "matrix", None),
        ("NVIDIA B200", "mxfp8", "matrix", 4_500_000_000_000_000),  # the rate of its elements
        ("NVIDIA B200", "nvfp4", "matrix", 10_000_000_000_000_000),
        ("NVIDIA B200", "mxfp4", "matrix", 9_000_000_000_000_000),
        ("NVIDIA GB200", "nvfp4", "matrix", 10_000_000_000_000_000),
        ("NVIDIA A10G", "bf16", "matrix", None),
        ("NVIDIA H20", "nonsense", "matrix", None),
    ],
)
def test_peak(name: str, dtype: str, unit, flops_per_second: int | None) -> None:
    peak = chip(name).peak(dtype, unit)
    assert (peak and peak.flops_per_second) == flops_per_second


@pytest.mark.parametrize(
    ("name", "dtype", "ways"),
    [
        ("NVIDIA A100-SXM4-80GB", "float", [("tf32", "matrix", 156), ("fp32", "vector", "19.5")]),
        ("Tesla V100-SXM2-16GB", "float", [("fp32", "vector", "15.7")]),
        (
            "AMD Instinct MI300X",
            "float",
            [("tf32", "matrix", "653.7"), ("fp32", "matrix", "163.4"), ("fp32", "vector", "163.4")],
        ),
        ("AMD Instinct MI300X", "double", [("fp64", "matrix", "163.4"), ("fp64", "vector", "81.7")]),
        ("Tesla V100-SXM2-16GB", "double", [("fp64", "vector", "7.8")]),
        ("Tesla V100-SXM2-16GB", "c10::Half", [("fp16", "matrix", 125)]),
        ("Tesla V100-SXM2-16GB", "c10::BFloat16", []),
        ("NVIDIA A100-SXM4-80GB", "long int", []),
    ],
)
def test_the_peaks_of_a_matrix_multiplication(name: str, dtype: str, ways) -> None:
    peaks = chip(name).matmul_peaks(dtype)
    assert [(p.dtype, p.unit, p.tflops) for p in peaks] == [(d, u, Decimal(t)) for d, u, t in ways]


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", "794.5"),
        ("AMD Instinct MI300X", "c10::BFloat16", "708"),  # two measurements: the larger
        ("AMD Instinct MI300X", "fp8", "1273"),
        ("Tesla T4", "fp16", None),
    ],
)
def test_achievable(name: str, dtype: str, tflops: str | None) -> None:
    rate = chip(name).achievable(dtype)
    assert (rate and rate.tflops) == (tflops and Decimal(tflops))


def test_both_measurements_are_sourced() -> None:
    source = chip("MI300X").sources["achievable.bf16"]
    assert "ml-engineering" in source
    assert "TraceLens" in source


@pytest.mark.parametrize(
    ("flops", "ns"),
    [
        (0, 0),
        (312_000, 1),  # 312 TFLOP/s is 312 000 FLOP/ns
        (311_999, 0),  # rounded down
        (2 * 4096**3, 440_509),  # 137 438 953 472 / 312 000 = 440 509.46
        (312 * 10**12, 10**9),
    ],
)
def test_ideal_time_on_an_a100(flops: int, ns: int) -> None:
    peak = chip("NVIDIA A100-SXM4-80GB").peak("bf16")
    assert peak is not None
    assert peak.ideal_ns(flops) == ns


def test_transfer_time_on_an_h100() -> None:
    h100 = chip("NVIDIA H100 80GB HBM3")
    assert h100.bytes_per_second == 3_350_000_000_000
    assert [h100.transfer_ns(size) for size in (0, 3349, 3350, 10**9)] == [0, 0, 1, 298_507]


@given(st.integers(1, 10**7), st.integers(0, 10**24))
def test_ideal_time_is_exact(thousandths: int, flops: int) -> None:
    peak = Peak("bf16", "matrix", Decimal(thousandths).scaleb(-3), "")
    exact = Fraction(flops * 1000, thousandths * 10**12) * 10**9
    assert peak.flops_per_second == thousandths * 10**9
    assert peak.ideal_ns(flops) == exact.__floor__()


def test_no_shipped_rate_is_rounded() -> None:
    for shipped in load().chips:
        for peak in (*shipped.peaks, *shipped.measured):
            assert Decimal(peak.flops_per_second) == peak.tflops * 10**12
