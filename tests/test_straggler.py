"""One rank of four that sleeps in every step: the report names it, what it did and when; its clock does not matter."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.planted.straggler import CLOCK_NS, generate
from tests.mpg_cli.running import ROOT, analyze

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "fixtures/straggler_4rank"
TRUTH = json.loads((FOLDER / "truth.json").read_text())
STRAGGLER = TRUTH["straggler"]
OTHERS = [rank for rank in range(4) if rank != STRAGGLER["rank"]]
CLOSE_NS = 1_000
GLOO = ROOT.parent / "shared/corpus/pytorch/generated_torch213_cpu"


@cache
def report(*arguments: str) -> dict[str, Any]:
    return analyze(*sorted(FOLDER.glob("rank*.gz")), *arguments).report


def content(path: Path) -> bytes:
    """What a file holds; compressed bytes may differ between builds of zlib."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def apart(truth: dict[str, int], found: dict[str, int]) -> dict[str, tuple[int, int]]:
    pairs = {cause: (truth.get(cause, 0), found.get(cause, 0)) for cause in truth.keys() | found.keys()}
    return {cause: pair for cause, pair in pairs.items() if abs(pair[0] - pair[1]) > CLOSE_NS}


# ------------------------------------------------------------------------------------------------- the fixture


def test_the_same_files_every_time(tmp_path: Path) -> None:
    generate(tmp_path / "once")
    generate(tmp_path / "twice")
    files = sorted(path.name for path in FOLDER.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "once").iterdir())
    assert len(files) == 5
    for name in files:
        assert content(tmp_path / "once" / name) == content(FOLDER / name)
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()
    assert sum((FOLDER / name).stat().st_size for name in files) < 100_000


def kernels(rank: int) -> list[dict[str, Any]]:
    events = json.loads(content(FOLDER / f"rank{rank}.pt.trace.json.gz"))["traceEvents"]
    return [e for e in events if e.get("cat") == "kernel" and "Collective name" in e["args"]]


def test_the_truth_of_the_collectives_is_in_the_files() -> None:
    """All ranks leave an all-reduce at once, so what a rank spends in it beyond the shortest is waiting."""
    for index, truth in enumerate(TRUTH["collectives"]):
        parts = [kernels(rank)[index] for rank in range(4)]
        durations = [round(part["dur"] * 1000) for part in parts]
        assert min(durations) == truth["transfer_ns"]
        assert {str(rank): dur - min(durations) for rank, dur in enumerate(durations)} == truth["wait_ns"]
        assert durations.index(min(durations)) == truth["last_rank"] == STRAGGLER["rank"]
        ends = [
            round((part["ts"] + part["dur"]) * 1000) - ahead
            for part, ahead in zip(parts, CLOCK_NS, strict=True)
        ]
        assert max(ends) - min(ends) < 1_000  # doubles hold these times to a quarter of a microsecond


def test_the_sleep_is_idle_time_of_one_chip_and_waiting_of_the_others() -> None:
    for rank in TRUTH["ranks"]:
        for step in rank["steps"]:
            assert sum(step["causes"].values()) == step["wall_ns"]
            cause = "host_code" if rank["rank"] == STRAGGLER["rank"] else "communication_wait"
            assert 0.9 * STRAGGLER["sleep_ns"] < step["causes"][cause] < STRAGGLER["sleep_ns"]


# -------------------------------------------------------------------------------------------------- the report


def test_the_straggler_is_last_in_every_collective_and_its_host_is_why() -> None:
    found = report()["collectives"]
    keys = ("last_rank", "transfer_ns", "margin_ns", "wait_ns")
    assert [{key: one[key] for key in keys} for one in found] == TRUTH["collectives"]
    assert [one["seq"] for one in found] == [1, 2, 3, 4]
    assert [one["reason"] for one in found] == ["host"] * 4
    assert not any(one["near_tie"] or one["transient"] for one in found)
    for one in found:
        assert 0.9 * STRAGGLER["sleep_ns"] < one["late_ns"] < 1.1 * STRAGGLER["sleep_ns"]


