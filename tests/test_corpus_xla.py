"""Real profiles of XLA programs, from the command line to the figures that matter."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.real_traces import CORPUS, NO_CORPUS, analyze_real

if TYPE_CHECKING:
    from pathlib import Path

XLA = CORPUS / "xla"
V6E, GEMM = XLA / "tpu_inference_2.xplane.pb", XLA / "mi300_jax08_gemm.xplane.pb"
VLLM = [XLA / f"vllm_tpu_{number}.trace.json.gz" for number in (1, 3)]
NSYS_JAX = [XLA / f"nsys_jax/pax_fsdp4_4proc_proc{number}.zip" for number in (0, 1)]
MS = 1e6
PEAK_A100, PEAK_MI300X = 312, 1307.4  # bf16, in TFLOP/s

pytestmark = pytest.mark.skipif(not XLA.is_dir(), reason=NO_CORPUS)


def analysed(first: Path, *more: Path, **options: str) -> dict[str, Any]:
    """The report; it closes."""
    arguments = (text for name, value in options.items() for text in (f"--{name}", value))
    report = analyze_real(first, *map(str, more), *arguments).report
    assert sum(row["chip_ns"] for row in report["ledger"]) == report["totals"]["capacity_ns"]
    return report


def warnings(report: dict[str, Any]) -> dict[str, str]:
    return {warning["kind"]: warning["message"] for warning in report["warnings"]}


# ------------------------------------------------------------------------------------------------------- TPUs


def test_v6e() -> None:
    """Host offload: 100 runs of jit_f on four chips, which mostly wait for copies. It multiplies no matrices."""
    report = analysed(V6E)
    assert (report["totals"]["chips"], report["totals"]["steps"]) == (4, 100)
    assert {device["name"] for device in report["devices"]} == {"TPU v6 Lite"}
    assert warnings(report)["steps_from_programs"].startswith(
        "no step was marked: the 100 runs of the program jit_f"
    )
    shares = {row["cause"]: row["chip_ns"] / report["totals"]["capacity_ns"] for row in report["ledger"]}
    assert max(shares, key=lambda cause: shares[cause]) == "memory_copy"
    assert shares["memory_copy"] > 0.9
    assert report["goodput"]["pg"]["numerator_ns"] == 0
    assert report["goodput"]["pg"]["coverage"] == 1


@pytest.mark.parametrize(
    ("path", "share", "largest"),
    [(VLLM[0], "26.7 %", "RPA-bq_32-bkvp_64-p_64- 26.7 %"), (VLLM[1], "76.0 %", "RPA-bq_32-bkvp_32-p_128- 34.2 %")],
    ids=["1", "3"],
)  # fmt: skip
def test_opaque_attention(path: Path, share: str, largest: str) -> None:
    """Of one workload: with custom calls for its products its FLOPs are not visible any more."""
    report = analysed(path, chip="TPU v6e")
    assert report["goodput"]["pg"] is None
    reason = report["goodput"]["reasons"]["pg"]
    said = f"{share} is in custom calls whose work XLA cannot see ({largest} in 64 places"
    assert said in reason
    assert reason.endswith("): say --flops-per-step")
    notice = warnings(report)["opaque_operations"]
    assert notice.startswith(f"{share} of computing is in custom calls whose work XLA cannot see ({largest}")
    computing = report["goodput"]["rg"]["numerator_ns"]
    (unmodelled,) = [row["chip_ns"] for row in report["ledger"] if row["cause"] == "unmodelled"]
    assert f"{100 * unmodelled / computing:.1f} %" == share


# ------------------------------------------------------------------------------------------------------- GPUs


def products() -> dict[str, tuple[int, int]]:
    """By operation 2MNK and how often it ran: from the operands' shapes that xprof writes out."""
    page = json.loads((XLA / "oracles/mi300_jax08_gemm/hlo_stats.json").read_bytes())
    names = [column["id"] for column in page["cols"]]
    found = {}
    for row in page["rows"]:
        about = dict(zip(names, (cell["v"] for cell in row["c"]), strict=True))
        operands = re.findall(r"bf16\[(\d+),(\d+)\]\S* %", about["hlo_op_expression"])
        if len(operands) == 2:
            (m, k), (inner, n) = [[int(size) for size in shape] for shape in operands]
            assert k == inner
            name = f"jit_dot({about['program_id']})/{about['hlo_op_name']}"
            found[name] = (2 * m * n * k, int(about["occurrences"]))
    return found


def test_products_of_matrices_on_mi300x() -> None:
    """15 calls of hipBLASLt, of which xprof knows no FLOPs, and 3 of a kernel that XLA made; all in bf16."""
    report, known = analysed(GEMM), products()
    assert (len(known), sum(count for _, count in known.values())) == (6, 18)
    best = sum(flops * count for flops, count in known.values()) / PEAK_MI300X / 1000  # ns
    pg = report["goodput"]["pg"]
    assert pg["numerator_ns"] == pytest.approx(best, abs=1)
    assert pg["value"] == pytest.approx(best / report["goodput"]["rg"]["numerator_ns"], rel=1e-6)
    assert pg["basis"] == "bf16 peak of MI300X, FLOPs of the compiled programs (HLO)"
    rows = {row["op"]: row for row in report["ops"] if row["flops"]}
    assert {name: (row["flops"] // row["count"], row["count"]) for name, row in rows.items()} == known
    for row in rows.values():
        assert row["tflops"] == pytest.approx(row["flops"] / row["time_ns"] / 1000)


# the global program before optimisation, of which each of the four devices has its part
FLOPS, DEVICES, STEPS = 37_239_022_311_503, 4, 5
WALLS = [147.967, 143.041, 127.312, 127.465, 126.859]  # ms, of process 0


def test_a_published_training_step() -> None:
    """JAX-Toolbox's own test data: 29.84 ms at peak of the 127 to 148 ms of a step, on two of four processes."""
    report = analysed(*NSYS_JAX, by="rank")
    assert [(source["rank"], source["world_size"]) for source in report["sources"]] == [(0, 4), (1, 4)]
    assert "2 of 4 ranks" in report["goodput"]["rg"]["basis"]
    assert warnings(report)["missing_rank"] == "2 of 4 ranks are not among the files: 2, 3"
    best = FLOPS / DEVICES / PEAK_A100 * STEPS / 1e12 * 1e9
    assert [segment["ideal_ns"] for segment in report["segments"]] == [pytest.approx(best, abs=1)] * 2
    pg = report["goodput"]["pg"]
    assert round(pg["numerator_ns"] / 2 / MS, 1) == 149.2
    assert pg["basis"] == "FLOPs of the programs before optimisation, bf16 peak of A100 40GB"
    assert (report["goodput"]["hfu"], report["ops"]) == (None, [])


def test_the_first_two_steps_are_longer() -> None:
    report = analysed(*NSYS_JAX, by="rank")
    walls = [step["wall_ns"] / MS for step in report["steps"] if step["rank"] == 0]
    assert [round(wall, 3) for wall in walls] == WALLS
    assert sorted(row["step"] for row in report["outliers"] if row["rank"] == 0) == [0, 1]
    (step,) = [row for row in report["outliers"] if (row["rank"], row["step"]) == (1, 0)]
    assert step["wall_ns"] > 3_700 * MS  # most of it waiting for rank 0
