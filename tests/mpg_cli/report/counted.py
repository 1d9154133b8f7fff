"""A report with what Nsight Compute measured and what GPU metrics counted; figures are made up."""

from __future__ import annotations

from dataclasses import replace

from mpg_cli.report.model import (
    DeviceWitness,
    Goodput,
    Op,
    ProfiledKernel,
    Ratio,
    Report,
    Roofline,
    Warning,  # noqa: A004
    Window,
    Witness,
)
from tests.mpg_cli.report.reports import ELEMENTWISE, GEMM, NO_SCHEDULER, device, quality, report, source

CHIP = "NVIDIA GeForce RTX 3080 (from the trace)"
BASIS = f"fp32 peak of {CHIP}, FLOPs by Nsight Compute"
FP32, BANDWIDTH = "the trace: 2 FLOP × 68 SMs × 128 lanes × 1.710 GHz", "the trace: 760080000000 byte/s"
SGEMM = "void sgemm<(int)4>(const float *, float *)"
OTHER = "my_fused_thing_v2"


def kernel(name: str, shape: tuple[str, str], time: int, **measured: object) -> ProfiledKernel:
    names = (
        "sm_throughput",
        "tensor_pipe",
        "dram_fraction",
        "achieved_occupancy",
        "waves_per_sm",
        "flops",
        "dtype",
    )
    values = dict.fromkeys((*names, "launches", "reason")) | measured
    return ProfiledKernel(name, *shape, count=12, time_ns=time, share=time / 100_000_000, **values)  # type: ignore[arg-type]


KERNELS = (
    kernel(
        SGEMM, ("[64, 64, 1]", "[64, 64, 1]"), 70_000_000, launches=3, sm_throughput=0.713, tensor_pipe=0.0,
        dram_fraction=0.121, achieved_occupancy=0.482, waves_per_sm=4.27, flops=8.6e10, dtype="fp32",
    ),
    kernel(
        ELEMENTWISE, ("[4096, 1, 1]", "[128, 1, 1]"), 25_000_000, launches=1, sm_throughput=0.09, tensor_pipe=0.0,
        dram_fraction=0.914, achieved_occupancy=0.8, waves_per_sm=0.5, flops=0.0,
    ),
    kernel(OTHER, ("[1, 1, 1]", "[32, 1, 1]"), 3_000_000, reason="not among the profiled kernels"),
    kernel(GEMM, ("[8, 8, 1]", "[256, 1, 1]"), 2_000_000, launches=1, tensor_pipe=0.4,
           reason="not all kinds of operations were counted"),
)  # fmt: skip
SGEMM_OP = Op(
    SGEMM, "[[64, 64, 1], [64, 64, 1]]", '["fp32"]', 12, 12, 70_000_000, 0.7, 1_032_000_000_000, 6_400_000_000,
    14.742857, 91.428571, 161.25, "compute", 0.495249, 35_332_548, 0, "measured",
)  # fmt: skip


def witness(path: str) -> Witness:
    """Two devices, of which the second was sampled for a part of its window."""
    first = DeviceWitness(path, None, 77, 0, 0.9, 1.0, 1_200, 100_000, 0.41, 0.2, 0.0, 0.3, 0.1, 1.71e9)
    second = replace(first, device=1, coverage=0.85, samples=1_020, sm_active=0.43, tensor_active=None)
    text = "kernels ran for 90.0 % of the time, but on average only 41.9 % of the SMs had work: RG counts as computing"
    return Witness(0.925, 0.9, 0.4192, 0.2, 0.0, 0.3, 0.1, 1.71e9, (text,), (first, second))


def profiled() -> Report:
    """A chip that the catalogue does not have, with measured FLOPs."""
    path = "report.sqlite"
    amounts = {
        "ideal": 34_667_452,
        "memory_bound": 22_000_000,
        "kernel_inefficiency": 38_332_548,
        "unmodelled": 5_000_000,
    }
    amounts["unknown"] = 20_000_000
    parts = (50_000_000, 0, 0, 10_000_000)
    chips = tuple(device(path, None, n, parts, kernels=48, name="NVIDIA GeForce RTX 3080") for n in (0, 1))
    base = report(
        amounts, (replace(source(path), format="nsight-systems", framework="Nsight Systems 2025.1.3"),), chips,
        (Window(path, "device activity", 0, 60_000_000, 2, 0, 0, 0),),
        rooflines=(Roofline(CHIP, "fp32", 29.76768, 760.08, FP32, BANDWIDTH),),
        ops=(SGEMM_OP,), profiled=KERNELS, witness=witness(path),
        warnings=(Warning("measured_flops", "the FLOPs of 100.0 % of the judged computing are as executed"),),
    )  # fmt: skip
    assert base.goodput.rg is not None
    pg = Ratio(0.34667452, 34_667_452, 100_000_000, BASIS, 0.95)
    hfu = Ratio(34_667_452 / 120_000_000, 34_667_452, 120_000_000, BASIS, 0.95)
    reasons = {"sg": NO_SCHEDULER, "mpg": "needs SG and PG", "mfu": "recomputation cannot be told: see HFU"}
    covered = replace(quality(base.quality.windows, "B"), shape_coverage=0.95, linked_coverage=0.95)
    goodput = Goodput(None, base.goodput.rg, pg, None, hfu=hfu, reasons=reasons)
    return replace(base, goodput=goodput, quality=covered)
