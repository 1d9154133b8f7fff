"""Packed columns into Polars frames, with exact nanosecond times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.kineto.events import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_parsers.kineto.columns import Packed

NS_LIMIT = 1 << 62  # |time| beyond this many ns is no time
US_LIMIT = NS_LIMIT // 1000


def to_frame(packed: Packed) -> pl.DataFrame:
    """A packed table with its integer, text and time columns; times that are no number are null."""
    columns = [_ints(name, data, packed["rows"]) for name, data in packed["ints"].items()]
    columns += [_texts(name, *column) for name, column in packed["texts"].items()]
    for at, name in ((2, "start_ns"), (3, "dur_ns")):
        columns.append(
            pl.concat([_times(part[0], part[1], part[at]) for part in packed["times"]]).alias(name)
        )
    return pl.DataFrame(columns)


def _unpack(data: bytes, dtype: pl.DataType, rows: int) -> pl.Series:
    packed = pl.Series([data], dtype=pl.Binary)
    return packed.bin.reinterpret(dtype=pl.Array(dtype, rows), endianness="little").explode()


def _ints(name: str, data: bytes, rows: int) -> pl.Series:
    column = _unpack(data, pl.Int64(), rows).alias(name)
    return column.to_frame().select(pl.when(pl.col(name) != NULL).then(name).alias(name)).to_series()


def _texts(name: str, codes: bytes, values: Sequence[str | None]) -> pl.Series:
    index = _unpack(codes, pl.Int32(), len(codes) // 4)
    return pl.Series(name, values, dtype=pl.String).gather(index)


def _times(mode: str, rows: int, data: bytes) -> pl.Series:
    return _from_floats(data, rows) if mode == "float" else _from_text(data)


def _from_floats(data: bytes, rows: int) -> pl.Series:
    """Exact below 2**43 us: whole microseconds plus the rounded fraction (us * 1000 would round twice)."""
    us = pl.col("us")
    whole = us.cast(pl.Int64, strict=False)
    fraction = ((us - whole) * 1000).round().cast(pl.Int64, strict=False)
    frame = _unpack(data, pl.Float64(), rows).alias("us").to_frame()
    return frame.select(pl.when(us.abs() < US_LIMIT).then(whole * 1000 + fraction)).to_series()


def _from_text(data: bytes) -> pl.Series:
    """Exact from decimal text, which may be quoted or in scientific notation; rounded to 1 ns."""
    text = pl.Series("us", data.decode("utf-8", "replace").split("\n"), dtype=pl.String)
    us = text.str.strip_chars(' "').cast(pl.Decimal(38, 3), strict=False)
    ns = (us * 1000).cast(pl.Decimal(38, 0), strict=False)
    in_range = ns.to_frame().select(pl.when(pl.col("us").abs() < NS_LIMIT).then(pl.col("us").cast(pl.Int64)))
    return in_range.to_series()
