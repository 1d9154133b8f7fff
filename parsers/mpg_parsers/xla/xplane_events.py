"""The events of one line of an XPlane file as columns.

A line is decoded in parts of some thousand events, so that what is made on the way stays small.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from google.protobuf.message import DecodeError

from mpg_parsers.xla import xplane_integers
from mpg_parsers.xla.messages import xspace
from mpg_parsers.xla.space import INTEGERS
from mpg_parsers.xla.xplane_columns import AmbiguousError, Transposed
from mpg_parsers.xla.xplane_stats import MARK, StatReader, column_type
from mpg_parsers.xla.xplane_wire import WireError, spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mpg_parsers.xla.space import Value
    from mpg_parsers.xla.xplane_columns import Decoded
    from mpg_parsers.xla.xplane_stats import Stats

PART = 1 << 19  # bytes of a line that are decoded at once
BATCH = 1 << 21  # bytes of parts that are decoded together, if that can be done in bulk
FEW = 200  # events that are decoded faster one by one
_TRIES = 16
_EVENTS = 4
_EVENT_STARTS = b"\x22"  # this field, with a length
# Marks are hardly ever values: writers leave 0 out, except of fields that exclude each other.
_TIMES: dict[str, tuple[int, int | bytes]] = {
    "metadata_id": (1, 0), "offset_ps": (2, MARK), "duration_ps": (3, 0), "num_occurrences": (5, MARK),
}  # fmt: skip
_MARKED = ("metadata_id", "offset_ps", "duration_ps")
EVENTS = Transposed("Events", {**_TIMES, "stats": (4, b"")})


# ------------------------------------------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class Part:
    """Some fields of a line, which are an XLine of their own.

    count: events in them; events: these alone, if nothing is between them, else empty
    """

    content: memoryview
    count: int
    events: memoryview


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a line before its events are decoded.

    head: the XLine without its events
    damage: why there is more of the line than these parts, which cannot be decoded; "" if there is not
    """

    head: Any
    parts: tuple[Part, ...]
    damage: str = ""

    @property
    def count(self) -> int:
        """How many events there are."""
        return sum(part.count for part in self.parts)


def survey(line: memoryview) -> Survey:
    """Walk through a line without decoding its events."""
    head = xspace()["XLine"]()
    parts: list[Part] = []
    start = 0
    damage = ""
    while start < len(line):
        try:
            stop, found = _part(line, start)
        except DecodeError as error:
            damage = str(error) or "it cannot be decoded"
            break
        count = len(found.events)
        found.ClearField("events")
        content = line[start:stop]
        parts.append(Part(content, count, _events_of(content, count, found.ByteSize())))
        head.MergeFrom(found)
        start = stop
    return Survey(head, tuple(parts), damage)


def _events_of(content: memoryview, count: int, others: int) -> memoryview:
    """The `count` events in a part; empty if what else is in it, `others` bytes, is not before and after them."""
    if not others or not count:
        return content if count else content[:0]
    with contextlib.suppress(WireError, StopIteration, DecodeError):
        first = next(span.start for span in spans(content, 0, len(content)) if span.number == _EVENTS)
        events = content[first : len(content) - others + first]
        found = xspace()["XLine"].FromString(events)
        if len(found.events) == count and found.ByteSize() == len(events):
            return events
    return content[:0]


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


def decode(parts: Sequence[Part], names: Mapping[int, str], wanted: Sequence[str]) -> pl.DataFrame:
    """The events of the parts of some lines of a plane; columns as space.Line.events has them. Raises DecodeError.

    names: of stats, by number
    """
    frames = [frame for found in _read(_Reader(names, wanted), parts) for frame in found]
    known = pl.concat([pl.DataFrame(schema=_schema(())), *frames], how="diagonal", rechunk=True)
    schema = _schema(wanted)
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in schema if name not in known.columns]
    return known.with_columns(missing).select(*schema)


def _read(reader: _Reader, parts: Sequence[Part]) -> list[list[pl.DataFrame]]:
    """The frames of each batch; of two batches at a time, for Polars lets other threads run meanwhile."""
    batches = list(_batches(parts, BATCH))
    if len(batches) < 2:
        return [reader.frames(batch) for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(reader.frames, batches))


def _batches(parts: Sequence[Part], most: int) -> Iterator[Sequence[Part]]:
    """The parts, as many together as `most` bytes allow."""
    batch: list[Part] = []
    size = 0
    for part in parts:
        if batch and size + len(part.content) > most:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += len(part.content)
    if batch:
        yield batch


def _schema(wanted: Sequence[str]) -> dict[str, type[pl.DataType]]:
    own: dict[str, type[pl.DataType]] = dict.fromkeys(("metadata", "offset_ps", "dur_ps"), pl.Int64)
    return {**own, **{name: column_type(name) for name in wanted}}


def _is_plain(part: Part) -> bool:
    """Whether a part may be events of integers: one that could not be cut holds long texts."""
    return len(part.events) <= 2 * PART and bool(part.events or not part.count)


class _Reader:
    """Reads events of a plane; what it finds out about their stats holds for those that follow."""

    def __init__(self, names: Mapping[int, str], wanted: Sequence[str]) -> None:
        self._names = names
        self._wanted = wanted
        self._marked = (*_MARKED, "stats") if not set(wanted).isdisjoint(names.values()) else _MARKED
        self._integers = True  # whether all stats so far were integers or references
        self._reader = StatReader()

    def frames(self, parts: Sequence[Part]) -> list[pl.DataFrame]:
        """The events of some parts, without columns in which there is nothing. Raises DecodeError."""
        many = sum(part.count for part in parts) >= FEW
        if many and self._integers and all(_is_plain(part) for part in parts):
            with contextlib.suppress(AmbiguousError):
                content = b"".join(part.events for part in parts)
                return [self._with_stats(*xplane_integers.events(content))]
            self._integers = False
        return [self._frame(batch) for batch in _batches(parts, PART) if any(part.count for part in batch)]

    def _frame(self, parts: Sequence[Part]) -> pl.DataFrame:
        decode = xspace()["XLine"].FromString
        events: list[bytes] = [event for part in parts for event in decode(part.content).events]
        if len(events) >= FEW:
            with contextlib.suppress(AmbiguousError, DecodeError):
                return self._columns(EVENTS.decode(events, self._marked))
        return by_rows(events, self._names, self._wanted)

    def _columns(self, found: Decoded) -> pl.DataFrame:
        """Raises AmbiguousError, DecodeError where `by_rows` has to decide."""
        if found.has("num_occurrences"):
            raise AmbiguousError("num_occurrences")
        timed = pl.DataFrame(
            [
                found.column("metadata_id").fill_null(0).alias("metadata"),
                found.column("offset_ps").fill_null(0),
                found.column("duration_ps").fill_null(0).clip(lower_bound=0).alias("dur_ps"),
            ]
        )
        stats = self._reader.stats(found) if "stats" in self._marked and found.has("stats") else None
        return timed if stats is None else self._with_stats(timed, stats)

    def _with_stats(self, timed: pl.DataFrame, stats: Stats) -> pl.DataFrame:
        return timed.with_columns(stats.columns(self._wanted, self._names, timed.height))


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
