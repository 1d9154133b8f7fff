"""Whether bytes are an XPlane file, and what happened to one that is damaged. Loads nothing: every input is asked."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from mpg_parsers.xla.xplane_wire import LENGTH, VARINT, CutError, Span, WireError, spans

if TYPE_CHECKING:
    from collections.abc import Iterator

PLANE, ERROR, WARNING, HOSTNAME = 1, 2, 3, 4
_TAGS = (b"\x0a", b"\x12", b"\x1a", b"\x22")  # of these fields
_PLANE_FIELDS = {1: VARINT, 2: LENGTH, 3: LENGTH, 4: LENGTH, 5: LENGTH, 6: LENGTH}
_HOST = re.compile(r"[\w.:/-]{1,255}")
_LONGEST_NAME = 300
_SHORTEST_CUT = 5  # characters of a plane's name that must be left of it
# What is left of the start of a first plane once every byte that is no UTF-8 has been replaced.
_REPLACED = re.compile(rb"\x0a(?=.{0,12}?\xef\xbf\xbd).{1,40}?\x12.{1,3}?/(?:device|host):", re.DOTALL)
_SAMPLE = 1 << 20


def looks_like(head: bytes) -> bool:
    """Whether a file that starts with `head` (all of it, if it is shorter) is an XPlane file, be it damaged or cut.

    The first plane must start with a number and a name and go on with what a plane has; a file without planes must be
    errors, warnings and host names and nothing else.
    """
    if _REPLACED.match(head[:128]):
        return True
    try:
        return head[:1] in _TAGS and _starts_space(head)
    except WireError:
        return False


def is_text_copy(data: bytes | memoryview) -> bool:
    """Whether `data` went through a text decoder, which put U+FFFD in the place of bytes that are no UTF-8."""
    sample = bytes(data[:_SAMPLE])
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return "\ufffd" in text


def _started(data: bytes, start: int, stop: int) -> Iterator[Span]:
    """The fields in data[start:stop], the last of them as far as the data goes."""
    position = start
    while position < stop:
        try:
            span = next(spans(data, position, stop))
        except CutError as error:
            if error.number is None or error.content is None:
                return
            yield Span(error.number, LENGTH, position, error.content, stop)
            return
        yield span
        position = span.stop


def _starts_space(head: bytes) -> bool:
    """Raises WireError."""
    some = False
    for span in _started(head, 0, len(head)):
        if span.wire != LENGTH or span.number > HOSTNAME:
            return False
        if span.number == PLANE:
            return _starts_plane(head, span)
        if not _is_text(head[span.content : span.stop], span.number):
            return False
        some = True
    return some


def _starts_plane(head: bytes, plane: Span) -> bool:
    named = False
    for span in _started(head, plane.content, plane.stop):
        if _PLANE_FIELDS.get(span.number) != span.wire:
            return False
        if named or span.number > 2:
            return named and span.number > 2
        named = span.number == 2
        cut = span.stop == len(head)
        if named and not _is_name(head[span.content : span.stop], cut=cut):
            return False
    return named


def _is_name(name: bytes, *, cut: bool) -> bool:
    if not (_SHORTEST_CUT if cut else 1) <= len(name) <= _LONGEST_NAME:
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(name, final=not cut)
    except UnicodeDecodeError:
        return False
    return text.isprintable()


def _is_text(content: bytes, number: int) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False
    if number == HOSTNAME:
        return _HOST.fullmatch(text) is not None
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)
