"""Real exports of two Slurm clusters, from the command line to figures that slurmdbd and a poll of squeue know, too."""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.mpg_cli.running import analyze
from tests.real_traces import CORPUS, NO_CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLURM = CORPUS / "slurm"
OLD, NEW = SLURM / "22.05/w2_final", SLURM / "24.11/final2"
LOG, POLL = SLURM / "22.05/slurmctld.log.gz", SLURM / "22.05/squeue_poll_first_half.psv.gz"
HOUR = ("--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T15:00:00Z")
AFTERNOON = ("--from", "2026-11-29T12:00:00Z", "--to", "2026-11-29T15:00:00Z")
SECOND = 10**9
TWICE, LOST = (
    44,
    816,
)  # chip-seconds of job 37, counted twice at its resize, and of job 70, lost by the accounting

pytestmark = pytest.mark.skipif(not SLURM.is_dir(), reason=NO_CORPUS)


@cache
def analysed(*arguments: Path | str) -> dict[str, Any]:
    """The report; its ledger closes."""
    report = analyze(*arguments, "--tz", "UTC").report
    assert sum(row["chip_ns"] for row in report["ledger"]) == report["totals"]["capacity_ns"]
    return report


def ledger(report: dict[str, Any]) -> dict[str, int]:
    """Chip-seconds by cause."""
    assert all(row["chip_ns"] % SECOND == 0 for row in report["ledger"])
    return {row["cause"]: row["chip_ns"] // SECOND for row in report["ledger"]}


def integrity(report: dict[str, Any]) -> dict[str, int | None]:
    """Chip-seconds at stake by kind."""
    rows = report["scheduling"]["integrity"]
    return {row["kind"]: row["chip_ns"] and row["chip_ns"] // SECOND for row in rows}


def beside(report: dict[str, Any]) -> dict[tuple[str, str, str | None, str | None], tuple[int, int, str]]:
    """Theirs, ours and what explains the difference, by resource, measure, account and user."""
    return {
        (row["resource"], row["measure"], row["account"], row["user"]): (
            row["theirs_s"], row["ours_s"], row["explanation"],
        )
        for row in report["scheduling"]["reconciled"]
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ one hour of 64 chips


@pytest.mark.parametrize(
    ("files", "allocated"),
    [((OLD,), 28_103), ((OLD, LOG), 28_919)],
    ids=["accounting", "with the controller's log"],
)
def test_the_hour(files: tuple[Path, ...], allocated: int) -> None:
    report = analysed(*files, *HOUR)
    found = ledger(report)
    assert (found["unobserved"], found["down"], found["leaked"]) == (allocated, 2_096, 2_464)
    assert sum(found.values()) == 64 * 1_070 == 68_480
    assert report["goodput"]["sg"]["value"] == pytest.approx(allocated / 68_480, rel=1e-12)
    about = report["scheduling"]
    assert (about["outside_ns"], about["excess_ns"], about["naive"]) == (0, 0, False)
    assert about["claimed_ns"] == allocated * SECOND
    assert (about["clusters"], about["chips"]) == (["mpgtest"], 64)


def test_every_file_there_is() -> None:
    """Two snapshots with every export twice, two of them in New York time, say what one says."""
    whole, one = (analysed(*files, *HOUR) for files in ((SLURM / "22.05",), (OLD, LOG)))
    assert ledger(whole) == ledger(one)
    for part in ("waits", "preemptions", "segments", "reconciled", "claimed_ns", "jobs", "attempts"):
        assert whole["scheduling"][part] == one["scheduling"][part], part
    assert integrity(whole) == integrity(one)
    assert not whole["scheduling"]["naive"]


def test_integrity() -> None:
    assert integrity(analysed(OLD, *HOUR)).items() >= {
        ("phantom_allocation", 2_464), ("resized_twice", TWICE), ("naive_time", None), ("repaired_input", None),
    }  # fmt: skip
    assert "lost_attempts" not in integrity(analysed(OLD, *HOUR))
    assert integrity(analysed(OLD, LOG, *HOUR))["lost_attempts"] == LOST
    unwanted = {"no_duplicates", "capacity_assumed", "oversubscribed", "outside_capacity"}
    for report in (analysed(OLD, *HOUR), analysed(OLD, LOG, *HOUR), analysed(NEW, *AFTERNOON)):
        assert not integrity(report).keys() & unwanted


ROLLED = {
    ("gres/gpu", "allocated", None, None): 28_147,
    ("gres/gpu:h100", "allocated", None, None): 13_705,
    ("gres/gpu:a100", "allocated", None, None): 14_442,
    ("gres/gpu", "used", "research", "alice"): 6_095,
    ("gres/gpu", "used", "research", "bob"): 13_236,
    ("gres/gpu", "used", "prod", "carol"): 8_816,
}


def test_sreport() -> None:
    found = beside(analysed(OLD, *HOUR))
    assert {key: found[key][0] for key in ROLLED} == ROLLED
    twice = "+44 counted twice at a resize"
    for key, (theirs, ours, why) in found.items():
        assert (theirs - ours, why) in {(0, "equal"), (TWICE, twice)}, key
    resized = [key for key, row in found.items() if row[2] != "equal"]
    assert {key[0] for key in resized} == {"gres/gpu", "gres/gpu:a100"}
    assert {key[3] for key in resized} == {None, "alice"}  # job 37 is alice's
    assert found["gres/gpu", "down", None, None] == (2_096, 2_096, "equal")
    assert found["gres/gpu", "reported", None, None] == (68_480, 68_480, "equal")


def test_sreport_beside_the_log() -> None:
    found = beside(analysed(OLD, LOG, *HOUR))
    lost, both = "-816 lost by the accounting", "+44 counted twice at a resize; -816 lost by the accounting"
    assert found["gres/gpu", "allocated", None, None] == (28_147, 28_919, both)
    assert found["gres/gpu:h100", "allocated", None, None] == (13_705, 14_521, lost)
    assert found["gres/gpu", "used", "prod", "carol"] == (8_816, 9_632, lost)  # job 70 is carol's
    assert found["gres/gpu", "used", "research", "bob"] == (13_236, 13_236, "equal")
    assert not any("not explained" in why for _, _, why in found.values())


def test_suspended_time_is_what_sreport_has_more() -> None:
    report = analysed(NEW, *AFTERNOON)
    found, told = ledger(report), beside(report)
    assert (found["unobserved"], found["suspended"], found["down"]) == (3_191, 30, 860)
    assert sum(found.values()) == 16_680
    why = "+30 suspended, which they count as running"
    assert told["gres/gpu", "allocated", None, None] == (3_221, 3_191, why)
    assert told["gres/gpu:h100", "allocated", None, None] == (2_646, 2_616, why)
    assert told["gres/gpu", "used", "research", "bob"] == (2_151, 2_151, "equal")
    assert told["gres/gpu", "reported", None, None] == (16_680, 16_680, "equal")


def test_preemptions() -> None:
    """3,444 chip-s were preempted, 144 of them after the hour; whom for, the log tells but of job 51."""
    whole, alone, told = (
        analysed(*files)["scheduling"]["preemptions"] for files in ((OLD,), (OLD, *HOUR), (OLD, LOG, *HOUR))
    )
    assert [sum(row["chip_ns"] for row in rows) // SECOND for rows in (whole, alone, told)] == [
        3_444,
        3_300,
        3_300,
    ]
    pairs = {(row["preemptor"], *row["victims"]) for row in told}
    known = {("30", "28"), ("31", "29"), ("84", "80"), ("124", "113"), ("125", "108"), ("122", "118")}
    assert pairs == {*known, ("", "51")}


def test_next_time() -> None:
    """Restarts can be asked for since Slurm 24.11; an older sacct refuses the whole command for it."""
    old, new = (analysed(*about)["scheduling"]["next_command"] for about in ((OLD, *HOUR), (NEW, *AFTERNOON)))
    for command in (old, new):
        assert command.startswith("TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -X -P -S 2026-11-29T1")
        assert command.endswith("JobName > sacct.psv")
    assert ("Restarts" in old, "Restarts" in new) == (False, True)


# ------------------------------------------------------------------------------------------ one database, many files

EXPORTS = ("D_X_ALL.psv", "D_X_epoch.psv", "D_X_isotz.psv", "D_typical.psv", "D_steps_ALL.psv",
           "D_parsable_trailing.psv", "D_unitsep.txt")  # fmt: skip
JSONS = {OLD: ("D.json.gz",), NEW: ("D_v0.0.40.json", "D_v0.0.41.json", "D_v0.0.42.json")}


def attempts(report: dict[str, Any]) -> set[tuple[Any, ...]]:
    return {
        (job["job"], one["attempt"], one["state"], one["submit"], one["start"], one["end"], one["chips"] or 0)
        for job in report["jobs"]
        for one in job["attempts"]
    }


@pytest.mark.parametrize("folder", [OLD, NEW], ids=["22.05", "24.11"])
def test_every_export_has_the_same_attempts(folder: Path) -> None:
    names = (*EXPORTS, *JSONS[folder])
    found = {name: attempts(analysed(folder / f"sacct_{name}")) for name in names}
    # of 190 and 25 records, two are the components of one heterogeneous job
    assert len(found["D_X_ALL.psv"]) == (189 if folder == OLD else 24)
    for name, rows in found.items():
        assert rows == found["D_X_ALL.psv"], name


@pytest.mark.parametrize("folder", [OLD, NEW], ids=["22.05", "24.11"])
def test_new_york(folder: Path) -> None:
    """By itself the export is five hours behind, and says that it does not know; in company it is moved."""
    alone = analyze(folder / "sacct_D_X_TZ_NewYork.psv").report
    assert alone["scheduling"]["naive"]
    epoch = analysed(folder / "sacct_D_X_epoch.psv")
    suspended = 0 if folder == OLD else 30  # of which this export does not tell
    assert alone["totals"]["chip_seconds"] == epoch["totals"]["chip_seconds"] + suspended
    placed = analyze(folder / "sacct_D_X_TZ_NewYork.psv", "--tz", "America/New_York").report
    assert attempts(placed) == attempts(epoch)
    both = analyze(folder / "sacct_D_X_TZ_NewYork.psv", folder / "sacct_D_X_epoch.psv").report
    assert attempts(both) == attempts(epoch)
    assert not both["scheduling"]["naive"]
    (moved,) = [warning for warning in both["warnings"] if warning["kind"] == "naive_time"]
    assert "5 h behind" in moved["message"]


def test_without_duplicates() -> None:
    """What sacct leaves out without -D is missing, and is said to be. Both records of the resized job are there."""
    report, whole = (analysed(OLD / name, *HOUR) for name in ("sacct_X_noD_ALL.psv", "sacct_D_X_ALL.psv"))
    assert (report["totals"]["chip_seconds"], whole["totals"]["chip_seconds"]) == (26_200, 28_103)
    held = [{job["job"]: job["chip_seconds"] for job in each["jobs"]} for each in (report, whole)]
    assert held[0].keys() == held[1].keys()
    fewer = {job for job, seconds in held[1].items() if held[0][job] != seconds}
    again = {job["job"] for job in whole["jobs"] if len(job["attempts"]) > 1}
    assert fewer <= again - {"37"}
    found = [each["scheduling"]["integrity"] for each in (report, whole)]
    (told,) = [row for row in found[0] if row["kind"] == "no_duplicates"]
    assert 0 < told["count"] <= len(again)
    assert "no_duplicates" not in {row["kind"] for row in found[1]}


# ------------------------------------------------------------------------------------------ a witness


def samples() -> Iterator[tuple[str, float, str]]:
    """What squeue said every two seconds of jobs that waited: printed id, when, reason."""
    for line in gzip.decompress(POLL.read_bytes()).decode().splitlines():
        when, job, _, state, reason, *_ = line.split("|")
        if state in {"PD", "SE"}:
            yield job, float(when), reason


def told(report: dict[str, Any]) -> dict[str, list[tuple[float, float, str]]]:
    """By job, its waits: from when to when, and why."""
    return {
        job["job"]: [
            (piece["start_ns"] / SECOND, piece["end_ns"] / SECOND, piece["cause"])
            for one in job["attempts"]
            for piece in one["wait_pieces"]
        ]
        for job in report["jobs"]
    }


@cache
def causes() -> dict[str, Counter[str]]:
    """By the reason that squeue gave, how many samples we give which cause; (none) where we know of no wait.

    Job 10 never became eligible, which is why no record has it.
    """
    waits = told(analysed(OLD, LOG, *HOUR))
    found: dict[str, Counter[str]] = {}
    assert "10" not in waits
    for job, when, reason in samples():
        if job == "10":
            continue
        cause = next((why for start, end, why in waits.get(job, ()) if start <= when < end), "(none)")
        found.setdefault(reason, Counter())[cause] += 1
    return found


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("BeginTime", {"begin_time", "requeue_delay"}),
        ("Dependency", {"dependency"}),
        ("JobHeldUser", {"hold"}),
        ("job requeued in held state", {"hold"}),  # job 36, which is recorded as eligible all the while
        ("JobArrayTaskLimit", {"array_limit"}),
        ("QOSMaxGRESPerUser", {"limit"}),
        ("Resources", {"shortage", "unavailable", "fragmentation", "topology", "latency"}),
    ],
)
def test_the_queue_as_it_was_seen(reason: str, wanted: set[str]) -> None:
    found = causes()[reason]
    share = sum(found[cause] for cause in wanted) / found.total()
    assert share >= 0.95, found
