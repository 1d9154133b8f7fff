"""Tables of jobs and nodes: the same five jobs in every format, and the traces that have a shape of their own."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.job_tables.make import BASE, FOLDER, JOBS, contents, records
from mpg_parsers import registry
from mpg_parsers.errors import InputError, UsageError
from mpg_parsers.job_table import JOB_TABLE
from mpg_parsers.jobtable.mapping import from_flags
from mpg_parsers.registry import ParseOptions
from mpg_parsers.source import expand
from mpg_parsers.tables import TABLES
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
TIMES = ("submit_ns", "start_ns", "end_ns")


def mapped(path: Path, *flags: str, tz: str = "") -> dict[str, pl.DataFrame]:
    """All tables of a file read with --map."""
    parts: dict[str, list[pl.DataFrame]] = {
        name: [table.conform(pl.DataFrame())] for name, table in TABLES.items()
    }
    with expand([str(path)]) as expansion:
        options = ParseOptions(columns=from_flags(flags), tz=tz)
        for table, frame in JOB_TABLE.parse(expansion.sources[0], options):
            parts[table].append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}


def seconds(frame: pl.DataFrame) -> list[tuple[int | None, ...]]:
    """Submit, start and end of every row after BASE."""
    return [
        tuple(None if ns is None else ns // S - BASE for ns in row) for row in frame.select(TIMES).iter_rows()
    ]


def expected() -> list[dict[str, Any]]:
    rows = []
    for job, user, *times, chips, nodes, state in JOBS:
        started = times[1] is not None
        rows.append({
            "raw_id": job, "user": user, "chips": chips if started else 0,
            "chips_requested": None if started else chips, "state": state,
            "nodes": json.dumps(list(nodes)) if nodes else None,
            **{name: None if at is None else (BASE + at) * S for name, at in zip(TIMES, times, strict=True)},
        })  # fmt: skip
    return rows


def test_fixtures_are_what_make_writes() -> None:
    assert {name: (FOLDER / name).read_text(encoding="utf-8") for name in contents()} == contents()


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.tsv", "jobs.json", "jobs.jsonl"])
def test_same_jobs_in_every_format(name: str) -> None:
    found = read(JOB_TABLE, FOLDER / name)
    rows = expected()
    assert found["attempts"].select(rows[0].keys()).to_dicts() == rows
    source = found["sources"].row(0, named=True)
    assert (source["format"], source["events"], source["naive_time"]) == ("job-table", 5, False)
    assert source["as_of_ns"] == (BASE + 3640) * S
    assert notices(found) == []


@pytest.mark.parametrize("packed", [False, True])
def test_parquet(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "jobs.parquet"
    frame = pl.DataFrame([{**row, "nodes": row["nodes"] or None} for row in records()]).with_columns(
        pl.col("submitted_at", "started_at", "finished_at").str.to_datetime(
            "%Y-%m-%dT%H:%M:%SZ", strict=False
        )
    )
    frame.write_parquet(path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = read(JOB_TABLE, path)
    rows = expected()
    assert found["attempts"].select(rows[0].keys()).to_dicts() == rows
    assert found["sources"]["naive_time"][0] is True  # no zone in the file


def test_swf() -> None:
    found = read(JOB_TABLE, FOLDER / "jobs.swf")
    assert seconds(found["attempts"]) == [(0, 60, 360), (10, 400, 1000), (20, None, None), (40, 40, 3640)]
    assert found["attempts"]["state"].to_list() == ["COMPLETED", "FAILED", "CANCELLED", "COMPLETED"]
    assert found["attempts"]["chips"].to_list() == [8, 16, 0, 0]
    assert found["attempts"]["line"].to_list() == [5, 6, 7, 8]
    assert found["sources"]["format_version"][0] == "swf"


def swf_line(number: int, submit: int, wait: int, run: int, status: int = 1, chips: int = 4) -> str:
    fields = [number, submit, wait, run, chips, -1, -1, chips, -1, -1, status, *[-1] * 7]
    return "  ".join(map(str, fields)) + "\n"


def test_swf_without_waits_has_starts(tmp_path: Path) -> None:
    """The log of NASA's iPSC/860 has no waits: its submit times are start times, as the archive says."""
    text = f"; UnixStartTime: {BASE}\n" + swf_line(1, 5, -1, 10) + swf_line(2, 6, -1, 20)
    found = read_text(JOB_TABLE, tmp_path, text)
    assert seconds(found["attempts"]) == [(None, 5, 15), (None, 6, 26)]
    assert notices(found) == [("start_unknown", 2)]


