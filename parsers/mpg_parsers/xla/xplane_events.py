"""The events of one line of an XPlane file as columns.

A line is decoded in parts of some thousand events, so that what is made on the way stays small.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import polars as pl
from google.protobuf.message import DecodeError

from mpg_parsers.xla.messages import xspace
from mpg_parsers.xla.space import INTEGERS
from mpg_parsers.xla.xplane_columns import AmbiguousError, Decoded, Transposed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mpg_parsers.xla.space import Value

PART = 1 << 19  # bytes of a line that are decoded at once
FEW = 200  # events that are decoded faster one by one
_TRIES = 16
_EVENT_STARTS = b"\x22"  # field 4, with a length
# Marks are hardly ever values: writers leave 0 out, except of fields that exclude each other.
_MARK = 8191
EVENTS = Transposed(
    "Events",
    {
        "metadata_id": (1, 0),
        "offset_ps": (2, _MARK),
        "duration_ps": (3, 0),
        "stats": (4, b""),
        "num_occurrences": (5, _MARK),
    },
)
STATS = Transposed(
    "Stats",
    {
        "metadata_id": (1, 0),
        "uint64_value": (3, _MARK),
        "int64_value": (4, _MARK),
        "str_value": (5, b"\0"),
        "ref_value": (7, _MARK),
    },
)
_INTEGER_KINDS, _TEXT_KINDS = ("uint64_value", "int64_value"), ("str_value", "ref_value")


# ------------------------------------------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a line before its events are decoded.

    head: the XLine without its events; ends: where parts end that are XLines of their own; count: events in them
    damage: why there is more of the line than these parts, which cannot be decoded; "" if there is not
    """

    head: Any
    ends: tuple[int, ...]
    count: int
    damage: str = ""


def survey(line: memoryview) -> Survey:
    """Walk through a line without decoding its events."""
    head = xspace()["XLine"]()
    ends: list[int] = []
    count = start = 0
    damage = ""
    while start < len(line):
        try:
            start, part = _part(line, start)
        except DecodeError as error:
            damage = str(error) or "it cannot be decoded"
            break
        count += len(part.events)
        part.ClearField("events")
        head.MergeFrom(part)
        ends.append(start)
    return Survey(head, tuple(ends), count, damage)


def _part(line: memoryview, start: int) -> tuple[int, Any]:
    """(end, XLine) of a part that starts at `start`. Raises DecodeError.

    Decoding goes from left to right: what can be decoded up to some byte has a field that ends there.
    """
    decode = xspace()["XLine"].FromString
    for end in _candidates(line, start):
        try:
            return end, decode(line[start:end])
        except DecodeError:
            continue
    return len(line), decode(line[start:])


def _candidates(line: memoryview, start: int) -> Iterator[int]:
    """Where the next part may end: at what looks like the start of an event, a few times in every doubled length."""
    size = PART
    while start + size < len(line):
        window = bytes(line[start + size : start + size + 4096])
        position = window.find(_EVENT_STARTS)
        for _ in range(_TRIES):
            if position < 0:
                break
            yield start + size + position
            position = window.find(_EVENT_STARTS, position + 1)
        size *= 2


# ------------------------------------------------------------------------------------------------- columns


def decode(
    line: memoryview, ends: Sequence[int], names: Mapping[int, str], wanted: Sequence[str]
) -> pl.DataFrame:
    """The events of the parts of a line; columns as space.Line.events has them. Raises DecodeError.

    names: of stats, by number
    """
    parts = (_events(line[start:end]) for start, end in zip((0, *ends), ends, strict=False))
    reader = _Reader(names, wanted)
    frames = [reader.frame(events) for events in parts if events]
    known = pl.concat([pl.DataFrame(schema=_schema(())), *frames], how="diagonal", rechunk=True)
    schema = _schema(wanted)
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in schema if name not in known.columns]
    return known.with_columns(missing).select(*schema)


def _events(part: memoryview) -> list[bytes]:
    found: list[bytes] = xspace()["XLine"].FromString(part).events[:]
    return found


def _schema(wanted: Sequence[str]) -> dict[str, type[pl.DataType]]:
    own: dict[str, type[pl.DataType]] = dict.fromkeys(("metadata", "offset_ps", "dur_ps"), pl.Int64)
    return {**own, **{name: pl.Int64 if name in INTEGERS else pl.String for name in wanted}}


