"""Files that give way to another one beside them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from mpg_cli.twins import without_twins
from mpg_parsers.errors import Notice
from mpg_parsers.source import Source
from tests.mpg_cli.running import ROOT, Result, analyze

PROFILE = ROOT / "fixtures/xla/tpu_train/tpu-host-0.xplane.pb"


def kept(*paths: str) -> tuple[list[str], list[Notice]]:
    notices: list[Notice] = []
    sources = [Source(path, "", named=False, file=path, member=None, size=1) for path in paths]
    return [source.path for source in without_twins(sources, notices)], notices


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        (["a.xplane.pb", "a.trace.json.gz"], ["a.xplane.pb"]),
        (["a.trace.json.gz", "a.xplane.pb", "a.trace.json"], ["a.xplane.pb"]),
        (["a.trace.json.gz", "b.xplane.pb"], ["a.trace.json.gz", "b.xplane.pb"]),
        (["x/a.trace.json.gz", "y/a.xplane.pb"], ["x/a.trace.json.gz", "y/a.xplane.pb"]),
        (["z.zip!a.trace.json.gz", "z.zip!a.xplane.pb"], ["z.zip!a.xplane.pb"]),
        (["z.zip!a.trace.json.gz", "a.xplane.pb"], ["z.zip!a.trace.json.gz", "a.xplane.pb"]),
        (["A.Trace.JSON.gz", "A.xplane.pb"], ["A.xplane.pb"]),
        (["a.pt.trace.json.gz", "a.xplane.pb"], ["a.pt.trace.json.gz", "a.xplane.pb"]),
        (["a.json", "a.xplane.pb"], ["a.json", "a.xplane.pb"]),
        (["a.nsys-rep", "a.sqlite", "b.qdrep", "b.sqlite", "c.nsys-rep"], ["a.sqlite", "b.sqlite", "c.nsys-rep"]),
        (["a.trace.json.gz"], ["a.trace.json.gz"]),
        ([], []),
    ],
)  # fmt: skip
def test_which_are_left(paths: list[str], left: list[str]) -> None:
    found, notices = kept(*paths)
    assert found == left
    assert [notice.source for notice in notices] == [path for path in paths if path not in left]


def test_what_is_said() -> None:
    _, (notice,) = kept("run/a.trace.json.gz", "run/a.xplane.pb")
    message = "the profile it was made from, a.xplane.pb is read in its place (skipped)"
    assert notice == Notice("skipped_files", message, 1, "run/a.trace.json.gz")


# ------------------------------------------------------------------------------------------------ run folders


def viewer(path: Path) -> None:
    """The trace viewer's copy of a profile of one TPU: one operation of 2 us."""
    where = {"pid": 3, "tid": 2}
    events = [
        {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", **where, "name": "thread_name", "args": {"name": "XLA Ops"}},
        {"ph": "X", **where, "ts": 1.0, "dur": 2.0, "name": "fusion.1", "args": {"hlo_category": "loop fusion"}},
        {},
    ]  # fmt: skip
    text = json.dumps(
        {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events},
        separators=(",", ":"),
    )
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What the profiler leaves of two hosts, of one of which only the viewer's copy was kept."""
    folder = tmp_path / "plugins/profile/2026_01_02_03_04_05"
    folder.mkdir(parents=True)
    shutil.copy(PROFILE, folder / "host-0.xplane.pb")
    viewer(folder / "host-0.trace.json.gz")
    viewer(folder / "host-1.trace.json.gz")
    return folder


def read(result: Result) -> list[str]:
    return [Path(source["path"]).name for source in result.report["sources"]]


def skipped(result: Result) -> list[str]:
    warnings = result.report["warnings"]
    return [Path(w["source"]).name for w in warnings if w["kind"] == "skipped_files"]


def test_a_run_folder(run: Path) -> None:
    found = analyze(run)
    assert (read(found), skipped(found)) == (
        ["host-0.xplane.pb", "host-1.trace.json.gz"],
        ["host-0.trace.json.gz"],
    )
    alone = analyze(run / "host-0.xplane.pb").report
    chips = [report["totals"]["chips"] for report in (alone, found.report)]
    assert chips == [4, 4 + 1]


def test_the_copy_alone_is_read(run: Path) -> None:
    found = analyze(run / "host-0.trace.json.gz")
    assert (read(found), skipped(found)) == (["host-0.trace.json.gz"], [])
    (run / "host-0.xplane.pb").unlink()
    assert read(analyze(run)) == ["host-0.trace.json.gz"]  # the other has the same content
