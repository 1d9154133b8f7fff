"""What must hold before anything is computed: of a dataset on disk, which somebody may have edited, and of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpg_parsers.columns import Table

LATEST = (1 << 62) - 1  # ns; the difference of two times then fits 64 bits


def check_table(table: Table, frame: pl.LazyFrame, sources: int, path: str) -> None:
    """Raise InputError corrupt_input, naming the table, unless `frame` is one of `table` for `sources` files."""
    try:
        wrong = _wrong(table, frame, sources)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        wrong = f"cannot be read ({str(error).splitlines()[0][:200]})" if str(error) else "cannot be read"
    if wrong:
        hint = "run `mpg ingest PATH… -o DIR` again"
        raise InputError("corrupt_input", path, f"table {table.name}: {wrong}", hint=hint)


def _wrong(table: Table, frame: pl.LazyFrame, sources: int) -> str:
    """What is wrong with the table first, empty if nothing is. Reads every column, so that all can be read."""
    schema = frame.collect_schema()
    if schema != table.schema():
        return "its columns are not those of `mpg schema`"
    counts = [pl.col(name).null_count().alias(f"{name} is null") for name in schema]
    rules = {
        **dict(_rules(table)),
        f"source is not below {sources}": ~pl.col("source").is_between(0, sources - 1),
    }
    broken = [rule.sum().alias(name) for name, rule in rules.items()]
    row = frame.select(pl.len().alias("rows"), *counts, *broken).collect().row(0, named=True)
    if table.name == "sources":
        return _wrong_sources(frame, sources, row["rows"]) or _first(table, row)
    return _first(table, row)


def _first(table: Table, row: dict[str, int]) -> str:
    allowed = {f"{column.name} is null" for column in table.columns if column.null != "never"}
    return next(
        (f"{what} in {n} rows" for what, n in row.items() if n and what != "rows" and what not in allowed), ""
    )


def _rules(table: Table) -> Iterator[tuple[str, pl.Expr]]:
    """What must not be, and the rows where it is."""
    names = table.column_names
    for column in table.columns:
        if column.values:
            yield f"{column.name} is unknown", ~pl.col(column.name).is_in(column.values)
        if column.name in ("start_ns", "end_ns"):
            yield f"{column.name} is no time", ~pl.col(column.name).is_between(-LATEST, LATEST)
    if "dur_ns" in names:
        yield "dur_ns is no duration", ~pl.col("dur_ns").is_between(0, LATEST)
        yield "the end is no time", pl.col("start_ns") + pl.col("dur_ns") > LATEST
    if "end_ns" in names:
        yield "end_ns is before start_ns", pl.col("end_ns") < pl.col("start_ns")


def _wrong_sources(frame: pl.LazyFrame, sources: int, rows: int) -> str:
    about = frame.select("source", "notices").collect()
    if not rows or rows != sources or about["source"].n_unique() != rows:
        return f"it has {rows} rows, the dataset {sources} sources"
    for text in about["notices"]:
        try:
            msgspec.json.decode(text or "", type=list[Notice])
        except (msgspec.DecodeError, UnicodeEncodeError):
            return "notices is no list of notices"
    return ""


def check_sums(ops: pl.DataFrame, spans: pl.DataFrame, paths: Mapping[int, str]) -> None:
    """Raise InputError corrupt_input where times add up to more than 64 bits hold, with a bit to spare.

    ops: source, dur_ns, end_ns of all device activity; spans: start_ns, end_ns of each device's window. Whatever is
    summed later is a part of these.
    """
    times = ops.group_by("source").agg(pl.col("dur_ns").cast(pl.Float64).sum(), pl.col("end_ns").max())
    windows = sum(end - start for start, end in spans.select("start_ns", "end_ns").iter_rows())
    if max(windows, times["dur_ns"].sum(), times["end_ns"].max() or 0) <= LATEST:
        return
    longest = paths[times.sort("dur_ns", "end_ns")["source"][-1]]
    hint = "the times are wrong: look at ts and dur of its device events"
    raise InputError("corrupt_input", longest, "its times add up to over 146 years", hint=hint)
