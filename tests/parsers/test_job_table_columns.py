"""What the columns of a table of jobs are taken for: synonyms, shipped mappings, --map, units; and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fixtures.job_tables.make import BASE, FOLDER
from mpg_parsers.errors import InputError, UsageError
from mpg_parsers.job_table import JOB_TABLE
from mpg_parsers.jobtable.choose import plan_for
from mpg_parsers.jobtable.mapping import from_flags, read_mapping, shipped
from mpg_parsers.jobtable.names import names, squeezed, without_unit
from mpg_parsers.jobtable.node_lists import node_list
from tests.parsers.reading import notices, read_text
from tests.parsers.test_job_table_formats import S, mapped, seconds

if TYPE_CHECKING:
    from pathlib import Path


def row(tmp_path: Path, header: str, cells: str, *flags: str, tz: str = "") -> dict[str, object]:
    """The one attempt of a table with one row; its notices under "notices"."""
    path = tmp_path / "jobs.csv"
    path.write_text(f"{header}\n{cells}\n", encoding="utf-8")
    found = mapped(path, *flags, tz=tz)
    return {**found["attempts"].row(0, named=True), "notices": [kind for kind, _ in notices(found)]}


def test_synonyms_are_squeezed_and_of_one_name_each() -> None:
    every = [synonym for name in names().values() for synonym in name.synonyms]
    assert len(every) == len(set(every))
    assert all(synonym == squeezed(synonym) for synonym in every)


@pytest.mark.parametrize(
    ("column", "form", "unit"),
    [
        ("duration_ms", "duration", "ms"),
        ("Duration (s)", "duration", "s"),
        ("waitHours", "wait", "hours"),
        ("ElapsedRaw", "elapsedraw", ""),
        ("JobID", "jobid", ""),
        ("min", "min", ""),
        ("run_d", "rund", ""),
    ],
)
def test_units_in_names(column: str, form: str, unit: str) -> None:
    assert without_unit(column) == (form, unit)


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        # each: submit, start, end after BASE
        ("id,start,end,gpus", f"1,{BASE},{BASE + 5},8", (None, 0, 5)),
        ("id,start_ms,duration_s,gpus", f"1,{BASE}500,2.5,8", (None, 0, 3)),
        ("id,submitted_at,wait_time,runtime,num_gpus", f"1,{BASE},7,10,8", (0, 7, 17)),
        ("id,submit,start,wall_time,gpus", f"1,{BASE},{BASE + 1},1-00:00:01,8", (0, 1, 86402)),
        ("id,begin,elapsed,ngpus", f"1,{BASE},01:30,8", (None, 0, 90)),
        ("id,begin,elapsed,ngpus", f"1,{BASE},1 day 2:00:00,8", (None, 0, 93600)),
        ("id,end_time,run_hours,gpus", f"1,{BASE + 7200},1.5,8", (None, 1800, 7200)),
        ("id,start,wait_min,end,gpus", f"1,{BASE + 90},1.5,{BASE + 100},8", (0, 90, 100)),
        ("id,start,end,gpus", "1,2026-01-01T00:00:00Z,2026-01-01 01:00:05+01:00,8", (None, 0, 5)),
        ("id,start,end,gpus", "1,2026/01/01 00:00:01,2026-01-01 00:00:02.750,8", (None, 1, 2)),
        ("id,start,end,gpus", f"1,{BASE}000000,{BASE + 5}000000,8", (None, 0, 5)),
        ("id,start,end,gpus", f"1,{BASE}000000000,{BASE + 5}000000000,8", (None, 0, 5)),
        ("id,date,duration,gpus", "1,2026-01-01,60,8", (None, 0, 60)),
        ("id,submit_time,duration,gpus", f"1,{BASE},60,8", (None, 0, 60)),
    ],
)
def test_times(tmp_path: Path, header: str, cells: str, expected: tuple[int | None, ...]) -> None:
    found = read_text(JOB_TABLE, tmp_path, f"{header}\n{cells}\n")["attempts"]
    assert seconds(found) == [expected]
    assert found["chips"].to_list() == [8]


def test_nanoseconds_are_exact(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,start,end,gpus", f"1,{BASE}.000000001,2026-01-01T00:00:01.123456789Z,8")
    assert (cells["start_ns"], cells["end_ns"]) == (BASE * S + 1, (BASE + 1) * S + 123456789)


def test_zone(tmp_path: Path) -> None:
    cells = row(
        tmp_path, "id,start,end,gpus", "1,2026-01-01 01:00:00,2026-01-01 01:00:05,8", tz="Europe/Berlin"
    )
    assert cells["start_ns"] == BASE * S


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("Pass", "COMPLETED"), ("Killed", "CANCELLED"), ("Failed", "FAILED"), ("CANCELLED by 1001", "CANCELLED"),
        ("node_fail", "NODE_FAIL"), ("OOMKilled", "OUT_OF_MEMORY"), ("Succeeded", "COMPLETED"), ("Odd", "ODD"),
    ],
)  # fmt: skip
def test_states(tmp_path: Path, word: str, state: str) -> None:
    cells = row(tmp_path, "id,start,end,gpus,status", f"1,{BASE},{BASE + 5},8,{word}")
    assert cells["state"] == state
    assert cells["cancelled_by"] == ("1001" if "1001" in word else None)


def test_jobs_that_never_started_keep_what_they_asked_for(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,submit,start,end,gpus,state", f"1,{BASE},,,8,queued")
    assert (cells["state"], cells["start_ns"], cells["chips"], cells["chips_requested"]) == (
        "PENDING",
        None,
        0,
        8,
    )


def test_a_running_job_has_no_end(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,start,end,elapsed,gpus,state", f"1,{BASE},,60,8,RUNNING")
    assert (cells["end_ns"], cells["run_ns"]) == (None, 60 * S)


def test_the_only_instant_is_the_start_and_the_wait_unknown(tmp_path: Path) -> None:
    cells = row(
        tmp_path, "timestamp,duration,num_gpus,gpu_time,cluster", "2026-01-01 00:00:00,66.0,2,132.0,11cb48"
    )
    assert (cells["submit_ns"], cells["start_ns"], cells["end_ns"]) == (None, BASE * S, (BASE + 66) * S)
    assert (cells["partition"], cells["notices"]) == ("11cb48", ["start_unknown"])


def test_chip_time_is_checked(tmp_path: Path) -> None:
    cells = row(
        tmp_path, "timestamp,duration,num_gpus,gpu_time,cluster", "2026-01-01 00:00:00,66.0,2,150.0,11cb48"
    )
    assert cells["notices"] == ["chip_time_differs", "start_unknown"]


def test_acme(tmp_path: Path) -> None:
    header = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time"
    )
    day = "2026-01-01 00:00"
    times = f"{day}:00+00:00,{day}:10+00:00,{day}:18+00:00,{day}:18+00:00,"
    cells = row(tmp_path, header, f"dlc1,u1,8,64,960,1000,100.0,Other,FAILED,{times},18,10.0,1152.0")
    assert (cells["chips"], cells["node_count"], cells["labels"]) == (64, 8, '{"type":"Other"}')
    assert (cells["start_ns"], cells["end_ns"]) == ((BASE + 10) * S, (BASE + 18) * S)
    assert cells["notices"] == ["run_differs"]  # duration counts from the submission there


def test_alibaba_pods(tmp_path: Path) -> None:
    header = ",".join(shipped()["alibaba_v2023"].signature)
    cells = row(tmp_path, header, "p1,6000,12288,1,460,V100M16|V100M32,LS,Running,0,12902960,5")
    assert (cells["kind"], cells["chips"], cells["constraints"]) == ("pod", 1, "V100M16|V100M32")
    assert (cells["submit_ns"], cells["start_ns"], cells["end_ns"]) == (0, 5 * S, 12902960 * S)
    assert cells["notices"] == ["relative_time", "mapping"]


def test_mapping_file() -> None:
    found = mapped(FOLDER / "other_names.csv", str(FOLDER / "mapping.toml"))["attempts"]
    assert seconds(found) == [(0, 60, 360), (10, 400, 1000)]
    assert found.select("job", "user", "chips", "state", "chip_type", "labels").rows() == [
        ("a", "ann", 8, "COMPLETED", "H100", None),
        ("b", "bob", 16, "FAILED", "H100", None),
    ]


def test_flags_win_over_a_mapping_file() -> None:
    file = str(FOLDER / "mapping.toml")
    found = mapped(FOLDER / "other_names.csv", file, "chips=cards", "constant.cluster=c1", "label.x=who")[
        "attempts"
    ]
    assert found.select("chips", "cluster", "labels").rows() == [
        (8, "c1", '{"x":"ann"}'),
        (8, "c1", '{"x":"bob"}'),
    ]


def test_flags_win_over_a_shipped_mapping(tmp_path: Path) -> None:
    header, cells = "timestamp,duration,num_gpus,gpu_time,cluster", f"{BASE},66,2,132,c"
    assert row(tmp_path, header, cells, "cluster=cluster")["cluster"] == "c"
    with_state = row(tmp_path, header, cells, "philly", "state=cluster", "state.c=TIMEOUT")
    assert with_state["state"] == "TIMEOUT"


def test_chips_per_node(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,start,end,nodes,gpus_per_node", f'1,{BASE},{BASE + 1},"n[01-02],x",4')
    assert (cells["chips"], cells["node_count"]) == (12, 3)
    assert json.loads(str(cells["chips_by_node"])) == {"n01": 4, "n02": 4, "x": 4}


def test_chips_asked_for_stand_in(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,submit,start,end,gpus_req", f"1,{BASE},{BASE},{BASE + 1},4")
    assert (cells["chips"], cells["chips_requested"], cells["notices"]) == (4, 4, ["chips_requested"])


def test_fractions_of_chips_are_rounded_up(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,submit,start,end,gpus", f"1,{BASE},{BASE},{BASE + 1},0.5")
    assert (cells["chips"], cells["notices"]) == (1, ["fractional_chips"])


def test_a_pool_beside_a_partition_is_a_label(tmp_path: Path) -> None:
    start = f"id,submit,start,end,gpus\n1,{BASE},{BASE},{BASE + 1},1".split("\n")
    assert row(tmp_path, f"{start[0]},pool", f"{start[1]},p")["partition"] == "p"
    both = row(tmp_path, f"{start[0]},pool,queue", f"{start[1]},p,q")
    assert (both["partition"], both["labels"]) == ("q", '{"pool":"p"}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1 n2", ["n1", "n2"]),
        ("['n1', 'n2']", ["n1", "n2"]),
        ('["n1"]', ["n1"]),
        ("[n1, n2]", ["n1", "n2"]),
        ("a[1-2,4]-ib,b", ["a1-ib", "a2-ib", "a4-ib", "b"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n1;n1", ["n1"]),
        ("[]", []),
        ("", []),
    ],
)
def test_node_lists(text: str, expected: list[str]) -> None:
    assert node_list(text) == expected


# ----------------------------------------------------------------------------------------------------- bad rows


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("2,x,{b},8,", "start is not a time"),
        ("2,{a},{b},many,", "chips is not a number"),
        ("2,{a},{b},-8,", "chips are negative"),
        ("2,{a},{b},,", "chips are not given"),
        ("2,{b},{a},8,", "it ends before it starts"),
        ("2,,{b},8,COMPLETED", "it ran, but its start is not given"),
        ("2,{a},,8,FAILED", "it is over, but its end is not given"),
        ("2,,,8,", "it has no time"),
        ("2,{a},{b},8,COMPLETED,more", "it has more fields than the header has names"),
        ('2,{a},{b},8,"x"y', "its quotes do not match"),
        ("2,9999-01-01 00:00:00,{b},8,", "start is not a time"),
        ("2,{a},99999999999999999999,8,", "end is not a time"),
    ],
)
def test_bad_rows_are_told(tmp_path: Path, cells: str, why: str) -> None:
    a, b = BASE, BASE + 60
    text = f"id,start,end,gpus,state\n1,{a},{b},8,FAILED\n{cells.format(a=a, b=b)}\n3,{a},{b},8,FAILED\n"
    found = read_text(JOB_TABLE, tmp_path, text)
    assert found["attempts"]["raw_id"].to_list() == ["1", "3"]
    assert found["sources"]["events"].to_list() == [3]
    told = [notice for notice in json.loads(found["sources"]["notices"][0]) if notice["kind"] == "bad_row"]
    assert told == [
        {"kind": "bad_row", "message": f"1 row was left out: {why} (first on line 3)", "count": 1}
    ]


def test_values_that_matter_less_cost_no_row(tmp_path: Path) -> None:
    cells = row(tmp_path, "id,submit,start,end,gpus,priority", f"1,soon,{BASE},{BASE + 1},8,high")
    assert (cells["submit_ns"], cells["priority"], cells["notices"]) == (
        None,
        None,
        ["bad_value", "bad_value"],
    )


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    rows = f'1,"two\r\nlines",{BASE},{BASE},8\r\n\r\n2,"a,b",{BASE},{BASE},8\r\n'
    text = "\ufeff# made by hand\r\nid,name,start,end,gpus\r\n" + rows
    found = read_text(JOB_TABLE, tmp_path, text.encode())["attempts"]
    assert found.select("raw_id", "name", "line").rows() == [("1", "two\r\nlines", 3), ("2", "a,b", 6)]


def test_utf16(tmp_path: Path) -> None:
    text = f"id\tuser\tstart\tend\tgpus\n1\tJosé\t{BASE}\t{BASE}\t8\n"
    assert read_text(JOB_TABLE, tmp_path, text.encode("utf-16"))["attempts"]["user"].to_list() == ["José"]


# ------------------------------------------------------------------------------------------------------ refused


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_text(JOB_TABLE, tmp_path, "id,began_ish,cards\n1,2,3\n")
    assert caught.value.kind == "unsupported_format"
    assert "no column is known to be chips" in caught.value.message
    assert "it has: id, began_ish, cards" in caught.value.message
    assert "--map chips=" in caught.value.hint


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("chip=gpus", "no column of a job table is called 'chip'; did you mean 'chips'?"),
        ("filly", "no such mapping; did you mean 'philly'?"),
        ("unit.run=lightyears", "no unit 'lightyears'"),
        ("unit.user=s", "user has no unit"),
        ("constant.start=3", "start cannot be the same for all rows"),
        ("constant.chips=few", "chips is a whole number"),
        ("chips=", "nothing after the ="),
        ("none.toml", "cannot be read"),
    ],
)
def test_flags_that_mean_nothing(flag: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_flags([flag])
    assert message in caught.value.message
    assert caught.value.hint


def test_a_column_that_the_file_lacks() -> None:
    with pytest.raises(InputError) as caught:
        mapped(FOLDER / "jobs.csv", "chips=num_gpu")
    assert "did you mean 'num_gpus'?" in caught.value.message
    assert "its columns are: job_id, user" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[columns\n", "not TOML"),
        ("[colums]\nchips = 'x'\n", "unknown key 'colums'; did you mean 'columns'?"),
        ("columns = 3\n", "columns is not a table"),
        ("[columns]\nchips = true\n", "chips is neither text nor a number"),
        ("[columns]\nship = 'x'\n", "called 'ship'"),
        ("missing = 'x'\n", "missing is not a list"),
    ],
)
def test_bad_mapping_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_mapping(path)
    assert message in caught.value.message


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_mappings_fit_their_signature(name: str) -> None:
    mapping = shipped()[name]
    from_flags([name])
    plan = plan_for(mapping.signature)
    assert (plan.name, plan.lacks()) == (name, [])
