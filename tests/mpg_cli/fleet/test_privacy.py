"""--redact: no name that stands in the records is in the report, and no figure changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mpg_cli.running import analyze, mpg

ROOT = Path(__file__).resolve().parents[3]
SLURM = ROOT / "fixtures/slurm/tiny"
KUBERNETES = ROOT / "fixtures/kubernetes/dump.json"
SACCT = """\
Cluster|JobIDRaw|JobID|User|Account|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|AllocTRES|NNodes|NodeList|Comment|JobName
grex|7|7|annabel|physics|deep|COMPLETED|1790000000|1790000000|1790000060|1790003660|3600|gres/gpu=8|1|rack9n1|k=v|hidden-run
grex|8|8|annabel|physics|deep|FAILED|1790000000|1790000000|1790000060|1790003660|3600|gres/gpu=4|1|rack9n2||quokka
grex|9|9|bernard|physics|deep|CANCELLED by 4242|1790000000|1790000000|None|1790000400|0||1|None assigned||quokka
"""
NAMES = (
    "annabel",
    "bernard",
    "physics",
    "rack9n",
    "grex",
    "hidden-run",
    "quokka",
    "4242",
    "deep",
    "records.psv",
)


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "records.psv"
    path.write_text(SACCT)
    return path


@pytest.mark.parametrize("form", ["json", "md", "rich"])
def test_no_name_is_left(sacct: Path, form: str) -> None:
    plain = mpg("analyze", sacct, "-f", "json", "-q", "--no-cache").out
    assert all(name in plain for name in NAMES)
    hidden = mpg("analyze", sacct, "-f", form, "-q", "--no-cache", "--redact")
    assert hidden.status == 0, hidden.err
    assert [name for name in NAMES if name in hidden.out] == []


def test_the_same_name_is_the_same_number(sacct: Path) -> None:
    jobs = {job["job"]: job for job in analyze(sacct, "--redact").report["jobs"]}
    assert [jobs[number]["user"] for number in "789"] == ["user 1", "user 1", "user 2"]
    assert jobs["7"]["nodes"] == ["node 1"]
    assert jobs["8"]["nodes"] == ["node 2"]
    assert jobs["8"]["name"] == jobs["9"]["name"] != jobs["7"]["name"]


@pytest.mark.parametrize("files", [(SLURM,), (KUBERNETES,)], ids=["slurm", "kubernetes"])
def test_no_figure_changes(files: tuple[Path, ...]) -> None:
    plain, hidden = (analyze(*files, "--tz", "UTC", *more).report for more in ((), ("--redact",)))
    for key in ("totals", "ledger", "goodput"):
        assert json.dumps(plain[key]) == json.dumps(hidden[key])
    assert [job["run_s"] for job in plain["jobs"]] == [job["run_s"] for job in hidden["jobs"]]
    assert plain["scheduling"]["waits"] == hidden["scheduling"]["waits"]
