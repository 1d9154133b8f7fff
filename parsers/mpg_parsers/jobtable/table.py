"""A table of any file format, read piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from mpg_parsers.errors import Notice

# columns that readers add; no file has such names
LINE = "\0line"  # number of the line or element, from 1
BROKEN = "\0broken"  # why the row cannot be read; null if it can
ROWS = 250_000  # at a time


@dataclass(slots=True)
class Table:
    """`columns` of the file; `read` gives pieces with the columns asked for, LINE and BROKEN.

    notices   what was found while reading; complete when `read` is at its end
    relative  times in it are seconds since an instant that the file does not tell
    """

    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    notices: list[Notice] = field(default_factory=list)
    relative: bool = False


def unique_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Column names of a header: trimmed, empty ones numbered, repeated ones told apart as a, a_2, a_3."""
    found: dict[str, None] = {}
    for index, cell in enumerate(cells, 1):
        name = base = cell.strip().strip("\ufeff") or f"column_{index}"
        number = 1
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found[name] = None
    return tuple(found)


def framed(columns: dict[str, list[str | None]], first: int, broken: dict[int, str]) -> pl.DataFrame:
    """Rows of texts, numbered from `first`; `broken` has the reasons by index."""
    height = len(next(iter(columns.values()), []))
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    reasons = [broken.get(index) for index in range(height)] if broken else [None] * height
    lines = pl.int_range(first, first + height, dtype=pl.Int64, eager=True)
    return frame.with_columns(lines.alias(LINE), pl.Series(BROKEN, reasons, pl.String))


def count_bad(found: pl.DataFrame, bad: Counter[str], first: dict[str, int]) -> None:
    """Add the rows of `found` (LINE, why: null if nothing is wrong) to the counts and the first lines by reason."""
    wrong = found.drop_nulls("why")
    if not wrong.height:
        return
    for why, line, count in wrong.group_by("why").agg(pl.col(LINE).min(), n=pl.len()).iter_rows():
        bad[why] += count
        first.setdefault(why, line)
