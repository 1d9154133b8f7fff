"""The elements of the one long array of a JSON document, e.g. the jobs of `sacct --json`, in bounded memory.

The text is cut before elements that begin as the first one does; what then does not decode is walked element
by element. The document may end anywhere.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from mpg_parsers.chrome.syntax import BAD_JSON, is_open, value_end
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.slurm.about import Found
from mpg_parsers.wall_times import NO_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

BLOCK = 4 << 20
NEAR = 1 << 18
MAX_HEAD = 1 << 20
MAX_ELEMENT = 64 << 20
MAX_TAIL = 8 << 20
ARRAYS = re.compile(rb'"(jobs|nodes|sinfo)"\s*:\s*\[')
_FIRST = re.compile(rb'\s*\{\s*("[^"\\]{1,80}")\s*:')
_BETWEEN = re.compile(rb"[\s,]*")
T = TypeVar("T")


class Elements(Generic[T]):
    """Iterates over lists of the array's elements, each of `kind`; afterwards `rest` is the document without them.

    `bad` counts elements that are none of that kind.
    """

    def __init__(self, source: Source, options: ParseOptions, kind: type[T]) -> None:
        self._source = source
        self._options = options
        self._one = msgspec.json.Decoder(kind)
        self._many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._buffer = bytearray()
        self._boundary: re.Pattern[bytes] | None = None
        self._ended = False
        self._head = b""
        self.rest: dict[str, Any] = {}
        self.bad = Found()
        self.notices: list[Notice] = []

    def __iter__(self) -> Iterator[list[T]]:
        """The elements, in order. Raises InputError corrupt_input, truncated_input."""
        with self._source.open() as stream:
            text = Utf8Stream(stream)
            self._find_array(text)
            eof = False
            while not eof and not self._ended:
                eof = not self._fill(text, len(self._buffer) + BLOCK)
                yield self._take(last=eof)
                if self._options.progress:
                    self._options.progress(stream.stored_position)
            while not eof and len(self._buffer) < MAX_TAIL:
                eof = not self._fill(text, len(self._buffer) + BLOCK)
            self._finish(stream.truncated)

    def _fill(self, text: Utf8Stream, size: int) -> bool:
        """Whether there is more."""
        while len(self._buffer) < size:
            more = text.read(BLOCK)
            if not more:
                return False
            self._buffer += more
        return True

    def _find_array(self, text: Utf8Stream) -> None:
        more = True
        while (match := ARRAYS.search(self._buffer)) is None:
            if not more or len(self._buffer) > MAX_HEAD:
                kind = "truncated_input" if is_open(bytes(self._buffer)) else "corrupt_input"
                raise InputError(
                    kind, self._source.path, "no list of jobs or nodes in it", hint="export it again"
                )
            more = self._fill(text, len(self._buffer) + (1 << 16))
        self._head = bytes(self._buffer[: match.end()])
        del self._buffer[: match.end()]

    def _take(self, *, last: bool) -> list[T]:
        """What can be read of the buffer, which loses it."""
        if self._boundary is None and (first := _FIRST.match(self._buffer)):
            key = re.escape(first[1])
            self._boundary = re.compile(rb"\}\s*,\s*(?=\{\s*" + key + rb"\s*:)")
        cut = self._cut() if self._boundary and not last else None
        if cut:
            try:
                found = self._many.decode(b"[%b]" % bytes(self._buffer[: cut[0]]))
            except BAD_JSON:
                pass
            else:
                del self._buffer[: cut[1]]
                return found
        return self._walk(last=last)

    def _cut(self) -> tuple[int, int] | None:
        """(end of the last whole element, start of the next)."""
        for start in (max(0, len(self._buffer) - NEAR), 0):
            last = deque(self._boundary.finditer(self._buffer, start), maxlen=1) if self._boundary else None
            if last:
                return last[0].start() + 1, last[0].end()
        return None

    def _walk(self, *, last: bool) -> list[T]:
        """Element by element, up to the end of the array or of what is there."""
        data = bytes(self._buffer)
        found: list[T] = []
        at = 0
        while True:
            match = _BETWEEN.match(data, at)
            at = match.end() if match else at
            if data[at : at + 1] == b"]":
                self._ended = True
                break
            end = value_end(data, at) if data[at : at + 1] == b"{" else None
            if end is None:
                self._check(data, at, last=last)
                break
            found += self._decoded(data[at:end])
            at = end
        del self._buffer[:at]
        return found

    def _check(self, data: bytes, at: int, *, last: bool) -> None:
        """That what cannot be walked over is an element that goes on."""
        if at < len(data) and data[at : at + 1] != b"{":
            where = f"after {at} bytes of a block"
            raise InputError(
                "corrupt_input", self._source.path, "damaged JSON", where=where, hint="export it again"
            )
        if len(data) - at > MAX_ELEMENT and not last:
            raise InputError(
                "corrupt_input", self._source.path, "an element has no end", hint="export it again"
            )

    def _decoded(self, text: bytes) -> list[T]:
        try:
            return [self._one.decode(text)]
        except BAD_JSON:
            self.bad.add(None, "?")
            return []

    def _finish(self, truncated: str | None) -> None:
        """What surrounds the array; of a cut document, what precedes it."""
        tail = bytes(self._buffer) if self._ended else b"]}"
        for end in (tail, b"]}"):
            try:
                rest = msgspec.json.decode(self._head + end.rstrip(b"\0 \t\r\n"))
                self.rest = rest if isinstance(rest, dict) else {}
                break
            except BAD_JSON:
                continue
        if truncated or not self._ended:
            message = truncated or "the file ends in the middle of its list"
            self.notices.append(Notice("truncated_input", message))


def number(value: object) -> int | None:
    """The number of an int, of digits, or of {"set":…,"infinite":…,"number":…}; None for Slurm's words for none."""
    if type(value) is int:  # nearly all are
        return value if 0 <= value < 1 << 62 and value not in NO_VALUES else None
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 62 and value not in NO_VALUES else None


def part(value: object, *path: str) -> Any:  # noqa: ANN401 - whatever is there
    """value[path[0]][path[1]]…, None where there is none."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def word(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def digits(value: object) -> str | None:
    """The number of `value` as text."""
    found = number(value)
    return None if found is None else str(found)


def version(meta: object) -> str | None:
    """What wrote the document, e.g. data_parser/v0.0.42, Slurm 24.11.5."""
    plugin = word(part(meta, "plugin", "data_parser")) or word(part(meta, "plugin", "type"))
    release = word(part(meta, "slurm", "release")) or word(part(meta, "Slurm", "release"))
    return ", ".join(filter(None, (plugin, release and f"Slurm {release}"))) or None
