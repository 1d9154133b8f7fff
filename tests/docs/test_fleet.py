"""The hour of fixtures/fleet: its files are those that are generated, and the report on it equals its truth."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from fixtures.fleet import make
from tests.docs.markdown import ROOT
from tests.mpg_cli.running import analyze

FOLDER = ROOT / "fixtures/fleet"
TRUTH: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
S = 10**9
# the ledger's name of chip-time that was allocated as asked: what ran in it, a scheduler does not know
ALLOCATED = "unobserved"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    found: dict[str, Any] = analyze(FOLDER / "heron", "--tz", "UTC").report
    return found


def test_the_files_are_those_that_are_generated() -> None:
    for name, text in make.files().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, name
    kept = {f"heron/{path.name}" for path in (FOLDER / "heron").iterdir()}
    assert kept | {"truth.json"} == make.files().keys()


def test_the_truth_closes() -> None:
    assert sum(TRUTH["ledger"].values()) == TRUTH["capacity"] == 32 * TRUTH["seconds"]
    assert TRUTH["ledger"]["allocated"] + TRUTH["ledger"]["topology_violated"] == TRUTH["held"]
    assert sum(TRUTH["held_by_user"].values()) == sum(TRUTH["held_by_state"].values()) == TRUTH["held"]


def test_another_count_of_the_records_is_the_roll_up() -> None:
    """Chips times elapsed seconds, as written: with what is there twice, without what is not there."""
    text = (FOLDER / "heron/sacct.psv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines(), delimiter="|"))
    chips = [int(row["AllocTRES"].partition("gres/gpu=")[2].split(",")[0] or 0) for row in rows]
    elapsed = [int(row["ElapsedRaw"]) for row in rows]
    assert sum(n * s for n, s in zip(chips, elapsed, strict=True)) == TRUTH["sreport"]["allocated"]
    last = {row["JobIDRaw"]: n * s for row, n, s in zip(rows, chips, elapsed, strict=True)}
    assert sum(last.values()) == TRUTH["others"]["last record of each job"]


def test_the_account(report: dict[str, Any]) -> None:
    found = {row["cause"]: row["chip_ns"] for row in report["ledger"]}
    wanted = {(ALLOCATED if cause == "allocated" else cause): n * S for cause, n in TRUTH["ledger"].items()}
    assert found == wanted
    sg = report["goodput"]["sg"]
    assert [sg["numerator_ns"], sg["denominator_ns"]] == [n * S for n in TRUTH["sg"]]


def test_waits(report: dict[str, Any]) -> None:
    found = {row["cause"]: row["chip_ns"] for row in report["scheduling"]["waits"]}
    assert found == {cause: n * S for cause, n in TRUTH["waits"].items()}
    waited = {
        job["job"]: sum(sum(attempt["waits"].values()) for attempt in job["attempts"])
        for job in report["jobs"]
    }
    assert waited == {job["job"]: job["queue_wait_s"] for job in report["jobs"]} == TRUTH["queue_wait_s"]


def test_what_jobs_held(report: dict[str, Any]) -> None:
    assert report["scheduling"]["claimed_ns"] == TRUTH["held"] * S
    found = {row["state"]: row["chip_ns"] for row in report["scheduling"]["endings"]}
    assert found == {state: n * S for state, n in TRUTH["held_by_state"].items()}
    by_user: dict[str, float] = {}
    for job in report["jobs"]:
        by_user[job["user"]] = by_user.get(job["user"], 0) + job["chip_seconds"]
    assert by_user == TRUTH["held_by_user"]


def test_the_records(report: dict[str, Any]) -> None:
    found = {row["kind"]: row["chip_ns"] for row in report["scheduling"]["integrity"]}
    assert found == {kind: n * S for kind, n in TRUTH["integrity"].items()}
    theirs = {row["measure"]: row["theirs_s"] for row in report["scheduling"]["reconciled"]}
    assert theirs.pop("planned_down") == 0
    assert theirs == {name: TRUTH["sreport"][name] for name in theirs}
    assert {"allocated", "down", "reported"} <= theirs.keys()
    assert not [row for row in report["scheduling"]["reconciled"] if "not explained" in row["explanation"]]
    preempted = [
        (row["preemptor"], row["victims"], row["count"]) for row in report["scheduling"]["preemptions"]
    ]
    assert preempted == [("110", ["102"], 1)]
