"""XPlane files (*.xplane.pb): what the profiler of JAX, TensorFlow and PyTorch/XLA writes for one host.

Every plane has ids of its own, for events, for stats and for the texts that stats refer to. The format is
tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from google.protobuf.message import DecodeError

from mpg_parsers.errors import InputError, shown
from mpg_parsers.xla.messages import require_upb, xspace
from mpg_parsers.xla.space import Line, Metadata, Plane, Space, one_by_one
from mpg_parsers.xla.xplane_events import Survey, decode, survey, value
from mpg_parsers.xla.xplane_sniff import ERROR, HOSTNAME, PLANE, WARNING, is_text_copy, looks_like
from mpg_parsers.xla.xplane_wire import LENGTH, CutError, Span, WireError, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mpg_parsers.xla.space import Value

__all__ = ["LARGEST", "looks_like", "read"]

LARGEST = 4 << 30  # bytes
LARGEST_MESSAGE = (2 << 30) - 1  # protobuf decodes no more than this at once
LATEST = 1 << 62  # ns
MAX_LINES = 50_000  # with some frames each
_LINES = 3
_ENVIRONMENT = "Task Environment"
_DAMAGED = "copy the file again, in binary mode, from where it was recorded; or record again"
_LESS = "record a shorter time, or without the Python tracer (python_tracer_level=0)"


def read(data: bytes | memoryview, path: str) -> Space:
    """The profile in `data`, which stays in use: lines are decoded when they are asked for.

    Raises InputError: truncated_input, corrupt_input, unsupported_format.
    """
    require_upb(path)
    data = memoryview(data)
    _refuse_large(len(data), LARGEST, path, "the file")
    fields = _fields(data, path)
    planes = tuple(_plane(data, span, path) for span in fields if span.number == PLANE)
    hosts, errors, warnings = (_texts(data, fields, number) for number in (HOSTNAME, ERROR, WARNING))
    start, stop = _window(planes)
    return Space(planes, hosts, errors, warnings, start, stop)


def _refuse_large(size: int, limit: int, path: str, what: str, where: str = "") -> None:
    if size > limit:
        message = (
            f"{what} has {size / (1 << 30):.1f} GiB; {limit / (1 << 30):.0f} GiB are the most that is read"
        )
        raise InputError("unsupported_format", path, message, where=where, hint=_LESS)


def _fields(data: memoryview, path: str) -> list[Span]:
    """The fields of the XSpace. Raises InputError."""
    try:
        return [span for span in spans(data, 0, len(data)) if span.wire == LENGTH]
    except WireError as error:
        if is_text_copy(data):
            raise _text_copy(path, error.offset) from error
        if isinstance(error, CutError):
            raise _truncated(path, error, len(data)) from error
        raise _corrupt(path, error.offset, str(error)) from error


def _truncated(path: str, error: CutError, size: int) -> InputError:
    what = "plane" if error.number == PLANE else "field"
    message = (
        f"truncated: the {what} that starts at byte {error.offset} goes on for at least {error.missing} bytes"
    )
    hint = (
        "was the job killed, or the disk full, while the profile was written? copy it again, or record again"
    )
    return InputError("truncated_input", path, message, where=f"byte {size}", hint=hint)


def _corrupt(path: str, offset: int, message: str) -> InputError:
    where = f"byte {offset}"
    return InputError("corrupt_input", path, f"Wire format is damaged: {message}", where=where, hint=_DAMAGED)


def _text_copy(path: str, offset: int) -> InputError:
    message = "Wire format is damaged: bytes that are no UTF-8 were replaced with EF BF BD (U+FFFD)"
    hint = "the file was copied or stored as text and cannot be repaired: copy it again in binary mode"
    return InputError("corrupt_input", path, message, where=f"byte {offset}", hint=hint)


def _text(data: memoryview | bytes) -> str:
    return bytes(data).decode("utf-8", "replace")


def _texts(data: memoryview, fields: Iterable[Span], number: int) -> tuple[str, ...]:
    return tuple(_text(data[span.content : span.stop]) for span in fields if span.number == number)


def _window(planes: Iterable[Plane]) -> tuple[int | None, int | None]:
    """(start, stop) of profiling in Unix ns, where a plane states them."""
    stats = next((plane.stats for plane in planes if plane.name == _ENVIRONMENT), {})
    start, stop = (stats.get(f"profile_{end}_time") for end in ("start", "stop"))
    return _time(start), _time(stop)


def _time(value: Value | None) -> int | None:
    """A time in Unix ns; None for one that cannot be."""
    return value if isinstance(value, int) and 0 < value < LATEST else None


# -------------------------------------------------------------------------------------------------- planes


def _plane(data: memoryview, span: Span, path: str) -> Plane:
    """Raises InputError: corrupt_input, unsupported_format."""
    try:
        lines, rest = _split(data, span)
        _refuse_many(lines, path, span)
        _refuse_large(len(rest), LARGEST_MESSAGE, path, "a plane without its lines", f"byte {span.start}")
        plane = xspace()["XPlane"].FromString(rest)
    except (WireError, DecodeError) as error:
        if is_text_copy(data):
            raise _text_copy(path, span.start) from error
        offset = error.offset if isinstance(error, WireError) else span.start
        raise _corrupt(path, offset, f"the plane that starts at byte {span.start}: {error}") from error
    name = _text(plane.name)
    stat_names = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}
    return Plane(
        name,
        _stats(plane.stats, stat_names),
        tuple(_line(data[line.content : line.stop], name, stat_names, path) for line in lines),
        Kinds({entry.key: entry.value for entry in plane.event_metadata}, stat_names),
        _together,
    )


def _refuse_many(lines: Sequence[Span], path: str, plane: Span) -> None:
    if len(lines) > MAX_LINES:
        message = f"a plane has {len(lines)} lines; {MAX_LINES} are the most that are read"
        raise InputError("unsupported_format", path, message, where=f"byte {plane.start}", hint=_LESS)


def _split(data: memoryview, plane: Span) -> tuple[list[Span], bytes]:
    """The lines of a plane, and the message that it is without them. Raises WireError."""
    lines = []
    rest = []
    start = plane.content
    for span in spans(data, plane.content, plane.stop):
        if span.number == _LINES and span.wire == LENGTH:
            lines.append(span)
            rest.append(data[start : span.start])
            start = span.stop
    return lines, b"".join([*rest, data[start : plane.stop]])


class Kinds(Mapping[int, Metadata]):
    """The event metadata of a plane by id, converted when it is asked for."""

    def __init__(self, entries: Mapping[int, Any], names: Mapping[int, str]) -> None:
        """entries: XEventMetadata by id; names: of stats, by id."""
        self._entries = entries
        self._names = names
        self._done: dict[int, Metadata] = {}

    def __getitem__(self, key: int) -> Metadata:
        if key not in self._done:
            found = self._entries[key]
            stats = _stats(found.stats, self._names)
            self._done[key] = Metadata(_text(found.name), _text(found.display_name), stats)
        return self._done[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _stats(stats: Iterable[Any], names: Mapping[int, str]) -> dict[str, Value]:
    """Values by name; a stat without a name or a value is left out."""
    known = ((names.get(stat.metadata_id, ""), value(stat, names)) for stat in stats)
    return {name: found for name, found in known if name and found is not None}


@dataclass(frozen=True, slots=True)
class _Events:
    """Reads the events of a line: `Line.events`. plane, name, path: where that is, for errors."""

    known: Survey
    names: Mapping[int, str]
    plane: str
    name: str
    path: str

    def __call__(self, wanted: Sequence[str]) -> pl.DataFrame:
        """Raises InputError(corrupt_input)."""
        damage = self.known.damage
        if not damage:
            try:
                return decode(self.known.parts, self.names, wanted)
            except DecodeError as error:
                damage = str(error)
        where = f"plane {shown(self.plane)}, line {shown(self.name)}"
        message = f"Wire format is damaged: {damage}"
        raise InputError("corrupt_input", self.path, message, where=where, hint=_DAMAGED)


def _line(data: memoryview, plane: str, names: Mapping[int, str], path: str) -> Line:
    known = survey(data)
    name = _text(known.head.name or known.head.display_name)
    events = _Events(known, names, plane, name, path)
    return Line(known.head.id, name, known.head.timestamp_ns, known.count, events)


def _together(lines: Sequence[Line], wanted: Sequence[str]) -> pl.DataFrame:
    """As `one_by_one`, which it leaves to find what is wrong with a line."""
    readers = [cast("_Events", line.events) for line in lines]
    if not any(reader.known.damage for reader in readers):
        with contextlib.suppress(DecodeError):
            parts = [part for reader in readers for part in reader.known.parts]
            found = decode(parts, readers[0].names, wanted)
            counts = pl.Series([line.count for line in lines], dtype=pl.Int64)
            if found.height == counts.sum():  # none without a time
                numbers = pl.int_range(len(lines), eager=True).repeat_by(counts).explode()
                return found.with_columns(numbers.alias("line"))
    return one_by_one(lines, wanted)
