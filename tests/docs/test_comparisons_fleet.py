"""The figures of docs/comparisons.md on fleets: of the fixture from its truth, of the real hour from its files."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.docs.markdown import ROOT
from tests.mpg_cli.running import analyze
from tests.real_traces import CORPUS, NO_CORPUS

TEXT = (ROOT / "docs/comparisons.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("\n## Fleets: sreport, XDMoD and others\n")[2].partition("\n## ")[0]
PROSE = " ".join(SECTION.split())
TRUTH: dict[str, Any] = json.loads((ROOT / "fixtures/fleet/truth.json").read_text(encoding="utf-8"))
OLD = CORPUS / "slurm/22.05"
HOUR = ("--from", "2026-11-29T14:00:00", "--to", "2026-11-29T15:00:00", "--tz", "UTC")
START = 1_795_960_800
ROOM = ("shortage", "unavailable", "fragmentation", "topology")
needs_corpus = pytest.mark.skipif(not OLD.is_dir(), reason=NO_CORPUS)


def column(number: int) -> list[int]:
    rows = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| ")][2:]
    return [int(row[number].replace(",", "")) for row in rows]


def test_the_fixture() -> None:
    others = TRUTH["others"]
    assert others["every record"] == TRUTH["sreport"]["allocated"]
    without_log = TRUTH["held"] - TRUTH["integrity"]["lost_attempts"]
    assert column(2) == [*others.values(), without_log, TRUTH["held"]]
    alone = analyze(ROOT / "fixtures/fleet/heron/sacct.psv").report
    assert alone["totals"]["chip_seconds"] == without_log
    for waited in TRUTH["others_waits"].values():
        assert f"{waited:,}" in PROSE


def records(name: str) -> list[dict[str, str]]:
    """Rows of an export; the name of a job, which may hold the delimiter, is cut out."""
    lines = (OLD / "w2_final" / name).read_text(encoding="utf-8").splitlines()
    header, *rows = csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE)
    at = header.index("JobName")
    after = len(header) - at - 1
    cut = [[*row[:at], "", *row[len(row) - after :]] for row in rows]
    return [dict(zip(header, row, strict=True)) for row in cut]


def total(rows: list[dict[str, str]]) -> int:
    """Chips times seconds within the hour."""
    found = 0
    for row in rows:
        chips = re.search(r"(?:^|,)gres/gpu=(\d+)", row["AllocTRES"])
        if chips and row["Start"].isdigit() and row["End"].isdigit():
            seconds = min(int(row["End"]), START + 3600) - max(int(row["Start"]), START)
            found += int(chips[1]) * max(seconds, 0)
    return found


@needs_corpus
def test_shorter_ways_on_the_real_hour() -> None:
    rows = records("sacct_D_X_epoch.psv")
    last = {row["JobIDRaw"]: row for row in rows}
    shown = [row for row in rows if row is last[row["JobIDRaw"]] or row["State"] == "RESIZING"]
    again = ("REQUEUED", "RESIZING")
    ways = [rows, shown, [*last.values()], [row for row in rows if row["State"] not in again]]
    assert column(1)[:4] == [total(way) for way in ways]
    without = (OLD / "w2_final/sacct_X_noD_ALL.psv").read_text(encoding="utf-8").splitlines()
    assert len(without) - 1 == len(shown)


@pytest.fixture(scope="module")
def hour() -> dict[str, Any]:
    found: dict[str, Any] = analyze(OLD / "w2_final", OLD / "slurmctld.log.gz", *HOUR).report
    return found


@needs_corpus
def test_the_real_hour(hour: dict[str, Any]) -> None:
    alone = analyze(OLD / "w2_final/sacct_D_X_ALL.psv", *HOUR).report
    assert column(1)[4:] == [alone["totals"]["chip_seconds"], hour["totals"]["chip_seconds"]]
    theirs = {(row["resource"], row["measure"]): row for row in hour["scheduling"]["reconciled"]}
    assert theirs["gres/gpu", "allocated"]["theirs_s"] == column(1)[0]
    at_stake = {row["kind"]: row["chip_ns"] for row in hour["scheduling"]["integrity"]}
    stated = {"resized_twice": 44, "lost_attempts": 816, "phantom_allocation": 2464}
    assert {kind: at_stake[kind] // 10**9 for kind in stated} == stated
    assert all(f"{figure:,}" in PROSE for figure in stated.values())
    new = analyze(CORPUS / "slurm/24.11/final2", "--tz", "UTC").report["scheduling"]["reconciled"]
    allocated = next(row for row in new if (row["resource"], row["measure"]) == ("gres/gpu", "allocated"))
    assert (allocated["theirs_s"], allocated["ours_s"]) == (3221, 3191)


@needs_corpus
def test_waits_against_squeue(hour: dict[str, Any]) -> None:
    stretches = {
        job["job"]: [piece for attempt in job["attempts"] for piece in attempt["wait_pieces"]]
        for job in hour["jobs"]
    }
    met: Counter[tuple[str, bool]] = Counter()
    with gzip.open(OLD / "squeue_poll_first_half.psv.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            at, job, _, state, reason, *_ = line.split("|")
            if state != "PD":
                continue
            ns = round(float(at) * 10**9)
            around = [one for one in stretches.get(job, ()) if one["start_ns"] <= ns < one["end_ns"]]
            cause = around[0]["cause"] if around else ""
            room = {"Resources": ROOM, "BeginTime": ("requeue_delay", "begin_time")}
            met[reason, cause in room.get(reason, ("limit",))] += 1
    for reason, told in (
        ("Resources", "of {} samples in which it said `Resources`, {}"),
        ("BeginTime", "of {} that said `BeginTime`, {}"),
        ("QOSMaxGRESPerUser", "of {} at the limit of a QOS, {}"),
    ):
        assert told.format(met[reason, True] + met[reason, False], met[reason, True]) in PROSE
