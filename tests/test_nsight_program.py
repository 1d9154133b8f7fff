"""Program Goodput of an Nsight Systems export and an Nsight Compute report together, from files to the report.

The profiled kernels are those of fixtures/ncu: sgemm with 21.5 MFLOP fp32 and 10 MB, gemm_bf16 with 4.294967296 GFLOP
bf16 and 4 MB. An H200 does 67 TFLOP/s fp32 and 989.4 bf16, and moves 4.8 TB/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fixtures.nsight.writer import Exporter, write_sqlite
from tests.mpg_cli.running import ROOT, analyze, mpg

if TYPE_CHECKING:
    from pathlib import Path

NCU = ROOT / "fixtures/ncu/two_kernels.raw.csv"
SGEMM, BF16 = "void sgemm<(int)4>(const float *, float *)", "gemm_bf16"
PERIOD = 5_000
METRICS = {  # name: (per cent or Hz)
    "SMs Active [Throughput %]": 90,
    "SM Issue [Throughput %]": 30,
    "Tensor Active [Throughput %]": 40,
    "DRAM Read Bandwidth [Throughput %]": 20,
    "DRAM Write Bandwidth [Throughput %]": 5,
    "GPC Clock Frequency [MHz]": 1_980_000_000,
}
H200: dict[str, Any] = {
    "name": "NVIDIA H200", "uuid": "GPU-1", "memoryBandwidth": 4_916_736_000_000, "clockRate": 1_980_000_000,
    "smCount": 132, "computeMajor": 9, "computeMinor": 0, "totalMemory": 150_121_545_728,
}  # fmt: skip


def export(**gpu: Any) -> Exporter:
    """sgemm for 10 µs, and gemm_bf16 for 8 µs twice, one after the other."""
    made = Exporter()
    shapes = {"gridY": 16, "gridX": 8, "blockX": 384}
    made.kernel(0, 10_000, SGEMM, gridX=64, gridY=1, blockX=256, correlationId=1)
    made.kernel(12_000, 20_000, BF16, correlationId=2, **shapes)
    made.kernel(22_000, 30_000, BF16, correlationId=3, **shapes)
    for number in (1, 2, 3):
        made.call(number * 1000 - 1000, number * 1000, "cudaLaunchKernel_v7000", number)
    made.add("TARGET_INFO_GPU", id=0, **H200 | gpu)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=1, uuid="GPU-1", numMultiprocessors=132)
    return made


def with_metrics(made: Exporter, until: int = 30_000) -> Exporter:
    for number, (name, value) in enumerate(METRICS.items()):
        made.add("TARGET_INFO_GPU_METRICS", typeId=1 << 8, metricId=number, metricName=name)
        for ts in range(PERIOD, until + 1, PERIOD):
            made.add("GPU_METRICS", timestamp=ts, typeId=1 << 8, metricId=number, value=value)
    return made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_sqlite(tmp_path / "report.sqlite", with_metrics(export()).rows())
    return tmp_path / "report.sqlite"


def test_flops_of_the_profile(trace: Path) -> None:
    """0.32 of 10 µs, and 2 · 4.34 of 16 µs; the 10 MB take 2.08 µs, the 4 MB 0.83."""
    report = analyze(trace, NCU).report
    sgemm, bf16 = 21_500_000 / 67e12 * 1e9, 4_294_967_296 / 989.4e12 * 1e9
    goodput = report["goodput"]
    ideal = sgemm + 2 * bf16
    assert goodput["pg"]["numerator_ns"] == pytest.approx(ideal, abs=1)
    assert goodput["pg"]["denominator_ns"] == 26_000
    assert goodput["pg"]["basis"] == "bf16 peak of H200 SXM, FLOPs by Nsight Compute"
    assert (goodput["pg"]["coverage"], goodput["mfu"]) == (1, None)
    assert "recomputation" in goodput["reasons"]["mfu"]
    assert goodput["hfu"]["numerator_ns"] == pytest.approx(ideal, abs=1)
    ledger = {row["cause"]: row["chip_ns"] for row in report["ledger"] if row["layer"] == "program"}
    assert sum(ledger.values()) == 26_000
    assert ledger["memory_bound"] == pytest.approx(10e6 / 4.8e12 * 1e9 - sgemm, abs=1)
    assert {op["op"]: (op["count"], op["flops"], op["flops_source"]) for op in report["ops"]} == {
        SGEMM: (1, 21_500_000, "measured"),
        BF16: (2, 2 * 4_294_967_296, "measured"),
    }
    assert {warning["kind"] for warning in report["warnings"]} >= {"measured_flops"}
    assert "no_device_activity" not in {warning["kind"] for warning in report["warnings"]}


def test_fractions_of_the_profile(trace: Path) -> None:
    rows = {row["name"]: row for row in analyze(trace, NCU).report["profiled"]}
    assert rows[BF16] | {"share": 0} == {
        "name": BF16, "grid": "[8, 16, 1]", "block": "[384, 1, 1]", "count": 2, "time_ns": 16_000, "share": 0,
        "launches": 1, "sm_throughput": 0.65, "tensor_pipe": 0.625, "dram_fraction": pytest.approx(0.5 / 2.048),
        "achieved_occupancy": 0.125, "waves_per_sm": 0.97, "flops": 4_294_967_296, "dtype": "bf16", "reason": None,
    }  # fmt: skip
    assert rows[BF16]["share"] == pytest.approx(16 / 26)
    assert (rows[SGEMM]["flops"], rows[SGEMM]["dtype"], rows[SGEMM]["tensor_pipe"]) == (21_500_000, "fp32", 0)


def test_the_second_witness(trace: Path) -> None:
    report = analyze(trace, NCU).report
    found = report["witness"]
    means = {"sm_active": 0.9, "sm_issue": 0.3, "tensor_active": 0.4, "dram_read": 0.2, "dram_write": 0.05}
    assert {name: found[name] for name in means} == pytest.approx(means)
    assert (found["sm_clock_hz"], found["coverage"]) == (1.98e9, 1)
    assert found["kernels"] == pytest.approx(26 / 30)
    assert found["disagreements"] == []
    assert [(device["samples"], device["period_ns"]) for device in found["devices"]] == [(6, PERIOD)]


def test_a_witness_against_the_account(tmp_path: Path) -> None:
    """The trace has lost its kernels of 22 to 30 µs, which the counters still saw."""
    made = with_metrics(export())
    del made.tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    write_sqlite(tmp_path / "report.sqlite", made.rows())
    report = analyze(tmp_path / "report.sqlite", NCU).report
    (text,) = report["witness"]["disagreements"]
    assert text.startswith(
        "SMs were active for 90.0 % of the time, but the trace has kernels for only 60.0 %"
    )
    shown = mpg("analyze", tmp_path / "report.sqlite", NCU, "--no-cache", "-q", "-f", "md").out
    assert "What the hardware counted" in shown
    assert text in shown


def test_the_report_says_so(trace: Path) -> None:
    shown = mpg("analyze", trace, NCU, "--no-cache", "-q", "-f", "md").out
    wanted = (
        "FLOPs by Nsight Compute",
        "FLOPs counted by Nsight Compute, by grid and block",
        "What Nsight Compute measured: kernels with 100.0 % of computing",
        "tensor active",
        "6 samples",
    )
    assert [words for words in wanted if words not in shown] == []


def test_a_chip_that_the_catalogue_lacks(tmp_path: Path) -> None:
    """Bandwidth and fp32 come from the file, 2 · 132 · 128 · 1.98 GHz = 66.908 TFLOP/s; nothing tells of bf16."""
    made = export(name="NVIDIA H999")
    made.tables["CUPTI_ACTIVITY_KIND_KERNEL"][1:] = []
    write_sqlite(tmp_path / "report.sqlite", made.rows())
    report = analyze(tmp_path / "report.sqlite", NCU).report
    assert report["goodput"]["pg"]["value"] == pytest.approx(
        21_500_000 / 66.90816e12 * 1e9 / 10_000, abs=1e-4
    )
    (roofline,) = report["rooflines"]
    assert (roofline["chip"], roofline["bandwidth_gbps"]) == ("NVIDIA H999 (from the trace)", 4916.736)
    assert roofline["peak_source"] == "the trace: 2 FLOP × 132 SMs × 128 lanes × 1.980 GHz"
    shown = mpg("analyze", tmp_path / "report.sqlite", NCU, "--no-cache", "-q", "-f", "md").out
    assert "fp32 peak of NVIDIA H999 (from the trace)" in shown
    assert "4,917 GB/s as the trace states" in shown


@pytest.mark.parametrize(
    ("also", "words"),
    [([], "give an Nsight Compute report of the kernels as well"), ([NCU], "models cover 38.5 % of computing time")],
)  # fmt: skip
def test_reasons(tmp_path: Path, also: list[Path], words: str) -> None:
    """Of the unknown chip's kernels only sgemm, 10 of 26 µs, can be judged with its profile."""
    write_sqlite(tmp_path / "report.sqlite", export(name="NVIDIA H999").rows())
    report = analyze(tmp_path / "report.sqlite", *also).report
    assert words in report["goodput"]["reasons"]["pg"]
    assert report["witness"]["reason"].startswith("the files hold no samples")


def test_declared_flops(tmp_path: Path) -> None:
    made = export()
    made.range(0, 30_000, "step 1")
    write_sqlite(tmp_path / "report.sqlite", made.rows())
    report = analyze(tmp_path / "report.sqlite", "--flops-per-step", "1e9").report
    assert report["goodput"]["pg"]["basis"] == "declared FLOPs, bf16 peak of H200 SXM"
    assert report["goodput"]["pg"]["numerator_ns"] == pytest.approx(1e9 / 989.4e12 * 1e9, abs=1)
