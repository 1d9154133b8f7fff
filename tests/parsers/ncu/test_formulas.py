"""The formulas, on metrics with numbers one can multiply in the head."""

from __future__ import annotations

from typing import Any

import pytest

from mpg_parsers.ncu.formulas import figures, tensor_work
from mpg_parsers.ncu.launches import Launch, wanted
from mpg_parsers.ncu.values import Value, exact_value
from mpg_parsers.tables import KERNEL_COUNTERS

PEAK = "avg.pct_of_peak_sustained_elapsed"
GHZ = exact_value(1, "Ghz")
TENSOR = "sm__ops_path_tensor_"


def of_metrics(metrics: dict[str, Value]) -> dict[str, Any]:
    assert all(wanted(name) for name in metrics)
    return figures(Launch(0, "k", metrics=metrics))


def counts(
    letter: str, add: float, mul: float, fma: float, unit: str = "smsp", suffix: str = ".sum"
) -> dict[str, Value]:
    stem = f"{unit}__sass_thread_inst_executed_op_{letter}"
    return {
        f"{stem}{op}_pred_on{suffix}": Value(n, "inst")
        for op, n in (("add", add), ("mul", mul), ("fma", fma))
    }


def test_columns_are_those_of_the_table() -> None:
    about = {
        "source",
        "launch",
        "process",
        "device",
        "device_name",
        "compute_capability",
        "name",
        "grid",
        "block",
    }
    assert set(figures(Launch(0, "k"))) == set(KERNEL_COUNTERS.column_names) - about
    assert all(value is None for value in figures(Launch(0, "k")).values())


@pytest.mark.parametrize(("kind", "letter"), [("fp64", "d"), ("fp32", "f"), ("fp16", "h")])
@pytest.mark.parametrize("unit", ["sm", "smsp"])
def test_counts(kind: str, letter: str, unit: str) -> None:
    found = of_metrics(counts(letter, 10, 5, 100, unit) | {"gpu__time_duration.sum": exact_value(1, "us")})
    assert found[f"{kind}_flops"] == 215
    assert found[f"{kind}_flops_per_s"] == pytest.approx(215e6)
    assert found["flops"] is None  # the other kinds were not counted
    incomplete = counts(letter, 10, 5, 100, unit)
    incomplete.popitem()
    assert of_metrics(incomplete)[f"{kind}_flops"] is None


def test_rates_times_duration() -> None:
    rates = counts("f", 10, 5, 100, suffix=".sum.per_cycle_elapsed") | {
        "smsp__cycles_elapsed.avg.per_second": GHZ,
        "gpu__time_duration.sum": exact_value(2, "us"),
    }
    found = of_metrics(rates)
    assert found["fp32_flops_per_s"] == 215e9
    assert found["fp32_flops"] == pytest.approx(430_000)
    assert found["duration_ns"] == 2000
    del rates["gpu__time_duration.sum"]
    assert (of_metrics(rates)["fp32_flops_per_s"], of_metrics(rates)["fp32_flops"]) == (215e9, None)


def test_counts_go_before_rates() -> None:
    both = counts("f", 1, 1, 1) | counts("f", 9, 9, 9, suffix=".sum.per_cycle_elapsed")
    both |= {"smsp__cycles_elapsed.avg.per_second": GHZ, "gpu__time_duration.sum": exact_value(2, "us")}
    assert of_metrics(both)["fp32_flops"] == 4
    assert of_metrics(both)["fp32_flops_per_s"] == 36e9


