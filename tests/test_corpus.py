"""Real traces and hard inputs with worked answers, where the corpus is at hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.mpg_cli.running import Result, analyze
from tests.real_traces import CORPUS, NO_CORPUS, REAL, analyze_real

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HARD = CORPUS / "hard_inputs"
THEMES = ("json-container", "time-values", "event-semantics", "ranks-and-collectives")

pytestmark = pytest.mark.skipif(not HARD.is_dir(), reason=NO_CORPUS)


def real_cases() -> dict[str, Any]:
    if not REAL.is_dir():
        return {}
    listed = json.loads((REAL / "expected.json").read_text())
    return {name: want for name, want in listed.items() if (REAL / name).exists()}


def hard_cases() -> list[str]:
    if not HARD.is_dir():
        return []
    rows = (line.split("\t") for line in (HARD / "INDEX.tsv").read_text().splitlines()[1:])
    return [row[0] for row in rows if row[1] in THEMES]


def known(want: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The figures of `found` that `want` states, under its names."""
    return {key: found[key] for key in figures(want)}


def figures(want: dict[str, Any]) -> dict[str, Any]:
    """What an expectation states: times, counts and ranks; the rest of it is commentary."""
    commentary = {"arrival_spread_ns"}
    stated = {key: value for key, value in want.items() if value is not None and key not in commentary}
    return {key: value for key, value in stated.items() if key.endswith(("_ns", "_count", "rank"))}


def assert_devices(want: Sequence[dict[str, Any]], report: dict[str, Any]) -> None:
    left = list(report["devices"])
    for device in want:
        same = [
            d
            for d in left
            if known(device, d) == figures(device) and str(d["device"]) == str(device["device"])
        ]
        assert same, f"no device like {figures(device)}; have {left}"
        left.remove(same[0])
    assert left == []


# ----------------------------------------------------------------------------------------- the real files


@pytest.mark.parametrize("name", real_cases())
def test_real(name: str) -> None:
    want = real_cases()[name]
    found = analyze_real(name)
    if not want["devices"]:
        assert (found.status, found.out) == (3, "")
        assert found.err.startswith(f"error[no_device_activity]: {REAL / name}: no device activity")
        return
    assert_devices(want["devices"], found.report)
    if window := want.get("window"):
        rg = found.report["goodput"]["rg"]
        assert (rg["denominator_ns"], rg["numerator_ns"]) == (window["window_ns"], window["compute_ns"])
    check_account(found.report)


def check_account(report: dict[str, Any]) -> None:
    """What holds for every report: ledger, devices and shares add up, every null has its reason."""
    assert sum(row["chip_ns"] for row in report["ledger"]) == report["totals"]["capacity_ns"]
    for device in report["devices"]:
        exposed = sum(device[f"exposed_{kind}_ns"] for kind in ("comm", "memory", "other"))
        assert device["compute_ns"] + exposed == device["busy_ns"] == device["span_ns"] - device["idle_ns"]
    for name in ("sg", "rg", "pg", "mpg"):
        assert (report["goodput"][name] is None) == (name in report["goodput"]["reasons"])
    assert sum(rule["share"] for rule in report["name_rules"]) == pytest.approx(1)


def test_eight_ranks_of_one_job() -> None:
    if not (REAL / "param/dlrm_kineto").is_dir():
        pytest.skip(NO_CORPUS)
    report = analyze_real("param/dlrm_kineto").report
    assert [source["rank"] for source in report["sources"]] == list(range(8))
    assert not {"missing_rank", "unmatched_events"} & {warning["kind"] for warning in report["warnings"]}
    check_account(report)


# --------------------------------------------------------------------------------------- the hard inputs


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    def run_case(name: str, spec: dict[str, Any]) -> Result:
        case = HARD / name
        for generator in case.glob("gen_*.py"):
            target = tmp_path / "generated.json"
            subprocess.run([sys.executable, generator, target, "1000"], check=True, capture_output=True)
            return analyze(target)
        return analyze(*(case / path for path in spec["inputs"]))

    yield run_case
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("name", hard_cases())
def test_hard_input(name: str, run: Any) -> None:
    spec = json.loads((HARD / name / "expected.json").read_text())
    want = spec["expected"]
    found = run(name, spec)
    assert "Traceback" not in found.err
    if want["outcome"] == "error":
        if found.status != 0 or "or_ok" not in want:
            assert_error(want["error"], found)
            return
        want = want["or_ok"]
    elif "or_error" in want and found.status == 3:
        assert_error(want["or_error"].get("error", {}), found)
        return
    assert_report(want, found.report)


def assert_error(want: dict[str, Any], found: Result) -> None:
    assert (found.status, found.out) == (3, "")
    assert found.err.startswith(f"error[{want['kind']}]: " if "kind" in want else "error[")
    assert silent_on(want.get("must_mention", []), found.err) == []


def assert_report(want: dict[str, Any], report: dict[str, Any]) -> None:
    assert_devices(want.get("devices", report["devices"]), report)
    assert_steps(want.get("steps", []), report["steps"])
    for collective, found in zip(want.get("collectives", []), report["collectives"], strict=False):
        assert known(collective, found) == figures(collective)
    assert len(report["collectives"]) >= len(want.get("collectives", []))
    for warning in want.get("warnings", []):
        told = " ".join(w["message"] for w in report["warnings"] if w["kind"] == warning["kind"])
        assert told, f"no warning {warning['kind']} among {report['warnings']}"
        assert silent_on(warning.get("must_mention", []), told) == []
    check_account(report)


def assert_steps(want: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> None:
    for step in want:
        same = [s for s in found if s["step"] == step["step"] and step.get("rank") in (None, s["rank"])]
        assert same, f"no step {step['step']}"
        assert known(step, same[0]) == figures(step)


def silent_on(words: Sequence[object], text: str) -> list[object]:
    return [word for word in words if str(word).lower() not in text.lower()]
