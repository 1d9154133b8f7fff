"""PG from the FLOPs that Nsight Compute counted: which count, where they are used, and what is said of it.

Of the chips in `judged`, Tiny does 1000 bf16 FLOP and moves 100 bytes in a nanosecond; Tensor also does 500 tf32 and
100 fp32 FLOP.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput import counters, measured
from mpg_cli.goodput.measured import MIXED, NO_FLOPS
from mpg_cli.goodput.names import NameRules
from tests.mpg_cli.datasets import step, table
from tests.mpg_cli.goodput.judged import causes, file, judge, kernel, operator, product, told
from tests.mpg_cli.goodput.profiles import ADD, CUSTOM, GEMM, GRID, bf16, counted, launched, nsight, profile


def test_an_account() -> None:
    """4000 FLOP are 4 ns of the 10 of each launch; 600 bytes are 6 ns, of which 4 are ideal."""
    found = judge(nsight([launched(0, 10), launched(20, 10)]), profile(bf16(4000, dram_bytes=600.0)))
    assert causes(found) == {"ideal": 8, "memory_bound": 4, "kernel_inefficiency": 8}
    assert (found.reason, found.ideal_ns, found.mfu_ns, found.hfu_ns) == ("", 8, None, 8)
    assert (found.coverage, found.linked_coverage) == (1, 1)
    assert found.basis == "bf16 peak of Tiny, FLOPs by Nsight Compute"
    row = found.ops.row(0, named=True)
    assert (row["operator"], row["input_dims"], row["input_types"]) == (
        GEMM,
        "[[4, 2, 1], [64, 1, 1]]",
        '["bf16"]',
    )
    assert (row["flops_source"], row["count"], row["kernels"], row["flops"]) == ("measured", 2, 2, 8000)
    assert (row["bytes"], row["bound"], row["recoverable_ns"]) == (1200, "memory", 8)
    assert told(found)["measured_flops"].startswith("the FLOPs of 100.0 % of the judged computing")


def test_flops_are_cut_at_the_window_like_the_kernel() -> None:
    trace = nsight([launched(0, 10), launched(15, 10)]) | {"steps": [step(1, 5, 20)]}
    assert judge(trace, profile(bf16(4000))).ideal_ns == 4


@pytest.mark.parametrize(
    ("launch", "name", "chip", "want"),
    [
        pytest.param(bf16(4000, fp32_flops=900.0), GEMM, "Tiny", (4000, "bf16"), id="tensor cores first"),
        pytest.param(counted(fp32_flops=600.0, fp16_flops=100.0), GEMM, "Tensor", (600, "fp32"), id="vector units"),
        pytest.param(counted(fp32_flops=600.0), GEMM, "Tiny", None, id="no peak of the type"),
        pytest.param(counted(CUSTOM, fp32_flops=600.0), CUSTOM, "Tensor", (600, "fp32"), id="unknown kernel"),
        pytest.param(counted(ADD, fp32_flops=600.0), ADD, "Tensor", (0, None), id="element-wise"),
        pytest.param(counted(ADD, tensor_ops=None), ADD, "Tensor", (0, None), id="element-wise, not counted"),
        pytest.param(counted(ADD, tensor_ops=None, tensor_pipe=0.1), ADD, "Tensor", None, id="said to be element-wise"),
        pytest.param(bf16(500, ADD), ADD, "Tensor", (500, "bf16"), id="fused product"),
        pytest.param(counted(tensor_ops=500.0), GEMM, "Tensor", None, id="several types"),
        pytest.param(counted(fp64_flops=None, fp32_flops=600.0), GEMM, "Tensor", None, id="not all counted"),
        pytest.param(counted(tensor_ops=4000.0, tensor_type="tf32"), GEMM, "Tensor", (4000, "tf32"), id="tf32"),
        pytest.param(bf16(4000, grid="[8, 2, 1]"), GEMM, "Tiny", None, id="another shape"),
        pytest.param(counted(), GEMM, "Tiny", (0, None), id="no operations at all"),
    ],
)  # fmt: skip
def test_which_operations_count(
    launch: Any, name: str, chip: str, want: tuple[int, str | None] | None
) -> None:
    found = judge(nsight([launched(0, 10, name)], chip), profile(launch))
    if want is None:
        assert found.rows is None
    else:
        row = found.ops.row(0, named=True)
        assert (row["flops"], row["input_types"]) == (want[0], f'["{want[1] or ""}"]')


def test_every_family_of_computing_kernels_is_placed() -> None:
    """Whoever adds a family decides whether its FLOPs count; those of a family of the user's own do."""
    counting = {"attention", "convolution", "fft", "gemm", "moe", "state_space"}
    rules = [rule for rule in NameRules.load().rules if rule.activity == "compute"]
    families = {rule.family for rule in rules} | {"copy", "set"}
    assert families == counting | set(NO_FLOPS)


