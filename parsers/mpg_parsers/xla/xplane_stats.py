"""The stats of many events as columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.xla.space import INTEGERS
from mpg_parsers.xla.xplane_columns import AmbiguousError, Decoded, Transposed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MARK = 2_097_143  # hardly ever a value, and short
STATS = Transposed(
    "Stats",
    {
        "metadata_id": (1, 0),
        "uint64_value": (3, MARK),
        "int64_value": (4, MARK),
        "str_value": (5, b"\0"),
        "ref_value": (7, MARK),
    },
)
_INTEGER_KINDS, _TEXT_KINDS = ("uint64_value", "int64_value"), ("str_value", "ref_value")


def column_type(name: str) -> type[pl.DataType]:
    """The type of the column of a stat."""
    return pl.Int64 if name in INTEGERS else pl.String


@dataclass(frozen=True, slots=True)
class Stats:
    """All stats of some events: the event each belongs to, its number, and its value by kind of value (or null)."""

    rows: pl.Series
    ids: pl.Series
    values: Mapping[str, pl.Series]

    def columns(self, wanted: Iterable[str], names: Mapping[int, str], count: int) -> Iterator[pl.Series]:
        """The wanted stats that any of `count` events has; names: of stats, by number."""
        present = sorted(self.ids.unique().to_list())
        for name in dict.fromkeys(wanted):
            ids = [key for key in present if names.get(key) == name]
            if ids:
                yield self._column(ids, names, column_type(name), count).alias(name)

    def _column(
        self, ids: Sequence[int], names: Mapping[int, str], kind: type[pl.DataType], count: int
    ) -> pl.Series:
        """The values of the stats with these numbers, one for each event: the last that it has."""
        chosen = self.ids == ids[0] if len(ids) == 1 else self.ids.is_in(ids)
        rows = self.rows.filter(chosen)
        values = pl.repeat(None, rows.len(), dtype=kind, eager=True)
        for name, found in self.values.items():
            if kind == pl.String or name in _INTEGER_KINDS:
                typed = _converted(name, found.filter(chosen), names, kind)
                values = typed if typed.null_count() == 0 else typed.zip_with(typed.is_not_null(), values)
        places = pl.repeat(None, count, dtype=pl.Int64, eager=True)
        return values.gather(places.scatter(rows, pl.int_range(rows.len(), eager=True)))


def _converted(name: str, values: pl.Series, names: Mapping[int, str], kind: type[pl.DataType]) -> pl.Series:
    if name == "str_value":
        return _texts(values)
    if name == "ref_value":
        texts = values.replace_strict(dict(names), default="", return_dtype=pl.String)
        return texts.zip_with(values.is_not_null(), pl.Series([None], dtype=pl.String))
    return values if kind == pl.Int64 else values.reinterpret(signed=name == "int64_value").cast(kind)


def _texts(values: pl.Series) -> pl.Series:
    """Binary as String, with U+FFFD for what is no UTF-8."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.ComputeError:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_list()]
        return pl.Series(values.name, texts, dtype=pl.String)


class StatReader:
    """Stats of any kind.

    kinds: of values that there have been so far; only those need marks
    """

    def __init__(self) -> None:
        self._kinds: frozenset[str] = frozenset()

    def stats(self, events: Decoded) -> Stats:
        """Of events whose field `stats` was decoded as bytes. Raises AmbiguousError, DecodeError."""
        items = events.items("stats")
        places = pl.Series(list(compress(range(len(items)), items)), dtype=pl.Int64)
        stats, kinds = self._decode(list(filter(None, items)))
        if len(items) - stats.count != events.count + 1:
            raise AmbiguousError("stats")
        rows = places - pl.int_range(1, stats.count + 1, eager=True)  # marks before it, less the first
        values = {kind: stats.column(kind) for kind in sorted(kinds) if stats.has(kind)}
        return Stats(rows, stats.column("metadata_id").fill_null(0), values)

    def _decode(self, stats: list[bytes]) -> tuple[Decoded, frozenset[str]]:
        """The stats, and the kinds of values that are marked."""
        known = self._kinds  # another thread may add to them
        found = STATS.decode(stats, ("metadata_id", *known))
        kinds = known.union(kind for kind in (*_INTEGER_KINDS, *_TEXT_KINDS) if found.has(kind))
        if kinds == known:
            return found, known
        self._kinds = kinds
        return STATS.decode(stats, ("metadata_id", *kinds)), kinds
