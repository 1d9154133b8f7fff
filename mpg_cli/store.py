"""Datasets: the canonical tables of one or several sources, in memory or as Parquet.

A dataset on disk is a folder: mpg-dataset.json and one folder of Parquet parts per table. It is written under
a temporary name and renamed when whole, so that no reader ever sees half of one.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from mpg_cli import __version__
from mpg_cli.checks import check_table
from mpg_parsers.errors import InputError, Notice, UsageError
from mpg_parsers.tables import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mpg_parsers.columns import Table

MANIFEST = "mpg-dataset.json"
TEMPORARY = ".mpg-writing-"
PART = re.compile(r"([a-z_]+)/part-\d+\.parquet")
PART_ROWS = 250_000
ALL = -1  # a part that holds all sources
VERSIONS = f"v{SCHEMA_VERSION}-{__version__}"  # of the tables, and of the mpg that filled them
Tables = dict[str, pl.LazyFrame]


class Manifest(msgspec.Struct, frozen=True):
    """What a dataset says of itself. `files` gives the size and CRC-32 of every part."""

    schema_version: int
    mpg_version: str
    sources: int
    notices: list[Notice]
    files: dict[str, tuple[int, int]]


def _no_parts() -> dict[str, list[tuple[int, pl.LazyFrame]]]:
    return {name: [] for name in TABLES}


@dataclass
class Dataset:
    """The tables of several sources; `source` columns number them in the order they were added.

    count is the number of sources, notices are what was found while looking for them (files skipped).
    """

    count: int = 0
    notices: list[Notice] = field(default_factory=list)
    _parts: dict[str, list[tuple[int, pl.LazyFrame]]] = field(default_factory=_no_parts)

    @classmethod
    def of(cls, tables: Tables, count: int, notices: Sequence[Notice]) -> Dataset:
        """The dataset of `tables`, whose rows are numbered already."""
        parts = {name: [(ALL, frame)] for name, frame in tables.items()}
        return cls(count, list(notices), _no_parts() | parts)

    def add(self, tables: Mapping[str, pl.LazyFrame]) -> None:
        """Add the tables of one source."""
        for name, frame in tables.items():
            numbered = frame.with_columns(source=pl.lit(self.count, pl.Int32))
            self._parts[name].append((self.count, numbered.select(TABLES[name].column_names)))
        self.count += 1

    def scan(self, table: str, source: int | None = None) -> pl.LazyFrame:
        """All rows of a table, or those of one source: then no other file is looked at."""
        parts = [frame for of, frame in self._parts[table] if source is None or of in (source, ALL)]
        rows = pl.concat(parts) if parts else pl.LazyFrame(schema=TABLES[table].schema())
        return rows if source is None else rows.filter(pl.col("source") == source)


class MemoryWriter:
    """Collects batches in memory."""

    def __init__(self) -> None:
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows."""
        self._frames.setdefault(table, []).append(frame)

    def finish(self) -> Tables:
        """The tables."""
        return {name: TABLES[name].conform(pl.concat(f)).lazy() for name, f in self._frames.items()}

    def restart(self) -> None:
        """Forget everything added so far."""
        self._frames.clear()

    def discard(self) -> None:
        """Forget everything."""
        self._frames.clear()


class ParquetWriter:
    """Writes batches as Parquet parts into a temporary folder in `parent`; `commit` renames it.

    Every method raises OSError where it cannot write.
    """

    def __init__(self, parent: Path, *, described: bool = False) -> None:
        self._write = _write_described if described else _write_plain
        parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
        self._waiting: dict[str, list[pl.DataFrame]] = {}
        self._rows: dict[str, int] = {}
        self._files: dict[str, tuple[int, int]] = {}

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
        try:
            self._write(rows, TABLES[table], path)
        except pl.exceptions.ComputeError as error:  # what Polars makes of a full disk
            raise OSError(errno.EIO, str(error), str(path)) from error
        self._files[name] = _fingerprint(path)

    def commit(
        self, target: Path, *, sources: int = 1, notices: Sequence[Notice] = (), replace: bool = False
    ) -> None:
        """Write what is left and the manifest, and put the dataset in its place.

        A whole dataset that is there by now is kept, as the work of another process of the same kind, unless
        `replace`; then it is put aside first and removed last, so that there is always a whole one somewhere.
        """
        for table in list(self._waiting):
            self._flush(table)
        manifest = Manifest(SCHEMA_VERSION, __version__, sources, list(notices), self._files)
        (self._folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        self._folder.chmod(default_mode(0o777))
        try:
            self._folder.rename(target)
        except OSError:
            if not replace and read_manifest(target) is not None:
                self.discard()
            elif (target / MANIFEST).is_file():
                self._exchange(target)
            else:
                raise

    def _exchange(self, target: Path) -> None:
        old = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=target.parent))
        try:
            target.rename(old)  # over the empty folder
        except BaseException:
            old.rmdir()
            raise
        try:
            self._folder.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def restart(self) -> None:
        """Forget everything added so far."""
        for name in self._files:
            (self._folder / name).unlink()
        self._waiting, self._rows, self._files = {}, {}, {}

    def discard(self) -> None:
        """Remove everything written."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _write_plain(rows: pl.DataFrame, _: Table, path: Path) -> None:
    """The fast way, for files that only mpg reads."""
    rows.write_parquet(path, compression="zstd", compression_level=1)


def _write_described(rows: pl.DataFrame, table: Table, path: Path) -> None:
    """The small way, for files that people keep: integers as deltas, and every column described in the schema."""
    import pyarrow as pa
    from pyarrow import parquet

    arrow = rows.to_arrow()
    fields = [
        field.with_metadata({"description": column.meaning, "unit": column.unit, "null": column.null})
        for field, column in zip(arrow.schema, table.columns, strict=True)
    ]
    integers = [field.name for field in fields if pa.types.is_integer(field.type)]
    texts = [field.name for field in fields if not pa.types.is_integer(field.type)]
    parquet.write_table(
        arrow.cast(pa.schema(fields, metadata={"table": table.name, "row": table.row})),
        path,
        compression="zstd",
        use_dictionary=texts,
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a forbidden folder, while writing `path`, into InputError write_failed.

    BrokenPipeError passes: nobody reads what is written any more, which is no fault.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "free some space there, or write somewhere else"
        message = f"cannot be written: {error.strerror or error}"
        raise InputError("write_failed", str(path), message, hint=hint) from error


def default_mode(full: int) -> int:
    """`full` (0o666 for a file, 0o777 for a folder) less what the user's umask takes away."""
    mask = os.umask(0)
    os.umask(mask)
    return full & ~mask


