"""Cut the event array of a Chrome trace into blocks at event boundaries, without parsing it.

A cut is `}` `,` `{` `"` and a letter. In valid JSON that never lies inside a string: its quote would end the
string, and a letter may not follow. It can only be wrong inside a nested array of objects; then the block is
unbalanced and does not parse. Block 0 starts at depth 1, so by induction all blocks parse if and only if all
cuts are right. The head and the tail, joined by an empty array, must parse as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.chrome.text import Readable

BOUNDARY = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{[ \t\r\n]*\"[A-Za-z])")
START = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[|\A[ \t\r\n]*\[')
BLOCK_SIZE = 1 << 19
LOOK_AHEAD = 1 << 14
MAX_HEAD = 1 << 26
MAX_BLOCK = 1 << 26


class NoBoundaryError(Exception):
    """Nothing looks like the end of an event in 64 MiB: the message says where that starts, `data` how."""

    def __init__(self, message: str, data: bytes) -> None:
        super().__init__(message)
        self.data = data


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole events `{…},{…}` (no brackets around), at `offset` in the document.

    `separator` is the comma and the white space before it. The last block also holds what follows the events:
    `]` and the rest of the document.
    """

    index: int
    offset: int
    separator: bytes
    data: bytes
    last: bool


class BlockReader:
    """Iterates over the blocks of a stream; `head` is the text up to and with the array's `[`.

    `found` is False when no event array starts within the first 64 MiB; there are no blocks then. Raises
    NoBoundaryError.
    """

    def __init__(self, stream: Readable, block_size: int = BLOCK_SIZE) -> None:
        self._stream = stream
        self._size = block_size
        self._buffer = bytearray()
        self._eof = False
        self.head = b""
        self.found = False

    def __iter__(self) -> Iterator[Block]:
        """The blocks in order."""
        if not self._find_start():
            return
        index, offset, separator = 0, len(self.head), b""
        while (cut := self._find_cut(offset)) is not None:
            end, following = cut
            yield Block(index, offset, separator, bytes(memoryview(self._buffer)[:end]), last=False)
            separator = bytes(self._buffer[end:following])
            del self._buffer[:following]
            offset += following
            index += 1
        yield Block(index, offset, separator, bytes(self._buffer), last=True)

    def _fill(self, need: int) -> None:
        while len(self._buffer) < need and not self._eof:
            data = self._stream.read(max(1 << 16, need - len(self._buffer)))
            self._eof = not data
            self._buffer += data

    def _find_start(self) -> bool:
        size = 1 << 16
        while True:
            self._fill(size)
            match = START.search(self._buffer)
            if match or self._eof or size >= MAX_HEAD:
                break
            size *= 4
        if match is None:
            self.head = bytes(self._buffer[:MAX_HEAD])
            return False
        self.found = True
        self.head = bytes(self._buffer[: match.end()])
        del self._buffer[: match.end()]
        return True

    def _find_cut(self, offset: int) -> tuple[int, int] | None:
        """(end of the block, start of the next one), None when the rest is the last block."""
        at = self._size
        while True:
            self._fill(at + LOOK_AHEAD)
            match = BOUNDARY.search(self._buffer, at)
            if match is not None:
                return match.start() + 1, match.end()
            if self._eof:
                return None
            if len(self._buffer) > MAX_BLOCK:
                message = f"an event at offset {offset} has no end within 64 MiB"
                raise NoBoundaryError(message, bytes(self._buffer[:BLOCK_SIZE]))
            at = max(at, len(self._buffer) - LOOK_AHEAD // 4)
