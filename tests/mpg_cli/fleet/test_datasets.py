"""Fleets from a dataset that `mpg ingest` wrote, and inventories too large to follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mpg_cli.goodput.scheduling import inventory
from tests.mpg_cli.running import analyze, mpg

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "fixtures/slurm/tiny"
CUT = ("--from", "2026-01-05T00:00:00Z", "--to", "2026-01-05T02:00:00Z")


def test_the_zone_given_when_files_were_read_counts(tmp_path: Path) -> None:
    assert mpg("ingest", TINY, "-o", tmp_path / "set", "--tz", "UTC", "-q").status == 0
    told = mpg("report", tmp_path / "set", "-f", "json", "-q", *CUT)
    assert told.status == 0, told.err
    direct = analyze(TINY, "--tz", "UTC", *CUT).report
    for key in ("totals", "ledger", "goodput"):
        assert json.loads(told.out)[key] == direct[key]


def test_without_a_zone_a_dataset_is_refused_as_its_files_are(tmp_path: Path) -> None:
    assert mpg("ingest", TINY, "-o", tmp_path / "set", "-q").status == 0
    refused = mpg("report", tmp_path / "set", "-f", "json", "-q", *CUT)
    assert refused.status == 3
    assert "error[naive_time]" in refused.err


def test_too_many_places_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = analyze(TINY, "--tz", "UTC").report
    monkeypatch.setattr(inventory, "MOST_PLACES", 1)
    report = analyze(TINY, "--tz", "UTC").report
    assert "nodes_unknown" in [one["kind"] for one in report["scheduling"]["integrity"]]
    # SG is the same, but for what the nodes told: leaks, and placement
    assert report["totals"]["chip_seconds"] == followed["totals"]["chip_seconds"]
    assert sum(row["chip_ns"] for row in report["ledger"]) == report["totals"]["capacity_ns"]
