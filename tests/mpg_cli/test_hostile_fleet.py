"""Damaged and impossible files of schedulers, through the whole command: refused, or right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.mpg_cli.running import ROOT, analyze

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    "JobIDRaw|JobID|Cluster|User|Account|Partition|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|Suspended|AllocTRES|"
    "ReqTRES|NNodes|NodeList|Reason|TimelimitRaw|Priority|Comment|SubmitLine|JobName"
)
START = 1767571200
NODES = "".join(f"NodeName=n{n} CPUTot=16 Gres=gpu:8 State=IDLE Partitions=p\n" for n in (1, 2))


def sacct(*rows: dict[str, Any]) -> str:
    """The text of `sacct -P`: times from START on, unless they are texts."""
    lines = [HEADER]
    for number, told in enumerate(rows, 1):
        row: dict[str, Any] = {
            "id": number, "submit": 0, "start": 60, "end": 3660, "run": "", "chips": 8, "state": "COMPLETED",
            "reason": "None",
        } | told  # fmt: skip
        submit, start, end = (
            START + row[name] if isinstance(row[name], int) else row[name]
            for name in ("submit", "start", "end")
        )
        tres = f"gres/gpu={row['chips']},node=1"
        lines.append(
            f"{row['id']}|{row['id']}|c|u|a|p|{row['state']}|0:0|{submit}|{submit}|{start}|{end}|{row['run']}|0|{tres}|"
            f"{tres}|1|n1|{row['reason']}|120|1||sbatch|j"
        )
    return "\n".join(lines) + "\n"


def report(folder: Path, **files: str) -> dict[str, Any]:
    """The report on files, whose account closes and whose waits add up."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    found = analyze(*(folder / name for name in files), "--tz", "UTC").report
    assert sum(row["chip_ns"] for row in found["ledger"]) == found["totals"]["capacity_ns"]
    assert found["totals"]["chip_seconds"] >= 0
    for job in found["jobs"]:
        assert job["chip_seconds"] >= 0
        assert job["start_to_end_s"] >= 0
        for attempt in job["attempts"]:
            waited = attempt["queue_wait_s"]
            assert waited is None or sum(attempt["waits"].values()) == pytest.approx(waited)
    return found


def told(found: dict[str, Any], kind: str) -> list[str]:
    return [one["message"] for one in found["warnings"] if one["kind"] == kind]


@pytest.mark.parametrize("end", [-200, "Unknown", "None", "0", "-1"])
def test_over_but_no_end(tmp_path: Path, end: int | str) -> None:
    """A job that ran and is over, but ended before it started or at no time: not counted, and said so."""
    found = report(tmp_path, jobs=sacct({"end": end}, {"id": 2}), nodes=NODES)
    job = next(job for job in found["jobs"] if job["job"] == "1")
    assert (job["chip_seconds"], job["attempts"][0]["end"], job["queue_wait_s"]) == (0, None, 60)
    assert "until when is not recorded" in told(found, "inconsistent_times")[0]


def test_over_without_an_end_but_how_long_it_ran(tmp_path: Path) -> None:
    found = report(tmp_path, jobs=sacct({"end": "Unknown", "run": 600, "state": "FAILED"}), nodes=NODES)
    assert found["jobs"][0]["chip_seconds"] == 4800


@pytest.mark.parametrize("column", ["submit", "start", "end"])
@pytest.mark.parametrize("time", ["9999-12-31T23:59:59", "1969-12-31T23:00:00", "2300-01-01T00:00:00Z"])
def test_times_that_int64_does_not_hold(tmp_path: Path, column: str, time: str) -> None:
    found = report(tmp_path, jobs=sacct({column: time}, {"id": 2}), nodes=NODES)
    assert (found["scheduling"]["window_start"], found["scheduling"]["window_ns"]) == (
        "2026-01-05T00:00:00Z",
        3660 * 10**9,
    )
    assert "a time that is none" in told(found, "bad_row")[0]


def test_more_chip_time_than_int64_holds(tmp_path: Path) -> None:
    found = report(tmp_path, jobs=sacct({"chips": 10**12}), nodes=NODES)
    assert found["jobs"][0]["chip_seconds"] == 3600 * 10**12
    (over,) = [one for one in found["scheduling"]["integrity"] if one["kind"] == "oversubscribed"]
    assert over["chip_ns"] == (10**12 - 8) * 3600 * 10**9


@pytest.mark.parametrize("time", ["1700-01-01", "0001-01-01", "2300-01-01", "9999-12-31"])
@pytest.mark.parametrize("option", ["--from", "--to", "--as-of"])
def test_options_out_of_reach(tmp_path: Path, option: str, time: str) -> None:
    (tmp_path / "jobs").write_text(sacct({}))
    found = analyze(tmp_path / "jobs", "--tz", "UTC", option, time)
    assert (found.status, f"{option}: {time!r} is no time" in found.err) == (2, True)


def test_waits_of_pods_add_up() -> None:
    """A pod waits until it is scheduled, and starts when its containers do."""
    found = analyze(ROOT / "fixtures/kubernetes/dump.json").report
    waits = [
        (attempt["queue_wait_s"], sum(attempt["waits"].values()))
        for job in found["jobs"]
        for attempt in job["attempts"]
        if attempt["queue_wait_s"] is not None
    ]
    assert any(wait for wait, _ in waits)
    assert [wait for wait, _ in waits] == pytest.approx([total for _, total in waits])


def test_wait_after_a_lost_attempt_begins_at_the_requeue() -> None:
    found = analyze(ROOT / "fixtures/slurm/tiny", "--tz", "UTC").report
    for job in found["jobs"]:
        for attempt in job["attempts"]:
            assert sum(attempt["waits"].values()) == pytest.approx(attempt["queue_wait_s"])


def test_more_capacity_than_can_be_accounted_for(tmp_path: Path) -> None:
    """Chips times a year beyond any fleet: refused, where it took minutes and gigabytes."""
    (tmp_path / "jobs").write_text(sacct({"end": 365 * 86400}))
    found = analyze(tmp_path / "jobs", "--tz", "UTC", "--capacity", 10**8)
    assert (found.status, "more chip-time than can be accounted for" in found.err) == (2, True)


def test_times_near_the_end_of_int64(tmp_path: Path) -> None:
    found = report(tmp_path, jobs=sacct({}, {"id": 2, "end": "2254-12-31T00:00:00"}), nodes=NODES)
    assert found["scheduling"]["window_end"] == "2254-12-31T00:00:00Z"
