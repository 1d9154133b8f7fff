"""Why the chips of real traces waited: figures that were measured independently, and our own, pinned to the ns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.real_traces import NO_CORPUS, REAL, analyze_real

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=NO_CORPUS)

V100 = "kineto_tb_plugin/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
SGLANG = "tracelens/inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz"
DLRM = "param/dlrm_kineto/worker{}_step_12.{}.pt.trace.json"
XDIT = "tracelens/inference/xdit_sd_3.5/profile_trace_rank_0.json.gz"

# Idle time in the window and its causes in ms, as a prototype of the same rules found them, by a program of its own.
MEASURED: dict[str, tuple[float, dict[str, float]]] = {
    V100: (461.33, {
        "input": 352.40, "launch_bound": 89.42, "kernel_gap": 9.19, "host_code": 7.69, "synchronisation": 2.64,
    }),
    "hta/trace_diff/control/control.json.gz": (76.58, {
        "launch_bound": 37.84, "host_code": 24.60, "kernel_gap": 8.05, "synchronisation": 5.63, "input": 0.42,
        "dependency": 0.05,
    }),
    "hta/trace_diff/test/test.json.gz": (27.29, {
        "kernel_gap": 26.64, "host_code": 0.20, "dependency": 0.16, "launch_bound": 0.13, "input": 0.12,
        "transient": 0.04,
    }),
    "hta/df_index_resolver/df_index_resolver.json.gz": (737.29, {
        "launch_bound": 628.52, "host_code": 89.58, "kernel_gap": 11.89, "dependency": 7.00, "synchronisation": 0.31,
    }),
    "hta/nccl_parser_config/nccl_data.json.gz": (509.73, {
        "launch_bound": 361.37, "host_code": 147.00, "kernel_gap": 1.20, "synchronisation": 0.16,
    }),
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (
        10.09, {"kernel_gap": 4.51, "host_code": 3.83, "launch_bound": 1.75},
    ),
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (
        3.88, {"kernel_gap": 2.33, "launch_bound": 0.66, "host_code": 0.45, "synchronisation": 0.44},
    ),
    "tracelens/h100/google_owlv2-large-patch14-ensemble__1016001.json.gz": (644.42, {
        "input": 619.41, "synchronisation": 8.35, "kernel_gap": 6.69, "host_code": 5.01, "launch_bound": 4.96,
    }),
    "tracelens/mi300/resnet_act_checkpoint.json.gz": (
        2.39, {"transient": 2.19, "kernel_gap": 0.18, "dependency": 0.02},
    ),
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (
        4.02, {"launch_bound": 2.32, "host_code": 1.28, "kernel_gap": 0.42},
    ),
    XDIT: (482.65, {
        "launch_bound": 430.64, "host_code": 48.27, "compile": 1.76, "synchronisation": 1.49, "kernel_gap": 0.49,
    }),
    "tracelens/b200/eager_trace.json.gz": (72.89, {
        "launch_bound": 48.76, "host_code": 23.61, "compile": 0.26, "kernel_gap": 0.14, "synchronisation": 0.12,
    }),
    SGLANG: (494.48, {"unknown": 493.24, "synchronisation": 0.66, "launch_bound": 0.42, "host_code": 0.17}),
    "tracelens/inference/vllm_decode_full/graph_execution.json.gz": (0.03, {"kernel_gap": 0.03}),
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": (12854.10, {
        "allocator": 8483.96, "compile": 3796.35, "host_code": 564.20, "launch_bound": 5.22, "synchronisation": 4.29,
    }),
    DLRM.format(0, "1694128201545"): (7.87, {
        "launch_bound": 3.86, "host_code": 2.05, "input": 1.10, "synchronisation": 0.79, "kernel_gap": 0.06,
    }),
    DLRM.format(7, "1694128201553"): (9.85, {
        "launch_bound": 4.98, "host_code": 2.90, "input": 1.16, "synchronisation": 0.78, "kernel_gap": 0.04,
    }),
}  # fmt: skip
# In a compiled region, 15 ms at a time of generated Python without one operator or call (assert_size_stride of every
# parameter) is host code here, not launching; and what follows a blocking copy belongs to that synchronisation.
ARGUED = {XDIT: {"launch_bound": 57.0, "host_code": 50.0, "synchronisation": 9.0}}
TOLERANCE = 0.02  # of the idle time


def idle_causes(report: dict[str, Any]) -> dict[str, int]:
    """Idle time by cause; a device that waits in a collective is not idle."""
    causes: dict[str, int] = {}
    for row in report["ledger"]:
        if row["layer"] == "runtime" and row["origin"] == "inferred":
            causes[row["cause"]] = causes.get(row["cause"], 0) + row["chip_ns"]
    return causes


def found_in(name: str, *arguments: str) -> dict[str, Any]:
    if not (REAL / name).exists():
        pytest.skip(NO_CORPUS)
    return analyze_real(name, *arguments).report


@pytest.mark.parametrize("name", MEASURED)
def test_causes_agree_with_what_was_measured(name: str) -> None:
    idle, want = MEASURED[name]
    found = idle_causes(found_in(name))
    assert sum(found.values()) / 1e6 == pytest.approx(idle, abs=0.01)
    argued = ARGUED.get(name, {})
    for cause in {*want, *found}:
        near = TOLERANCE * idle + argued.get(cause, 0.0) + 0.005
        assert found.get(cause, 0) / 1e6 == pytest.approx(want.get(cause, 0.0), abs=near), cause


def test_causes_are_pinned(golden: Callable[[str, bytes], None]) -> None:
    found = {name: idle_causes(found_in(name)) for name in MEASURED}
    found["SGLang, step[...]"] = idle_causes(found_in(SGLANG, "--step-regex", r"^step\["))
    golden("idle_causes.json", json.dumps(found, indent=1, sort_keys=True).encode() + b"\n")


STEPS = {SGLANG: ("--step-regex", r"^step\[")}
MOSTLY_TRANSIENT = {"tracelens/mi300/resnet_act_checkpoint.json.gz"}


@pytest.mark.parametrize("name", MEASURED)
def test_little_stays_unexplained(name: str) -> None:
    """Unknown and untraced under 10 % of idle time, host code that no frame or operator names under 10 % too."""
    report = found_in(name, *STEPS.get(name, ()))
    causes = idle_causes(report)
    idle = sum(causes.values()) - causes.get("transient", 0)
    untraced = sum(
        spot["chip_ns"] for spot in report["hotspots"] if spot["name"].startswith("nothing recorded")
    )
    assert (causes.get("unknown", 0) + untraced) / idle < 0.10
    nameless = sum(
        spot["chip_ns"]
        for spot in report["hotspots"]
        if spot["cause"] == "host_code" and spot["thread"] is None
    )
    assert nameless / idle < 0.10
    assert (causes.get("transient", 0) > idle) == (name in MOSTLY_TRANSIENT)


def test_the_loader_of_the_v100_sample_by_step() -> None:
    report = found_in(V100, "--per-step")
    by_step = [step["causes"].get("input", 0) for step in report["per_step"]]
    assert [ns // 1000 for ns in by_step] == [68694, 57041, 60590, 55855, 62036, 48185]
    finding = next(each for each in report["findings"] if each["cause"] == "input")
    assert finding["chip_ns"] == sum(by_step)
    assert finding["gain"] == pytest.approx(1.506, abs=0.001)
    assert round(report["totals"]["capacity_ns"] / 6 / 1000) == 174886


def test_last_arrivals_of_the_eight_ranks() -> None:
    """As found by sorting durations by hand: last rank, transfer and margin (us)."""
    report = found_in("param/dlrm_kineto")
    rows = report["collectives"]
    assert [row["last_rank"] for row in rows] == [7, 7, 7, 7, 7, 5, 5, 4]
    assert [row["transfer_ns"] // 1000 for row in rows] == [10, 8, 7, 7, 86, 10, 20, 69]
    assert [row["margin_ns"] // 1000 for row in rows] == [504, 509, 162, 124, 9, 51, 50, 10]
    assert [row["near_tie"] for row in rows] == [False, False, False, False, True, False, False, True]
    waits = [sum(row["wait_ns"][str(rank)] for row in rows) // 1000 for rank in range(8)]
    assert waits == [5581, 11119, 3275, 9557, 6370, 6034, 3341, 1529]
    assert {row["reason"] for row in rows[1:]} == {"host"}
