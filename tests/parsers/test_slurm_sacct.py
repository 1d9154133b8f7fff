"""sacct, as text in any shape and as JSON of any version: the same attempts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.slurm import make
from mpg_parsers import registry
from mpg_parsers.errors import InputError
from mpg_parsers.slurm_files import SLURM
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

FIXTURES = ROOT / "fixtures/slurm/tiny"
SECOND = 1_000_000_000
HEADER = "JobID|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES"
ROW = "7|train|COMPLETED|1767571200|1767571260|1767571320|60|gres/gpu=8"


def at(second: int | None) -> int | None:
    return None if second is None else (make.MIDNIGHT + second) * SECOND


def attempts(folder: Path, text: str | bytes, **options: Any) -> pl.DataFrame:
    return read_text(SLURM, folder, text, **options)["attempts"]


def one(folder: Path, text: str, **options: Any) -> dict[str, Any]:
    """The only attempt in a table of one row."""
    rows = attempts(folder, text, **options)
    assert rows.height == 1
    return rows.row(0, named=True)


def refused(folder: Path, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_text(SLURM, folder, text)
    return caught.value


def test_the_files_are_what_make_writes() -> None:
    for name, text in make.files().items():
        assert (FIXTURES / name).read_text(encoding="utf-8") == text


# ----------------------------------------------------------------------------------------- what a record becomes


def test_every_record() -> None:
    """Against the jobs themselves."""
    rows = read(SLURM, FIXTURES / "sacct.psv")["attempts"]
    assert rows.height == len(make.JOBS)
    for row, job in zip(rows.iter_rows(named=True), make.JOBS, strict=True):
        assert (row["raw_id"], row["user"], row["qos"]) == (str(job.raw), job.user, job.qos)
        assert row["job"] == job.id.partition("+")[0]
        eligible = job.submit if job.eligible is None else job.eligible
        found = [row[f"{name}_ns"] for name in ("submit", "eligible", "start", "end")]
        assert found == [at(job.submit), at(eligible), at(job.start), at(job.end)]
        assert (row["run_ns"], row["suspended_ns"]) == (job.elapsed * SECOND, job.suspended * SECOND)
        assert (row["chips"], row["chips_requested"]) == (job.chips, job.asked)
        assert (row["state"], row["name"]) == (job.state.split()[0], job.name)
        assert row["limit_ns"] == (None if job.limit is None else job.limit * 60 * SECOND)
        assert row["failed_node"] == (job.failed or None)


def test_the_rest_of_some_records() -> None:
    rows = {
        (row["raw_id"], row["submit_ns"]): row
        for row in read(SLURM, FIXTURES / "sacct.psv")["attempts"].iter_rows(named=True)
    }
    first = rows["1", at(0)]
    assert (first["nodes"], first["node_count"], first["chip_type"]) == ('["n1", "n2"]', 2, "h100")
    assert (first["chips_by_type"], first["cluster"], first["partition"]) == ('{"h100": 8}', "tiny", "gpu")
    assert json.loads(first["labels"]) == {"model": "llama", "team": "nlp"}
    assert (first["switches"], first["switches_wait_ns"], first["holds"]) == (1, 600 * SECOND, None)
    task = rows["2", at(0)]
    assert (task["job"], task["array"], task["holds"]) == ("2_2", "2", '["array_limit"]')
    assert (task["exit_code"], task["reason"]) == ("3:0", "JobArrayTaskLimit")
    part = rows["4", at(0)]
    assert (part["job"], part["array"], part["chips"]) == ("3", None, 0)
    cancelled = rows["8", at(1000)]
    assert (cancelled["cancelled_by"], cancelled["nodes"], cancelled["node_count"]) == ("1002", None, 4)
    assert rows["13", at(5000)]["holds"] == '["dependency"]'
    assert (rows["6", at(1000)]["restarts"], rows["6", at(1000)]["priority"]) == (1, 106)
    piped = rows["9", at(1300)]
    assert json.loads(piped["labels"]) == {"x": "1", "y": "2"}


def test_the_row_of_sources() -> None:
    found = read(SLURM, FIXTURES / "sacct.psv")
    source = found["sources"].row(0, named=True)
    assert (source["format"], source["framework"], source["events"]) == ("slurm-sacct", "Slurm", 18)
    assert (source["as_of_ns"], source["naive_time"], source["first_ns"]) == (at(7200), None, None)
    assert notices(found) == [("repaired_input", 1)]
    assert "line 11 (job 9)" in source["notices"]


# ------------------------------------------------------------------------------------------------- shapes of text

SHAPES: list[dict[str, Any]] = [
    {"epoch": False},
    {"epoch": False, "steps": True, "ends": True},
    {"delimiter": "\x1f"},
    {"delimiter": "^"},
    {"delimiter": "\t"},
    {"delimiter": "::"},
    {"columns": make.COLUMNS[::-1]},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(tmp_path: Path, shape: dict[str, Any]) -> None:
    wanted = attempts(tmp_path, make.table())
    found = attempts(tmp_path, make.table(**shape), tz="UTC")
    assert found.drop("line").equals(wanted.drop("line"))


def test_a_comma_between_columns(tmp_path: Path) -> None:
    columns = [
        name for name in make.COLUMNS if name not in ("Comment", "SubmitLine", "Constraints", "ReqTRES")
    ]
    found = attempts(tmp_path, make.table(columns, ","))
    assert found["chips"].to_list() == [job.chips for job in make.JOBS]
    quoted = (
        "JobID,State,Submit,Start,End,AllocTRES\n"
        '7,COMPLETED,1767571200,1767571260,1767571320,"cpu=1,gres/gpu=8"\n'
    )
    both = read_text(SLURM, tmp_path, quoted)
    assert (both["attempts"]["chips"].to_list(), notices(both)) == ([8], [])


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\r\n{ROW}\r\n",
        f"\ufeff{HEADER}\n{ROW}",
        f"$ sacct -P\n\n{HEADER}\n{ROW}\n\n$ \n",
        f"{HEADER}\n{ROW}\n{HEADER}\n",
        f"{HEADER}\n{ROW.replace('7|', '7.batch|')}\n{ROW}\n{ROW.replace('7|', '7.0|')}\n",
        f"{HEADER}|\n{ROW}|\n",
    ],
)
def test_what_surrounds_the_rows(tmp_path: Path, text: str) -> None:
    found = read_text(SLURM, tmp_path, text)
    assert found["attempts"].select("job", "chips", "run_ns").rows() == [("7", 8, 60 * SECOND)]
    assert notices(found) == []


def test_utf16(tmp_path: Path) -> None:
    assert one(tmp_path, f"{HEADER}\n{ROW}\n".encode("utf-16"))["chips"] == 8  # type: ignore[arg-type]


def test_header_only(tmp_path: Path) -> None:
    found = read_text(SLURM, tmp_path, HEADER)
    assert (found["attempts"].height, found["sources"]["events"][0], notices(found)) == (0, 0, [])


# --------------------------------------------------------------------------------------------------- single cells


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ({"State": "OUT_OF_ME+"}, {"state": "OUT_OF_MEMORY"}),
        ({"AllocTRES": ""}, {"chips": None}),
        ({"AllocTRES": "cpu=1"}, {"chips": 0, "chips_by_type": None}),
        ({"AllocTRES": "gres/gpu:a=1,gres/gpu:b=2"}, {"chips": 3, "chip_type": None}),
        ({"Start": "Unknown", "End": "Unknown", "State": "PENDING", "AllocTRES": ""}, {"chips": 0, "start_ns": None}),
        # before 22.05, the start of what was cancelled before it is when it was cancelled
        (
            {"Start": "1767571320", "ElapsedRaw": "0", "AllocTRES": "", "State": "CANCELLED by 0"},
            {"start_ns": None, "chips": 0, "end_ns": 1_767_571_320 * SECOND},
        ),
        ({"JobID": "2_[5-6%2]"}, {"job": "2_[5-6%2]", "array": "2", "raw_id": "2_[5-6%2]", "holds": '["array_limit"]'}),
        ({"JobID": "3+1"}, {"job": "3", "raw_id": "3+1"}),
    ],
)  # fmt: skip
def test_cells(tmp_path: Path, cells: dict[str, str], wanted: dict[str, Any]) -> None:
    row = dict(zip(HEADER.split("|"), ROW.split("|"), strict=True)) | cells
    more = "8|x|COMPLETED|1767571200|1767571200|1767571201|1|gres/gpu=1"
    found = attempts(tmp_path, f"{HEADER}\n{'|'.join(row.values())}\n{more}\n").row(0, named=True)
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("name", "cell", "column", "value"),
    [
        ("Elapsed", "2-01:24:56", "run_ns", 177_896 * SECOND),
        ("Suspended", "00:45:00", "suspended_ns", 2700 * SECOND),
        ("Timelimit", "1-00:00:00", "limit_ns", 86_400 * SECOND),
        ("Timelimit", "Partition_Limit", "limit_ns", None),
        ("TimelimitRaw", "60", "limit_ns", 3600 * SECOND),
        ("TotalCPU", "04:03.123", "cpu_ns", 243_123_000_000),
        ("ReqTRES", "cpu=1,gres/gpu=16", "chips_requested", 16),
        ("ReqGRES", "gpu:4", "chips_requested", 8),
        ("NodeList", "gpu[01-02]", "nodes", '["gpu01", "gpu02"]'),
        ("NodeList", "None assigned", "nodes", None),
        ("Reason", "None", "reason", None),
        ("Restarts", "3", "restarts", 3),
        ("Priority", "4294967294", "priority", None),
        ("WCKey", "vision", "labels", '{"wckey": "vision"}'),
        ("Constraints", "a100&nvlink", "constraints", "a100&nvlink"),
    ],
)
def test_columns(tmp_path: Path, name: str, cell: str, column: str, value: object) -> None:
    header = f"JobID|State|Submit|Start|End|NNodes|AllocTRES|{name}"
    text = f"{header}\n1|COMPLETED|1767571200|1767571200|1767571300|2|gres/gpu=8|{cell}\n"
    assert one(tmp_path, text)[column] == value


def test_gres_of_old_versions(tmp_path: Path) -> None:
    header = "JobID|State|Submit|Start|End|NNodes|AllocGRES|ReqGRES"
    row = one(tmp_path, f"{header}\n1|COMPLETED|1767571200|1767571200|1767571300|2|gpu:8|gpu:4\n")
    assert (row["chips"], row["chips_requested"]) == (8, 8)


@pytest.mark.parametrize(
    ("header", "row", "why"),
    [
        ("AllocTRES|SubmitLine", "cpu=1|sbatch --gres=gpu:4 x.sh", "AccountingStorageTRES"),
        ("NNodes|SubmitLine", "1|sbatch --gres=gpu:4 x.sh", "AllocTRES"),
    ],
)
def test_no_chips(tmp_path: Path, header: str, row: str, why: str) -> None:
    text = f"JobID|State|Submit|Start|End|{header}\n1|COMPLETED|1767571200|1767571200|1767571300|{row}\n"
    found = read_text(SLURM, tmp_path, text)
    assert found["attempts"].select("chips", "chips_requested").row(0) == (None, None)
    assert notices(found) == [("no_chips", 1)]
    assert why in found["sources"]["notices"][0]


def test_a_forecast_proves_nothing(tmp_path: Path) -> None:
    """A job that may begin tomorrow, and one that runs: as of what has run."""
    header = "JobID|State|Submit|Eligible|Start|End|ElapsedRaw|Suspended|AllocTRES"
    rows = [
        "1|PENDING|1767571200|1767657600|Unknown|Unknown|0|00:00:00|",
        "2|RUNNING|1767571200|1767571200|1767571300|Unknown|50|00:00:10|gres/gpu=1",
    ]
    found = read_text(SLURM, tmp_path, "\n".join([header, *rows]))
    assert found["sources"]["as_of_ns"][0] == 1_767_571_360 * SECOND


# ------------------------------------------------------------------------------------------------------- damage


def test_a_text_with_an_end_of_line(tmp_path: Path) -> None:
    found = read_text(
        SLURM, tmp_path, f"{HEADER}\n{ROW}\n{ROW.replace('train', 'two' + chr(10) + 'lines')}\n{ROW}\n"
    )
    assert found["attempts"]["name"].to_list() == ["train", "two\nlines", "train"]
    assert found["attempts"]["line"].to_list() == [2, 3, 5]
    assert notices(found) == [("repaired_input", 1)]


def test_rows_that_cannot_be_told_apart(tmp_path: Path) -> None:
    damaged = "8|COMPLETED|x|1767571200|1767571260"
    found = read_text(SLURM, tmp_path, f"{HEADER}\n{ROW}\n{damaged}\n{ROW}\n")
    assert (found["attempts"].height, notices(found)) == (2, [("bad_row", 1)])
    assert "line 3 (job 8)" in found["sources"]["notices"][0]


def test_texts_that_could_be_divided_in_several_ways(tmp_path: Path) -> None:
    """The times are certain, the two texts are not."""
    text = "JobID|JobName|Comment|Submit|Start|End\n1|a|b|c|1767571200|1767571200|1767571300\n"
    row = one(tmp_path, text)
    assert (row["name"], row["end_ns"]) == (None, 1_767_571_300 * SECOND)


def test_the_command_line_tells_texts_apart(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|Comment|SubmitLine|JobName"
    cells = "1|1767571200|1767571200|1767571300|k=1|v=2|sbatch --comment=k=1|v=2 -J a|b x.sh|a|b"
    row = one(tmp_path, f"{header}\n{cells}\n")
    assert (row["name"], json.loads(row["labels"])) == ("a|b", {"k": "1", "v": "2"})


def test_a_bad_time(tmp_path: Path) -> None:
    found = read_text(SLURM, tmp_path, f"{HEADER}\n{ROW}\n{ROW.replace('1767571260', 'x12')}\n")
    assert (found["attempts"].height, notices(found)) == (1, [("bad_row", 1)])


def test_a_cut_file(tmp_path: Path) -> None:
    found = read_text(SLURM, tmp_path, f"{HEADER}\n{ROW}\n8|x|COMPL")
    assert (found["attempts"].height, notices(found)) == (1, [("truncated_input", 1)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("JobIDRaw|JobID|State|End\n1|1|COMPLETED|1767571300\n", ["Submit", "Start"]),
        ("Submit|Start|End|State\n1767571200|1767571200|1767571300|COMPLETED\n", ["JobID"]),
        ("JobID|State|Submit|Start|End\n1|COMPLETED|14:43:40|14:43:40|14:44:41\n", ["date"]),
        ("JobID    JobName     State \n-------- ---------- ------ \n1   x   COMPLETED\n", ["fixed width"]),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    error = refused(tmp_path, text)
    assert error.kind == "unsupported_format"
    assert all(word in error.message for word in words)
    assert "SLURM_TIME_FORMAT=%s sacct -a -D -X -P" in error.hint


# ------------------------------------------------------------------------------------------------ change of clocks

CLOCKS = "JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES\n{}\n"


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "wanted"),
    [
        # in Berlin, 02:00 to 03:00 comes twice on 25 October 2026: from 00:00 UTC on, and from 01:00 UTC on
        ("2026-10-25T01:30:00", "2026-10-25T02:30:00", 3600, (-1800, 1800)),
        ("2026-10-25T01:30:00", "2026-10-25T02:30:00", 7200, (-1800, 5400)),
        ("2026-10-25T02:30:00", "2026-10-25T03:30:00", 7200, (1800, 9000)),
        ("2026-10-25T02:30:00", "2026-10-25T03:30:00", 3600, (5400, 9000)),
    ],
)
def test_a_time_that_comes_twice(
    tmp_path: Path, start: str, end: str, elapsed: int, wanted: tuple[int, int]
) -> None:
    text = CLOCKS.format(f"1|COMPLETED|2026-10-24T00:00:00|{start}|{end}|{elapsed}|gres/gpu=1")
    row = one(tmp_path, text, tz="Europe/Berlin")
    midnight = 1_792_886_400
    assert (row["start_ns"], row["end_ns"]) == tuple((midnight + second) * SECOND for second in wanted)


def test_a_change_of_clocks_in_an_unnamed_zone(tmp_path: Path) -> None:
    row = "1|COMPLETED|2026-10-24T00:00:00|2026-10-25T01:30:00|2026-10-25T03:30:00|10800|gres/gpu=1"
    found = read_text(SLURM, tmp_path, CLOCKS.format(row))
    assert notices(found) == [("naive_time", 1)]
    assert "--tz" in found["sources"]["notices"][0]
    assert notices(read_text(SLURM, tmp_path, CLOCKS.format(row), tz="Europe/Berlin")) == []


def test_a_time_that_never_was(tmp_path: Path) -> None:
    row = "1|COMPLETED|2026-03-28T00:00:00|2026-03-29T02:30:00|2026-03-29T03:30:00|3600|gres/gpu=1"
    found = read_text(SLURM, tmp_path, CLOCKS.format(row) + row.replace("02:30", "01:30"), tz="Europe/Berlin")
    assert (found["attempts"].height, notices(found)) == (1, [("bad_row", 1)])


# --------------------------------------------------------------------------------------------------------- JSON

VERSIONS = ("v0.0.38", "v0.0.40", "v0.0.41", "v0.0.42", "v0.0.44")
# a user's name where the text has an id; what only some versions state
UNLIKE = {"cancelled_by", "line", "cpu_ns"}


@pytest.mark.parametrize("version", VERSIONS)
def test_json_says_what_the_text_says(tmp_path: Path, version: str) -> None:
    wanted = attempts(tmp_path, make.table())
    found = read_text(SLURM, tmp_path, make.sacct_json(version))
    unlike = UNLIKE | (
        {"holds", "switches", "switches_wait_ns", "exit_code"} if version == "v0.0.38" else set()
    )
    unlike |= {"restarts"} if version < "v0.0.42" else set()
    for name in set(wanted.columns) - unlike:
        assert found["attempts"][name].to_list() == wanted[name].to_list(), name
    assert found["attempts"]["cpu_ns"].unique().to_list() == [1500 * 1_000_000]
    source = found["sources"].row(0, named=True)
    assert (source["format"], source["as_of_ns"], source["notices"]) == ("slurm-sacct-json", at(7200), "[]")
    assert version in source["format_version"]


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.999])
def test_json_that_is_cut(tmp_path: Path, cut: float) -> None:
    text = make.sacct_json()
    found = read_text(SLURM, tmp_path, text[: int(len(text) * cut)])
    wanted = attempts(tmp_path, text).drop("line")
    got = found["attempts"].drop("line")
    assert got.equals(wanted.head(got.height))
    assert cut > 0.99 or (notices(found) == [("truncated_input", 1)] and got.height < wanted.height)


def test_json_with_a_record_that_is_none(tmp_path: Path) -> None:
    document = json.loads(make.sacct_json())
    document["jobs"][3] = 5
    document["jobs"].insert(1, {"job_id": "x", "time": 7, "tres": [], "state": None, "array": "a"})
    with pytest.raises(InputError) as caught:
        read_text(SLURM, tmp_path, json.dumps(document))
    assert caught.value.kind == "corrupt_input"
    del document["jobs"][4]
    assert attempts(tmp_path, json.dumps(document)).height == len(make.JOBS) - 1


def test_no_jobs_in_json(tmp_path: Path) -> None:
    text = (
        '{"meta": {"plugin": {"type": "openapi\\/dbv0.0.38"}, "Slurm": {"release": "22.05.8"}}, "jobs": [ ]}'
    )
    found = read_text(SLURM, tmp_path, text)
    assert (found["attempts"].height, found["sources"]["format"][0]) == (0, "slurm-sacct-json")


# ----------------------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize("name", sorted(make.files()))
def test_ours_and_nobody_elses(name: str) -> None:
    head = (FIXTURES / name).read_bytes()[:65536]
    assert registry.chosen(head, name) is SLURM


@pytest.mark.parametrize(
    "text",
    [
        "job_id,user,gpu_num,state,submit_time\n1,a,8,COMPLETED,2020-01-01 00:00:00\n",
        "JobId,Name\n",
        '{"traceEvents": [], "schemaVersion": 1}',
        '{"jobs": [{"name": "x"}]}',
        '{"kind": "List", "items": []}',
        '{"nodes": [{"id": 1}], "edges": []}',
        "[2026-01-05T00:00:00.001] something else entirely\n",
        "key = value\nother = thing\n",
        "Name|Priority|GraceTime|Preempt\nnormal|0|00:00:00|\n",
        "Type|Name|ID\ngres|gpu|1001\n",
        "slurm-wlm 22.05.8\n",
        "",
        "\0\1\2",
    ],
)
def test_not_ours(text: str) -> None:
    assert SLURM.sniff(text.encode(), "sacct.psv")