def test_swf_pieces_of_swapped_jobs_count_once(tmp_path: Path) -> None:
    text = (
        f"; UnixStartTime: {BASE}\n"
        + swf_line(1, 5, 1, 30)
        + swf_line(1, 5, 1, 10, 2)
        + swf_line(1, -1, 9, 20, 3)
    )
    found = read_text(JOB_TABLE, tmp_path, text)
    assert seconds(found["attempts"]) == [(5, 6, 36)]
    assert notices(found) == [("partial_executions", 2)]


def test_swf_without_a_beginning_is_relative(tmp_path: Path) -> None:
    found = read_text(JOB_TABLE, tmp_path, swf_line(1, 0, 0, 30))
    assert found["attempts"].select(TIMES).row(0) == (0, 0, 30 * S)
    assert found["sources"]["naive_time"][0] is True


def test_philly_log() -> None:
    found = read(JOB_TABLE, FOLDER / "philly_log.json")["attempts"]
    # the second attempt is submitted when the first ends
    assert seconds(found) == [(10, 370, 390), (390, 400, 1000), (20, None, None)]
    assert found["raw_id"].to_list() == ["b", "b", "c"]
    assert found["state"].to_list() == [None, "FAILED", "CANCELLED"]
    assert found["chips"].to_list() == [16, 16, 0]
    assert found["chips_by_node"][0] == '{"n1": 8, "n2": 8}'
    assert found["restarts"].to_list() == [0, 1, None]


def test_philly_log_with_missing_times(tmp_path: Path) -> None:
    gpus = [{"ip": "m1", "gpus": ["gpu0"]}]
    attempts = [
        {"start_time": "2017-10-07 01:00:00", "end_time": None, "detail": gpus},
        {"start_time": None, "end_time": "2017-10-07 02:00:00", "detail": gpus},
        {"start_time": "2017-10-07 03:00:00", "end_time": None, "detail": gpus},
    ]
    job = {
        "status": "Pass",
        "vc": "v",
        "jobid": "j",
        "attempts": attempts,
        "submitted_time": "None",
        "user": "u",
    }
    found = read_text(JOB_TABLE, tmp_path, json.dumps([job]))
    assert found["attempts"]["state"].to_list() == ["RUNNING"]
    assert notices(found) == [("bad_row", 1), ("bad_row", 1)]


def test_nodes_with_times_are_capacity_too() -> None:
    found = read(JOB_TABLE, FOLDER / "nodes.csv")
    assert found["nodes"].select("node", "chips", "chip_type", "partitions", "state").rows() == [
        ("n1", 8, "H100", '["train"]', "up"),
        ("n2", 8, "H100", '["train", "debug"]', "draining"),
    ]
    assert found["capacity"].select("node", "chips", "state", "start_ns", "end_ns").rows() == [
        ("n1", 8, "up", BASE * S, None),
        ("n2", 8, "up", BASE * S, (BASE + 3600) * S),
        ("n2", 8, "draining", (BASE + 3600) * S, None),
    ]
    assert found["attempts"].height == 0


@pytest.mark.parametrize(
    "text",
    [
        "sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,8,G3\n",
        "machineId, number of GPUs, single GPU mem\nn1,8, 24GB\n",
        '[{"hostname": "n1", "num_gpus": 8}]',
    ],
    ids=["alibaba", "philly", "json"],
)
def test_inventories(tmp_path: Path, text: str) -> None:
    assert read_text(JOB_TABLE, tmp_path, text)["nodes"].select("node", "chips").rows() == [("n1", 8)]


