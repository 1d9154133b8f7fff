"""Columns of times, with the common forms read at once, and what accounting tells of a change of clocks."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from polars import col

from mpg_parsers import wall_times

SECOND = 1_000_000_000
# how far clocks are set at a change: an hour, half of one on Lord Howe Island
SHIFTS = (3600 * SECOND, 1800 * SECOND)
# dates of other orders that have but one reading (SLURM_TIME_FORMAT is free text)
FORMATS = (
    "%Y/%m/%d-%H:%M:%S", "%Y/%m/%d %H:%M:%S", "%Y/%m/%dT%H:%M:%S", "%Y-%m-%d-%H:%M:%S", "%Y%m%d-%H:%M:%S",
    "%Y%m%dT%H%M%S", "%d %b %Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%d %B %Y %H:%M:%S", "%b %d %Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y", "%a %d %b %Y %H:%M:%S", "%a %d %b %Y %I:%M:%S %p",
)  # fmt: skip
NONE = ("Unknown", "None", "N/A", "0", *map(str, wall_times.NO_VALUES), "")


@dataclass(frozen=True, slots=True)
class Column:
    """Times of one column, as wall_times.Times; naive is None where all are numbers, or there are none."""

    ns: pl.Series
    naive: bool | None
    bad: pl.Series
    unsure: pl.Series


def column(texts: pl.Series, tz: str) -> Column:
    """Times of the texts, null where there is none. `tz` as in wall_times.parse, which reads what is uncommon."""
    texts = texts.cast(pl.String)
    frame = pl.DataFrame({"text": texts.set(texts.is_in(NONE), None)})
    plain = col.text.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False)
    seconds = col.text.cast(pl.Int64, strict=False)
    frame = frame.with_columns(
        wall=_possible(plain), epoch=pl.when(seconds.is_between(100_000_000, wall_times.LATEST)).then(seconds)
    )
    local, unsure = wall_times.in_zone(frame["wall"], tz)
    frame = frame.with_columns(
        ns=pl.coalesce(local.dt.epoch("s"), "epoch") * SECOND,
        unsure=unsure,
        naive=col.wall.is_not_null(),
        bad=pl.lit(value=False),
    )
    return _with_rest(frame, tz)


def _possible(time: pl.Expr) -> pl.Expr:
    """Times that nanoseconds since 1970 can hold, null for others."""
    return pl.when(time.dt.epoch("s").is_between(0, wall_times.LATEST)).then(time)


def _with_rest(frame: pl.DataFrame, tz: str) -> Column:
    """Completed with the texts of other forms."""
    other = frame["text"].is_not_null() & frame["wall"].is_null() & frame["epoch"].is_null()
    if other.any():
        zoned = col.text.str.to_datetime("%Y-%m-%dT%H:%M:%S%z", time_unit="us", strict=False)
        frame = frame.with_columns(pl.coalesce("ns", _possible(zoned).dt.epoch("s") * SECOND).alias("ns"))
        other &= frame["ns"].is_null()
    texts = frame["text"].filter(other).unique()
    if texts.len():
        read = _read(texts, tz)
        known = pl.DataFrame(
            {"text": texts, "ns_": read.ns, "unsure_": read.unsure, "bad_": read.bad, "naive_": read.zoneless}
        )
        joined = frame.join(known, on="text", how="left", maintain_order="left")
        frame = joined.with_columns(
            pl.coalesce("ns_", "ns").alias("ns"),
            *(pl.coalesce(f"{name}_", name).alias(name) for name in ("unsure", "bad", "naive")),
        )
    return Column(frame["ns"], _naive(frame), frame["bad"], frame["unsure"])


def _naive(frame: pl.DataFrame) -> bool | None:
    """Whether some wall times name no zone; None if there are no wall times."""
    if frame["naive"].any():
        return True
    return False if frame.select((col.ns.is_not_null() & col.epoch.is_null()).any()).item() else None


@dataclass(frozen=True, slots=True)
class _Read:
    ns: pl.Series
    bad: pl.Series
    unsure: pl.Series
    zoneless: pl.Series


def _read(texts: pl.Series, tz: str) -> _Read:
    """Different texts, each looked at for itself."""
    times = wall_times.parse(texts, tz)
    if times.bad.any():
        wall = pl.DataFrame({"text": texts}).select(
            pl.coalesce(col.text.str.to_datetime(form, time_unit="us", strict=False) for form in FORMATS)
        )[:, 0]
        iso = wall.dt.strftime("%Y-%m-%dT%H:%M:%S")
        texts = pl.select(pl.when(times.bad & iso.is_not_null()).then(iso).otherwise(texts))[:, 0]
        times = wall_times.parse(texts, tz)
    zoned = texts.str.contains(r"(?:Z|UTC|[+-]\d\d:?\d\d)\s*$")
    dated = texts.str.contains(r"^\s*\d{4}-\d\d-\d\d") & ~times.bad
    return _Read(times.ns, times.bad, times.unsure, dated & ~zoned)


def settle(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` (start_ns, end_ns, run_ns, suspended_ns, start_unsure, end_unsure) with the wall times that
    happened twice taken so that end - start - suspended is the time the job ran.
    """
    off = _excess()
    start, end = col.start_ns, col.end_ns
    for shift in SHIFTS:
        end = pl.when(col.end_unsure & (off == -shift)).then(col.end_ns + shift).otherwise(end)
        start = (
            pl.when(col.start_unsure & ~col.end_unsure & (off == shift))
            .then(col.start_ns + shift)
            .otherwise(start)
        )
    return frame.with_columns(start_ns=start, end_ns=end)


def moved(frame: pl.DataFrame) -> int:
    """How many jobs' wall times differ from the time they ran by just what clocks are set by."""
    off = _excess()
    # where the time it was suspended is not told, being longer may be that
    shifted = (-off).is_in(list(SHIFTS)) | (off.is_in(list(SHIFTS)) & col.suspended_ns.is_not_null())
    return int(frame.select((shifted & (col.end_ns > col.start_ns)).sum()).item() or 0)


def _excess() -> pl.Expr:
    """How much longer the job's wall times are apart than it ran and was suspended."""
    return col.end_ns - col.start_ns - col.suspended_ns.fill_null(0) - col.run_ns