def test_the_communicator_counts_it() -> None:
    (group,) = report()["communicators"]
    assert (group["ranks"], group["last"]) == ([0, 1, 2, 3], {"1": 4})
    waits = [sum(one["wait_ns"].values()) for one in TRUTH["collectives"]]
    assert (group["wait_ns"], group["transfer_ns"]) == (
        sum(waits),
        16 * TRUTH["collectives"][0]["transfer_ns"],
    )
    assert group["bus_gbps"] == pytest.approx(100.663296e6 * 1.5 / 656_384, rel=1e-3)


def test_every_cause_on_every_rank_and_step() -> None:
    steps = {(row["rank"], row["step"]): row["causes"] for row in report("--per-step")["per_step"]}
    assert len(steps) == 16
    assert {
        (rank["rank"], step["step"]): apart(step["causes"], steps[rank["rank"], step["step"]])
        for rank in TRUTH["ranks"]
        for step in rank["steps"]
    } == {place: {} for place in steps}


def test_ledger_and_goodput() -> None:
    causes = {cause for rank in TRUTH["ranks"] for cause in rank["causes"]}
    truth = {cause: sum(rank["causes"].get(cause, 0) for rank in TRUTH["ranks"]) for cause in causes}
    ledger = {row["cause"]: row["chip_ns"] for row in report()["ledger"]}
    assert apart(truth, ledger) == {}
    rg = report()["goodput"]["rg"]
    assert rg["numerator_ns"] == truth["productive"]
    assert rg["denominator_ns"] == sum(ledger.values()) == sum(rank["window_ns"] for rank in TRUTH["ranks"])


def test_one_place_has_nearly_all_of_the_host_code_and_it_is_the_sleep() -> None:
    total = sum(rank["causes"].get("host_code", 0) for rank in TRUTH["ranks"])
    place = max((row for row in report()["hotspots"]), key=lambda row: row["chip_ns"])
    assert (place["cause"], place["rank"]) == ("host_code", STRAGGLER["rank"])
    assert (
        place["name"] == STRAGGLER["frames"][0]
    )  # the line in the file, not the function of C that it calls
    assert place["chip_ns"] > 0.99 * total
    assert place["count"] == 4
    assert STRAGGLER["sleep_ns"] <= place["dur_ns"] < 1.01 * STRAGGLER["sleep_ns"]


def test_the_place_can_be_found_in_the_trace() -> None:
    place = max((row for row in report()["hotspots"]), key=lambda row: row["chip_ns"])
    events = json.loads(content(FOLDER / "rank1.pt.trace.json.gz"))["traceEvents"]
    sleeps = [e for e in events if e["name"] == STRAGGLER["frames"][0]]
    assert len(sleeps) == 4
    assert min(abs(round(e["ts"] * 1000) - place["start_ns"]) for e in sleeps) < 1_000
    assert {e["tid"] for e in sleeps} == {place["thread"]}


def test_the_first_finding_is_the_straggler() -> None:
    first = report()["findings"][0]
    assert (first["cause"], first["killer"]) == ("communication_wait", "communication_wait")
    assert "rank 1" in f"{first['title']} {first['where']}".lower()
    assert first["share"] > 0.8


def test_no_rank_alone_knows_who_kept_it_waiting() -> None:
    """With one file there is nobody to compare with: the ledger shows communication, and names no rank."""
    for rank in OTHERS:
        alone = analyze(FOLDER / f"rank{rank}.pt.trace.json.gz").report
        ledger = {row["cause"]: row["chip_ns"] for row in alone["ledger"]}
        causes = TRUTH["ranks"][rank]["causes"]
        assert ledger["communication"] == causes["communication"] + causes["communication_wait"]
        assert "communication_wait" not in ledger
        assert alone["collectives"] == []


# ----------------------------------------------------------------------------------------- a run without a GPU


@pytest.mark.skipif(not GLOO.is_dir(), reason=f"the corpus of real traces is not at {GLOO}")
def test_a_run_on_cpus_is_refused_with_a_hint() -> None:
    found = analyze(*sorted(GLOO.glob("ddp_gloo_rank*.gz")))
    assert (found.status, found.out) == (3, "")
    error, hint = found.err.splitlines()
    assert error.startswith("error[no_device_activity]: ")
    assert error.endswith("no device activity in the trace (host events only, 3 steps)")
    assert hint.startswith("hint: ")
    assert "ProfilerActivity.CUDA" in hint