def test_a_column_that_numbers_attempts_makes_them_one_job(tmp_path: Path) -> None:
    text = "job_id,attempt,submit_time,start_time,end_time,gpus\n" + "".join(
        f"j,{number},{BASE},{BASE + start},{BASE + end},4\n"
        for number, start, end in ((1, 10, 20), (2, 25, 40))
    )
    found = read_text(JOB_TABLE, tmp_path, text)["attempts"]
    assert seconds(found) == [(0, 10, 20), (20, 25, 40)]
    assert found["raw_id"].to_list() == ["j", "j"]


def test_repeated_ids_count_as_jobs(tmp_path: Path) -> None:
    text = "job_id,submit_time,start_time,end_time,gpus\n" + f"7,{BASE},{BASE + 1},{BASE + 9},4\n" * 3
    found = read_text(JOB_TABLE, tmp_path, text)
    assert found["attempts"].select("raw_id", "array").rows() == [("7", None), ("7#2", "7"), ("7#3", "7")]
    assert notices(found) == [("repeated_ids", 2)]


# ------------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    ("name", "kind"), [("jobs.json", "truncated_input"), ("philly_log.json", "truncated_input")]
)
def test_cut_json(tmp_path: Path, name: str, kind: str) -> None:
    text = (FOLDER / name).read_bytes()[:-20]
    with pytest.raises(InputError) as caught:
        read_text(JOB_TABLE, tmp_path, text)
    assert caught.value.kind == kind


def test_a_table_without_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_text(JOB_TABLE, tmp_path, "job_id,start_time,end_time,gpus\n")
    assert caught.value.kind == "no_jobs"


def test_a_cut_line_at_the_end_of_damaged_gzip_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    rows = "".join(f"{n},{BASE + n * 37},{BASE + n * 91 + 5000},{n * 7919 % 64}\n" for n in range(1, 4000))
    path.write_bytes(gzip.compress(("id,start,end,gpus\n" + rows).encode())[:-3000])
    found = read(JOB_TABLE, path)
    assert ("truncated_input", 1) in notices(found)
    assert found["attempts"]["line"].to_list() == list(range(2, found["attempts"].height + 2))


WHOLE = {name: text.encode() for name, text in contents().items() if not name.endswith(".toml")}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(WHOLE)),
    places=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), min_size=1, max_size=4),
    cut=st.floats(0.2, 1),
)
def test_damage_is_an_input_error(
    tmp_path: Path, name: str, places: list[tuple[float, bytes]], cut: float
) -> None:
    content = bytearray(WHOLE[name][: int(len(WHOLE[name]) * cut) + 1])
    for place, new in places:
        at = int(place * len(content))
        content[at : at + len(new)] = new
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with suppress(InputError, UsageError):
        mapped(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), new=st.binary(min_size=1, max_size=8))
def test_damaged_parquet_is_an_input_error(tmp_path: Path, place: float, new: bytes) -> None:
    path = tmp_path / "jobs.parquet"
    pl.DataFrame({"id": ["a", "b"], "start": [1, 2], "end": [3, 4], "gpus": [1, 1]}).write_parquet(path)
    content = bytearray(path.read_bytes())
    at = 4 + int(place * (len(content) - 4))
    content[at : at + len(new)] = new
    path.write_bytes(content)
    with suppress(InputError, UsageError):
        mapped(path)


# ------------------------------------------------------------------------------------------------ which parser


@pytest.mark.parametrize("name", sorted(set(contents()) - {"mapping.toml"}))
def test_the_registry_chooses_it(name: str) -> None:
    assert registry.chosen((FOLDER / name).read_bytes(), name) is JOB_TABLE


@pytest.mark.parametrize(
    "text",
    [
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 2}]}',
        '[{"ph": "X", "name": "k", "ts": 1, "dur": 2, "pid": 0}]',
        '{"step": 3, "loss": 1.5, "time": 7}',
        "Epoch 1: loss 0.5, accuracy 0.3\nEpoch 2: loss 0.4, accuracy 0.4\n",
        "no table",
        "1,2,3\n4,5,6\n",
    ],
)
def test_other_files_are_not_taken(text: str) -> None:
    assert JOB_TABLE.sniff(text.encode(), "x")
