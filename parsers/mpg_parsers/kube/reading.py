"""The objects of a dump one after another, in bounded memory.

A dump is any sequence of JSON values: one per line, or pretty-printed one after another (`kubectl get -w`). An
object with `items` and an array are lists of objects, which are cut one by one; a watch event
({"type": …, "object": …}) stands for its object. Lines between the values that are no JSON are counted and
left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from mpg_parsers.chrome.syntax import BAD_JSON, SPACE
from mpg_parsers.chrome.text import Readable, Utf8Stream
from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

READ = 1 << 20
MAX_OBJECT = 1 << 26  # bytes
WATCHES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
ITEMS = re.compile(rb'"items"[ \t\r\n]*:[ \t\r\n]*\Z')
LIST_KIND = re.compile(rb'"kind"[ \t\r\n]*:[ \t\r\n]*"(\w+)List"')
# JSON has no line break within a string
BRACKETS = re.compile(rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|[{}\[\]"]')
BETWEEN = re.compile(rb"[ \t\r\n,]*")
# most likely the end of one item and the beginning of the next
NEXT_ITEM = re.compile(rb'\}[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*"(?:apiVersion|kind|metadata)"')
BEFORE = 64  # bytes before a bracket in which its key is looked for
AGAIN = "dump it again: kubectl get … -o json"


@dataclass(slots=True)
class Found:
    """One object: `kind` is what its list says that it is, where it does not say so itself; `deleted` by a watch."""

    value: dict[str, Any]
    kind: str = ""
    deleted: bool = False


@dataclass
class Objects:
    """Iterates over the objects of a stream; afterwards `bad` counts what was left out, `cut` says whether the
    last value has no end.
    """

    stream: Readable
    path: str
    bad: int = 0
    cut: bool = False
    read: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _kind: str = ""
    _lines: bool = False  # a value per line, so far

    def __iter__(self) -> Iterator[Found]:
        """The objects in order. Raises InputError corrupt_input."""
        self._text = Utf8Stream(self.stream)
        while self._skip():
            first = self._buffer[:1]
            if first == b"[":
                self._drop(1)
                yield from self._listed()
            elif first == b"{":
                yield from self._value()
            else:
                self._drop_line()

    def _fill(self) -> bool:
        """Read on; False at the end. Doubles what is held, so that scanning it again costs little."""
        if len(self._buffer) > MAX_OBJECT:
            message = f"an object has no end within {MAX_OBJECT >> 20} MiB"
            raise InputError("corrupt_input", self.path, message, where=f"offset {self.read}", hint=AGAIN)
        data = self._text.read(max(READ, len(self._buffer)))
        self._buffer += data
        return bool(data)

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self.read += size

    def _skip(self) -> bool:
        """Skip white space and commas; False at the end."""
        while True:
            found = BETWEEN.match(self._buffer)
            self._drop(found.end() if found else 0)
            if self._buffer:
                return True
            if not self._fill():
                return False

    def _drop_line(self) -> None:
        """Skip what is no JSON: a line that some program printed."""
        self.bad += 1
        while (end := self._buffer.find(b"\n")) < 0:
            self._drop(len(self._buffer))
            if not self._fill():
                return
        self._drop(end + 1)

    def _value(self) -> Iterator[Found]:
        """The object, or the list of objects, that the buffer begins with."""
        line = self._buffer.find(b"\n")
        if line > 0:
            if (value := _decoded(self._buffer[:line])) is not None:
                self._lines = True
                self._drop(line)
                yield from _unwrapped(value, "")
                return
            if self._lines and not self._buffer[:line].rstrip(SPACE).endswith((b"{", b"[", b",")):
                self._drop_line()
                return
        while (place := _scanned(self._buffer, lists=True)).open:
            if not self._fill():
                self._rest()
                return
        if place.damaged:
            self._drop_line()
        elif place.items:
            yield from self._list(place.end)
        else:
            yield from self._object(place.end)

    def _list(self, end: int) -> Iterator[Found]:
        """The objects of a list whose first item is at `end`."""
        named = LIST_KIND.search(self._buffer[:end])
        self._kind = named[1].decode("ascii", "replace") if named else ""
        self._drop(end)
        yield from self._listed()
        self._kind = ""
        while not self.cut and (place := _scanned(self._buffer, depth=1)).open:
            self.cut = not self._fill()
        self._drop(len(self._buffer) if self.cut or place.damaged else place.end)

    def _rest(self) -> None:
        """Skip a value without an end: a damaged line of a watch may be followed by good ones."""
        line = self._buffer.find(b"\n{")
        self.cut = line < 0
        self.bad += line >= 0
        self._drop(len(self._buffer) if line < 0 else line)

    def _listed(self) -> Iterator[Found]:
        """The objects of a list, from behind its bracket to behind its end."""
        while self._skip():
            if self._buffer[:1] == b"]":
                self._drop(1)
                return
            if self._buffer[:1] != b"{":
                self._refuse()
            if (found := self._guessed()) is not None:
                yield from _unwrapped(found, self._kind)
                continue
            while (place := _scanned(self._buffer)).open:
                if not self._fill():
                    self.cut = True
                    self._drop(len(self._buffer))
                    return
            if place.damaged:
                self._refuse()
            yield from self._object(place.end)
        self.cut = True

    def _refuse(self) -> NoReturn:
        shown = bytes(self._buffer[:40]).decode("utf-8", "replace")
        message = f"expected an object of the list, found {shown!r}"
        raise InputError("corrupt_input", self.path, message, where=f"offset {self.read}", hint=AGAIN)

    def _guessed(self) -> dict[str, Any] | None:
        """The next item, if it is what stands before the next thing that looks like one: quicker than scanning."""
        following = NEXT_ITEM.search(self._buffer)
        value = _decoded(self._buffer[: following.start() + 1]) if following else None
        if following and value is not None:
            self._drop(following.start() + 1)
        return value

    def _object(self, end: int) -> Iterator[Found]:
        value = _decoded(self._buffer[:end])
        self._drop(end)
        if value is None:
            self.bad += 1
        else:
            yield from _unwrapped(value, self._kind)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value ends, or its items begin; `open` if more must be read, `damaged` if that would not help."""

    end: int = 0
    items: bool = False
    open: bool = False
    damaged: bool = False