def test_models_go_before_measurements() -> None:
    """The product has 2000 FLOP by its shapes; of acme::moe only the profile tells."""
    ops = [
        product(0, 10)[1] | {"grid": GRID, "block": "[64, 1, 1]"},
        launched(100, 10, CUSTOM, external_id=9),
    ]
    events = [product(0, 10)[0], operator(100, 1, "acme::moe", external_id=9)]
    found = judge(file(ops, events), profile(bf16(5000), bf16(4000, CUSTOM)))
    rows = found.ops.sort("operator").select("operator", "flops", "flops_source").rows()
    assert rows == [("aten::mm", 2000, "shapes"), (CUSTOM, 4000, "measured")]
    assert (found.reason, found.ideal_ns, found.mfu_ns, found.hfu_ns) == ("", 6, 6, 6)
    assert found.basis == "bf16 peak of Tiny, FLOPs of 50.0 % of it by Nsight Compute"


def test_declared_flops_go_before_measurements() -> None:
    trace = nsight([launched(0, 10)]) | {"steps": [step(1, 0, 10)]}
    found = judge(trace, profile(bf16(4000)), flops_per_step=3000)
    assert (found.ideal_ns, found.basis) == (3, "declared FLOPs, bf16 peak of Tiny")
    assert found.profiled.height == 1


@pytest.mark.parametrize(
    ("basis", "ideal"), [("peak", 4), ("achievable", 8), ("roofline", None)]
)  # bytes that moved are not the least
def test_bases(basis: str, ideal: int | None) -> None:
    found = judge(nsight([launched(0, 10)]), profile(bf16(4000, dram_bytes=600.0)), basis=basis)
    assert (found.ideal_ns if found.reason == "" else None) == ideal


def test_a_measurement_above_the_peak_is_a_fault() -> None:
    found = judge(
        nsight([launched(0, 10), launched(20, 100, CUSTOM)]), profile(bf16(40_000), bf16(1, CUSTOM))
    )
    assert causes(found)["unmodelled"] == 10
    assert told(found)["above_peak"].startswith("sgemm would have run at 400 % of the chip's peak")


def test_a_kernel_without_dram_bytes_has_no_memory_bound_time() -> None:
    found = judge(nsight([launched(0, 10)]), profile(bf16(4000)))
    assert causes(found) == {"ideal": 4, "kernel_inefficiency": 6}
    assert found.ops["bytes"].to_list() == [None]


# ------------------------------------------------------------------------------------------- the chip


STATED = {"compute_capability": "8.6", "sm_count": 4, "clock_hz": 1_000_000_000, "bandwidth": 100_000_000_000}


def test_ceilings_from_the_file() -> None:
    """2 · 4 SMs · 128 lanes · 1 GHz = 1024 FLOP/ns, 100 bytes/ns."""
    trace = nsight([launched(0, 10)], "Acme Z9", **STATED)
    found = judge(trace, profile(counted(fp32_flops=4096.0, dram_bytes=600.0)))
    assert causes(found) == {"ideal": 4, "memory_bound": 2, "kernel_inefficiency": 4}
    assert found.basis.startswith("fp32 peak of Acme Z9 (from the trace), FLOPs by")
    assert found.ceilings == (
        ("Acme Z9 (from the trace)", "fp32", 1.024, 100.0,
         "the trace: 2 FLOP × 4 SMs × 128 lanes × 1.000 GHz", "the trace: 100000000000 byte/s"),
    )  # fmt: skip


def test_a_type_that_the_file_has_no_rate_for() -> None:
    found = judge(nsight([launched(0, 10)], "Acme Z9", **STATED), profile(bf16(4000)))
    assert found.reason == (
        "no peak of Acme Z9 (from the trace) for bf16 is known: say --chip NAME, or declare the chip in mpg.toml"
    )


def test_bandwidth_from_the_file_where_the_catalogue_has_none() -> None:
    trace = nsight([launched(0, 10)], "Blind", bandwidth=100_000_000_000)
    found = judge(trace, profile(bf16(4000, dram_bytes=600.0)))
    assert causes(found) == {"ideal": 2, "memory_bound": 4, "kernel_inefficiency": 4}
    assert found.ceilings[0][3:] == (100.0, "mpg.toml", "the trace: 100000000000 byte/s")
    assert "no_bandwidth" not in told(found)


