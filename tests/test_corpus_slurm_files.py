"""Real exports of two Slurm clusters: every file of a database says the same, and what slurmdbd itself adds up."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars import col

from mpg_parsers.errors import InputError
from mpg_parsers.registry import ParseOptions
from mpg_parsers.slurm_files import SLURM
from mpg_parsers.source import Source
from mpg_parsers.tables import TABLES
from tests.real_traces import CORPUS, NO_CORPUS

if TYPE_CHECKING:
    from pathlib import Path

HARD = CORPUS / "hard_inputs"
OLD, NEW = CORPUS / "slurm/22.05/w2_final", CORPUS / "slurm/24.11/final2"
SECOND = 1_000_000_000
NOON = 1_795_953_600  # of 29 November 2026, UTC
KEY = ["job", "submit_ns", "start_ns", "chip_type"]

pytestmark = pytest.mark.skipif(not OLD.is_dir(), reason=NO_CORPUS)


@cache
def read(path: Path, tz: str = "UTC") -> dict[str, pl.DataFrame]:
    parts = {name: [table.conform(pl.DataFrame())] for name, table in TABLES.items()}
    source = Source(str(path), "", True, str(path), None, path.stat().st_size)
    assert SLURM.sniff(source.head(), source.path) == ""
    for table, frame in SLURM.parse(source, ParseOptions(tz=tz)):
        parts[table].append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}


def kinds(path: Path) -> list[tuple[str, int]]:
    return [(item["kind"], item["count"]) for item in json.loads(read(path)["sources"]["notices"][0])]


# ----------------------------------------------------------------------------------------- one database, many files

TEXTS = (
    "D_X_ALL.psv",
    "D_X_epoch.psv",
    "D_X_isotz.psv",
    "D_typical.psv",
    "D_parsable_trailing.psv",
    "D_unitsep.txt",
)
# what JSON does not tell: the id of who cancelled, in 22.05 any exit code but 0; what -X leaves out: CPU time of steps
UNLIKE = {"cancelled_by", "exit_code", "cpu_ns", "line"}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    ("folder", "name"),
    [(OLD, "sacct_D.json.gz"), *((NEW, f"sacct_D_v0.0.{version}.json") for version in (40, 41, 42))],
)
def test_text_and_json_agree(folder: Path, name: str, text: str) -> None:
    rows = [read(folder / file)["attempts"].sort(KEY) for file in (f"sacct_{text}", name)]
    one, other = rows
    assert one.height == other.height == (190 if folder == OLD else 25)
    stated = [c for c in one.columns if all(frame[c].null_count() < frame.height for frame in rows)]
    assert {"job", "submit_ns", "start_ns", "end_ns", "chips"} <= set(stated)
    for column in set(stated) - UNLIKE - ({"raw_id"} if "trailing" in text else set()):
        # without ReqTRES, the type of what never got chips is not told
        never = one["chips_requested"].null_count() == one.height and column == "chip_type"
        left, right = (frame.filter((col.chips > 0) | (not never))[column].to_list() for frame in rows)
        assert left == right, column


@pytest.mark.parametrize("folder", [OLD, NEW])
def test_zones(folder: Path) -> None:
    local = read(folder / "sacct_D_X_TZ_NewYork.psv", "America/New_York")["attempts"]
    wanted = read(folder / "sacct_D_X_epoch.psv")["attempts"]
    for column in ("submit_ns", "start_ns", "end_ns", "job"):
        assert local[column].to_list() == wanted[column].to_list()


@pytest.mark.parametrize(
    ("name", "repaired"),
    [("D_X_ALL", 1), ("D_typical", 2), ("D_steps_ALL", 2), ("D_X_epoch", 1), ("D_unitsep", 0)],
)
def test_rows_with_a_pipe(name: str, repaired: int) -> None:
    path = next(OLD.glob(f"sacct_{name}.*"))
    assert kinds(path) == ([("repaired_input", repaired)] if repaired else [])
    rows = {row["job"]: row for row in read(path)["attempts"].to_dicts()}
    assert rows["19"]["name"] == "steps|pipe"
    assert (rows["21"]["chips"], rows["19"]["chips"]) == (1, 2)


@pytest.mark.parametrize("name", ["sacct_D_X_relative.psv", "sacct_default_table.txt"])
@pytest.mark.parametrize("folder", [OLD, NEW])
def test_what_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        read(folder / name)
    assert caught.value.kind == "unsupported_format"
    assert "sacct -a -D -X -P" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["sacctmgr_assoc.psv", "sacctmgr_tres.psv", "sacctmgr_runaway.psv", "sdiag.txt", "SNAPTIME"]
)
@pytest.mark.parametrize("folder", [OLD, NEW])
def test_what_says_nothing_of_time(folder: Path, name: str) -> None:
    assert SLURM.sniff((folder / name).read_bytes(), name)


# ----------------------------------------------------------------------------------------- slurmdbd's own account


@pytest.mark.parametrize(("folder", "used"), [(OLD, 28_147), (NEW, 3_221)])
def test_slurmdbd_counts_the_same(folder: Path, used: int) -> None:
    """Chip-seconds from noon to 15:00, of the records as they are (a resized one from its first start, too)."""
    first, last = NOON * SECOND, (NOON + 10_800) * SECOND
    inside = pl.min_horizontal("end_ns", pl.lit(last)) - pl.max_horizontal("start_ns", pl.lit(first))
    ran = read(folder / "sacct_D_X_ALL.psv")["attempts"].filter(
        col.start_ns.is_not_null() & col.end_ns.is_not_null()
    )
    ran = ran.with_columns(work=pl.max_horizontal(inside, 0) // SECOND * col.chips)
    assert ran["work"].sum() == used
    rows = read(folder / "sreport_cluster_util_sec.psv")["rollups"]
    total = rows.filter((col.resource == "gres/gpu") & (col.measure == "allocated"))
    assert total.select("seconds", "start_ns", "end_ns").row(0) == (used, first, last)
    users = read(folder / "sreport_acct_by_user_sec.psv")["rollups"].filter(
        (col.resource == "gres/gpu") & col.user.is_not_null()
    )
    wanted = {
        user: seconds for user, seconds in ran.group_by("user").agg(pl.sum("work")).iter_rows() if seconds
    }
    assert dict(users.select("user", "seconds").iter_rows()) == wanted


def test_figures_of_a_column_that_comes_twice() -> None:
    rows = read(NEW / "sreport_cluster_util_sec.psv")["rollups"].filter(col.resource == "cpu")
    figures = dict(rows.select("measure", "seconds").iter_rows())
    assert figures == {"allocated": 650, "down": 1872, "idle": 37_277, "planned": 233, "reported": 40_032}
    assert sum(figures.values()) == 2 * figures["reported"]


def test_down_time_of_events() -> None:
    events = read(OLD / "sacctmgr_events.psv")["capacity"]
    assert events.select("node", "state", "chips").rows() == [
        (None, "up", 64), ("a3", "down", 8), ("a3", "drained", 8), ("a4", "down", 8), ("h2", "down", 8),
        ("h4", "drained", 8),
    ]  # fmt: skip
    until = pl.min_horizontal("end_ns", pl.lit((NOON + 10_800) * SECOND))
    down = (
        events.filter(col.node.is_not_null())
        .select(((until - col.start_ns) // SECOND * col.chips).sum())
        .item()
    )
    assert down == 2096  # sreport: Down


# -------------------------------------------------------------------------------------------- what else there is


def test_the_log_knows_the_lost_attempt() -> None:
    """Job 70 ran on two nodes, lost one, ran again, and left chips of both allocated; sacct has one record."""
    events = read(CORPUS / "slurm/22.05/slurmctld.log.gz")["scheduler_events"].filter(raw_id="70")
    assert events.select("event", "nodes").rows() == [
        ("submit", None),
        ("allocate", '["h1", "h2"]'),
        ("requeue", '["h1"]'),
        ("node_failure", None),
        ("requeue", None),
        ("end", None),
        ("allocate", '["h2", "h4"]'),
        ("end", None),
        ("leak", '["h2"]'),
        ("leak", '["h4"]'),
    ]
    assert read(OLD / "sacct_D_X_ALL.psv")["attempts"].filter(job="70").height == 1
    nodes = read(OLD / "sinfo.json")["nodes"]
    assert nodes.filter(col.chips_allocated > 0)["node"].to_list() == ["h2", "h4"]


def test_who_preempted_whom() -> None:
    events = read(CORPUS / "slurm/22.05/slurmctld.log.gz")["scheduler_events"].filter(event="preempt")
    pairs = events.filter(col.other.is_not_null()).select("raw_id", "other", "reason").rows()
    assert pairs[:2] == [("28", "30", "requeued"), ("29", "31", "killed")]
    assert len(pairs) == 7


@pytest.mark.parametrize(("folder", "chips", "leaves"), [(OLD, 64, 4), (NEW, 40, 3)])
def test_inventories_agree(folder: Path, chips: int, leaves: int) -> None:
    for name in ("scontrol_show_node_o.txt", "sinfo.json", "slurm.conf", "gres.conf"):
        nodes = read(folder / name)["nodes"]
        assert nodes["chips"].sum() == chips
        assert nodes["node"].n_unique() == nodes.height
    switches = [read(folder / name)["topology"] for name in ("topology.conf", "scontrol_show_topology.txt")]
    assert [(frame["level"] == 0).sum() for frame in switches] == [leaves, leaves]
    assert [set(json.loads(frame["nodes"][-1])) for frame in switches] == [set(nodes["node"])] * 2
    assert {frame["parent"].drop_nulls().to_list()[0] for frame in switches} == {"spine"}


def test_the_queue_and_its_jobs() -> None:
    folder = CORPUS / "slurm/22.05/w2_stuck"
    reasons = read(folder / "squeue.json")["pending"].select("raw_id", "reason").rows()
    assert reasons == [("36", "JobHeldUser"), ("95", "Resources"), ("150", "Priority")]
    queue, jobs = (read(folder / name)["attempts"] for name in ("squeue.json", "scontrol_show_job.txt"))
    for column in (
        "raw_id",
        "state",
        "submit_ns",
        "start_ns",
        "end_ns",
        "chips",
        "chips_requested",
        "nodes",
        "exit_code",
    ):
        assert queue[column].to_list() == jobs[column].to_list(), column


# ------------------------------------------------------------------------------------------------- hard inputs


@pytest.mark.parametrize("case", ["suspended", "state-words", "exclusive-req-vs-alloc", "requeued-attempts", "timelimit-words", "steps-rows", "pipe-in-jobname", "unknown-and-none-times", "parsable-trailing-pipe"])  # fmt: skip  # noqa: E501
def test_hard_inputs(case: str) -> None:
    folder = HARD / f"sacct-{case}"
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    found = read(folder / "sacct.txt")
    rows = found["attempts"]
    assert rows.select((col.run_ns // SECOND * col.chips).sum()).item() == expected["total_gpu_seconds"]
    jobs = {job["job"]: job for job in expected.get("jobs", []) if "attempts" not in job}
    for row in rows.filter(col.job.is_in(list(jobs))).to_dicts():
        job = jobs[row["job"]]
        assert (row["state"], row["run_ns"], row["chips"]) == (
            job["state"],
            job["run_s"] * SECOND,
            job["gpus"],
        )
        assert row["suspended_ns"] == job.get("suspended_s", 0) * SECOND
        assert job.get("cancelled_by") == row["cancelled_by"]
        assert "name" not in job or job["name"] == row["name"]
        assert "timelimit_s" not in job or row["limit_ns"] is None
    if "as_of" in expected:
        wanted = pl.Series([expected["as_of"]]).str.to_datetime(time_unit="ns").dt.epoch("ns")[0]
        latest = rows.select(pl.max_horizontal(pl.max("end_ns"), pl.lit(wanted))).item()
        assert found["sources"]["as_of_ns"][0] == latest
    assert expected.get("states", {}).items() <= dict(rows.select("job", "state").iter_rows()).items()


def test_hard_durations_and_hosts() -> None:
    expected = json.loads((HARD / "sacct-elapsed-formats/expected.json").read_text(encoding="utf-8"))[
        "expected"
    ]
    rows = {row["job"]: row for row in read(HARD / "sacct-elapsed-formats/sacct.txt")["attempts"].to_dicts()}
    assert {job: row["run_ns"] / SECOND for job, row in rows.items()} == expected["elapsed_s"]
    assert {job: row["cpu_ns"] / SECOND for job, row in rows.items()} == expected["total_cpu_s"]
    expected = json.loads((HARD / "sacct-hostlist/expected.json").read_text(encoding="utf-8"))["expected"]
    rows = {
        row["job"]: json.loads(row["nodes"] or "[]")
        for row in read(HARD / "sacct-hostlist/sacct.txt")["attempts"].to_dicts()
    }
    assert {job: len(nodes) for job, nodes in rows.items()} == expected["node_count"]
    assert expected["nodes"].items() <= rows.items()
