"""The cache: never stale, never in the way, never larger than it may be."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mpg_cli import cache as caches
from mpg_cli import ingest as ingesting
from mpg_cli.cache import Cache, Key, default_folder
from mpg_cli.store import MANIFEST, TEMPORARY
from mpg_parsers.tables import TABLES
from tests.mpg_cli.datasets import op, source, table
from tests.mpg_cli.running import Result, kernel, mpg, profiler_step, trace


@pytest.fixture(autouse=True)
def _cache_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MIN_SIZE", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(trace(kernel(0, 10), kernel(20, 5), profiler_step(1, 0, 40)))
    return path


def analyze(folder: Path, *arguments: object) -> Result:
    return mpg("analyze", "-f", "json", "--cache", folder, *arguments)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are parsed from now on."""
    paths: list[str] = []
    fill = ingesting._Reading._fill

    def watch(self: Any, writer: Any, source: Any, *rest: Any) -> None:
        paths.append(source.path)
        fill(self, writer, source, *rest)

    monkeypatch.setattr(ingesting._Reading, "_fill", watch)
    return paths


# --------------------------------------------------------------------------------------------- whole runs


def test_a_second_run_parses_nothing_and_says_the_same(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = mpg("analyze", "-f", "json", "--no-cache", file)
    first = analyze(folder, file)
    paths = parsed(monkeypatch)
    assert analyze(folder, file) == first == plain
    assert paths == []
    assert len(entries(folder)) == 1


def test_the_same_content_under_another_name_is_found(
    folder: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyze(folder, file)
    other = tmp_path / "rank3.json"
    other.write_bytes(file.read_bytes())
    plain = mpg("analyze", "-f", "json", "--no-cache", other)
    paths = parsed(monkeypatch)
    assert analyze(folder, other) == plain
    assert plain.report["sources"][0]["rank"] == 3
    assert paths == []


def test_other_content_of_the_same_size_and_time_is_not_mistaken(folder: Path, file: Path) -> None:
    analyze(folder, file)
    about = file.stat()
    file.write_text(file.read_text().replace('"dur": 10', '"dur": 11'))
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert file.stat().st_size == about.st_size
    assert analyze(folder, file).report["devices"][0]["busy_ns"] == 16_000
    assert len(entries(folder)) == 2


def test_kept_names_have_entries_of_their_own(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"host_name": "node7", "traceEvents": [kernel(0, 10)]}))
    hosts = [analyze(folder, path, *flag).report["sources"][0]["host"] for flag in ([], ["--keep-names"], [])]
    assert hosts == [None, "node7", None]
    assert len(entries(folder)) == 2


