"""Databases that are locked, damaged, foreign, packed or made to do harm."""

from __future__ import annotations

import gzip
import os
import sqlite3
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.nsight.writer import KERNEL, STRINGS, Exporter, write_sqlite
from mpg_parsers.errors import InputError
from mpg_parsers.nsight.columns import BadValues, integers
from mpg_parsers.registry import detect
from mpg_parsers.source import expand
from tests.parsers.nsight.parsing import notices, parse, parse_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def kernels(count: int = 3) -> Exporter:
    export = Exporter()
    for number in range(count):
        export.kernel(number * 10, number * 10 + 5, f"kernel_{number}(int)", correlationId=number + 1)
    return export


def database(folder: Path, count: int = 3) -> Path:
    path = folder / "report.sqlite"
    write_sqlite(path, kernels(count).rows())
    return path


def failure(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_file(path)
    return caught.value


def test_a_locked_database_is_said_to_be_in_use(tmp_path: Path) -> None:
    path = database(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        error = failure(path)
    finally:
        other.close()
    assert error.kind == "locked"
    assert "in use" in error.message
    assert parse_file(path)["device_ops"].height == 3


@pytest.mark.parametrize("keep", [0, 100, 5000, 0.5])
def test_a_cut_database(tmp_path: Path, keep: float) -> None:
    path = database(tmp_path, 2_000)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    if keep == 0:
        with expand([str(path)]) as expansion, pytest.raises(InputError) as caught:
            detect(expansion.sources[0])
        assert caught.value.kind == "empty_input"
    else:
        assert failure(path).kind == "corrupt_input"


def test_damaged_pages(tmp_path: Path) -> None:
    path = database(tmp_path, 2_000)
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 20] = os.urandom(4096 * 18)
    path.write_bytes(data)
    assert failure(path).kind == "corrupt_input"


def test_damaged_definitions(tmp_path: Path) -> None:
    path = database(tmp_path)
    data = path.read_bytes()
    damaged = data.replace(b'CREATE TABLE "CUPTI', b'CREATE \xba\xdf\xbe "CUPTI')
    assert damaged != data
    path.write_bytes(damaged)
    assert failure(path).kind == "corrupt_input"


FOREIGN: list[tuple[dict[str, Any], str, str]] = [
    ({"users": [{"name": "ann"}]}, "not_a_trace", "users"),
    ({"StringTable": [{"_id_": 1}], KERNEL: [{"start": 1}]}, "unsupported_format", "nvprof"),
]


@pytest.mark.parametrize(("tables", "kind", "said"), FOREIGN)
def test_databases_of_others(tmp_path: Path, tables: dict[str, Any], kind: str, said: str) -> None:
    path = tmp_path / "x.db"
    write_sqlite(path, tables)
    error = failure(path)
    assert (error.kind, said in error.message) == (kind, True)


def test_a_database_without_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()
    if not path.stat().st_size:
        pytest.skip("this SQLite leaves an empty database an empty file")
    assert failure(path).kind == "not_a_trace"


def test_no_device_activity(tmp_path: Path) -> None:
    export = Exporter()
    export.call(0, 5, "cudaGetDeviceCount_v3020", 1)
    export.add("DIAGNOSTIC_EVENT", severity=2, text="No CUDA events collected. Does the process use CUDA?")
    path = tmp_path / "a.sqlite"
    write_sqlite(path, export.rows())
    error = failure(path)
    assert error.kind == "no_device_activity"
    assert "no table CUPTI_ACTIVITY_KIND_KERNEL" in error.message
    assert "No CUDA events collected" in error.message


def test_tables_of_device_activity_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    write_sqlite(path, {KERNEL: [], STRINGS: []})
    assert "0 kernels" in failure(path).message
    path.unlink()
    write_sqlite(path, {KERNEL: [{"start": 1, "end": None, "deviceId": 0}], STRINGS: []})
    assert "(1 rows without a usable start, end or device)" in failure(path).message


def test_launches_without_records_are_left_to_the_analysis(tmp_path: Path) -> None:
    export = Exporter()
    export.call(0, 5, "cudaLaunchKernel_v7000", 1)
    parsed = parse(tmp_path, export)
    assert parsed["device_ops"].is_empty()
    assert parsed["host_events"].height == 1


def gzipped(path: Path) -> Path:
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def zipped(path: Path) -> Path:
    packed = path.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "folder/report.sqlite")
    return packed


@pytest.mark.parametrize("pack", [gzipped, zipped])
def test_packed(tmp_path: Path, pack: Callable[[Path], Path]) -> None:
    path = database(tmp_path)
    assert parse_file(pack(path))["device_ops"].equals(parse_file(path)["device_ops"])


def logged(folder: Path, *, read_only: bool) -> Path:
    """A database whose last rows are in a write-ahead log, as a writer that was killed leaves it."""
    path = database(folder)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL} WHERE start = 0")
    connection.execute(f"UPDATE {KERNEL} SET start = 100, end = 110 WHERE rowid = 4")
    left = folder / "left"
    left.mkdir()
    for file in (path, path.with_name(path.name + "-wal")):
        (left / file.name).write_bytes(file.read_bytes())
    connection.close()
    if read_only:
        left.chmod(0o555)
    return left / path.name


