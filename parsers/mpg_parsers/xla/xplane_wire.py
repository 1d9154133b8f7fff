"""The outermost layer of protobuf's wire format: where the fields of a message start and end, without decoding them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_LONGEST = 10  # bytes of a varint
_SIZES = {FIXED64: 8, FIXED32: 4}


class WireError(Exception):
    """No field can start at byte `offset`."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class CutError(WireError):
    """The field that starts at `offset` ends past the end of the data, by `missing` bytes at least.

    number, content: which it is and where its content starts; None where the cut is before that
    """

    def __init__(
        self, offset: int, missing: int, number: int | None = None, content: int | None = None
    ) -> None:
        super().__init__(f"{missing} bytes are missing", offset)
        self.missing = missing
        self.number = number
        self.content = content


class Span(NamedTuple):
    """One field: its number and wire type; it starts at `start`, its content is [content, stop)."""

    number: int
    wire: int
    start: int
    content: int
    stop: int


def spans(data: bytes | memoryview, start: int, stop: int) -> Iterator[Span]:
    """The fields of the message in data[start:stop]. Raises WireError, CutError."""
    position = start
    while position < stop:
        span = _span(data, position, stop)
        yield span
        position = span.stop


def _span(data: bytes | memoryview, start: int, stop: int) -> Span:
    tag, content = varint(data, start, stop, start)
    number, wire = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise WireError(f"{number} is no number of a field", start)
    if wire == LENGTH:
        size, content = varint(data, content, stop, start)
        end = content + size
    elif wire == VARINT:
        _, end = varint(data, content, stop, start)
    elif wire in _SIZES:
        end = content + _SIZES[wire]
    else:
        raise WireError(f"{wire} is no type of a field that is in use", start)
    if end > stop:
        known = (number, content) if wire == LENGTH else (None, None)
        raise CutError(start, end - stop, *known)
    return Span(number, wire, start, content, end)


def varint(data: bytes | memoryview, position: int, stop: int, field: int) -> tuple[int, int]:
    """The number at `position` and where it ends. Raises WireError, CutError for the field that starts at `field`."""
    value = shift = 0
    for index in range(position, min(stop, position + _LONGEST)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    if position + _LONGEST > stop:
        raise CutError(field, 1)
    raise WireError("a number of more than 10 bytes", field)
