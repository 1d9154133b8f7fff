"""An export as a folder of Parquet files, one per table (`nsys export --type parquetdir`).

The tables are read out of the tar that `folder.pack` makes.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.errors import InputError
from mpg_parsers.nsight.columns import BATCH_ROWS, MAX_TEXT, BadValues, Only
from mpg_parsers.nsight.folder import SUFFIX, TABLES
from mpg_parsers.nsight.names import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.source import Source

EXPORT_AGAIN = "export the report again: nsys export --type parquetdir --force-overwrite true REPORT.nsys-rep"


class ParquetExport:
    """The tables of a packed folder as Export. One table at a time is in memory, compressed as it is."""

    def __init__(self, source: Source) -> None:
        """Raises InputError(corrupt_input)."""
        self.bad = BadValues()
        self.path = source.path
        with tarfile.open(source.file) as tar:
            members = {PurePosixPath(m.name).stem: (m.offset_data, m.size) for m in tar.getmembers()}
        self._file = Path(source.file)
        self._places = {table: members[table] for table in TABLES if table in members}
        self._schemas = {table: self._schema(table) for table in self._places}

    def _content(self, table: str) -> bytes:
        offset, size = self._places[table]
        with self._file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)

    def _schema(self, table: str) -> frozenset[str]:
        with self._judging(table):
            return frozenset(pl.read_parquet_schema(io.BytesIO(self._content(table))))

    @contextlib.contextmanager
    def _judging(self, table: str) -> Iterator[None]:
        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            message = f"{table}{SUFFIX} cannot be read ({str(error)[:200]})"
            raise InputError("corrupt_input", self.path, message, hint=EXPORT_AGAIN) from error

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables that may be read."""
        return frozenset(self._places)

    def columns(self, table: str) -> frozenset[str]:
        """See Export."""
        return self._schemas.get(table, frozenset())

    def rows(self, table: str) -> int:
        """See Export."""
        if table not in self._places:
            return 0
        with self._judging(table):
            count: int = pl.scan_parquet(self._content(table)).select(pl.len()).collect().item()
            return count

    def processes(self, table: str, column: str) -> frozenset[int]:
        """See Export."""
        if column not in self.columns(table):
            return frozenset()
        with self._judging(table):
            stored = pl.read_parquet(self._content(table), columns=[column])
            numbers = _integer(stored, column).to_frame().select(process(column)).to_series()
        return frozenset(numbers.filter(numbers != 0).unique().head(2))

    def batches(
        self, table: str, integers: Sequence[str], texts: Sequence[str] = (), *, only: Only | None = None
    ) -> Iterator[pl.DataFrame]:
        """See Export."""
        there = self.columns(table)
        if not there or (only and only.column not in there):
            return
        wanted = [name for name in dict.fromkeys((*integers, *texts)) if name in there]
        with self._judging(table):
            frame = pl.scan_parquet(self._content(table))
            if only:
                frame = frame.filter(pl.col(only.column).is_in(only.values))
            chosen = frame.select(wanted or min(there))  # some column is needed to have rows
            for batch in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
                if batch.height:
                    yield self._typed(table, batch, integers, texts)

    def _typed(
        self, table: str, frame: pl.DataFrame, integers: Sequence[str], texts: Sequence[str]
    ) -> pl.DataFrame:
        """The columns as Int64 and String; what does not fit is null and counted."""
        found = [_integer(frame, name) for name in integers] + [_text(frame, name) for name in texts]
        for series in found:
            if series.name in frame.columns:
                self.bad.values[table, series.name] += series.null_count() - frame[series.name].null_count()
        return pl.DataFrame(found)


def _integer(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        return pl.Series(name, [None], pl.Int64).new_from_index(0, frame.height)
    values = frame[name]
    if values.dtype == pl.UInt64:  # global ids use all 64 bits
        return values.reinterpret(signed=True)
    if values.dtype.is_float():
        values = values.set(values != values.floor(), None)
    elif not values.dtype.is_integer():
        return values.clear(frame.height).cast(pl.Int64)
    return values.cast(pl.Int64, strict=False)


def _text(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        return pl.Series(name, [None], pl.String).new_from_index(0, frame.height)
    values = frame[name]
    if values.dtype == pl.Categorical:
        values = values.cast(pl.String)
    return (
        values.str.slice(0, MAX_TEXT)
        if values.dtype == pl.String
        else values.clear(frame.height).cast(pl.String)
    )
