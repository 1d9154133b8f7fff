"""The fixtures through the whole command line, to the nanosecond."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.mpg_cli.running import ROOT, analyze

TRAIN, MICRO = ROOT / "fixtures/train_2rank", ROOT / "fixtures/micro"
TRUTH = json.loads((TRAIN / "truth.json").read_text())
EXPECTED = json.loads((MICRO / "expected.json").read_text())


@cache
def train(*arguments: str) -> dict[str, Any]:
    return analyze(*sorted(TRAIN.glob("rank*.gz")), *arguments).report


@cache
def micro(name: str) -> dict[str, Any]:
    return analyze(MICRO / name).report


def part(found: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in like}


def ledger(report: dict[str, Any]) -> dict[str, int]:
    return {row["cause"]: row["chip_ns"] for row in report["ledger"]}


def runtime(report: dict[str, Any]) -> dict[str, int]:
    """The ledger with the program layer in one row."""
    rows = {row["cause"]: row["chip_ns"] for row in report["ledger"] if row["layer"] != "program"}
    computing = sum(row["chip_ns"] for row in report["ledger"] if row["layer"] == "program")
    return rows | ({"productive": computing} if computing else {})


# -------------------------------------------------------------------------------------------- train_2rank


@pytest.mark.parametrize("rank", [0, 1])
def test_device_and_steps_of_a_rank(rank: int) -> None:
    truth = TRUTH["ranks"][rank]
    (device,) = [d for d in train()["devices"] if d["rank"] == rank]
    assert part(device, truth["device"]) == truth["device"]
    steps = [step for step in train()["steps"] if step["rank"] == rank]
    assert [part(step, want) for step, want in zip(steps, truth["steps"], strict=True)] == truth["steps"]


def test_windows() -> None:
    lengths = [window["end_ns"] - window["start_ns"] for window in train()["quality"]["windows"]]
    assert lengths == [rank["window_ns"] for rank in TRUTH["ranks"]]
    assert [window["steps"] for window in train()["quality"]["windows"]] == [4, 4]


def planted(rank: int, *, alone: bool) -> dict[str, int]:
    """The runtime ledger of a rank: its window's, idle time by cause; waiting is known only with the other rank."""
    truth = TRUTH["ranks"][rank]
    busy = {cause: ns for cause, ns in truth["window_ledger"].items() if cause != "unknown"}
    return busy | ({} if alone else truth["communication_split"]) | truth["idle_causes"]


def test_ledger_of_both_and_of_each() -> None:
    both = Counter(planted(0, alone=False)) + Counter(planted(1, alone=False))
    assert runtime(train()) == dict(both)
    for rank in (0, 1):
        alone = analyze(TRAIN / f"rank{rank}.pt.trace.json.gz").report
        assert runtime(alone) == planted(rank, alone=True)
        assert (
            sum(ledger(alone).values()) == alone["totals"]["capacity_ns"] == TRUTH["ranks"][rank]["window_ns"]
        )


def test_runtime_goodput() -> None:
    rg = train()["goodput"]["rg"]
    assert rg["numerator_ns"] == sum(rank["window_ledger"]["productive"] for rank in TRUTH["ranks"])
    assert rg["denominator_ns"] == sum(rank["window_ns"] for rank in TRUTH["ranks"])
    assert rg["value"] == rg["numerator_ns"] / rg["denominator_ns"]


@pytest.mark.parametrize("rank", [0, 1])
def test_program_goodput(rank: int) -> None:
    """The useful FLOPs at peak, as planted, and what the kernels take beyond them."""
    truth = TRUTH["ranks"][rank]
    report = analyze(TRAIN / f"rank{rank}.pt.trace.json.gz").report
    pg, mfu = report["goodput"]["pg"], report["goodput"]["mfu"]
    assert abs(pg["numerator_ns"] - truth["program"]["ideal_ns"]) <= 1
    assert pg["denominator_ns"] == truth["window_ledger"]["productive"]
    assert (mfu["numerator_ns"], mfu["denominator_ns"]) == (pg["numerator_ns"], truth["window_ns"])
    assert report["goodput"]["hfu"] == mfu  # nothing is recomputed
    assert (pg["basis"], pg["coverage"]) == ("bf16 peak of H100 SXM", 1.0)
    assert {row["cause"] for row in report["ledger"] if row["layer"] == "program"} == {
        "ideal",
        "memory_bound",
        "kernel_inefficiency",
    }