def test_peak_at_the_profiled_clock() -> None:
    """The figures of an H100 PCIe at its locked clock: 32.2 TFLOP/s, not the 51.2 of its boost clock."""
    stem = "sm__sass_thread_inst_executed_op_ffma_pred_on"
    clock = {"sm__cycles_elapsed.avg.per_second": exact_value(1.103, "Ghz")}
    found = of_metrics({f"{stem}.sum.peak_sustained": Value(14592, "inst/cycle")} | clock)
    assert found["fp32_peak_flops_per_s"] == pytest.approx(32.19e12, rel=1e-3)
    assert of_metrics({f"derived__{stem}_x2": Value(29184, "inst/cycle")} | clock) == found
    half = counts("f", 0, 0, 7296, suffix=".sum.per_cycle_elapsed")
    half["smsp__cycles_elapsed.avg.per_second"] = clock["sm__cycles_elapsed.avg.per_second"]
    both = of_metrics({f"{stem}.sum.peak_sustained": Value(14592, "inst/cycle")} | clock | half)
    assert both["fp32_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("metrics", "want"),
    [
        ({"dram__bytes.sum": (5, "Kbyte")}, 5000),
        ({"dram__bytes_read.sum": (3, "Kbyte"), "dram__bytes_write.sum": (1, "byte")}, 3001),
        ({"dram__bytes_op_read.sum": (3, "byte"), "dram__bytes_op_write.sum": (1, "byte")}, 4),
        ({"dram__bytes_read.sum": (3, "Kbyte")}, None),
        ({"dram__bytes.sum.per_second": (1, "Gbyte/second"), "gpu__time_duration.sum": (2, "us")}, 2000),
        ({"dram__bytes.sum.per_second": (1, "Gbyte/second")}, None),
        ({"dram__bytes.sum": (5, "sector")}, None),
    ],
)
def test_bytes(metrics: dict[str, tuple[float, str]], want: float | None) -> None:
    found = of_metrics({name: exact_value(*value) for name, value in metrics.items()})["dram_bytes"]
    assert found == (None if want is None else pytest.approx(want))


def test_share_of_the_memory() -> None:
    made_of = {
        "dram__bytes.sum.per_second": exact_value(1, "Tbyte/s"),
        "dram__bytes.sum.peak_sustained": exact_value(2, "Kbyte/cycle"),
        "dram__cycles_elapsed.avg.per_second": exact_value(2, "Ghz"),
    }
    assert of_metrics(made_of)["dram_fraction"] == 0.25
    assert of_metrics(made_of | {f"gpu__dram_throughput.{PEAK}": Value(0.3, "")})["dram_fraction"] == 0.3
    assert of_metrics(dict(list(made_of.items())[:2]))["dram_fraction"] is None


@pytest.mark.parametrize(
    ("busy", "want"),
    [
        ({"sm__pipe_tensor_cycles_active": 0.5, "sm__pipe_tensor_op_hmma_cycles_active": 0.6}, 0.5),
        ({"sm__pipe_tensor_cycles_active_v2": 0.5}, 0.5),
        ({"sm__pipe_tensor_op_hmma_cycles_active": 0.6, "sm__pipe_tensor_op_imma_cycles_active": 0.1}, 0.6),
        ({"sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active": 0.4}, 0.4),
        ({"sm__pipe_tensor_subpipe_hmma_cycles_active": 0.2}, 0.2),
        ({"sm__inst_executed_pipe_tensor": 0.2}, None),
        ({}, None),
    ],
)
def test_tensor_pipe(busy: dict[str, float], want: float | None) -> None:
    assert of_metrics({f"{name}.{PEAK}": Value(v, "") for name, v in busy.items()})["tensor_pipe"] == want


def test_an_idle_pipe_did_nothing() -> None:
    idle = {
        f"sm__pipe_fp64_cycles_active.{PEAK}": Value(0, ""),
        "sm__inst_executed_pipe_fp16.sum": Value(0, "inst"),
        f"sm__pipe_tensor_cycles_active.{PEAK}": Value(0, "", 5e-9),
    }
    found = of_metrics(idle | counts("f", 1, 2, 3))
    assert [found[name] for name in ("fp64_flops", "fp16_flops", "tensor_ops", "flops")] == [0, 0, 0, 9]
    for name in idle:
        for witness in (Value(0.1, ""), Value(0, "", 5e-5)):  # busy; or zero for lack of digits
            assert of_metrics(idle | counts("f", 1, 2, 3) | {name: witness})["flops"] is None


