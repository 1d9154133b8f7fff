"""Slurm's files with records of no job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mpg_parsers.slurm_files import SLURM
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read_text

if TYPE_CHECKING:
    from pathlib import Path

TINY = ROOT / "fixtures/slurm/tiny"


@pytest.mark.parametrize("name", ["sacct.json", "squeue.json"])
@pytest.mark.parametrize("number", [None, -1, 4294967294, "x", 1e300])
def test_records_without_the_number_of_a_job(tmp_path: Path, name: str, number: Any) -> None:
    found = json.loads((TINY / name).read_text())
    known = read_text(SLURM, tmp_path, json.dumps(found))["attempts"]
    found["jobs"][0]["job_id"] = number
    tables = read_text(SLURM, tmp_path, json.dumps(found))
    assert tables["attempts"].drop("line").equals(known[1:].drop("line"))
    assert ("bad_row", 1) in notices(tables)


def test_lines_without_the_number_of_a_job(tmp_path: Path) -> None:
    header, first, *rest = (TINY / "sacct.psv").read_text().splitlines()
    cut = first.split("|", 2)[2]
    tables = read_text(SLURM, tmp_path, "\n".join([header, f"||{cut}", *rest]))
    assert "1" not in tables["attempts"]["job"].to_list()
    assert ("bad_row", 1) in notices(tables)
