"""Cells into values: texts, whole numbers, durations and instants; each says which cells it could not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers import wall_times
from mpg_parsers.jobtable.names import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000_000
# what files write where they know nothing, in lower case
NOTHING = ("", "nan", "none", "null", "n/a", "na", "nat", "-", "--", "<na>", "\\n")
NO_DURATION = ("unlimited", "infinite", "partition_limit", "unknown", "invalid", "not_set")
EXACT = pl.Decimal(38, 9)  # numbers are never floats: 19 digits and nanoseconds fit
# bounds that keep every sum of an instant and two durations, and every product of two counts, within int64
LATEST, LONGEST, MOST_CHIPS, MOST = (1 << 62) - 1, (1 << 60) - 1, 1 << 30, 1 << 53
# numbers at least so large count milliseconds, microseconds, nanoseconds since 1970: seconds would be past 5138
FINER = ((100_000_000_000, "ms"), (100_000_000_000_000, "us"), (100_000_000_000_000_000, "ns"))
OLDEST = 100_000_000 * SECOND  # an instant before 1973 is no date but a time since an unknown beginning
# fast ways to read a whole column; anything else goes through wall_times
FORMATS = tuple(
    f"%Y-%m-%d{between}%H:%M:%S{fraction}{zone}"
    for fraction in ("", "%.f")
    for between in (" ", "T")
    for zone in ("", "Z", "%:z")
)
FIRST_YEAR, LAST_YEAR = 1970, 2115  # LATEST is in 2116
FINE = r":\d\d[.,]\d{7}|,\d"  # more than microseconds, or a comma: not for these formats
TRIED = 64  # cells by which a format is chosen
_CLOCK = r"^(?:(\d+)(?:-| days? ?,? ?\+?))?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)$"
_SUFFIXED = r"^(\d+(?:\.\d+)?) ?([a-zA-Z]+)$"


@dataclass(frozen=True, slots=True)
class Read:
    """Values, and which cells say something that is no such value."""

    values: pl.Series
    bad: pl.Series


@dataclass(slots=True)
class Clock:
    """How the instants of a table are written, as far as was seen.

    unit      of numbers, by canonical name
    naive     some wall time named no zone, and none was given
    walls     there was some wall time
    relative  some numbers are too small to be dates
    unsure    wall times that happened twice or never in the zone given
    """

    tz: str = ""
    unit: dict[str, str] = field(default_factory=dict)
    naive: bool = False
    walls: bool = False
    relative: bool = False
    unsure: int = 0


def cleaned(cells: pl.Series, missing: set[str]) -> pl.Series:
    """Texts without blanks around them; null where they say that nothing is known."""
    if isinstance(cells.dtype, pl.List | pl.Array | pl.Struct):
        return cells.map_elements(_json, return_dtype=pl.String)
    text = cells.cast(pl.String, strict=False).str.strip_chars()
    nothing = text.str.to_lowercase().is_in([*NOTHING, *missing])
    return text.to_frame("t").select(pl.when(~nothing).then("t"))["t"]


def counts(text: pl.Series, most: int = MOST) -> Read:
    """Whole numbers up to `most`; a fraction is rounded up, which `fractional` tells."""
    number = text.cast(EXACT, strict=False)
    within = pl.when(pl.col("n").abs() <= most).then("n")
    values = number.to_frame("n").select(within.ceil().cast(pl.Int64, strict=False))["n"]
    return Read(values, text.is_not_null() & values.is_null())


def product(texts: Sequence[pl.Series]) -> pl.Series:
    """The product of numbers of chips, as text; null where one is unknown or it is more than there can be."""
    found = counts(texts[0], MOST_CHIPS).values
    for text in texts[1:]:
        found = found * counts(text, MOST_CHIPS).values
        found = found.set((found > MOST_CHIPS).fill_null(value=False), None)
    return found.cast(pl.String)


def fractional(text: pl.Series) -> int:
    """How many of the numbers are not whole."""
    number = text.cast(EXACT, strict=False)
    return int(number.to_frame("n").select((pl.col("n") != pl.col("n").ceil()).sum())["n"][0] or 0)


def durations(cells: pl.Series, missing: set[str], unit: str) -> Read:
    """Nanoseconds of numbers in `unit` (seconds if empty), D-HH:MM:SS, HH:MM:SS, MM:SS, or numbers with a unit."""
    if isinstance(cells.dtype, pl.Duration):
        ns = _within(cells.dt.total_nanoseconds(), LONGEST)
        return Read(ns, cells.is_not_null() & ns.is_null())
    text = cleaned(cells, missing | set(NO_DURATION))
    ns = _scaled(text.cast(EXACT, strict=False), UNITS[unit or "s"])
    if ns.null_count() > text.null_count():
        ns = pl.select(pl.coalesce(ns, _clock(text), _suffixed(text))).to_series()
    ns = _within(ns, LONGEST)
    return Read(ns, text.is_not_null() & ns.is_null())


def instants(cells: pl.Series, missing: set[str], name: str, unit: str, clock: Clock) -> Read:
    """Unix nanoseconds (see Clock for what else is told) of dates, or of numbers in `unit`."""
    if isinstance(cells.dtype, pl.Datetime | pl.Date):
        return _of_dates(cells, clock)
    text = cleaned(cells, missing | {"unknown"})
    number = text.cast(EXACT, strict=False)
    read = _of_numbers(number, name, unit, clock)
    if not (text.is_not_null() & number.is_null()).any():
        return read
    dates = _of_texts(text.set(number.is_not_null(), None), clock)
    return Read(pl.select(pl.coalesce(read.values, dates.values)).to_series(), read.bad | dates.bad)


def _json(value: object) -> str | None:
    import json

    return (
        None
        if value is None
        else json.dumps(value.to_list() if isinstance(value, pl.Series) else value, default=str)
    )


def _scaled(number: pl.Series, size: int) -> pl.Series:
    """Numbers of a unit of `size` nanoseconds, as nanoseconds; null where that is too large."""
    most = LATEST // size
    column = pl.col("n")
    scaled = pl.when(column.abs() <= most).then(column) * size
    return number.to_frame("n").select(scaled.cast(pl.Int64, strict=False))["n"]


def _clock(text: pl.Series) -> pl.Series:
    """Nanoseconds of [days-]HH:MM:SS and MM:SS."""
    days, hours, minutes = (text.str.extract(_CLOCK, part).cast(pl.Int64, strict=False) for part in (1, 2, 3))
    seconds = _scaled(text.str.extract(_CLOCK, 4).cast(EXACT, strict=False), SECOND)
    whole = (days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60) * SECOND
    return whole + seconds


def _suffixed(text: pl.Series) -> pl.Series:
    """Nanoseconds of texts such as 12.5h or 300 s."""
    number = text.str.extract(_SUFFIXED, 1).cast(EXACT, strict=False)
    word = text.str.extract(_SUFFIXED, 2).str.to_lowercase()
    found: pl.Series = pl.repeat(None, len(text), dtype=pl.Int64, eager=True)
    for unit in word.unique().drop_nulls():
        if unit in UNITS:
            found = pl.select(
                pl.coalesce(found, _scaled(number.set(word != unit, None), UNITS[unit]))
            ).to_series()
    return found


def _within(ns: pl.Series, most: int) -> pl.Series:
    """Null where the number is larger, or as far below zero."""
    return ns.to_frame("n").select(pl.when(pl.col("n").abs() <= most).then("n").alias("n"))["n"]


def _of_dates(cells: pl.Series, clock: Clock) -> Read:
    """Of dates; those after LAST_YEAR are none."""
    dates = cells.cast(pl.Datetime("us")) if isinstance(cells.dtype, pl.Date) else cells
    bad = (dates.dt.year() > LAST_YEAR).fill_null(value=False) | (dates.dt.year() < FIRST_YEAR).fill_null(
        value=False
    )
    kept = dates.set(bad, None)
    return Read(kept.dt.epoch("ns") if getattr(dates.dtype, "time_zone", None) else _placed(kept, clock), bad)


def _placed(walls: pl.Series, clock: Clock) -> pl.Series:
    """Wall times without a zone, in the zone given, else as if in UTC."""
    clock.walls, clock.naive = True, clock.naive or not clock.tz
    local, unsure = wall_times.in_zone(walls, clock.tz)
    clock.unsure += int(unsure.sum())
    return local.dt.epoch("ns")


def _of_numbers(number: pl.Series, name: str, unit: str, clock: Clock) -> Read:
    """Numbers as nanoseconds since 1970; none is negative, and 0 is none among dates."""
    number = number.set((number < 0).fill_null(value=False), None)
    middle = number.median()
    if middle is None:
        return Read(number.cast(pl.Int64), number.is_not_null())
    guess = next((finer for least, finer in reversed(FINER) if float(str(middle)) >= least), "s")
    chosen = unit or clock.unit.setdefault(name, guess)
    if chosen == "s":
        number = number.set(number.is_in(list(wall_times.NO_VALUES)), None)
    ns = _scaled(number, UNITS[chosen])
    bad = number.is_not_null() & ns.is_null()
    latest = ns.max()
    if isinstance(latest, int) and latest < OLDEST:
        clock.relative = True
        return Read(ns, bad)
    return Read(ns.set(ns == 0, None), bad)


def _of_texts(text: pl.Series, clock: Clock) -> Read:
    """Dates, most of them in one format."""
    sample = text.drop_nulls().head(TRIED)
    fitting = (form for form in FORMATS if not _dates(sample, form).null_count())
    form = None if text.str.contains(FINE).any() else next(fitting, None)
    if form is not None and (dates := _dates(text, form)).null_count() == text.null_count():
        clock.walls = True
        return _of_dates(dates.dt.replace_time_zone("UTC") if form.endswith("Z") else dates, clock)
    dashed = text.str.replace(r"^(\d{4})/(\d\d)/(\d\d)", "$1-$2-$3")
    dashed = dashed.str.replace(r"^(\d{4}-\d\d-\d\d)$", "${1}T00:00:00")
    dashed = dashed.str.replace(r"(\d\d):(\d\d) ([+-]\d)", "$1:$2$3")
    year = dashed.str.extract(r"^(\d{4})-").cast(pl.Int64, strict=False)
    late = ((year > LAST_YEAR) | (year < FIRST_YEAR)).fill_null(value=False)
    times = wall_times.parse(dashed.set(late, None), clock.tz)
    clock.walls = clock.walls or bool(times.ns.is_not_null().any())
    clock.naive = clock.naive or (times.naive and not clock.tz)
    clock.unsure += int(times.unsure.sum())
    unread = text.is_not_null() & times.ns.is_null() & ~times.unsure & ~_no_time(text)
    return Read(times.ns, times.bad | late | unread)


def _dates(text: pl.Series, form: str) -> pl.Series:
    zone = "UTC" if form.endswith("z") else None
    return text.str.to_datetime(form, strict=False, time_unit="us", time_zone=zone)


def _no_time(text: pl.Series) -> pl.Series:
    return text.str.to_lowercase().is_in(list(wall_times.NO_TIME))