def test_intensity_and_rounding() -> None:
    idle = {f"sm__pipe_{kind}_cycles_active.{PEAK}": Value(0, "") for kind in ("fp64", "tensor")} | {
        "sm__inst_executed_pipe_fp16.sum": Value(0, "")
    }
    found = of_metrics(idle | counts("f", 100, 0, 50) | {"dram__bytes.sum": exact_value(100, "byte")})
    assert (found["flops"], found["flops_error"], found["arithmetic_intensity"]) == (200, 0, 2)
    rates = {
        name: Value(value.amount, "inst/cycle", 0.5)
        for name, value in counts("f", 100, 0, 50, suffix=".sum.per_cycle_elapsed").items()
    }
    known = {"smsp__cycles_elapsed.avg.per_second": GHZ, "gpu__time_duration.sum": exact_value(1, "us")}
    assert of_metrics(idle | rates | known)["flops_error"] == pytest.approx(0.01)
    nothing = {name: Value(0, "inst/cycle", 0.005) for name in rates}
    assert of_metrics(idle | nothing | known)["flops_error"] is None  # zero, or just below a hundredth?


def test_waves_that_round_to_nothing() -> None:
    assert of_metrics({"launch__waves_per_multiprocessor": Value(0, "", 0.005)})["waves_per_sm"] is None
    assert of_metrics({"launch__waves_per_multiprocessor": Value(0.25, "")})["waves_per_sm"] == 0.25


def test_activity_of_the_sms() -> None:
    found = of_metrics(
        {"sm__cycles_active.avg": Value(300, "cycle"), "sm__cycles_elapsed.max": Value(400, "cycle")}
    )
    assert found["sm_active"] == 0.75


# -- tensor cores ---------------------------------------------------------------------------------------------------

BUSY = {f"sm__pipe_tensor_cycles_active.{PEAK}": Value(0.5, "")}


@pytest.mark.parametrize(
    ("ops", "want"),
    [
        ({"src_bf16_dst_fp32": 8}, (8, "bf16")),
        # the same operations, counted by several metrics
        (
            {"src_bf16_dst_fp32": 8, "src_bf16_dst_fp32_sparsity_off": 8, "src_bf16_dst_fp32_sparsity_on": 0},
            (8, "bf16"),
        ),
        ({"src_fp16": 8, "src_fp16_dst_fp16": 2, "src_fp16_dst_fp32": 6}, (8, "fp16")),
        ({"src_fp16_dst_fp16": 2, "src_fp16_dst_fp32": 6}, (8, "fp16")),
        ({"src_bf16_dst_fp32_sparsity_off": 5, "src_bf16_dst_fp32_sparsity_on": 2}, (7, "bf16")),
        ({"op_hmma_src_fp16": 3, "op_hgmma_src_fp16": 4}, (7, "fp16")),
        ({"src_fp16": 7, "op_hmma_src_fp16": 3, "op_hgmma_src_fp16": 4}, (7, "fp16")),
        (
            {"src_fp16_bf16_tf32_dst_fp32": 9, "src_fp16_dst_fp32": 9, "src_fp16_dst_fp16": 0},
            (9, "fp16_bf16_tf32"),
        ),
        # several types
        ({"src_bf16_dst_fp32": 8, "src_int8": 2}, (10, None)),
        # what they share cannot be told
        ({"src_fp16_sparsity_off": 8, "src_fp16_dst_fp32": 8}, (None, None)),
        # all zero although the pipe was busy: on Hopper HMMA counters know nothing of wgmma
        ({"op_hmma_src_fp16": 0}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_tensor_operations(ops: dict[str, float], want: tuple[float | None, str | None]) -> None:
    metrics = {f"{TENSOR}{name}.sum": Value(n, "") for name, n in ops.items()}
    count, kind = tensor_work(metrics | BUSY)
    assert (count and count.amount, kind) == want


def test_tensor_operations_by_rate() -> None:
    metrics = {
        f"{TENSOR}src_bf16_dst_fp32.sum.per_cycle_elapsed": Value(2048, ""),
        "sm__cycles_elapsed.avg.per_second": GHZ,
        "gpu__time_duration.sum": exact_value(1, "us"),
    }
    count, kind = tensor_work(metrics | BUSY)
    assert count is not None
    assert (count.amount, kind) == (pytest.approx(2_048_000), "bf16")


def test_no_tensor_operations() -> None:
    idle = {f"sm__pipe_tensor_cycles_active.{PEAK}": Value(0, "")}
    for metrics in (idle, idle | {f"{TENSOR}src_fp16.sum": Value(0, "")}):
        count, kind = tensor_work(metrics)
        assert (count, kind) == (Value(0, ""), None)
    assert tensor_work({f"{TENSOR}src_fp16.sum": Value(0, "")}) == (None, None)  # other types may have run
