"""Columns of an export, read in batches whatever types a file gives them, and counts of what was not usable.

Exports are often rewritten by other tools (trimmed, merged, passed through pandas), so no declared type is trusted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH_ROWS = 100_000
MAX_TEXT = 32_768  # characters of a name: longer ones are cut
EXACT_FLOAT = 1 << 53
LATEST = (1 << 62) - 1  # ns: later times cannot be subtracted in 64 bits


@dataclass(slots=True)
class BadValues:
    """What could not be used: values by (table, column), rows by (table, why)."""

    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)


class Export(Protocol):
    """The tables of one export; names and columns are matched exactly, absent ones are no error."""

    bad: BadValues

    def columns(self, table: str) -> frozenset[str]:
        """Columns of a table, empty if there is no such table."""
        ...

    def rows(self, table: str) -> int:
        """How many rows a table has, 0 if there is no such table."""
        ...

    def processes(self, table: str, column: str) -> frozenset[int]:
        """At most two of the processes in a column of global ids; 0 and null are none. Raises as `batches`."""
        ...

    def batches(
        self, table: str, integers: Sequence[str], texts: Sequence[str] = (), *, only: Only | None = None
    ) -> Iterator[pl.DataFrame]:
        """The columns in batches, Int64 and String; those that the table lacks are null.

        Raises InputError: corrupt_input, locked.
        """
        ...


@dataclass(frozen=True, slots=True)
class Only:
    """The rows in which `column` has one of `values`."""

    column: str
    values: tuple[int | str, ...]


def in_time() -> pl.Expr:
    """Whether start_ns and, where it is not null, start_ns + dur_ns are times and in order."""
    start, dur = pl.col("start_ns"), pl.col("dur_ns")
    ends = dur.is_null() | (dur.is_between(0, LATEST) & (start + dur <= LATEST))
    return start.is_between(-LATEST, LATEST).fill_null(value=False) & ends


def integers(values: Sequence[object], bad: BadValues, table: str, column: str) -> pl.Series:
    """Int64; what is no integer is null and counted."""
    try:
        return pl.Series(column, values, dtype=pl.Int64, strict=True)
    except (TypeError, OverflowError):
        pass
    found = [_integer(value) for value in values]
    bad.values[table, column] += sum(
        new is None and old is not None for new, old in zip(found, values, strict=True)
    )
    return pl.Series(column, found, dtype=pl.Int64)


def _integer(value: object) -> int | None:
    """A column with nulls that went through a floating-point type holds 3.0 for 3."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_FLOAT:
        return int(value)
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


def texts(values: Sequence[object], bad: BadValues, table: str, column: str) -> pl.Series:
    """String, of values that are bytes; bytes that are not UTF-8 become question marks, other values null."""
    found = [_text(value) for value in values]
    bad.values[table, column] += sum(
        new is None and old is not None for new, old in zip(found, values, strict=True)
    )
    return pl.Series(column, found, dtype=pl.String)


def _text(value: object) -> str | None:
    return value.decode("utf-8", "replace")[:MAX_TEXT] if isinstance(value, bytes) else None
