"""The events and the metadata of a Chrome trace, from a stream, in bounded memory.

Whole blocks go to the decoder. Only a block that does not decode is walked event by event: what is cut is
kept for the next block, what is damaged is repaired if it has one reading, and anything else is an error with
its offset.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from mpg_parsers.chrome.blocks import BLOCK_SIZE, Block, BlockReader, NoBoundaryError
from mpg_parsers.chrome.document import read_document
from mpg_parsers.chrome.syntax import SPACE, TRACE_SIGN, is_open
from mpg_parsers.chrome.text import Readable, Utf8Stream
from mpg_parsers.chrome.walk import DamagedError, Decode, Events, Walker, decode_last, decode_whole
from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PENDING = 1 << 23
MAX_TAIL = 1 << 26
EVENTS_NULL = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*null')


class TraceReader:
    """Iterates over lists of decoded events; afterwards `document` is the trace without its events.

    Raises InputError: empty_input, truncated_input, corrupt_input, or not_a_trace, also for damaged text with
    no sign of a trace before the damage. What was repaired or lost is in `notices` after the iteration.
    """

    def __init__(self, stream: Readable, path: str, decode: Decode, block_size: int = BLOCK_SIZE) -> None:
        self._path = path
        self._stream = Utf8Stream(stream)
        self._blocks = BlockReader(self._stream, block_size)
        self._decode = decode
        self._walker = Walker(decode)
        self._pending = b""  # the beginning of an event that goes on in the next block
        self._tail: bytearray | None = None  # what follows the events, once their end was seen
        self._lost = 0  # bytes of an event that the file ends in
        self._is_trace = False  # so far there was a sign of a trace
        self.document: dict[str, Any] = {}
        self.notices: list[Notice] = []

    def __iter__(self) -> Iterator[Events]:
        """Lists of events as the decoder gives them, in file order."""
        try:
            for block in self._blocks:
                self._look_at(block.data)
                yield from self._take(block)
        except NoBoundaryError as error:
            self._look_at(error.data)
            self._refuse(str(error))
        if not self._blocks.found:
            self._refuse_no_events()
        self._finish()

    def _look_at(self, data: bytes) -> None:
        if not self._is_trace:
            self._is_trace = any(map(TRACE_SIGN.search, (self._blocks.head, data)))

    def _take(self, block: Block) -> list[Events]:
        if self._tail is not None:
            self._tail += block.separator + block.data
            if len(self._tail) > MAX_TAIL:
                self._refuse("more than 64 MiB follow the events")
            return []
        if not block.last and not self._pending:
            events = decode_whole(self._decode, block.data)
            if events is not None:
                return [events]
        return self._walk(block)

    def _walk(self, block: Block) -> list[Events]:
        """The events of a block that is cut, damaged, or the last one."""
        data = self._pending + block.separator + block.data if self._pending else block.data
        offset = block.offset + len(block.data) - len(data)
        if block.last:
            data = self._without_padding(data)
        try:
            walked = (block.last and decode_last(self._decode, data)) or self._walker.walk(
                data, last=block.last
            )
        except DamagedError as error:
            self._refuse(error.message, f"offset {offset + error.offset}")
        self._pending = b""
        if data[walked.end : walked.end + 1] == b"]":
            self._tail = bytearray(data[walked.end :])
        elif block.last:
            self._lost = len(data) - walked.end
        else:
            self._pending = data[walked.end :]
            if len(self._pending) > MAX_PENDING:
                self._refuse("an event has no end within 8 MiB", f"offset {offset + walked.end}")
        return walked.batches

    def _without_padding(self, data: bytes) -> bytes:
        """`data` without the NUL bytes that a crash left at the end of the file."""
        text = data.rstrip(b"\0")
        if text != data:
            self._walker.fixes["run of NUL bytes"] += 1
        return text

    def _finish(self) -> None:
        try:
            self.document = self._read_document()
        except DamagedError as error:
            self._refuse(error.message)
        fixes = self._walker.fixes
        if self._stream.replaced:
            fixes["invalid character"] += self._stream.replaced
        if fixes:
            what = ", ".join(f"{count} × {word}" for word, count in sorted(fixes.items()))
            message = f"damaged JSON with one possible reading was repaired: {what}"
            self.notices.append(Notice("repaired_input", message, fixes.total(), self._path))

    def _read_document(self) -> dict[str, Any]:
        """What surrounds the events; of a truncated file, what precedes them."""
        head, fixes = self._blocks.head, self._walker.fixes
        if self._tail is not None:
            document = read_document(head + bytes(self._tail), fixes)
            if document is not None:
                return document
        if not self._is_trace:
            self._refuse("the file ends too early")
        self._note_truncated()
        document = read_document(head + (b"]}" if head.lstrip(SPACE)[:1] == b"{" else b"]"), fixes)
        if document is None:
            raise DamagedError(0, "the metadata before the events is not JSON: a bracket is not closed")
        return document

    def _note_truncated(self) -> None:
        message = "the file is truncated after the events: metadata that follows them is lost"
        if self._tail is None:
            message = f"the file is truncated inside the events: {self._lost} bytes of an event were dropped"
        self.notices.append(Notice("truncated_input", message, 1, self._path))

    def _refuse_no_events(self) -> NoReturn:
        head = self._blocks.head
        if not head.strip(b"\0" + SPACE):
            hint = "was the profiler stopped and exported?"
            raise InputError("empty_input", self._path, "the file is empty", hint=hint)
        if EVENTS_NULL.search(head):
            hint = "record a trace again"
            raise InputError("empty_input", self._path, "no events: traceEvents is null", hint=hint)
        if TRACE_SIGN.search(head) and is_open(head.rstrip(b"\0")):
            message = "the file ends before any event"
            raise InputError("truncated_input", self._path, message, hint="copy or record it again")
        message = f"no traceEvents list in this file; {_what_it_is(head)}"
        raise InputError("not_a_trace", self._path, message, hint=_hint_for(head))

    def _refuse(self, message: str, where: str = "") -> NoReturn:
        if not self._is_trace:
            message = f"not a list of trace events, and damaged: {message}"
            raise InputError("not_a_trace", self._path, message, where=where, hint=_hint_for(b""))
        hint = "export the trace again, or mend the text at that byte offset (of the unpacked file)"
        raise InputError("corrupt_input", self._path, message, where=where, hint=hint)


def _what_it_is(head: bytes) -> str:
    if b'"nodes"' in head and (b'"schema"' in head or b"execution" in head.lower()):
        return "it looks like a PyTorch execution trace (ExecutionTraceObserver), which has no timings"
    first = head.lstrip(SPACE)[:1]
    return "it is JSON of another kind" if first in (b"{", b"[") else "it is not JSON"


def _hint_for(head: bytes) -> str:
    if b'"nodes"' in head:
        return "give the profiler's trace (export_chrome_trace or tensorboard_trace_handler) instead"
    return "run `mpg formats FILE` to see what mpg makes of it"
