"""Datasets on disk: what goes in comes out, whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from mpg_cli import store
from mpg_cli.store import MANIFEST, Dataset, ParquetWriter, open_dataset, read_manifest, write_dataset
from mpg_parsers.errors import InputError, Notice, UsageError
from mpg_parsers.tables import SCHEMA_VERSION, TABLES
from tests.mpg_cli.datasets import call, comm, copy, dataset, op, source, step

if TYPE_CHECKING:
    import polars as pl


def example() -> Dataset:
    made = dataset(
        source([op(n, 1) for n in range(25)] + [comm(5, 5, group="0", seq=3)], steps=[step(1, 0, 9)], rank=0),
        source([copy(0, 7)], events=[call(1)], path="rank1.json", rank=1),
        source(),
    )
    made.notices += [Notice("skipped_files", "naïve 名前 \x1b", 2, "x/y.txt"), Notice("missing_rank", "")]
    return made


def other() -> Dataset:
    return dataset(source([op(0, 3)], path="other.json"))


def tables(made: Dataset) -> dict[str, pl.DataFrame]:
    return {name: made.scan(name).collect() for name in TABLES}


def assert_same(found: Dataset, expected: Dataset) -> None:
    assert (found.count, found.notices) == (expected.count, expected.notices)
    for name, frame in tables(expected).items():
        assert found.scan(name).collect().equals(frame), name
        assert found.scan(name).collect_schema() == TABLES[name].schema()


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("rows", [4, 250_000])
def test_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(store, "PART_ROWS", rows)
    write_dataset(example(), tmp_path / "out", force=False)
    assert_same(open_dataset(tmp_path / "out"), example())
    assert len(list((tmp_path / "out/device_ops").iterdir())) == (1 if rows > 100 else 7)
    assert left_over(tmp_path) == []


def test_a_folder_name_with_special_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a[1]*?{x}=y %41"
    write_dataset(example(), folder, force=False)
    assert_same(open_dataset(folder), example())


def test_permissions_are_those_of_any_new_folder(tmp_path: Path) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    (tmp_path / "other").mkdir()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "other")]
    assert modes[0] == modes[1]


def test_nothing_is_overwritten_unasked_and_only_datasets_ever(tmp_path: Path) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    with pytest.raises(UsageError, match="exists"):
        write_dataset(other(), tmp_path / "out", force=False)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("precious", "file"):
        with pytest.raises(UsageError, match="exists"):
            write_dataset(other(), tmp_path / name, force=True)
    assert (tmp_path / "precious/thesis.txt").read_text() == "x"
    write_dataset(other(), tmp_path / "out", force=True)
    assert_same(open_dataset(tmp_path / "out"), other())
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("damaged_first", [False, True])
def test_a_damaged_dataset_can_be_replaced(tmp_path: Path, damaged_first: bool) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    if damaged_first:
        (tmp_path / "out/device_ops/part-0000.parquet").unlink()
    write_dataset(other(), tmp_path / "out", force=True)
    assert_same(open_dataset(tmp_path / "out"), other())


def test_what_is_no_part_of_a_dataset_keeps_it_from_being_replaced(tmp_path: Path) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    for name in ("thesis.txt", "device_ops/part-9999.parquet", "steps/notes.md"):
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(UsageError, match=f"{name} is no part of the dataset"):
            write_dataset(other(), tmp_path / "out", force=True)
        assert (tmp_path / "out" / name).read_text() == "mine"
        (tmp_path / "out" / name).unlink()
    write_dataset(other(), tmp_path / "out", force=True)
    assert_same(open_dataset(tmp_path / "out"), other())


def test_behind_a_link_the_dataset_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    write_dataset(example(), tmp_path / "real/out", force=False)
    (tmp_path / "link").symlink_to("real/out")
    (tmp_path / "dangling").symlink_to("real/new")
    for name in ("link", "dangling"):
        write_dataset(other(), tmp_path / name, force=True)
        assert (tmp_path / name).is_symlink()
        assert_same(open_dataset(tmp_path / name), other())
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["new", "out"]
    assert left_over(tmp_path) == []


def failing(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    monkeypatch.setattr(parquet, "write_table", failing)
    with pytest.raises(InputError, match="No space left on device") as caught:
        write_dataset(example(), tmp_path / "out", force=True)
    assert caught.value.kind == "write_failed"
    assert_same(open_dataset(tmp_path / "out"), example())
    assert left_over(tmp_path) == []


def test_a_rename_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if (self / MANIFEST).exists() and target.name == "out" and not target.exists():
            refuse.seen += 1  # type: ignore[attr-defined]
            if refuse.seen == 1:  # type: ignore[attr-defined]
                raise OSError(5, "Input/output error")
        return rename(self, target)

    refuse.seen = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match="Input/output error"):
        write_dataset(other(), tmp_path / "out", force=True)
    assert_same(open_dataset(tmp_path / "out"), example())


def test_files_that_people_keep_describe_their_columns(tmp_path: Path) -> None:
    write_dataset(example(), tmp_path / "out", force=False)
    schema = parquet.read_schema(tmp_path / "out" / "device_ops" / "part-0000.parquet")
    assert schema.names == list(TABLES["device_ops"].column_names)
    for column in TABLES["device_ops"].columns:
        assert schema.field(column.name).metadata[b"description"] == column.meaning.encode()


def test_ctrl_c_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "write_table", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(example(), tmp_path / "out", force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_dataset(example(), tmp_path / "file/out", force=False)
    assert caught.value.kind == "write_failed"


def test_of_two_writers_of_the_same_the_first_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        writer = ParquetWriter(tmp_path)
        writer.add("sources", example().scan("sources").collect())
        writer.commit(tmp_path / "out")
    assert read_manifest(tmp_path / "out")
    assert left_over(tmp_path) == []


PART = "device_ops/part-0000.parquet"


def change(folder: Path, **values: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | values))


def cut(folder: Path) -> None:
    (folder / PART).write_bytes((folder / PART).read_bytes()[:-1])


def zeros(folder: Path) -> None:
    (folder / PART).write_bytes(bytes((folder / PART).stat().st_size))


def outside(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    os.link(folder / PART, folder.parent / "elsewhere/part-0000.parquet")
    files = json.loads((folder / MANIFEST).read_text())["files"]
    change(folder, files={"../elsewhere/part-0000.parquet": files[PART]})


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        zeros,
        outside,
        lambda folder: (folder / PART).unlink(),
        lambda folder: (folder / MANIFEST).unlink(),
        lambda folder: (folder / MANIFEST).write_text(""),
        lambda folder: (folder / MANIFEST).write_text("[]"),
        lambda folder: (folder / MANIFEST).write_bytes(b'{"schema_version": "\xff"}'),
        lambda folder: change(folder, schema_version=SCHEMA_VERSION + 1),
        lambda folder: change(folder, files=[]),
        lambda folder: change(folder, notices=[{"kind": 1}]),
        lambda folder: change(folder, sources="many"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path: Path, damage: Any) -> None:
    folder = tmp_path / "out"
    write_dataset(example(), folder, force=False)
    damage(folder)
    assert read_manifest(folder) is None
    with pytest.raises(InputError) as caught:
        open_dataset(folder)
    assert caught.value.kind == "corrupt_input"


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder") as caught:
        open_dataset(tmp_path / "nowhere")
    assert caught.value.kind == "not_found"
