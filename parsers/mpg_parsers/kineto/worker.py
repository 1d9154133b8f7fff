"""A process that decodes its share of a large trace: every n-th block of it.

    python -m mpg_parsers.kineto.worker '{"source": …, "share": 0, "shares": 2, "keep_names": false}'

It writes messages to standard output, each a length (8 bytes, little-endian) and a msgpack map: {"packed": …,
"stored": bytes of the file read} as columns fill up, then one {"end": …}. At the first block that is not plain JSON
it writes {"irregular": true} and stops: such files are read again, with care, by a single process.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from mpg_parsers.chrome.blocks import BlockReader, NoBoundaryError
from mpg_parsers.chrome.document import read_document
from mpg_parsers.chrome.syntax import BAD_JSON
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.chrome.walk import DamagedError, decode_last
from mpg_parsers.errors import InputError
from mpg_parsers.kineto.columns import Packer
from mpg_parsers.kineto.events import decode
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSH_BYTES = 1 << 23  # of the worker's own blocks
LENGTH = 8


def main() -> None:
    """Run on the command line's task."""
    gc.disable()  # events make no cycles
    task = json.loads(sys.argv[1])
    out = sys.stdout.buffer
    try:
        for message in _messages(task):
            _write(out, message)
    except (InputError, DamagedError, NoBoundaryError, *BAD_JSON):
        _write(out, {"irregular": True})
    except BrokenPipeError:
        pass  # the reading process is gone


def _write(out: BinaryIO, message: dict[str, Any]) -> None:
    data = msgspec.msgpack.encode(message)
    out.write(len(data).to_bytes(LENGTH, "little"))
    out.write(data)
    out.flush()


def _messages(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    packer = Packer(None if task["keep_names"] else strip_directories)
    with Source.from_json(task["source"]).open() as stream:
        text = Utf8Stream(stream)
        reader = BlockReader(text)
        waiting, end = 0, None
        for block in reader:
            mine = block.index % task["shares"] == task["share"]
            if mine and block.last:
                end = _last(block.data, reader.head, packer)
            elif mine:
                packer.take(decode(b"[%b]" % block.data))
                waiting += len(block.data)
            if waiting >= FLUSH_BYTES:
                yield {"packed": packer.pack(), "stored": stream.stored_position}
                waiting = 0
        if not reader.found or text.encoding != "utf-8" or stream.truncated or stream.trailing:
            raise ValueError
        yield {"packed": packer.pack(), "stored": stream.stored_position}
        yield {"end": end}


def _last(data: bytes, head: bytes, packer: Packer) -> dict[str, Any]:
    """Take the events of the last block; the document without its events."""
    walked = decode_last(decode, data)
    fixes: Counter[str] = Counter()
    document = read_document(head + data[walked.end :], fixes) if walked else None
    if walked is None or document is None or fixes:
        raise ValueError
    for events in walked.batches:
        packer.take(events)
    return document


if __name__ == "__main__":
    main()
