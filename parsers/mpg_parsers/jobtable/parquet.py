"""Tables as Parquet."""

from __future__ import annotations

from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PanicException, PolarsError

from mpg_parsers.errors import InputError
from mpg_parsers.jobtable.table import BROKEN, LINE, ROWS, Table, unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

MAGIC = b"PAR1"
MAX_BYTES = 1 << 31  # of a file within an archive or gzip, which is held in memory
READ = 1 << 22


def read(source: Source, options: ParseOptions) -> Table:
    """The table. Raises InputError: corrupt_input, truncated_input, unsupported_format (over MAX_BYTES, packed)."""
    file = _seekable(source, options)
    with _damage(source.path):
        names = pl.scan_parquet(file).collect_schema().names()
    own = dict(zip(unique_names(names), names, strict=True))
    return Table(tuple(own), lambda needed: _pieces(source.path, file, own, needed))


def _seekable(source: Source, options: ParseOptions) -> str | BytesIO:
    """The file itself, or its content where it is packed."""
    if source.extent is None:
        with open(source.file, "rb") as file:  # noqa: PTH123 - Source has no Path
            if file.read(len(MAGIC)) == MAGIC:
                return source.file
    content = bytearray()
    with source.open() as stream:
        while more := stream.read(READ):
            content += more
            if len(content) > MAX_BYTES:
                message = f"more than {MAX_BYTES >> 30} GiB of Parquet in an archive"
                raise InputError("unsupported_format", source.path, message, hint="unpack it first")
            if options.progress:
                options.progress(stream.stored_position)
        if stream.truncated:
            raise InputError("truncated_input", source.path, stream.truncated, hint="copy it again")
    return BytesIO(content)


def _pieces(
    path: str, file: str | BytesIO, own: dict[str, str], needed: Sequence[str]
) -> Iterator[pl.DataFrame]:
    columns = [pl.col(own[name]).alias(name) for name in needed]
    with _damage(path):
        frame = pl.scan_parquet(file)
        height = frame.select(pl.len()).collect().item()
        for first in range(0, height, ROWS):
            piece = frame.select(columns).slice(first, ROWS).collect()
            lines = pl.int_range(first + 1, first + 1 + piece.height, dtype=pl.Int64, eager=True)
            yield piece.with_columns(lines.alias(LINE), pl.lit(None, pl.String).alias(BROKEN))


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Turn what Polars raises of damaged files into InputError; some damage makes it panic."""
    try:
        yield
    except (PolarsError, PanicException, OSError, ValueError) as error:
        message = f"damaged Parquet: {error}"[:300]
        hint = "copy it again, or export it as CSV"
        raise InputError("corrupt_input", path, message, hint=hint) from error
