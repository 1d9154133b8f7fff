"""Tables as text with a header: comma, tab, semicolon or bar between the columns, quotes around what needs them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.jobtable.table import BROKEN, LINE, Table, unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

READ = 1 << 24
MAX_RECORD = 1 << 26  # bytes of one row
MAX_COLUMNS = 4096
DELIMITERS = (",", "\t", ";", "|")
MORE = "\0more"
TOO_MANY = "it has more fields than the header has names"
_CELL = re.compile(r"\s*[^\W\d][\w .:/%#()\[\]{}@+-]{0,79}\s*\Z")
_FIGURE = re.compile(r"\d\.\d|: ")
_SKIP = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*")
_QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: `size` bytes and `lines` lines go before the first row."""

    delimiter: str
    columns: tuple[str, ...]
    size: int
    lines: int


def header(head: bytes) -> Header | None:
    """The header of a text that starts with `head` (UTF-8), or None if that is no table."""
    skipped = _SKIP.match(head)
    start = skipped.end() if skipped else 0
    line, newline, rest = head[start:].partition(b"\n")
    if b"\0" in line or line.lstrip()[:1] in (b"{", b"["):
        return None
    text = line.decode("utf-8", "replace").rstrip("\r")
    delimiter = max(DELIMITERS, key=lambda mark: len(_cells(text, mark)))
    cells = _cells(text, delimiter)
    size = start + len(line) + len(newline)
    if not _is_header(cells) or not _agrees(rest, delimiter, len(cells)):
        return None
    return Header(delimiter, unique_names(cells), size, head[:size].count(b"\n"))


def read(source: Source, options: ParseOptions) -> Table:
    """The table. Raises InputError unsupported_format if there is no header, and while reading as `source.open`."""
    with source.open() as stream:
        found = header(Utf8Stream(stream).read(1 << 16))
    if found is None:
        raise InputError("unsupported_format", source.path, "its first line names no columns")
    notices: list[Notice] = []
    return Table(found.columns, lambda needed: _pieces(source, options, found, needed, notices), notices)


def blocks(source: Source, options: ParseOptions, notices: list[Notice], *, quotes: bool) -> Iterator[bytes]:
    """The text as UTF-8 in pieces of whole lines; newlines within quotes end none if `quotes`.

    The rest of a cut line is left out of a stream that is truncated, with a notice. Raises InputError corrupt_input.
    """
    with source.open() as stream:
        text, rest = Utf8Stream(stream), b""
        while more := text.read(READ):
            data = rest + more
            cut = _cut(data, quotes=quotes)
            if not cut and len(data) > MAX_RECORD:
                cut = data.rfind(b"\n") + 1
                if not cut:
                    message = f"a line of over {MAX_RECORD >> 20} MiB"
                    raise InputError("corrupt_input", source.path, message, hint="copy or export it again")
            rest = data[cut:]
            if cut:
                yield data[:cut]
            if options.progress:
                options.progress(stream.stored_position)
        if stream.truncated:
            notices.append(Notice("truncated_input", stream.truncated))
        elif rest:
            yield rest


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _is_header(cells: Sequence[str]) -> bool:
    """Names, not the figures and sentences that a line of a log has between its commas."""
    named = [cell for cell in cells if cell.strip()]
    return (
        2 <= len(named) <= MAX_COLUMNS
        and len(named) >= len(cells) - 1
        and all(_CELL.match(cell) and not _FIGURE.search(cell) for cell in named)
    )


def _agrees(rest: bytes, delimiter: str, count: int) -> bool:
    """The next line, as far as it is known, has about as many fields."""
    line, newline, _ = rest.lstrip(b"\r\n").partition(b"\n")
    if not newline or line.count(_QUOTE) % 2:
        return True
    return abs(len(_cells(line.decode("utf-8", "replace").rstrip("\r"), delimiter)) - count) <= 1


def _cut(data: bytes, *, quotes: bool) -> int:
    """Where the last whole line ends; 0 if there is none."""
    cut = data.rfind(b"\n") + 1
    if not quotes or not cut:
        return cut
    open_quotes = data.count(_QUOTE, 0, cut)
    for _ in range(10_000):
        if open_quotes % 2 == 0 or not cut:
            return cut
        before = data.rfind(b"\n", 0, cut - 1) + 1
        open_quotes -= data.count(_QUOTE, before, cut)
        cut = before
    return 0


def _pieces(
    source: Source, options: ParseOptions, found: Header, needed: Sequence[str], notices: list[Notice]
) -> Iterator[pl.DataFrame]:
    line, skip = found.lines + 1, found.size
    for block in blocks(source, options, notices, quotes=True):
        body = memoryview(block)[skip:] if skip else block
        skip = max(0, skip - len(block))
        if len(body):
            yield frame(bytes(body), found, needed, line)
            line += bytes(body).count(b"\n")


def frame(body: bytes, found: Header, needed: Sequence[str], line: int) -> pl.DataFrame:
    """The rows of `body`, whose first line is number `line` of the file: texts, LINE and BROKEN. No row is blank."""
    names = [f"c{index}" for index in range(len(found.columns))]
    title = found.delimiter.join((*names, MORE)).encode() + b"\n"
    wanted = {name: column for name, column in zip(names, found.columns, strict=True) if column in needed}
    try:
        raw = pl.read_csv(
            io.BytesIO(title + body),
            separator=found.delimiter,
            infer_schema=False,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
        )
    except PolarsError:
        raw = _line_by_line(body, found.delimiter, [*names, MORE])
    rows = _numbered(raw, body, line).filter(
        ~pl.all_horizontal(pl.col(*names).is_null()) | pl.col(BROKEN).is_not_null()
    )
    return rows.select(*(pl.col(name).alias(column) for name, column in wanted.items()), LINE, BROKEN)


def _numbered(raw: pl.DataFrame, body: bytes, line: int) -> pl.DataFrame:
    """With the number of the line that each row begins on, and what is wrong with it."""
    numbers = pl.int_range(line, line + pl.len(), dtype=pl.Int64)
    lines = body.count(b"\n") + (not body.endswith(b"\n"))
    if raw.height != lines:  # some fields have newlines in them
        within = pl.sum_horizontal(pl.col(pl.String).str.count_matches("\n", literal=True).fill_null(0))
        numbers = numbers + within.cum_sum().shift(1, fill_value=0)
    broken: pl.Expr = pl.when(pl.col(MORE).is_not_null()).then(pl.lit(TOO_MANY))
    if BROKEN in raw.columns:
        broken = pl.coalesce(BROKEN, broken)
    return raw.with_columns(numbers.alias(LINE), broken.alias(BROKEN))


def _line_by_line(body: bytes, delimiter: str, names: Sequence[str]) -> pl.DataFrame:
    """Rows of a text with quotes in the wrong places: a line is a row, and one that cannot be split is broken."""
    rows: list[list[str | None]] = []
    for line in body.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        try:
            cells: list[str | None] = [
                cell or None
                for cell in next(csv.reader([line.rstrip("\r")], delimiter=delimiter, strict=True), [])
            ]
            wrong = None
        except csv.Error:
            cells, wrong = [], "its quotes do not match"
        width = len(names)
        rows.append([*cells[:width], *[None] * (width - len(cells)), wrong])
    return pl.DataFrame(rows, schema=dict.fromkeys((*names, BROKEN), pl.String), orient="row")