@pytest.mark.parametrize("rank", [0, 1])
def test_operators(rank: int) -> None:
    truth = TRUTH["ranks"][rank]["program"]
    report = analyze(TRAIN / f"rank{rank}.pt.trace.json.gz").report
    calls: Counter[str] = Counter()
    for row in report["ops"]:
        calls[row["op"]] += row["count"]
    assert calls == truth["calls"]
    assert sum(row["flops"] for row in report["ops"]) == truth["matrix_flops"]
    assert report["unmodelled"] == []


def test_only_the_optimizer_that_was_launched_before_the_profile_is_inferred() -> None:
    """One of its kernels runs on into the first step of each rank."""
    quality = train()["quality"]
    assert 0.99 < quality["linked_coverage"] < quality["shape_coverage"] == 1
    (adam,) = [row for row in train()["ops"] if row["op"] == "aten::_fused_adamw_"]
    assert (adam["kernels"], adam["count"], adam["flops"], adam["bytes"]) == (18, 16, 0, None)
    assert "bytes_unknown" in [warning["kind"] for warning in train()["warnings"]]


def test_both_ranks_together() -> None:
    goodput = train()["goodput"]
    ideal = sum(rank["program"]["ideal_ns"] for rank in TRUTH["ranks"])
    assert abs(goodput["pg"]["numerator_ns"] - ideal) <= 2
    assert goodput["mfu"]["denominator_ns"] == sum(rank["window_ns"] for rank in TRUTH["ranks"])
    assert goodput["mfu"]["value"] == pytest.approx(goodput["rg"]["value"] * goodput["pg"]["value"])


@pytest.mark.parametrize("basis", ["roofline", "achievable"])
def test_the_basis_moves_pg_alone(basis: str) -> None:
    other = train("--pg-basis", basis)
    assert other["goodput"]["pg"]["numerator_ns"] > train()["goodput"]["pg"]["numerator_ns"]
    assert other["goodput"]["mfu"] == train()["goodput"]["mfu"]
    assert runtime(other) == runtime(train())


def test_padding_is_taken_from_the_useful_flops() -> None:
    half = train("--useful-tokens", "0.5")
    whole = train()["goodput"]["pg"]["numerator_ns"]
    assert abs(half["goodput"]["pg"]["numerator_ns"] - whole / 2) <= 1
    assert abs(ledger(half)["padding"] - whole / 2) <= 1
    assert half["goodput"]["hfu"] == train()["goodput"]["hfu"]


def test_declared_flops_per_step_agree_with_the_models() -> None:
    truth = [rank["program"]["matrix_flops"] for rank in TRUTH["ranks"]]
    declared = train("--flops-per-step", str(sum(truth) / 8))["goodput"]
    assert declared["pg"]["value"] == pytest.approx(train()["goodput"]["pg"]["value"], rel=1e-6)
    assert (declared["hfu"], declared["pg"]["basis"]) == (None, "declared FLOPs, bf16 peak of H100 SXM")


def test_collectives() -> None:
    found = train()["collectives"]
    truth = TRUTH["collectives"]
    assert [part(one, want) for one, want in zip(found, truth, strict=True)] == truth
    for one in found:
        waits = sorted(one["wait_ns"].values())
        assert one["wait_ns"][str(one["last_rank"])] == waits[0] == 0
        assert one["margin_ns"] == waits[1]
        assert one["matched_by"] == "sequence"


