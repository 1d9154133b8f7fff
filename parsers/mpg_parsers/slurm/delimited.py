"""Tables with a header line and a delimiter, as -P of Slurm's accounting tools prints them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.slurm.about import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_parsers.slurm.about import About
    from mpg_parsers.slurm.lines import Block
    from mpg_parsers.slurm.repair import Columns

UNIT = "\x1f"
_FIRST = re.compile(r"\s*([A-Za-z]\w*)([^A-Za-z0-9_]+)(?=[A-Za-z])")
DASHES = re.compile(r"\s*-{2,}(?: +-{2,})*\s*")


@dataclass(frozen=True, slots=True)
class Header:
    """A header line: its text, the names in it, and what stands between them."""

    text: str
    names: tuple[str, ...]
    delimiter: str


def header(line: str, known: frozenset[str], *, least: int = 2) -> Header | None:
    """What a header line says, None for any other: most names, at least `least`, are `known`."""
    line = line.strip("\ufeff\r\n ")
    match = _FIRST.match(line)
    if match is None or not match[2].strip(" ") or len(line) > 1 << 16:
        return None
    delimiter = match[2]
    names = [name.strip().strip('"') for name in line.split(delimiter)]
    if not names[-1]:
        names.pop()
    found = sum(name in known for name in names)
    if (
        found < least
        or found < 0.75 * len(names)
        or not all(re.fullmatch(r"\w[\w /%():]*", name) for name in names)
    ):
        return None
    ends = line.endswith(delimiter)
    return Header(line, (*(name.lower() for name in names), *([""] if ends else [])), delimiter)


@dataclass
class Table:
    """Turns lines into frames of texts: `wanted` columns and `line`; remembers what was wrong."""

    header: Header
    columns: Columns
    wanted: tuple[str, ...]
    repaired: Found = field(default_factory=Found)
    bad: Found = field(default_factory=Found)
    cut: tuple[int, str] | None = None

    def frame(self, block: Block) -> pl.DataFrame:
        """The rows of a block, nulls for empty texts, in order."""
        lines = pl.Series("text", block.lines, dtype=pl.String)
        fields = len(self.header.names)
        table = lines.to_frame().with_row_index("line", block.first)
        table = table.with_columns(
            pl.col.line.cast(pl.Int64),
            count=pl.col.text.str.count_matches(self.header.delimiter, literal=True) + 1,
        )
        plain = (pl.col.count == fields) & (pl.col.text != self.header.text)
        if self.header.delimiter == ",":
            plain &= ~pl.col.text.str.contains('"', literal=True)
        whole = table.filter(plain)
        frame = self._split(whole, block.lines if whole.height == table.height else whole["text"].to_list())
        if whole.height < table.height:
            odd = list(self._odd(table.filter(~plain), block))
            if odd:
                more = pl.DataFrame(odd, schema=frame.schema, orient="row")
                frame = pl.concat([frame, more]).sort("line")
        return frame

    def _split(self, rows: pl.DataFrame, lines: list[str]) -> pl.DataFrame:
        """The wanted columns of rows with as many fields as there are columns, whose texts are `lines`."""
        schema = dict.fromkeys((*self.wanted, "line"), pl.String()) | {"line": pl.Int64()}
        if not rows.height:
            return pl.DataFrame(schema=schema)
        text = "\n".join(lines)
        delimiter = self.header.delimiter
        if len(delimiter) > 1 or not delimiter.isascii():
            text, delimiter = text.replace(UNIT, " ").replace(self.header.delimiter, UNIT), UNIT
        found = pl.read_csv(
            io.BytesIO(text.encode()), separator=delimiter, has_header=False, quote_char=None, infer_schema=False,
            columns=sorted(self.header.names.index(name) for name in self.wanted),
        )  # fmt: skip
        found.columns = sorted(self.wanted, key=self.header.names.index)
        return found.select(self.wanted).with_columns(rows["line"])

    def _odd(self, rows: pl.DataFrame, block: Block) -> Iterator[tuple[str | int | None, ...]]:
        """What can be made of lines that are no plain rows."""
        waiting: list[tuple[int, str]] = []
        for line, text, count in rows.iter_rows():
            if text.strip() in ("", self.header.text) or DASHES.fullmatch(text):
                continue
            if count < len(self.header.names) and '"' not in text:
                waiting, joined = self._joined(waiting, line, text)
                if joined is None:
                    continue
                line, text = joined  # noqa: PLW2901 - the row goes on with what was put together
            fields = self._fields(text)
            if fields is None:
                self.bad.add(line, self._job(text))
                continue
            at = self.header.names.index
            yield (*(fields[at(name)] or None for name in self.wanted), line)
            if '"' not in text or self.header.delimiter != ",":  # quotes are no damage
                self.repaired.add(line, fields[self._id] if self._id is not None else "?")
        self._left(waiting, block)

    def _fields(self, text: str) -> list[str] | None:
        if '"' in text and self.header.delimiter == ",":
            fields = next(csv.reader([text]), [])
            if len(fields) == len(self.header.names):
                return fields
        return self.columns.repaired(text)

    def _joined(
        self, waiting: list[tuple[int, str]], line: int, text: str
    ) -> tuple[list[tuple[int, str]], tuple[int, str] | None]:
        """(pieces that wait for more, row that is whole): a text with an end of line in it makes short lines."""
        if waiting and line != waiting[-1][0] + 1:
            self._left(waiting, None)
            waiting = []
        waiting = [*waiting, (line, text)]
        whole = "\n".join(piece for _, piece in waiting)
        if whole.count(self.header.delimiter) + 1 >= len(self.header.names) and self._fields(whole):
            return [], (waiting[0][0], whole)
        if len(waiting) > 20 or whole.count(self.header.delimiter) + 1 > len(self.header.names):
            self._left(waiting, None)
            waiting = []
        return waiting, None

    def _left(self, waiting: Iterable[tuple[int, str]], block: Block | None) -> None:
        """Short lines of which no row came: words of a shell, or rows that are damaged."""
        final = block.first + len(block.lines) - 1 if block and block.open else -1
        for line, text in waiting:
            if self.header.delimiter not in text:
                continue
            if line == final:
                self.cut = (line, self._job(text))
            else:
                self.bad.add(line, self._job(text))

    @property
    def _id(self) -> int | None:
        """Place of the id."""
        return next(
            (self.header.names.index(n) for n in ("jobid", "jobidraw") if n in self.header.names), None
        )

    def _job(self, text: str) -> str:
        """The id in a line, for a message; behind texts of the user it cannot be found."""
        fields = text.split(self.header.delimiter)
        known = self._id is not None and self._id < len(fields)
        if not known or self.columns.free & set(self.header.names[: self._id]):
            return "?"
        return fields[self._id or 0][:40]


def tell_table(about: About, table: Table) -> None:
    """What was wrong with the lines of a table: into the row of sources."""
    if table.repaired.count:
        line, job = table.repaired.first[0]
        count = table.repaired.count
        more = f" and {count - 1} more" if count > 1 else ""
        message = f"line {line} (job {job}){more}: a text contains the delimiter"
        about.notice("repaired_input", f"{message} or an end of line; put together again", count)
    table.bad.left_out(about, "a row whose columns cannot be told apart")
    if table.cut:
        about.notice(
            "truncated_input", f"the file ends in the middle of line {table.cut[0]} (job {table.cut[1]})"
        )
