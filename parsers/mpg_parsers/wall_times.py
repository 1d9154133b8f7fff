"""Times as schedulers write them, into Unix nanoseconds: epoch seconds, or dates with or without a zone.

A date without a zone is taken in the zone that the user names, else as if it were UTC, and the caller is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import polars as pl
from polars import col

from mpg_parsers.errors import UsageError

SECOND = 1_000_000_000
NO_VALUES = (4294967294, 4294967295)  # Slurm's NO_VAL and INFINITE
# how files say that there is no such time; 0 is Slurm's "not set"
NO_TIME = ("", "none", "unknown", "n/a", "null", "0", *map(str, NO_VALUES), "-1", "nan", "nat")
_EPOCH = r"^(\d{9,11})(?:\.(\d{1,9})\d*)?$"
_DATE = r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9})\d*)? ?(Z|UTC|[+-]\d\d:?\d\d)?$"
LATEST = 9_000_000_000  # seconds: the year 2255, which int64 nanoseconds still hold


@dataclass(frozen=True, slots=True)
class Times:
    """ns: Unix nanoseconds, null where there is no time; naive: some named no zone, whether or not one was given;
    bad: marks texts that are neither a time nor a word for none; unsure: marks wall times that happened twice or
    never in the zone given (the earlier is taken, or null).
    """

    ns: pl.Series
    naive: bool
    bad: pl.Series
    unsure: pl.Series


def check_zone(name: str) -> None:
    """Raise UsageError unless `name` is a time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        hint = "use UTC or a name such as Europe/Berlin"
        raise UsageError(f"no time zone {name[:60]!r}", hint=hint) from error


def parse(texts: pl.Series, tz: str = "") -> Times:
    """Times of the texts; `tz` is the zone of those that name none, empty for unknown."""
    frame = pl.DataFrame({"text": texts.cast(pl.String).str.strip_chars()})
    text = col.text
    epoch = text.str.extract(_EPOCH, 1).cast(pl.Int64)
    wall = _joined(text.str.extract(_DATE, 1), text.str.extract(_DATE, 2))
    fraction = pl.coalesce(text.str.extract(_EPOCH, 2), text.str.extract(_DATE, 3)).fill_null("0")
    read = frame.select(
        "text",
        epoch=pl.when((epoch > 0) & (epoch < LATEST) & ~epoch.is_in(NO_VALUES)).then(epoch),
        wall=wall,
        fraction=fraction.str.pad_end(9, "0").cast(pl.Int64),
        zone=text.str.extract(_DATE, 4),
    )
    return _placed(read, tz)


def _joined(day: pl.Expr, time: pl.Expr) -> pl.Expr:
    """The wall time; seconds may be missing."""
    whole = pl.when(time.str.len_bytes() == len("00:00")).then(time + ":00").otherwise(time)
    return (day + "T" + whole).str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False)


def _placed(read: pl.DataFrame, tz: str) -> Times:
    zoned, dated = col.zone.is_not_null(), col.wall.is_not_null()
    plain = read.select(t=pl.when(dated & ~zoned).then(col.wall))["t"]
    local, unsure = in_zone(plain, tz)
    read = read.with_columns(local=local.dt.epoch("s"), unsure=unsure, named=_offset(col.zone))
    seconds = pl.when(zoned).then(col.wall.dt.epoch("s") - col.named).otherwise(pl.coalesce("epoch", "local"))
    far = dated & ~seconds.is_between(0, LATEST).fill_null(value=True)
    done = read.select(
        ns=pl.when(~far).then(seconds) * SECOND + col.fraction,
        naive=dated & ~zoned,
        bad=~col.text.str.to_lowercase().is_in(list(NO_TIME)) & col.epoch.is_null() & (~dated | far),
        unsure="unsure",
    )
    bad = done["bad"].fill_null(value=False)
    return Times(done["ns"], bool(done["naive"].any()), bad, done["unsure"])


def in_zone(walls: pl.Series, tz: str) -> tuple[pl.Series, pl.Series]:
    """Wall times that name no zone as instants in `tz`, as if in UTC where that is empty; and which are unsure.

    Unsure are those that happened twice there, of which the earlier is taken, or never, which are null.
    """
    first = walls.dt.replace_time_zone(tz or "UTC", ambiguous="earliest", non_existent="null")
    last = walls.dt.replace_time_zone(tz or "UTC", ambiguous="latest", non_existent="null")
    return first, walls.is_not_null() & ((first != last).fill_null(value=False) | first.is_null())


def _offset(zone: pl.Expr) -> pl.Expr:
    """Seconds east of Greenwich of Z, +0100 or +01:00."""
    digits = zone.str.replace(":", "", literal=True)
    hours, minutes = digits.str.slice(1, 2).cast(pl.Int64, strict=False), digits.str.slice(3, 2)
    size = hours * 3600 + minutes.cast(pl.Int64, strict=False) * 60
    sign = pl.when(digits.str.starts_with("-")).then(-1).otherwise(1)
    return pl.when(zone.is_in(["Z", "UTC"])).then(0).otherwise(sign * size)


def one(text: str, tz: str = "") -> tuple[int | None, bool]:
    """The time of one text and whether it named no zone. Raises ValueError for a bad one."""
    times = parse(pl.Series([text], dtype=pl.String), tz)
    if times.bad[0]:
        raise ValueError(text)
    return times.ns[0], times.naive