def _scanned(data: bytearray, *, depth: int = 0, lists: bool = False) -> _Place:
    """The end of the value at the front, which is `depth` brackets deep already; with `lists`, its items."""
    for match in BRACKETS.finditer(data):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
            before = data[max(0, match.start() - BEFORE) : match.start()]
            if lists and depth == 2 and token == b"[" and ITEMS.search(before):
                return _Place(match.end(), items=True)
        elif token in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return _Place(match.end())
        elif token == b'"':  # a string that does not end in its line
            return _Place(damaged=True) if data.find(b"\n", match.end()) >= 0 else _Place(open=True)
        elif not depth:
            return _Place(damaged=True)
    return _Place(open=True)


def _decoded(text: bytearray) -> dict[str, Any] | None:
    stripped = bytes(text).strip(SPACE)
    if not stripped.endswith(b"}"):
        return None
    try:
        value = msgspec.json.decode(stripped)
    except BAD_JSON:
        return None
    return value if isinstance(value, dict) else None


def _unwrapped(value: dict[str, Any], kind: str) -> Iterator[Found]:
    """The objects in a value: those of a list, that of a watch event, or itself."""
    inner = value.get("object")
    if isinstance(inner, dict) and value.get("type") in WATCHES:
        if value["type"] != "ERROR":
            yield Found(inner, kind, deleted=value["type"] == "DELETED")
        return
    items = value.get("items")
    if not isinstance(items, list):
        yield Found(value, kind)
        return
    named = value.get("kind")
    kind = named.removesuffix("List") if isinstance(named, str) else ""
    for item in items:
        if isinstance(item, dict):
            yield from _unwrapped(item, kind)
