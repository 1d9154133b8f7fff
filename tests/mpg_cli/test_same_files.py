"""The same file several times, as a copy or as the output, and files that vanish."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli import ingest as ingesting
from tests.mpg_cli.running import analyze, kernel, mpg, trace

if TYPE_CHECKING:
    from mpg_parsers.source import Source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in/a.json"
    path.parent.mkdir()
    path.write_text(trace())
    return path


def test_a_copy_counts_once(file: Path) -> None:
    shutil.copy(file, file.with_name("copy of a.json"))
    os.link(file, file.with_name("hard.json"))
    with zipfile.ZipFile(file.with_name("z.zip"), "w") as archive:
        archive.writestr("a.json", file.read_text())
    found = analyze(file.parent)
    skipped = [(w["kind"], Path(w["source"]).name, w["message"]) for w in found.report["warnings"]]
    same = f"has the same content as {file} (skipped)"
    assert skipped == [
        ("skipped_files", name, same) for name in ("copy of a.json", "hard.json", "z.zip!a.json")
    ]
    assert found.report["totals"]["chips"] == 1
    assert analyze(file.parent, "--strict").status == 3


@pytest.mark.parametrize(("name", "chips"), [("rank0.json", 1), ("tp0.json", 1)])
def test_a_copy_with_one_rank_at_most_counts_once(file: Path, name: str, chips: int) -> None:
    shutil.copy(file, file.with_name(name))
    assert analyze(file, file.with_name(name)).report["totals"]["chips"] == chips


def test_files_that_differ_in_rank_are_not_taken_for_one(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(trace())
    assert analyze(tmp_path).report["totals"]["chips"] == 2


def test_copies_of_one_rank_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(trace(rank=0))
    found = analyze(tmp_path)
    assert found.status == 3
    assert found.err.startswith(
        f"error[duplicate_rank]: {tmp_path}/a.json: rank 0 is also in {tmp_path}/b.json (the same content)"
    )
    (tmp_path / "b.json").write_text(trace(kernel(0, 99), rank=0))
    assert "the same content" not in analyze(tmp_path).err


# ------------------------------------------------------------------------------------ what is read stays so


def test_the_output_is_none_of_the_inputs(file: Path) -> None:
    before = file.read_text()
    os.link(file, file.with_name("hard.json"))
    file.with_name("link.json").symlink_to(file)
    for name in ("a.json", "hard.json", "link.json"):
        found = mpg("analyze", file, "-o", file.with_name(name), "--force")
        assert (found.status, found.out) == (2, "")
        assert "is one of the files to read" in found.err
    assert mpg("analyze", file.parent, "-o", file, "--force").status == 2
    assert file.read_text() == before
    assert mpg("analyze", file, "-o", file.with_name("report.json")).status == 0
    assert mpg("analyze", file, "-o", file.with_name("report.json"), "--force").status == 0


def test_a_report_is_not_written_over_its_dataset(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert mpg("ingest", file, "-o", folder).status == 0
    for name in ("mpg-dataset.json", "device_ops/part-0000.parquet"):
        assert mpg("report", folder, "-f", "json", "-o", folder / name, "--force").status == 2
    assert mpg("report", folder, "-o", folder / "report.md").status == 0


# ------------------------------------------------------------------------------------------------- vanishing


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_vanishes_while_it_is_read(
    file: Path, spilled: bool, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = ingesting._jobs

    def vanish(source: Source, wanted: int) -> int:
        count = jobs(source, wanted) if when == "after" else 0
        file.unlink()
        return count or jobs(source, wanted)

    if spilled:
        monkeypatch.setattr(ingesting, "IN_MEMORY", 0)
    monkeypatch.setattr(ingesting, "_jobs", vanish)
    found: Any = mpg("analyze", "--no-cache", file)
    assert (found.status, found.out) == (3, "")
    assert found.err.splitlines()[0].startswith(
        (f"error[truncated_input]: {file}: ", f"error[not_found]: {file}: ")
    )
    assert "write" not in found.err.splitlines()[0]