class _Reader:
    """Reads the events of a line.

    kinds: of values that stats of this line have had so far; only those need marks
    """

    def __init__(self, names: Mapping[int, str], wanted: Sequence[str]) -> None:
        self._names = names
        self._wanted = wanted
        self._some = not set(wanted).isdisjoint(names.values())
        self._kinds: set[str] = set()

    def frame(self, events: list[bytes]) -> pl.DataFrame:
        """The events, without columns in which there is nothing. Raises DecodeError."""
        if len(events) >= FEW:
            with contextlib.suppress(AmbiguousError, DecodeError):
                return self._by_columns(events)
        return by_rows(events, self._names, self._wanted)

    def _by_columns(self, events: list[bytes]) -> pl.DataFrame:
        """Raises AmbiguousError, DecodeError where `by_rows` has to decide."""
        marked = ["metadata_id", "offset_ps", "duration_ps", *(["stats"] if self._some else [])]
        found = EVENTS.decode(events, marked)
        if found.has("num_occurrences"):
            raise AmbiguousError("num_occurrences")
        columns = [
            found.column("metadata_id").fill_null(0).alias("metadata"),
            found.column("offset_ps").fill_null(0),
            found.column("duration_ps").fill_null(0).clip(lower_bound=0).alias("dur_ps"),
        ]
        if self._some and found.has("stats"):
            columns.extend(self._stats(found).columns(self._wanted, len(events)))
        return pl.DataFrame(columns)

    def _stats(self, events: Decoded) -> _Stats:
        items = events.items("stats")
        places = pl.Series(list(compress(range(len(items)), items)), dtype=pl.Int64)
        stats = self._decode(list(filter(None, items)))
        if len(items) - stats.count != events.count + 1:
            raise AmbiguousError("stats")
        rows = places - pl.int_range(1, stats.count + 1, eager=True)  # marks before it, less the first
        values = {kind: stats.column(kind) for kind in sorted(self._kinds) if stats.has(kind)}
        return _Stats(rows, stats.column("metadata_id").fill_null(0), values, self._names)

    def _decode(self, stats: list[bytes]) -> Decoded:
        found = STATS.decode(stats, ("metadata_id", *self._kinds))
        kinds = {kind for kind in (*_INTEGER_KINDS, *_TEXT_KINDS) if found.has(kind)}
        if kinds <= self._kinds:
            return found
        self._kinds |= kinds
        return STATS.decode(stats, ("metadata_id", *self._kinds))


@dataclass(frozen=True, slots=True)
class _Stats:
    """All stats of some events: the event each belongs to, its number, and its value by kind of value."""

    rows: pl.Series
    ids: pl.Series
    values: dict[str, pl.Series]
    names: Mapping[int, str]

    def columns(self, wanted: Sequence[str], count: int) -> Iterator[pl.Series]:
        """The stats that any of `count` events has."""
        present = sorted(self.ids.unique().to_list())
        for name, kind in _schema(wanted).items():
            ids = [key for key in present if name in wanted and self.names.get(key) == name]
            if ids:
                yield self._column(ids, kind, count).alias(name)

    def _column(self, ids: Sequence[int], kind: type[pl.DataType], count: int) -> pl.Series:
        """The values of the stats with these numbers, one for each of `count` events: the last that it has."""
        chosen = self.ids == ids[0] if len(ids) == 1 else self.ids.is_in(ids)
        rows = self.rows.filter(chosen)
        places = pl.repeat(None, count, dtype=pl.Int64, eager=True)
        places = places.scatter(rows, pl.int_range(rows.len(), eager=True))
        return self._typed(chosen, kind).gather(places)

    def _typed(self, chosen: pl.Series, kind: type[pl.DataType]) -> pl.Series:
        """The values of the chosen stats as integers or texts; null where a value is neither."""
        values = pl.repeat(None, int(chosen.sum()), dtype=kind, eager=True)
        for name, found in self.values.items():
            if kind == pl.String or name in _INTEGER_KINDS:
                typed = self._converted(name, found.filter(chosen), kind)
                values = typed.zip_with(typed.is_not_null(), values)
        return values

    def _converted(self, name: str, values: pl.Series, kind: type[pl.DataType]) -> pl.Series:
        if name == "str_value":
            return _texts(values)
        if name == "ref_value":
            texts = values.replace_strict(dict(self.names), default="", return_dtype=pl.String)
            return texts.zip_with(values.is_not_null(), pl.Series([None], dtype=pl.String))
        return values if kind == pl.Int64 else values.reinterpret(signed=name == "int64_value").cast(kind)


def _texts(values: pl.Series) -> pl.Series:
    """Binary as String, with U+FFFD for what is no UTF-8."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.ComputeError:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_list()]
        return pl.Series(values.name, texts, dtype=pl.String)


# ------------------------------------------------------------------------------------------------- rows


def by_rows(events: Sequence[bytes], names: Mapping[int, str], wanted: Sequence[str]) -> pl.DataFrame:
    """The same, event by event. Raises DecodeError."""
    decoded = [xspace()["XEvent"].FromString(event) for event in events]
    rows = [_row(event, names, wanted) for event in decoded if event.WhichOneof("data") != "num_occurrences"]
    return pl.DataFrame(rows, schema=_schema(wanted), orient="row")


def _row(
    event: Any,  # noqa: ANN401 - an XEvent: no checker knows its fields
    names: Mapping[int, str],
    wanted: Sequence[str],
) -> tuple[Any, ...]:
    stats = {names.get(stat.metadata_id): stat for stat in event.stats}
    values = (_of_column(name, stats[name], names) if name in stats else None for name in wanted)
    return event.metadata_id, event.offset_ps, max(event.duration_ps, 0), *values


def _of_column(name: str, stat: Any, names: Mapping[int, str]) -> int | str | None:  # noqa: ANN401
    """A stat's value as its column has it; None where it is a floating-point number or bytes."""
    found = value(stat, names)
    if name not in INTEGERS:
        return str(found) if isinstance(found, int | str) else None
    return (found + (1 << 63)) % (1 << 64) - (1 << 63) if isinstance(found, int) else None


def value(stat: Any, names: Mapping[int, str]) -> Value | None:  # noqa: ANN401
    """What an XStat says: a reference stands for the name it refers to. None if it says nothing."""
    kind = stat.WhichOneof("value")
    if kind is None:
        return None
    found: Value = getattr(stat, kind)
    if kind == "ref_value":
        return names.get(int(found), "")
    if kind == "str_value" and isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found
