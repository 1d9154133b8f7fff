"""The lines of a text, in blocks: in bounded memory, however large the file and long its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

READ = 8 << 20
MAX_LINE = 8 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines without their ends; `first` is the number of the first, from 1. `last`: nothing follows, and
    `open` says that the last line has no end.
    """

    first: int
    lines: list[str]
    last: bool = False
    open: bool = False


def blocks(source: Source, options: ParseOptions, notices: list[Notice]) -> Iterator[Block]:
    """All lines, of text in any UTF. A cut gzip stream gives a notice. Raises InputError corrupt_input."""
    number, rest = 1, b""
    with source.open() as stream:
        text = Utf8Stream(stream)
        while more := text.read(READ):
            data = rest + more
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > MAX_LINE:
                message = f"a line of over {MAX_LINE >> 20} MiB"
                raise InputError(
                    "corrupt_input", source.path, message, where=f"line {number + data.count(10)}"
                )
            if end:
                lines = _lines(data[: end - 1])
                yield Block(number, lines)
                number += len(lines)
            if options.progress:
                options.progress(stream.stored_position)
        if stream.truncated:
            notices.append(Notice("truncated_input", stream.truncated))
    yield Block(number, _lines(rest) if rest else [], last=True, open=bool(rest))


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    if "\0" in text:
        text = text.replace("\0", "")
    return text.split("\n")