@pytest.mark.parametrize("read_only", [False, True])
def test_rows_in_a_write_ahead_log_count(tmp_path: Path, *, read_only: bool) -> None:
    path = logged(tmp_path, read_only=read_only)
    before = sorted(file.name for file in path.parent.iterdir())
    assert parse_file(path)["device_ops"]["start_ns"].to_list() == [0, 10, 20, 100]
    assert sorted(file.name for file in path.parent.iterdir()) == before


def test_a_database_in_log_mode_without_a_log(tmp_path: Path) -> None:
    path = database(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert parse_file(path)["device_ops"].height == 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_write_that_was_interrupted(tmp_path: Path) -> None:
    """The journal that would undo it lies beside the file, and undoing it is not for us to do."""
    path = database(tmp_path, 500)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"UPDATE {KERNEL} SET start = start + 1")
    left = tmp_path / "left"
    left.mkdir()
    for file in (path, path.with_name(path.name + "-journal")):
        (left / file.name).write_bytes(file.read_bytes())
    connection.close()
    error = failure(left / path.name)
    assert error.kind == "corrupt_input"
    assert "journal" in error.message


def test_only_real_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    write_sqlite(path, {name: rows for name, rows in kernels().rows().items() if name != KERNEL})
    connection = sqlite3.connect(path)
    connection.execute(
        f"CREATE VIEW {KERNEL} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS start, i + 1 AS end, 0 AS deviceId FROM n"
    )
    connection.execute("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(text)")
    connection.commit()
    connection.close()
    assert f"no table {KERNEL}" in failure(path).message


def test_generated_columns_are_not_computed(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    write_sqlite(path, {name: rows for name, rows in kernels().rows().items() if name != KERNEL})
    connection = sqlite3.connect(path)
    connection.execute(
        f"CREATE TABLE {KERNEL} (start, end, deviceId, shortName, gridX AS (start + 41), gridY, gridZ)"
    )
    connection.execute(f"INSERT INTO {KERNEL} VALUES (1, 2, 0, 1, 1, 1)")
    connection.commit()
    connection.close()
    assert parse_file(path)["device_ops"].select("start_ns", "grid").rows() == [(1, None)]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    export = kernels(1)
    export.range(0, 1, "x" * 100_000)
    export.range(1, 2, "nul\0byte")
    path = tmp_path / "report.sqlite"
    write_sqlite(path, export.rows())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'ff41' AS TEXT) WHERE start = 1")
    connection.execute("UPDATE StringIds SET value = x'80' WHERE id = 1")
    connection.commit()
    connection.close()
    parsed = parse_file(path)
    assert [len(name) for name in parsed["host_events"]["name"]] == [32_768, 2]
    assert parsed["host_events"]["name"][1] == "\ufffdA"
    assert parsed["device_ops"]["name"].to_list() == ["\ufffd"]


def test_strings_that_no_row_names_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports keep environments and command lines among their strings."""
    export = kernels(2)
    export.string("SECRET=1\0HOME=/home/ann")
    path = tmp_path / "report.sqlite"
    write_sqlite(path, export.rows())
    asked: list[str] = []
    original = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = original(*arguments, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    parsed = parse_file(path)
    assert not any("SECRET" in str(frame.rows()) for frame in parsed.values())
    queries = [text for text in asked if f'FROM "{STRINGS}"' in text]
    assert queries
    assert all("WHERE" in text for text in queries)
    read = {text.split(' FROM "')[1].split('"')[0] for text in asked if ' FROM "' in text}
    assert not read & {"PROCESSES", "META_DATA_CAPTURE", "ThreadNames", "ProcessStreams"}


CELLS = st.one_of(
    st.none(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.binary(max_size=3),
    st.integers(-9, 9).map(float),
)


def meant(value: object) -> int | None:
    """What an integer column's cell means."""
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, float) and abs(value) <= 1 << 53 and value == int(value):
        return int(value)
    return None


@given(st.lists(CELLS, max_size=8))
def test_integers_of_any_type(cells: list[object]) -> None:
    bad = BadValues()
    want = [meant(cell) for cell in cells]
    assert integers(cells, bad, "T", "c").to_list() == want
    lost = sum(cell is not None and value is None for cell, value in zip(cells, want, strict=True))
    assert bad.values["T", "c"] == lost


def test_progress_ends_within_the_file(tmp_path: Path) -> None:
    export = kernels(5)
    export.range(0, 5, "forward")
    seen: list[int] = []
    path = tmp_path / "report.sqlite"
    write_sqlite(path, export.rows())
    parse_file(path, progress=seen.append)
    assert seen
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= path.stat().st_size


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    export = kernels(1)
    export.add("PROFILER_OVERHEAD", start=0, end=b"x", globalTid="y", nameId=1)
    said = notices(parse(tmp_path, export))["bad_row"]
    assert "PROFILER_OVERHEAD.end" in said
    assert "PROFILER_OVERHEAD.globalTid" in said
