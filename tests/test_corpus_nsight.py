"""Real exports of Nsight Systems against plain SQL over the same files, and hard ones, where the corpus is at hand."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.goodput import activity, quality
from mpg_cli.goodput.names import NameRules
from mpg_cli.ingest import IngestOptions, ingest
from mpg_parsers.nsight.folder import TABLES
from tests.mpg_cli.running import analyze
from tests.parsers.nsight.parsing import Parsed, notices, parse_file
from tests.real_traces import CORPUS, NO_CORPUS
from tests.test_corpus import HARD, assert_devices, assert_error, assert_report, check_account

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NSIGHT = CORPUS / "nsight"
THEME = "nsight-sqlite"
EDGES = {"end": 5, "globalPid": 1 << 24, "globalTid": 1 << 24 | 7, "eventType": 59}
UNIFIED = "Unified memory migration "
DIRECTIONS = {
    1: "Memcpy HtoD ",
    2: "Memcpy DtoH ",
    8: "Memcpy DtoD ",
    11: f"{UNIFIED}HtoD",
    12: f"{UNIFIED}DtoH",
}

pytestmark = pytest.mark.skipif(not NSIGHT.is_dir(), reason=NO_CORPUS)


def real_cases() -> dict[str, Any]:
    if not NSIGHT.is_dir():
        return {}
    listed = json.loads((NSIGHT / "expected.json").read_text())
    return {name: want for name, want in listed.items() if (NSIGHT / name).exists()}


def oracles() -> list[str]:
    found = (path.stem for path in sorted((NSIGHT / "oracles").glob("*.json"))) if NSIGHT.is_dir() else ()
    return [
        name for name in found if oracle(name).get("device_activity") and oracle(name).get("kernel_count")
    ]


@cache
def oracle(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((NSIGHT / f"oracles/{name}.json").read_text())
    return found if "row_counts" in found else {}


@cache
def parsed(name: str) -> Parsed:
    return parse_file(NSIGHT / f"sqlite/{name}.sqlite", keep_names=True)


@pytest.mark.parametrize("name", real_cases())
def test_real(name: str) -> None:
    want, found = real_cases()[name], analyze(NSIGHT / name)
    if not want["devices"]:
        assert (found.status, found.out) == (3, "")
        assert found.err.startswith(f"error[no_device_activity]: {NSIGHT / name}: no device activity")
        return
    assert_devices(want["devices"], found.report)
    check_account(found.report)


@pytest.mark.parametrize("name", oracles())
def test_kernels_by_name(name: str) -> None:
    kernels = parsed(name)["device_ops"].filter(kind="kernel")
    ns = pl.col("dur_ns")
    by_name = kernels.group_by("name").agg(count=pl.len(), sum_ns=ns.sum(), min_ns=ns.min(), max_ns=ns.max())
    assert kernels.height == oracle(name)["kernel_count"]
    wanted = oracle(name)["top10_by_demangledName"]
    assert by_name.sort("sum_ns", descending=True)["sum_ns"].head(10).to_list() == [
        w["sum_ns"] for w in wanted
    ]
    for want in wanted:
        assert by_name.filter(name=want["name"]).row(0, named=True) == want


@pytest.mark.parametrize("name", oracles())
def test_launches_join_by_process_and_correlation(name: str) -> None:
    tables, want = parsed(name), oracle(name)["launch_join"]
    kernels = tables["device_ops"].filter(kind="kernel")
    calls = tables["host_events"].filter(kind="runtime")
    assert kernels.join(calls, on="correlation").height == want["rows_on_correlationId_and_pid"]
    assert kernels.join(calls, on="correlation", how="anti").height == want["kernels_without_launch_row"]
    own = pl.col("correlation") % (1 << 32)
    both = (rows.with_columns(own.alias("correlation")) for rows in (kernels, calls))
    assert len(next(both).join(next(both), on="correlation")) == want["rows_on_correlationId_only"]


@pytest.mark.parametrize(
    ("name", "unlinked_ns"),
    [("nsysai_mfu_2gpu_before", 18_700_516), ("nsysai_h100_2gpu_1s", 842_494_947)],
)
def test_device_time_without_a_launch_call(name: str, unlinked_ns: int) -> None:
    """Against SQL: sum of the durations of kernels, copies and sets without a row of the same process and id."""
    path = NSIGHT / f"sqlite/{name}.sqlite"
    if not path.exists():
        pytest.skip(NO_CORPUS)
    assert unlinked_by_sql(path) == unlinked_ns
    with ingest([str(path)], IngestOptions()) as dataset:
        calls = quality.launches(dataset)
        loaded = activity.load(dataset, dataset.scan("sources").collect(), NameRules.load())
        found = quality.measure_linking(quality.link(loaded.ops, calls), calls)
    assert found.unlinked_ns == unlinked_ns


def unlinked_by_sql(path: Path) -> int:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    calls = """SELECT (globalTid >> 24) & 16777215 AS pid, correlationId AS id FROM CUPTI_ACTIVITY_KIND_RUNTIME
        JOIN StringIds ON StringIds.id = nameId WHERE value LIKE '%launch%' OR value LIKE '%memcpy%'
        OR value LIKE '%memset%' OR value LIKE '%graphexec%' OR value LIKE '%graph_exec%'"""
    tables = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
    query = " UNION ALL ".join(
        f"SELECT end - start AS ns, (globalPid >> 24) & 16777215 AS pid, correlationId AS id FROM {table}"
        for table in tables
    )
    total = f"SELECT sum(ns) FROM ({query}) WHERE (pid, id) NOT IN (SELECT pid, id FROM ({calls}))"
    found: int = connection.execute(total).fetchone()[0]
    connection.close()
    return found


@pytest.mark.parametrize("name", oracles())
def test_copies_and_sets(name: str) -> None:
    ops = parsed(name)["device_ops"]
    for want in oracle(name).get("memcpy_by_kind", []):
        label = pl.col("name").str.starts_with(DIRECTIONS[want["copyKind"]])
        copies = ops.filter((pl.col("kind") == "memcpy") & (pl.col("device") == want["deviceId"]) & label)
        found = (copies.height, copies["bytes"].sum(), copies["dur_ns"].sum())
        assert found == (want["count"], want["bytes"], want["sum_ns"])
    for want in oracle(name).get("memset", []):
        sets = ops.filter(kind="memset", device=want["deviceId"])
        found = (sets.height, sets["bytes"].sum(), sets["dur_ns"].sum())
        assert found == (want["count"], want["bytes"], want["sum_ns"])


@pytest.mark.parametrize("name", oracles())
def test_host_events_and_gpus(name: str) -> None:
    tables, counts = parsed(name), oracle(name)["row_counts"]
    of_kind = dict(tables["host_events"]["kind"].value_counts().iter_rows())
    overheads = counts.get("PROFILER_OVERHEAD", 0) + counts.get("CUPTI_ACTIVITY_KIND_OVERHEAD", 0)
    own = tables["host_events"].filter(kind="runtime", name="Command Buffer Full").height
    assert of_kind.get("overhead", 0) + own == overheads
    assert of_kind.get("runtime", 0) - own == counts.get("CUPTI_ACTIVITY_KIND_RUNTIME", 0)
    assert of_kind.get("annotation", 0) + of_kind.get("op", 0) == counts.get("NVTX_EVENTS", 0)
    assert of_kind.get("sync", 0) == counts.get("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", 0)
    assert of_kind.get("os", 0) == counts.get("OSRT_API", 0)
    stated = [
        (g["name"], g["smCount"], g["memoryBandwidth"], g["clockRate"]) for g in oracle(name).get("gpus", [])
    ]
    devices = tables["devices"].select("name", "sm_count", "bandwidth", "clock_hz").unique()
    assert devices.rows() == (stated or [(None,) * 4])


def test_pageable_copies_are_the_four_small_ones() -> None:
    if "nsysai_h100_2gpu_1s" not in oracles():
        pytest.skip(NO_CORPUS)
    copies = parsed("nsysai_h100_2gpu_1s")["device_ops"].filter(kind="memcpy")
    pageable = copies.filter(pl.col("name").str.contains("Pageable"))
    pinned = copies.filter(pl.col("name").str.contains("Pinned"))
    assert (pageable.height, pinned.height) == (4, 450)
    assert pageable["bytes"].max() < 4096


def hard_cases() -> list[str]:
    if not HARD.is_dir():
        return []
    rows = (line.split("\t") for line in (HARD / "INDEX.tsv").read_text().splitlines()[1:])
    return [row[0] for row in rows if row[1] == THEME]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Any]:
    """A copy of a file that another process has locked."""
    holders: list[subprocess.Popen[bytes]] = []

    def hold(file: Path, script: Path) -> Path:
        copy = tmp_path / file.name
        copy.write_bytes(file.read_bytes())
        locking = script.read_text().replace("time.sleep", "print(flush=True); time.sleep")
        command = [sys.executable, "-c", locking, str(copy), "60"]
        holders.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert holders[-1].stdout is not None
        holders[-1].stdout.readline()
        return copy

    yield hold
    for holder in holders:
        holder.terminate()
        holder.communicate()


@pytest.mark.parametrize("name", hard_cases())
def test_hard_input(name: str, held: Any) -> None:
    case = HARD / name
    spec = json.loads((case / "expected.json").read_text())
    paths = [case / path for path in spec["inputs"] if not path.endswith(".py")]
    if (case / "hold_lock.py").exists():
        paths = [held(path, case / "hold_lock.py") for path in paths]
    found, want = analyze(*paths), spec["expected"]
    if want["outcome"] == "error":
        assert_error(want["error"], found)
    else:
        assert_report(want, found.report)


def schemas() -> list[str]:
    return sorted(path.name for path in (NSIGHT / "schemas").glob("*.sql")) if NSIGHT.is_dir() else []


@pytest.mark.parametrize("name", schemas())
def test_full_schemas(name: str, tmp_path: Path) -> None:
    """Every table of a version, with one row of ones (texts: "1") in each that is read."""
    path = tmp_path / "report.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((NSIGHT / "schemas" / name).read_text())
    for table in TABLES:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        if columns:
            values = [EDGES.get(column, 1) for column in columns]
            marks = ", ".join("?" * len(columns))
            connection.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({marks})', values)
    connection.commit()
    connection.close()
    tables = parse_file(path)
    assert sorted(tables["device_ops"]["kind"]) == ["kernel", "memcpy", "memset"]
    assert set(tables["device_ops"]["dur_ns"]) == {4}
    kinds = sorted(tables["host_events"]["kind"].unique())
    assert kinds == ["annotation", "os", "overhead", "runtime", "sync"]
    assert tables["devices"].select("process", "device", "name", "sm_count").rows() == [(1, 1, "1", 1)]
    assert "bad_row" not in notices(tables)
