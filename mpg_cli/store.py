"""Datasets: the canonical tables of one or several sources, in memory or as Parquet, and the cache of parsed files.

A dataset on disk is a folder: mpg-dataset.json and one folder of Parquet parts per table. It is written under a
temporary name and renamed when whole, so that no reader ever sees half of one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from mpg_cli import __version__
from mpg_parsers.errors import InputError, UsageError
from mpg_parsers.tables import SCHEMA_VERSION, TABLES

MANIFEST = "mpg-dataset.json"
TEMPORARY = ".mpg-writing-"
PART_ROWS = 250_000
Tables = dict[str, pl.LazyFrame]


@dataclass
class Dataset:
    """The tables of several sources; `source` columns number them in the order they were added."""

    _parts: dict[str, list[pl.LazyFrame]] = field(default_factory=lambda: {name: [] for name in TABLES})
    count: int = 0

    def add(self, tables: Mapping[str, pl.LazyFrame]) -> None:
        """Add the tables of one source."""
        for name, frame in tables.items():
            numbered = frame.with_columns(source=pl.lit(self.count, pl.Int32))
            self._parts[name].append(numbered.select(TABLES[name].column_names))
        self.count += 1

    def scan(self, table: str) -> pl.LazyFrame:
        """All rows of a table."""
        parts = self._parts[table]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=TABLES[table].schema())


class MemoryWriter:
    """Collects batches in memory."""

    def __init__(self) -> None:
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows."""
        self._frames.setdefault(table, []).append(frame)

    def finish(self) -> Tables:
        """The tables."""
        return {name: pl.concat(frames).lazy() for name, frames in self._frames.items()}

    def discard(self) -> None:
        """Forget everything."""
        self._frames.clear()


class ParquetWriter:
    """Writes batches as Parquet parts into a temporary folder in `parent`; `commit` renames it."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
        self._waiting: dict[str, list[pl.DataFrame]] = {}
        self._rows: dict[str, int] = {}
        self._files: dict[str, int] = {}

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows."""
        self._waiting.setdefault(table, []).append(frame)
        self._rows[table] = self._rows.get(table, 0) + frame.height
        if self._rows[table] >= PART_ROWS:
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = TABLES[table].conform(_with_source(pl.concat(self._waiting.pop(table))))
        self._rows[table] = 0
        number = sum(name.startswith(f"{table}/") for name in self._files)
        name = f"{table}/part-{number:04d}.parquet"
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        rows.write_parquet(path, compression="zstd", compression_level=1)
        self._files[name] = path.stat().st_size

    def commit(self, target: Path, about: Mapping[str, Any]) -> None:
        """Write what is left and the manifest, and put the dataset in its place."""
        for table in list(self._waiting):
            self._flush(table)
        manifest = {"schema_version": SCHEMA_VERSION, "mpg_version": __version__, **about, "files": self._files}
        (self._folder / MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        try:
            self._folder.rename(target)
        except OSError:  # another process was first: its dataset is the same
            if not (target / MANIFEST).exists():
                raise
            self.discard()

    def discard(self) -> None:
        """Remove everything written."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _with_source(frame: pl.DataFrame) -> pl.DataFrame:
    return frame if "source" in frame.columns else frame.with_columns(source=pl.lit(0, pl.Int32))


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a whole dataset of this schema version, None if it is not one or a part is missing or cut."""
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
        if manifest.get("schema_version") != SCHEMA_VERSION:
            return None
        sizes = {name: (folder / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return manifest if sizes == manifest["files"] else None


def open_tables(folder: Path, manifest: Mapping[str, Any]) -> Tables:
    """The tables of a dataset on disk, to be scanned."""
    parts: dict[str, list[Path]] = {}
    for name in manifest["files"]:
        table = name.split("/")[0]
        if table in TABLES:
            parts.setdefault(table, []).append(folder / name)
    return {table: pl.scan_parquet(sorted(paths)) for table, paths in parts.items()}


def open_dataset(folder: Path) -> Dataset:
    """A dataset written by `mpg ingest`. Raises InputError: not_found, corrupt_input."""
    if not folder.is_dir():
        raise InputError("not_found", str(folder), "no such folder", hint="mpg ingest PATH… -o DIR makes a dataset")
    manifest = read_manifest(folder)
    if manifest is None:
        hint = "run `mpg ingest PATH… -o DIR` again; datasets of other mpg versions may need it"
        raise InputError("corrupt_input", str(folder), f"no whole mpg dataset of schema {SCHEMA_VERSION}", hint=hint)
    dataset = Dataset()
    dataset._parts = {name: [] for name in TABLES}
    for name, frame in open_tables(folder, manifest).items():
        dataset._parts[name].append(frame)
    dataset.count = int(manifest.get("sources", 1))
    return dataset


def write_dataset(dataset: Dataset, folder: Path, *, force: bool) -> None:
    """Write all tables to `folder`. Raises UsageError if it exists, unless `force` and it is an mpg dataset."""
    if folder.exists() and (not force or not (folder / MANIFEST).is_file()):
        hint = "choose another folder" if force else "choose another folder, or --force to replace a dataset"
        raise UsageError(f"{folder} exists", hint=hint)
    writer = ParquetWriter(folder.absolute().parent)
    try:
        for table in TABLES:
            for batch in dataset.scan(table).collect_batches(chunk_size=PART_ROWS):
                writer.add(table, batch)
        if folder.exists():
            _remove_dataset(folder)
        writer.commit(folder, {"sources": dataset.count})
    except BaseException:
        writer.discard()
        raise


def _remove_dataset(folder: Path) -> None:
    doomed = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
