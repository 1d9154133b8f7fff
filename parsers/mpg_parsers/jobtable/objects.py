"""Tables as JSON: an array of objects, one object a line, or an object that holds such an array."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.jobtable.table import Table, framed
from mpg_parsers.jobtable.text import blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

MAX_TEXT = 1 << 30  # bytes of one JSON document; lines may be as many as there are
READ = 1 << 22
CHUNK = 50_000  # objects at a time
AGAIN = "copy or export it again; larger tables are read as JSON lines, CSV or Parquet"
_STRING = rb'"(?:[^"\\]|\\.)*"'
_LAYOUTS = (
    ("array", re.compile(rb"\s*\[\s*\{")),
    (
        "wrapped",
        re.compile(
            rb"\s*\{(?:[^{}\[\]\"]|" + _STRING + rb")*?"
            rb"\"(?:jobs|data|records|rows|items|nodes)\"\s*:\s*\[\s*\{"
        ),
    ),
    ("lines", re.compile(rb"\s*\{")),
)  # fmt: skip
_WRAPPER = re.compile(rb'"(\w+)"\s*:\s*\[\s*\{\Z')
_TOKEN = re.compile(_STRING + rb"(\s*:)?|[{}\[\]]")
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Start:
    """How a document begins: its layout, the name of the array, the names in its first object."""

    layout: str
    wrapper: str
    keys: tuple[str, ...]


def start(head: bytes) -> Start | None:
    """How a document that begins with `head` (UTF-8) is laid out; None if it is none of objects."""
    for layout, pattern in _LAYOUTS:
        if found := pattern.match(head):
            wrapper = _WRAPPER.search(found[0])
            keys = tuple(dict.fromkeys(_keys(head[found.end() - 1 :])))
            return Start(layout, wrapper[1].decode() if wrapper and layout == "wrapped" else "", keys)
    return None


def read(source: Source, options: ParseOptions, found: Start) -> Table:
    """The table. Raises InputError: truncated_input, corrupt_input, unsupported_format (over MAX_TEXT)."""
    notices: list[Notice] = []
    chunks = records(source, options, found, notices)
    first = next(chunks, [])
    columns = tuple(
        dict.fromkeys(key for record in first if isinstance(record, dict) for key in _flat(record))
    )
    return Table(columns, lambda needed: _frames(itertools.chain([first], chunks), needed), notices)


def records(
    source: Source, options: ParseOptions, found: Start, notices: list[Notice]
) -> Iterator[list[Any]]:
    """The objects in order, CHUNK at a time; None stands for a line that is no JSON. Raises as `read`."""
    if found.layout == "lines":
        yield from _of_lines(source, options, notices)
        return
    document = _document(source, options, found)
    for index in range(0, len(document), CHUNK):
        joined = b"[" + b",".join(document[index : index + CHUNK]) + b"]"
        yield _decoded(source.path, joined)


def _keys(head: bytes) -> Iterator[str]:
    """The names in the object that `head` begins with, as far as it goes."""
    depth = 0
    for token in _TOKEN.finditer(head):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if not depth:
                return
        elif token[1] and depth == 1:
            yield token[0][: -len(token[1])][1:-1].decode("utf-8", "replace")


def _document(source: Source, options: ParseOptions, found: Start) -> Sequence[msgspec.Raw]:
    text = _text(source, options)
    try:
        if found.layout == "wrapped":
            return msgspec.json.decode(
                msgspec.json.decode(text, type=dict[str, msgspec.Raw])[found.wrapper], type=list[msgspec.Raw]
            )
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        kind = "truncated_input" if "truncated" in str(error) else "corrupt_input"
        raise InputError(kind, source.path, f"not a JSON table: {error}"[:300], hint=AGAIN) from error


def _text(source: Source, options: ParseOptions) -> bytes:
    text = bytearray()
    with source.open() as stream:
        utf8 = Utf8Stream(stream)
        while more := utf8.read(READ):
            text += more
            if len(text) > MAX_TEXT:
                message = f"more than {MAX_TEXT >> 20} MiB of JSON"
                raise InputError("unsupported_format", source.path, message, hint=AGAIN)
            if options.progress:
                options.progress(stream.stored_position)
        if stream.truncated:
            raise InputError("truncated_input", source.path, stream.truncated, hint=AGAIN)
    return bytes(text)


def _decoded(path: str, text: bytes) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError("corrupt_input", path, f"not a JSON table: {error}"[:300], hint=AGAIN) from error


def _of_lines(source: Source, options: ParseOptions, notices: list[Notice]) -> Iterator[list[Any]]:
    for block in blocks(source, options, notices, quotes=False):
        try:
            yield msgspec.json.Decoder(Any).decode_lines(block)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            yield [_line(line) for line in block.split(b"\n") if line.strip()]


def _line(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _frames(chunks: Iterable[list[Any]], needed: Sequence[str]) -> Iterator[pl.DataFrame]:
    line = 1
    for chunk in chunks:
        broken = {
            index: "it is no JSON object"
            for index, record in enumerate(chunk)
            if not isinstance(record, dict)
        }
        flat = [_flat(record) if isinstance(record, dict) else {} for record in chunk]
        yield framed({name: [_cell(record.get(name)) for record in flat] for name in needed}, line, broken)
        line += len(chunk)


def _flat(record: Record) -> Record:
    """With the members of objects in it under a.b."""
    if not any(isinstance(value, dict) for value in record.values()):
        return record
    flat: Record = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        flat[key] = value
    return flat


def _cell(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | dict | list):
        return json.dumps(value)
    return repr(value)
