"""The events of one line of an XPlane file as columns.

A line is decoded in parts of some thousand events, so that what is made on the way stays small.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from google.protobuf.message import DecodeError

from mpg_parsers.xla.messages import xspace
from mpg_parsers.xla.space import INTEGERS
from mpg_parsers.xla.xplane_columns import AmbiguousError, Decoded, Transposed
from mpg_parsers.xla.xplane_stats import MARK, StatReader, Stats, column_type, integer_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mpg_parsers.xla.space import Value

PART = 1 << 19  # bytes of a line that are decoded at once
FEW = 200  # events that are decoded faster one by one
_TRIES = 16
_EVENT_STARTS = b"\x22"  # field 4, with a length
# Marks are hardly ever values: writers leave 0 out, except of fields that exclude each other.
_TIMES: dict[str, tuple[int, int | bytes]] = {
    "metadata_id": (1, 0), "offset_ps": (2, MARK), "duration_ps": (3, 0), "num_occurrences": (5, MARK),
}  # fmt: skip
_MARKED = ("metadata_id", "offset_ps", "duration_ps")
EVENTS = Transposed("Events", {**_TIMES, "stats": (4, b"")})
INTEGER_EVENTS = Transposed("IntegerEvents", {**_TIMES, "stats": (4, MARK)})


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
    reader = _Reader(names, wanted)
    parts = (line[start:end] for start, end in zip((0, *ends), ends, strict=False))
    frames = [frame for frame in map(reader.frame, parts) if frame is not None]
    known = pl.concat([pl.DataFrame(schema=_schema(())), *frames], how="diagonal", rechunk=True)
    schema = _schema(wanted)
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in schema if name not in known.columns]
    return known.with_columns(missing).select(*schema)


def _events(part: memoryview) -> list[bytes]:
    found: list[bytes] = xspace()["XLine"].FromString(part).events[:]
    return found


def _schema(wanted: Sequence[str]) -> dict[str, type[pl.DataType]]:
    own: dict[str, type[pl.DataType]] = dict.fromkeys(("metadata", "offset_ps", "dur_ps"), pl.Int64)
    return {**own, **{name: column_type(name) for name in wanted}}


class _Reader:
    """Reads the events of a line; what it finds out about its stats holds for the parts that follow."""

    def __init__(self, names: Mapping[int, str], wanted: Sequence[str]) -> None:
        self._names = names
        self._wanted = wanted
        self._marked = (*_MARKED, "stats") if not set(wanted).isdisjoint(names.values()) else _MARKED
        self._integers = "stats" in self._marked  # whether all stats so far were integers or references
        self._reader = StatReader()

    def frame(self, part: memoryview) -> pl.DataFrame | None:
        """The events of a part, without columns in which there is nothing. None without any. Raises DecodeError."""
        events = _events(part)
        if len(events) >= FEW:
            if self._integers and len(part) <= 2 * PART:  # as integers, long texts would take much memory
                with contextlib.suppress(AmbiguousError, DecodeError):
                    return self._columns(INTEGER_EVENTS.decode(events, self._marked), integer_stats)
                self._integers = False
            with contextlib.suppress(AmbiguousError, DecodeError):
                return self._columns(EVENTS.decode(events, self._marked), self._reader.stats)
        return by_rows(events, self._names, self._wanted) if events else None

    def _columns(self, found: Decoded, stats: Callable[[Decoded], Stats]) -> pl.DataFrame:
        """Raises AmbiguousError, DecodeError where `by_rows` has to decide."""
        if found.has("num_occurrences"):
            raise AmbiguousError("num_occurrences")
        columns = [
            found.column("metadata_id").fill_null(0).alias("metadata"),
            found.column("offset_ps").fill_null(0),
            found.column("duration_ps").fill_null(0).clip(lower_bound=0).alias("dur_ps"),
        ]
        if "stats" in self._marked and found.has("stats"):
            columns.extend(stats(found).columns(self._wanted, self._names, found.count))
        return pl.DataFrame(columns)


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