def test_another_version_of_mpg_reads_again(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyze(folder, file)
    monkeypatch.setattr(caches, "VERSIONS", "v99-9.9")
    paths = parsed(monkeypatch)
    analyze(folder, file)
    assert paths == [str(file)]


def test_small_files_are_not_worth_it(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MIN_SIZE", file.stat().st_size + 1)
    assert analyze(folder, file).status == 0
    assert not folder.exists()


def test_no_cache_leaves_nothing(
    folder: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert mpg("analyze", "--no-cache", "--cache", folder, file).status == 0
    assert sorted(tmp_path.iterdir()) == [file]


def part(entry: Path) -> Path:
    return entry / "device_ops/part-0000.parquet"


def cut(entry: Path) -> None:
    part(entry).write_bytes(part(entry).read_bytes()[:50])


def flip(entry: Path) -> None:
    data = bytearray(part(entry).read_bytes())
    data[40] ^= 0xFF
    part(entry).write_bytes(data)


def forget(entry: Path, *tables: str) -> None:
    """Take what belongs to `tables` out of the manifest."""
    manifest = json.loads((entry / MANIFEST).read_text())
    manifest["files"] = {name: m for name, m in manifest["files"].items() if name.split("/")[0] not in tables}
    (entry / MANIFEST).write_text(json.dumps(manifest))


def become_a_file(entry: Path) -> None:
    entry.rename(entry.with_name("away"))
    entry.write_text("not a folder")


def become_a_folder_of_something_else(entry: Path) -> None:
    entry.rename(entry.with_name("away"))
    entry.mkdir()
    (entry / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip,
        become_a_file,
        become_a_folder_of_something_else,
        lambda entry: part(entry).unlink(),
        lambda entry: (entry / MANIFEST).unlink(),
        lambda entry: (entry / MANIFEST).write_text("{}"),
        lambda entry: forget(entry, "sources"),
        lambda entry: forget(entry, *TABLES),
    ],
)
def test_a_damaged_entry_is_ignored_and_replaced(
    folder: Path, file: Path, damage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = analyze(folder, file)
    damage(entries(folder)[0])
    paths = parsed(monkeypatch)
    assert analyze(folder, file) == first
    assert analyze(folder, file) == first
    assert paths == [str(file)]


@pytest.mark.parametrize(
    "error",
    [
        pl.exceptions.ComputeError("No space left on device (os error 28)"),
        OSError(28, "No space left on device"),
        PermissionError(13, "Permission denied"),
    ],
)
def test_a_cache_that_cannot_be_written_is_done_without(
    folder: Path, file: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    expected = mpg("analyze", "-f", "json", "--no-cache", file)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    found = analyze(folder, file)
    assert (found.status, found.out) == (0, expected.out)
    assert found.err.startswith(f"warning: the cache {folder} is not used: ")
    assert analyze(folder, file, "-q").err == ""
    assert list(folder.iterdir()) == []


def test_a_cache_folder_that_cannot_be_made(file: Path) -> None:
    found = analyze(file / "cache", file)
    assert found.status == 0
    assert "is not used: Not a directory" in found.err


def test_a_user_without_a_home_has_no_cache(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_folder() is None
    assert mpg("analyze", file).status == 0


def test_where_it_is_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, expected in (("", ".cache/mpg"), ("relative", ".cache/mpg"), (f"{tmp_path}/xdg", "xdg/mpg")):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert default_folder() == tmp_path / expected


def test_an_error_leaves_no_half_entry(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text('{"traceEvents": [')
    assert analyze(folder, path).status == 3
    assert list(folder.iterdir()) == []


def test_an_entry_larger_than_the_cache_serves_its_run_and_no_other(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPG_CACHE_LIMIT", "1")
    assert analyze(folder, file) == mpg("analyze", "-f", "json", "--no-cache", file)
    assert entries(folder) == []


# -------------------------------------------------------------------------------------- the folder itself


def put(cache: Cache, name: str, rows: int = 10, used: float = 0) -> Key:
    key = Key(1, name, "test", "")
    writer = cache.writer()
    rows_of = source([op(n, 1) for n in range(rows)])
    for kind in ("sources", "device_ops"):
        writer.add(kind, table(kind, rows_of[kind]))
    cache.put(writer, key)
    if used:
        os.utime(cache.folder / key.name / MANIFEST, (used, used))
    return key


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    cache = Cache(folder)
    keys = [put(cache, name, used=used) for name, used in (("a", 100), ("b", 300), ("c", 200))]
    one = size(folder) // 3
    Cache(folder, 2 * one + one // 2).prune()
    assert [cache.get(key) is not None for key in keys] == [False, True, True]


def test_reading_counts_as_use(folder: Path) -> None:
    cache = Cache(folder)
    keys = [put(cache, name, used=used) for name, used in (("a", 100), ("b", 300))]
    cache.get(keys[0])
    Cache(folder, size(folder) - 1).prune()
    assert [cache.get(key) is not None for key in keys] == [True, False]


def test_one_large_entry_does_not_push_out_all_others(folder: Path) -> None:
    cache = Cache(folder)
    small = put(cache, "small", used=100)
    limit = size(folder)
    large = put(cache, "large", rows=100_000, used=200)
    Cache(folder, limit).prune()
    assert (cache.get(small) is not None, cache.get(large)) == (True, None)


def test_what_crashed_runs_left_goes_after_a_day(folder: Path) -> None:
    for name, age in (("old", 2 * 86_400), ("new", 60)):
        path = folder / f"{TEMPORARY}{name}"
        path.mkdir(parents=True)
        os.utime(path, (time.time() - age,) * 2)
    Cache(folder).prune()
    assert [path.name for path in folder.iterdir()] == [f"{TEMPORARY}new"]


def test_what_is_not_ours_stays(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes").mkdir()
    (folder / "notes/x.txt").write_text("mine")
    (folder / "y.txt").write_text("mine")
    Cache(folder, 0).prune()
    assert sorted(path.name for path in folder.rglob("*")) == ["notes", "x.txt", "y.txt"]


def test_two_at_once_leave_one_whole_entry(folder: Path) -> None:
    cache = Cache(folder)
    ready = threading.Barrier(2)

    def fill(_: int) -> None:
        writer = cache.writer()
        for kind, rows in source([op(1, 2)]).items():
            writer.add(kind, table(kind, rows))
        ready.wait()
        cache.put(writer, Key(1, "x", "test", ""))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, range(2)))  # raises what a thread raised
    tables = cache.get(Key(1, "x", "test", ""))
    assert tables is not None
    assert tables["device_ops"].collect()["start_ns"].to_list() == [1]
    assert len(list(folder.iterdir())) == 1