@pytest.mark.parametrize("rank", [0, 1])
def test_top_kernels(rank: int) -> None:
    truth = TRUTH["ranks"][rank]["top_kernels"]
    listed = analyze(TRAIN / f"rank{rank}.pt.trace.json.gz").report["kernels"]
    found = [one for one in listed if one["kind"] == "kernel"][: len(truth)]
    assert [part(one, want) for one, want in zip(found, truth, strict=True)] == truth


def test_the_planted_clock_difference_is_told_with_its_sign() -> None:
    (skew,) = [w["message"] for w in train()["warnings"] if w["kind"] == "clock_skew"]
    assert skew.startswith("rank 1's clock is 3.217 ms ahead of rank 0's")


def test_another_window_gives_other_figures_that_close_too() -> None:
    for window in ("device", "all"):
        report = train("--window", window)
        assert sum(ledger(report).values()) == report["totals"]["capacity_ns"]
        assert [device["busy_ns"] for device in report["devices"]] == [
            rank["device"]["busy_ns"] for rank in TRUTH["ranks"]
        ]
    device = train("--window", "device")
    assert device["totals"]["capacity_ns"] == sum(rank["device"]["span_ns"] for rank in TRUTH["ranks"])
    assert device["goodput"]["rg"]["numerator_ns"] == sum(r["device"]["compute_ns"] for r in TRUTH["ranks"])
    assert device["quality"]["outside_window_ns"] == 0


def test_the_view_of_the_fleet_paper_changes_no_amount() -> None:
    other = train("--view", "fleet-paper")
    assert ledger(other) == ledger(train())
    assert other["totals"] == train()["totals"]
    moved = ledger(other)["communication"] + ledger(other)["communication_wait"]
    here, there = train()["goodput"], other["goodput"]
    assert there["rg"]["numerator_ns"] == here["rg"]["numerator_ns"] + moved
    assert there["pg"]["denominator_ns"] == here["pg"]["denominator_ns"] + moved
    assert there["pg"]["numerator_ns"] == here["pg"]["numerator_ns"]
    assert (there["mfu"], there["hfu"]) == (here["mfu"], here["hfu"])


# -------------------------------------------------------------------------------------------------- micro


@pytest.mark.parametrize("name", EXPECTED)
def test_micro_devices(name: str) -> None:
    truth = EXPECTED[name]["devices"]
    assert [part(one, want) for one, want in zip(micro(name)["devices"], truth, strict=True)] == truth


@pytest.mark.parametrize("name", [name for name in EXPECTED if "window" in EXPECTED[name]])
def test_micro_window(name: str) -> None:
    truth, report = EXPECTED[name]["window"], micro(name)
    causes = {
        "productive": "compute_ns",
        "communication": "exposed_comm_ns",
        "memory_copy": "exposed_memory_ns",
    }
    busy = {cause: truth[key] for cause, key in causes.items() if truth[key]}
    idle = truth.get("idle", {"unknown": truth["idle_ns"]} if truth["idle_ns"] else {})
    assert sum(idle.values()) == truth["idle_ns"]
    assert ledger(report) == busy | idle
    assert report["totals"]["capacity_ns"] == truth["window_ns"] * len(report["devices"])
    assert report["totals"]["steps"] == truth["steps"]


@pytest.mark.parametrize("name", EXPECTED)
def test_micro_warnings(name: str) -> None:
    """Every caveat a reader should be given, and no other about the data."""
    own = {"no_steps", "missing_rank", "rank_from_name"}
    kinds = {warning["kind"] for warning in micro(name)["warnings"]}
    assert kinds - own == set(EXPECTED[name]["warnings"]) - own


def test_micro_in_one_go() -> None:
    report = analyze(MICRO).report
    assert {Path(source["path"]).name for source in report["sources"]} == set(EXPECTED)
    assert len(report["devices"]) == sum(len(EXPECTED[name]["devices"]) for name in EXPECTED)
    assert sum(ledger(report).values()) == report["totals"]["capacity_ns"]
