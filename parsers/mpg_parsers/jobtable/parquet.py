"""Tables as Parquet."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.errors import InputError
from mpg_parsers.jobtable.table import BROKEN, LINE, ROWS, Table, unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, BinaryIO

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

MAGIC = b"PAR1"
MAX_BYTES = 1 << 31  # of a file within an archive or gzip, which is held in memory
READ = 1 << 22


def read(source: Source, options: ParseOptions) -> Table:
    """The table. Raises InputError: corrupt_input, truncated_input, unsupported_format (over MAX_BYTES, packed)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(_seekable(source, options))
        names = list(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(source.path, error) from error
    own = dict(zip(unique_names(names), names, strict=True))
    return Table(tuple(own), lambda needed: _pieces(source.path, file, own, needed))


def _seekable(source: Source, options: ParseOptions) -> str | BinaryIO:
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
    return io.BytesIO(content)


def _pieces(path: str, file: Any, own: dict[str, str], needed: Sequence[str]) -> Iterator[pl.DataFrame]:  # noqa: ANN401
    import pyarrow as pa

    line = 1
    try:
        for batch in file.iter_batches(batch_size=ROWS, columns=[own[name] for name in needed]):
            columns = {name: pl.from_arrow(batch.column(own[name])) for name in needed}
            lines = pl.int_range(line, line + batch.num_rows, dtype=pl.Int64, eager=True)
            broken = pl.repeat(None, batch.num_rows, dtype=pl.String, eager=True)
            yield pl.DataFrame({**columns, LINE: lines, BROKEN: broken})
            line += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> InputError:
    message = f"damaged Parquet: {error}"[:300]
    return InputError("corrupt_input", path, message, hint="copy it again, or export it as CSV")
