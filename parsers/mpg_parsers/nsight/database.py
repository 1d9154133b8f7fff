"""An export as SQLite database, which may be damaged, locked, or made to do harm.

Only real tables are read: a view or virtual table of the same name is not there. Nothing is written beside the file.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.containers import spool, writing
from mpg_parsers.errors import InputError
from mpg_parsers.nsight.columns import BATCH_ROWS, MAX_TEXT, BadValues, Only, integers, texts
from mpg_parsers.nsight.names import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.source import Source

MAGIC = b"SQLite format 3\0"
WRITE_VERSION = 18  # offset in the header: 2 means that changes go to a write-ahead log
WAIT = 1.0  # seconds to wait for a lock
MAX_VALUE = 1 << 28  # bytes of one row
EXPORT_AGAIN = "export the report again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"
IN_USE = "wait until the export or the tool that has it open is done, or read a copy"


@contextlib.contextmanager
def open_database(source: Source) -> Iterator[Database]:
    """The database of a source; a packed one is copied to a temporary file first.

    Raises InputError: corrupt_input, locked, write_failed, or what reading the source raises.
    """
    with contextlib.ExitStack() as stack:
        file, parameters = _readable(source, stack)
        with judging(source.path):
            uri = f"{file.absolute().as_uri()}?{parameters}"
            connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
        stack.callback(connection.close)
        with judging(source.path):
            yield Database(connection, source.path)


def _readable(source: Source, stack: contextlib.ExitStack) -> tuple[Path, str]:
    """A file that SQLite can open without writing, and how to open it."""
    file = Path(source.file)
    if source.member is None and _starts(file):
        log = Path(f"{file}-wal")
        if not _has_log(file):
            return file, "mode=ro"
        if not log.exists() or not log.stat().st_size:
            return file, "mode=ro&immutable=1"
        # SQLite would make an index of the log beside it, if it may write there at all
        folder = _temporary(stack)
        with writing(source.path, folder):
            shutil.copyfile(log, folder / "copy-wal")
            return Path(shutil.copyfile(file, folder / "copy")), "mode=ro"
    folder = _temporary(stack)
    with source.open() as stream:
        spool(stream.read(1 << 20), stream, folder / "copy", source.path)  # type: ignore[arg-type]
    return folder / "copy", "mode=ro&immutable=1"


def _temporary(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mpg-")))


def _starts(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _has_log(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(WRITE_VERSION + 1)[WRITE_VERSION:] == b"\x02"


@contextlib.contextmanager
def judging(path: str) -> Iterator[None]:
    """SQLite's errors as InputError: locked, corrupt_input."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message quotes the damaged definition of a table
        message = "the SQLite database cannot be read (a table's definition is damaged)"
        raise InputError("corrupt_input", path, message, hint=EXPORT_AGAIN) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            message = "the database is in use: another process has locked it"
            raise InputError("locked", path, message, hint=IN_USE) from error
        message = f"the SQLite database cannot be read ({str(error)[:200]})"
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            message += "; was writing it interrupted, so that a journal lies beside it?"
        raise InputError("corrupt_input", path, message, hint=EXPORT_AGAIN) from error


class Database:
    """An open database as Export."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.bad = BadValues()
        self.path = path
        self._connection = connection
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        self._columns = {name: self._ordinary(name) for name in self._tables()}

    def _tables(self) -> list[str]:
        rows = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        return [
            name.decode("utf-8", "replace")
            for name, sql in rows
            if isinstance(name, bytes)
            and isinstance(sql, bytes)
            and sql.lstrip()[:14].upper() != b"CREATE VIRTUAL"
        ]

    def _ordinary(self, table: str) -> frozenset[str]:
        """The columns that are stored; generated ones would run expressions of the file."""
        found = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        return frozenset(row[1].decode("utf-8", "replace") for row in found)

    def columns(self, table: str) -> frozenset[str]:
        """See Export."""
        return self._columns.get(table, frozenset())

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables."""
        return frozenset(self._columns)

    def rows(self, table: str) -> int:
        """See Export."""
        if table not in self._columns:
            return 0
        count: int = self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0]  # noqa: S608
        return count

    def processes(self, table: str, column: str) -> frozenset[int]:
        """See Export."""
        if column not in self.columns(table):
            return frozenset()
        number = f"({_quoted(column)} >> 24) & {NUMBER}"
        query = f"SELECT DISTINCT {number} FROM {_quoted(table)} WHERE {number} != 0 LIMIT 2"  # noqa: S608
        with judging(self.path):
            return frozenset(row[0] for row in self._connection.execute(query))

    def batches(
        self,
        table: str,
        integers: Sequence[str],
        texts: Sequence[str] = (),
        *,
        only: Only | None = None,
    ) -> Iterator[pl.DataFrame]:
        """See Export."""
        there = self.columns(table)
        if not there or (only and only.column not in there):
            return
        wanted = [name for name in (*integers, *texts) if name in there]
        cursor = self._select(table, wanted, frozenset(texts), only)
        with judging(self.path):
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield self._frame(table, wanted, rows, integers, texts)

    def _select(
        self, table: str, wanted: Sequence[str], cut: frozenset[str], only: Only | None
    ) -> sqlite3.Cursor:
        terms = [f"substr({_quoted(n)}, 1, {MAX_TEXT})" if n in cut else _quoted(n) for n in wanted]
        query = f"SELECT {', '.join(terms) or '1'} FROM {_quoted(table)}"  # noqa: S608 - quoted names
        values: tuple[int | str, ...] = ()
        if only:
            values = only.values
            query += f" WHERE {_quoted(only.column)} IN ({', '.join('?' * len(values))})"
        with judging(self.path):
            return self._connection.execute(query, values)

    def _frame(
        self,
        table: str,
        wanted: Sequence[str],
        rows: Sequence[tuple[object, ...]],
        numbers: Sequence[str],
        words: Sequence[str],
    ) -> pl.DataFrame:
        found = dict(zip(wanted, zip(*rows, strict=True), strict=False))
        series = [
            make(found[name], self.bad, table, name)
            if name in found
            else pl.Series(name, [None], dtype=dtype).new_from_index(0, len(rows))
            for names, make, dtype in ((numbers, integers, pl.Int64), (words, texts, pl.String))
            for name in names
        ]
        return pl.DataFrame(series)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