def _fingerprint(path: Path) -> tuple[int, int]:
    """Size and CRC-32: a crash of the machine can leave a file of the right size full of zeros."""
    checksum, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
            size += len(block)
    return size, checksum


def _with_source(frame: pl.DataFrame) -> pl.DataFrame:
    return frame if "source" in frame.columns else frame.with_columns(source=pl.lit(0, pl.Int32))


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a whole dataset of this schema version; None if it is none, or a part is damaged."""
    try:
        manifest = _decode_manifest(folder)
        whole = all(_is_whole(folder, name, mark) for name, mark in manifest.files.items())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = whole and any(name.startswith("sources/") for name in manifest.files)
    return manifest if whole and manifest.schema_version == SCHEMA_VERSION else None


def _decode_manifest(folder: Path) -> Manifest:
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)


def _is_whole(folder: Path, name: str, mark: tuple[int, int]) -> bool:
    return PART.fullmatch(name) is not None and _fingerprint(folder / name) == mark


def open_tables(folder: Path, manifest: Manifest) -> Tables:
    """The tables of a dataset on disk, to be scanned."""
    parts: dict[str, list[Path]] = {}
    for name in manifest.files:
        table = name.split("/")[0]
        if table in TABLES:
            parts.setdefault(table, []).append(folder / name)
    return {
        table: pl.scan_parquet(sorted(paths), glob=False, hive_partitioning=False)
        for table, paths in parts.items()
    }


def open_dataset(folder: Path) -> Dataset:
    """A dataset written by `mpg ingest`. Raises InputError: not_found, corrupt_input."""
    if not folder.is_dir():
        hint = "mpg ingest PATH… -o DIR makes a dataset"
        raise InputError("not_found", str(folder), "no such folder", hint=hint)
    manifest = read_manifest(folder)
    if manifest is None:
        hint = "run `mpg ingest PATH… -o DIR` again; datasets of other mpg versions may need it"
        message = f"no whole mpg dataset of schema {SCHEMA_VERSION}"
        raise InputError("corrupt_input", str(folder), message, hint=hint)
    tables = open_tables(folder, manifest)
    for name, frame in tables.items():
        check_table(TABLES[name], frame, manifest.sources, str(folder))
    return Dataset.of(tables, manifest.sources, manifest.notices)


def is_part(folder: Path, file: Path) -> bool:
    """Whether `file` is one of those that make up the dataset in `folder`."""
    try:
        name = file.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return False
    return name == MANIFEST or PART.fullmatch(name) is not None


def check_target(folder: Path, *, force: bool) -> None:
    """Raise UsageError unless a dataset may be written to `folder`: never over anything but a dataset."""
    if not folder.exists():
        return
    if not force or not (folder / MANIFEST).is_file():
        hint = "choose another folder" if force else "choose another folder, or --force to replace a dataset"
        raise UsageError(f"{folder} exists", hint=hint)
    for file in _not_listed(folder):
        hint = "move it away, or choose another folder"
        raise UsageError(f"{file} is no part of the dataset, and would be lost", hint=hint)


def _not_listed(folder: Path) -> Iterator[Path]:
    """What lies in a dataset's folder and its manifest does not name; of a damaged manifest, everything."""
    try:
        listed = set(_decode_manifest(folder).files)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        listed = set()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if (file.is_symlink() or not file.is_dir()) and name not in listed and name != MANIFEST:
            yield file


def write_dataset(dataset: Dataset, folder: Path, *, force: bool) -> None:
    """Write all tables to `folder`.

    Raises UsageError if it exists, unless `force` and it is an mpg dataset; InputError write_failed.
    """
    check_target(folder, force=force)
    target = folder.resolve()  # of a link, what it leads to
    with writing(folder):
        writer = ParquetWriter(target.parent, described=True)
        try:
            for table in TABLES:
                for batch in dataset.scan(table).collect_batches(chunk_size=PART_ROWS):
                    writer.add(table, batch)
            writer.commit(target, sources=dataset.count, notices=dataset.notices, replace=force)
        except BaseException:
            writer.discard()
            raise
