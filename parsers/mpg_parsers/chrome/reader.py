"""The events and the metadata of a Chrome trace, from a stream, in bounded memory.

Whole blocks go to the decoder. Only a block that does not decode is walked event by event: what is cut is kept for
the next block, what is damaged is repaired if it has one reading, and anything else is an error with its offset.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from mpg_parsers.chrome import blocks
from mpg_parsers.chrome.repair import repair_object
from mpg_parsers.chrome.text import Readable, Utf8Stream
from mpg_parsers.errors import InputError, Notice

T = TypeVar("T")
Decode = Callable[[bytes], list[T]]

MAX_PENDING = 1 << 23  # an event that stays open for longer than this is damaged, not long
MAX_TAIL = 1 << 28
BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]"]', re.DOTALL)
BETWEEN = re.compile(rb"[\s,]*")
HAS_PHASE = re.compile(rb'"ph"\s*:')
EMPTY_EVENTS = re.compile(rb'"traceEvents"\s*:\s*null')
BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError)


def object_end(data: bytes, start: int) -> int | None:
    """The end of the object or array that starts at `start`; None where it does not end in `data`."""
    depth = 0
    for match in BRACKETS.finditer(data, start):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == b'"':
            return None  # a string that does not end here
    return None


class TraceReader(Generic[T]):
    """Iterates over lists of decoded events; afterwards `document` is the trace without its events.

    Raises InputError: not_a_trace, empty_input, truncated_input, corrupt_input. What was repaired or lost is in
    `notices` after the iteration.
    """

    def __init__(self, stream: Readable, path: str, decode: Decode[T], block_size: int = blocks.BLOCK_SIZE) -> None:
        self._path = path
        self._decode = decode
        self._stream = Utf8Stream(stream)
        self._blocks = blocks.BlockReader(self._stream, block_size)
        self._fixes: Counter[str] = Counter()
        self._pending = b""
        self._tail: bytearray | None = None  # what follows the events, once their end was seen
        self._lost: int | None = None  # bytes of an event that the file ends in
        self.document: dict[str, Any] = {}
        self.notices: list[Notice] = []

    def __iter__(self) -> Iterator[list[T]]:
        """Lists of events, in file order."""
        block = None
        for block in self._blocks:
            if self._tail is not None:
                self._extend_tail(block.data)
                continue
            events = None if block.last or self._pending else self._whole(block.data)
            if events is None:
                offset = block.offset - len(self._pending)
                events = self._walk(self._pending + block.data, offset, last=block.last)
            if events:
                yield events
        if block is None:
            self._refuse_no_events()
        self._finish()

    def _whole(self, data: bytes) -> list[T] | None:
        try:
            return self._decode(b"[%b]" % data)
        except BAD_JSON:
            return None

    def _walk(self, data: bytes, offset: int, *, last: bool) -> list[T]:
        """The events of a block that is cut, damaged, or the last one."""
        self._pending = b""
        if last and (events := self._clean_end(data)) is not None:
            return events
        out: list[T] = []
        at = self._between(data, 0, offset, start=True)
        while at < len(data) and data[at : at + 1] != b"]":
            found = self._event(data, at)
            if found is None:
                self._keep_open(data, at, offset, last=last)
                return out
            events, at = found
            out += events
            at = self._between(data, at, offset, start=False)
        if at < len(data):
            self._tail = bytearray(data[at:])
        return out

    def _clean_end(self, data: bytes) -> list[T] | None:
        """The events of an undamaged last block, whose end is then known."""
        cuts = [m.end() for m in blocks.BOUNDARY.finditer(data)]
        for start in (*reversed(cuts[-64:]), len(data) - len(data.lstrip())):
            end = object_end(data, start) if data[start : start + 1] == b"{" else None
            if end is None or data[end:].lstrip()[:1] != b"]":
                continue
            events = self._whole(data[:end])
            if events is not None:
                self._tail = bytearray(data[end:])
                return events
        return None

    def _event(self, data: bytes, at: int) -> tuple[list[T], int] | None:
        """(events, end) of the event at `at`, repaired if need be; None if it is open or beyond repair."""
        end = object_end(data, at) if data[at : at + 1] == b"{" else None
        if end is not None and (events := self._whole(data[at:end])) is not None:
            return events, end
        following = blocks.BOUNDARY.search(data, at)
        limit = following.start() + 1 if following else len(data)
        repaired = repair_object(data[at:limit])
        if repaired is None and end is not None and end > limit:
            repaired = repair_object(data[at:end])
        events = None if repaired is None else self._whole(repaired.text)
        if repaired is None or events is None or not repaired.fixes:
            return None
        self._fixes.update(repaired.fixes)
        return events, at + repaired.length

    def _between(self, data: bytes, at: int, offset: int, *, start: bool) -> int:
        """The place after white space and commas; exactly one comma belongs between two events."""
        match = BETWEEN.match(data, at)
        end = match.end() if match else at
        commas = data.count(b",", at, end)
        at_end = end == len(data)
        is_array_end = data[end : end + 1] == b"]"
        want = 0 if start or is_array_end else 1
        if commas != want and not at_end:
            self._fixes["comma"] += abs(commas - want)
        if not at_end and not is_array_end and data[end : end + 1] != b"{":
            self._refuse(offset + end, f"expected an event, found {_excerpt(data[end:])}")
        return end

    def _keep_open(self, data: bytes, at: int, offset: int, *, last: bool) -> None:
        """Keep an event that is not over yet for the next block, or say that it is damaged or cut."""
        closed = object_end(data, at) is not None
        following = blocks.BOUNDARY.search(data, at)
        if closed or len(data) - at > MAX_PENDING or (following and self._is_event(data, following.end())):
            self._refuse(offset + at, f"an event that is not JSON and has no single reading: {_excerpt(data[at:])}")
        if last:
            self._lost = len(data) - at
        else:
            self._pending = data[at:] + b","

    def _is_event(self, data: bytes, at: int) -> bool:
        end = object_end(data, at)
        return end is not None and HAS_PHASE.search(data, at, end) is not None and self._whole(data[at:end]) is not None

    def _extend_tail(self, data: bytes) -> None:
        assert self._tail is not None
        self._tail += b"," + data
        if len(self._tail) > MAX_TAIL:
            self._refuse(0, "more than 256 MiB follow the events")

    def _finish(self) -> None:
        truncated = self._tail is None
        if not truncated:
            truncated = not self._read_document(self._blocks.head + bytes(self._tail or b""))
        if truncated:
            self._note_truncated()
        if self._stream.replaced:
            self._fixes["UTF-8"] += self._stream.replaced
        if self._fixes:
            what = ", ".join(f"{count} {word}" for word, count in sorted(self._fixes.items()))
            message = f"damaged JSON with one possible reading was repaired: {what}"
            self.notices.append(Notice("repaired_input", message, self._fixes.total(), self._path))

    def _note_truncated(self) -> None:
        if self._tail is not None:
            message = "the file is truncated after the events: metadata that follows them is lost"
        else:
            message = f"the file is truncated: it ends inside the events; {self._lost or 0} bytes of an event dropped"
        self.notices.append(Notice("truncated_input", message, 1, self._path))
        if not self.document:
            self._read_document(self._blocks.head + (b"]" if self._blocks.head.lstrip()[:1] == b"[" else b"]}"))

    def _read_document(self, text: bytes) -> bool:
        """Whether the document without its events is whole; it is kept if so."""
        text = text.rstrip()
        stripped = text.rstrip(b"\0 \t\r\n")
        if stripped != text:
            self._fixes["trailing NUL bytes"] += 1
        document = self._parse(stripped)
        if document is None:
            return False
        if isinstance(document, dict):
            if "traceEvents" not in document:
                self._refuse(0, "the list of traceEvents is not where it belongs, at the top level")
            self.document = document
        return True

    def _parse(self, text: bytes) -> Any:
        """The document, None if it is cut."""
        try:
            return json.loads(text.decode(), parse_constant=_refuse_constant)
        except BAD_JSON:
            pass
        start = len(text) - len(text.lstrip())
        end = object_end(text, start)
        if end is None and text.lstrip()[:1] == b"{" and not _has_garbage(text):
            return None
        return self._parse_damaged(text, start, end)

    def _parse_damaged(self, text: bytes, start: int, end: int | None) -> Any:
        if end is not None and text[end:].strip():
            if text[end:].lstrip()[:1] in (b"{", b"["):
                self._refuse(0, "more than one JSON document in the file")
            self._fixes["trailing bytes"] += 1
            text = text[:end]
            try:
                return json.loads(text.decode(), parse_constant=_refuse_constant)
            except BAD_JSON:
                pass
        repaired = repair_object(text[start:], event=False)
        if repaired is None or not repaired.fixes:
            self._refuse(0, "the metadata around the events is not JSON and has no single reading")
        self._fixes.update(repaired.fixes)
        return json.loads(repaired.text)

    def _refuse_no_events(self) -> None:
        head = self._blocks.head
        if not head.strip(b"\0 \t\r\n"):
            raise InputError("empty_input", self._path, "the file is empty", hint="was the profiler stopped and exported?")
        if EMPTY_EVENTS.search(head):
            raise InputError("empty_input", self._path, "no events: traceEvents is null", hint="record a trace again")
        what = _what_it_is(head)
        raise InputError("not_a_trace", self._path, f"no traceEvents list in this file; {what}", hint=_hint_for(head))

    def _refuse(self, offset: int, message: str) -> None:
        raise InputError(
            "corrupt_input",
            self._path,
            message,
            where=f"offset {offset}",
            hint="export the trace again, or mend the text at that byte offset (of the unpacked file)",
        )


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _has_garbage(text: bytes) -> bool:
    """Whether a document that does not end is more than just cut: its last value was already over."""
    return not text.endswith((b"}", b"]", b'"', b",", b":", b"{", b"[")) and not text[-1:].isalnum()


def _excerpt(data: bytes) -> str:
    return repr(data[:60].decode("utf-8", "replace"))


def _what_it_is(head: bytes) -> str:
    if b'"nodes"' in head and (b'"schema"' in head or b"execution" in head.lower()):
        return "it looks like a PyTorch execution trace (ExecutionTraceObserver), which has no timings"
    first = head.lstrip()[:1]
    return "it is JSON of another kind" if first in (b"{", b"[") else "it is not JSON"


def _hint_for(head: bytes) -> str:
    if b'"nodes"' in head:
        return "give the profiler's trace (export_chrome_trace or tensorboard_trace_handler) instead"
    return "run `mpg formats FILE` to see what mpg makes of it"