@pytest.mark.parametrize(
    ("name", "words"), [("H100 MIG 1g.10gb", "a MIG instance"), ("Acme Z9", "is not in the cata")]
)
def test_the_chip_stays_unknown(name: str, words: str) -> None:
    about = STATED if "MIG" in name else STATED | {"clock_hz": None}
    assert words in judge(nsight([launched(0, 10)], name, **about), profile(bf16(4000))).reason


# ------------------------------------------------------------------------------------------- why there is no PG


def test_a_trace_without_operands_says_what_to_record() -> None:
    found = judge(nsight([launched(0, 10)]))
    assert "give an Nsight Compute report of the kernels as well" in found.reason
    assert "--flops-per-step" in found.reason
    assert found.profiled.is_empty()


def test_a_rocprof_trace_says_what_to_record() -> None:
    made = nsight([launched(0, 10)])
    made["sources"][0]["format"] = "rocprofv3"
    assert judge(made).reason.startswith("rocprofv3 records no operands")


def test_a_profile_of_other_kernels_is_named() -> None:
    found = judge(nsight([launched(0, 30), launched(40, 10, CUSTOM)]), profile(counted(fp64_flops=None)))
    assert found.reason == (
        "the Nsight Compute report tells the FLOPs of no kernel of the trace: "
        "sgemm, 75.0 % of computing: not all kinds of operations were counted; "
        "mine, 25.0 % of computing: not among the profiled kernels"
    )


def test_a_profile_of_too_few_kernels() -> None:
    found = judge(nsight([launched(0, 30), launched(40, 10, CUSTOM)]), profile(bf16(4000)))
    assert found.reason == (
        "models cover 75.0 % of computing time, under 90 %; of the kernels, by the Nsight Compute report: "
        "mine, 25.0 % of computing: not among the profiled kernels"
    )


# ------------------------------------------------------------------------------------------- tables


def test_the_table_of_kernels() -> None:
    ops = [launched(0, 10), launched(20, 20), launched(50, 10, CUSTOM), launched(70, 40, CUSTOM, "[1, 1, 1]")]
    launch = bf16(4000, sm_throughput=0.5, tensor_pipe=0.25, dram_fraction=0.125, waves_per_sm=1.5)
    found = judge(nsight(ops), profile(launch, counted(CUSTOM, tensor_ops=9.0))).profiled
    assert found.select("name", "grid", "count", "time_ns", "share", "launches", "flops", "dtype", "reason").rows() == [
        (CUSTOM, "[1, 1, 1]", 1, 40, 0.5, None, None, None, counters.NOT_PROFILED),
        (GEMM, GRID, 2, 30, 0.375, 1, 4000, "bf16", None),
        (CUSTOM, GRID, 1, 10, 0.125, 1, None, None, MIXED),
    ]  # fmt: skip
    row = found.row(1, named=True)
    assert (row["sm_throughput"], row["tensor_pipe"], row["dram_fraction"]) == (0.5, 0.25, 0.125)
    assert (row["achieved_occupancy"], row["waves_per_sm"]) == (None, 1.5)


def test_the_table_needs_no_chip() -> None:
    found = judge(nsight([launched(0, 10)], "Acme Z9"), profile(bf16(4000)))
    assert (found.rows, found.profiled["flops"].to_list()) == (None, [4000])


def test_work_has_one_row_per_kernel_and_shape() -> None:
    rows = [
        ("a", "gemm", GRID, "[64, 1, 1]"),
        ("a", "gemm", "[1, 1, 1]", None),
        ("a", "gemm", GRID, "[64, 1, 1]"),
    ]
    kernels = pl.DataFrame(rows, schema=list(measured.KERNEL), orient="row")
    found = measured.work(kernels, counters.measured(table("kernel_counters", [bf16(5, "a")])))
    assert found.select("name", "flops", "reason").rows() == [("a", 5, None), ("a", None, counters.NO_SHAPE)]


def test_without_a_profile_there_are_no_shapes() -> None:
    found = judge(file([kernel(0, 10, 1)], [product(0, 1)[0]]))
    assert (found.profiled.is_empty(), found.mfu_ns) == (True, 2)


@pytest.mark.parametrize(
    ("names", "traced", "told_so"),
    [
        (["Other"], "Tiny", True),
        (["Tiny", "Other"], "Tiny", False),
        ([None], "Tiny", False),
        (["Other"], None, False),
    ],
)
def test_kernels_that_were_profiled_elsewhere(
    names: list[str | None], traced: str | None, told_so: bool
) -> None:
    launches = [bf16(4000, device_name=name) for name in names]
    found = judge(nsight([launched(0, 10)], traced), profile(*launches), chip="Tiny")
    assert ("profiled_elsewhere" in told(found)) is told_so
