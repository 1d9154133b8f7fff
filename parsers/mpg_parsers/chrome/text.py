"""The bytes of a JSON document as UTF-8, whatever they were stored as."""

from __future__ import annotations

import codecs
from typing import Protocol

BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
CHUNK = 1 << 16
# stands for undecodable bytes until it is counted: no valid text decodes to half of a surrogate pair
INVALID = "\udfff"
codecs.register_error("mpg-mark-invalid", lambda error: (INVALID, error.end))  # type: ignore[attr-defined]


class Readable(Protocol):
    """What the readers here need of a stream."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" at the end."""
        ...


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding of a JSON document and the length of its byte-order mark, from its first bytes.

    Without a mark, a NUL beside the first character gives UTF-16 away (RFC 4627, section 3).
    """
    for mark, name in BOMS:
        if head.startswith(mark):
            return name, len(mark)
    if len(head) >= 2 and head[0] and not head[1]:
        return "utf-16-le", 0
    if len(head) >= 2 and not head[0] and head[1]:
        return "utf-16-be", 0
    return "utf-8", 0


class Utf8Stream:
    """`stream` without its byte-order mark, recoded to UTF-8 where it was something else.

    Undecodable bytes of a recoded stream become U+FFFD and are counted in `replaced`.
    """

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        first = stream.read(CHUNK)
        self.encoding, skip = encoding_of(first)
        self._first = first[skip:]
        self._decoder: codecs.IncrementalDecoder | None = None
        if self.encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(self.encoding)("mpg-mark-invalid")
        self.replaced = 0

    def read(self, size: int) -> bytes:
        """Up to about `size` bytes, b"" at the end."""
        if self._first:
            data, self._first = self._first, b""
        else:
            data = self._stream.read(size)
        return data if self._decoder is None else self._recode(self._decoder, data, size)

    def _recode(self, decoder: codecs.IncrementalDecoder, data: bytes, size: int) -> bytes:
        text = decoder.decode(data, final=not data)
        while data and not text:  # half a character: there is more to come
            data = self._stream.read(size)
            text = decoder.decode(data, final=not data)
        self.replaced += text.count(INVALID)
        return text.replace(INVALID, "\ufffd").encode()
