"""Public job traces: the populations that are known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from mpg_parsers.errors import InputError
from mpg_parsers.job_table import JOB_TABLE
from tests.parsers.reading import notices, read
from tests.real_traces import CORPUS, NO_CORPUS

if TYPE_CHECKING:
    from pathlib import Path

JOBS = CORPUS / "public_jobs"
PHILLY, EAGLE = JOBS / "philly.csv.gz", JOBS / "nrel_eagle_sample.csv"
ACME_SUMMARY = JOBS / "acme_cluster_summary.csv"
SECOND, HOUR = 1_000_000_000, 3_600_000_000_000

pytestmark = pytest.mark.skipif(not JOBS.is_dir(), reason=NO_CORPUS)


def test_philly() -> None:
    """The derived copy of 82,247 jobs (82,249 lines: a header, and one line that is blank)."""
    found = read(JOB_TABLE, PHILLY)
    jobs = found["attempts"].with_columns(run=pl.col("end_ns") - pl.col("start_ns"))
    jobs = jobs.with_columns(chip_ns=pl.col("run") * pl.col("chips"))
    assert jobs.height == 82_247
    assert jobs["raw_id"].n_unique() == jobs.height
    assert round(jobs["chip_ns"].sum() / HOUR) == 978_078
    assert round(jobs["run"].mean() / SECOND) == 13_136  # type: ignore[operator]
    assert jobs["run"].median() == 1144 * SECOND
    assert round(jobs["chips"].mean(), 2) == 1.30  # type: ignore[arg-type, call-overload]
    sizes = (
        pl.col("chips") == 1,
        pl.col("chips").is_between(2, 4),
        pl.col("chips").is_between(5, 8),
        pl.col("chips") > 8,
    )
    shares = [
        (100 * part.height / jobs.height, 100 * part["chip_ns"].sum() / jobs["chip_ns"].sum())
        for part in (jobs.filter(size) for size in sizes)
    ]
    assert [round(of_jobs, 1) for of_jobs, _ in shares] == [93.2, 4.5, 2.0, 0.4]
    assert [round(of_time, 1) for _, of_time in shares] == [18.1, 19.9, 48.4, 13.6]
    # gpu_time is num_gpus times duration in every row; of the wait nothing is known
    assert notices(found) == [("start_unknown", 82_247)]
    assert jobs["submit_ns"].null_count() == jobs.height
    assert found["sources"].select("format", "format_version", "naive_time").row(0) == (
        "job-table",
        "philly",
        True,
    )


def test_eagle() -> None:
    """A thousand jobs of Slurm, those of an array under one id; 10 GPU-hours in all, as most ask for none."""
    found = read(JOB_TABLE, EAGLE)
    jobs = found["attempts"]
    assert (jobs.height, jobs["raw_id"].n_unique()) == (1000, 1000)
    assert dict(notices(found)) == {"repeated_ids": 451, "chips_requested": 1000}
    raw = pl.read_csv(EAGLE)
    assert jobs["chips_requested"].to_list() == raw["gpus_req"].to_list()
    assert (jobs["run_ns"] // SECOND).to_list() == raw["run_time"].cast(pl.Int64).to_list()
    assert (jobs["end_ns"] - jobs["start_ns"]).to_list() == jobs["run_ns"].to_list()
    assert jobs["submit_ns"].null_count() == 0


@pytest.mark.parametrize("path", [ACME_SUMMARY], ids=["acme"])
def test_a_summary_is_no_table_of_jobs(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(JOB_TABLE, path)
    assert caught.value.kind == "unsupported_format"
    assert "chips" in caught.value.message
