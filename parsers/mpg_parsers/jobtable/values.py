"""Cells into values: texts, whole numbers, durations and instants; each says which cells it could not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import polars as pl

from mpg_parsers import wall_times
from mpg_parsers.jobtable.names import UNITS

SECOND = 1_000_000_000
# what files write where they know nothing, in lower case
NOTHING = ("", "nan", "none", "null", "n/a", "na", "nat", "-", "--", "<na>", "\\n")
NO_DURATION = ("unlimited", "infinite", "partition_limit", "unknown", "invalid", "not_set")
EXACT = pl.Decimal(38, 9)  # numbers are never floats: 19 digits and nanoseconds fit
LARGEST = (1 << 62) - 1
# numbers at least so large count milliseconds, microseconds, nanoseconds since 1970: seconds would be past 5138
FINER = ((100_000_000_000, "ms"), (100_000_000_000_000, "us"), (100_000_000_000_000_000, "ns"))
OLDEST = 100_000_000 * SECOND  # an instant before 1973 is no date but a time since an unknown beginning
NO_VAL = (4294967294, 4294967295)  # Slurm's
# fast ways to read a whole column; anything else goes through wall_times
FORMATS = tuple(
    f"%Y-%m-%d{between}%H:%M:%S{fraction}{zone}"
    for fraction in ("", "%.f")
    for between in (" ", "T")
    for zone in ("", "Z", "%:z")
)
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


def counts(text: pl.Series) -> Read:
    """Whole numbers; a fraction is rounded up, which `fractional` tells."""
    number = text.cast(EXACT, strict=False)
    bad = text.is_not_null() & (number.is_null() | (number > LARGEST))
    values = number.to_frame("n").select(pl.col("n").ceil().cast(pl.Int64, strict=False))["n"]
    return Read(values, bad)


def fractional(text: pl.Series) -> int:
    """How many of the numbers are not whole."""
    number = text.cast(EXACT, strict=False)
    return int(number.to_frame("n").select((pl.col("n") != pl.col("n").ceil()).sum())["n"][0] or 0)


def durations(cells: pl.Series, missing: set[str], unit: str) -> Read:
    """Nanoseconds of numbers in `unit` (seconds if empty), D-HH:MM:SS, HH:MM:SS, MM:SS, or numbers with a unit."""
    if isinstance(cells.dtype, pl.Duration):
        return Read(cells.dt.total_nanoseconds(), pl.repeat(value=False, n=len(cells), eager=True))
    text = cleaned(cells, missing | set(NO_DURATION))
    ns = _scaled(text.cast(EXACT, strict=False), UNITS[unit or "s"])
    if ns.null_count() > text.null_count():
        ns = pl.select(pl.coalesce(ns, _clock(text), _suffixed(text))).to_series()
    return Read(ns, text.is_not_null() & ns.is_null())


def instants(cells: pl.Series, missing: set[str], name: str, unit: str, clock: Clock) -> Read:
    """Unix nanoseconds (see Clock for what else is told) of dates, or of numbers in `unit`."""
    if isinstance(cells.dtype, pl.Datetime | pl.Date):
        return Read(_of_dates(cells, clock), pl.repeat(value=False, n=len(cells), eager=True))
    text = cleaned(cells, missing | {"unknown"})
    number = text.cast(EXACT, strict=False)
    ns = _of_numbers(number, name, unit, clock)
    bad = pl.repeat(value=False, n=len(cells), eager=True)
    dated = text.is_not_null() & number.is_null()
    if dated.any():
        dates = _of_texts(text.set(number.is_not_null(), None), clock)
        ns, bad = pl.select(pl.coalesce(ns, dates.values)).to_series(), dates.bad
    return Read(ns, bad)


def _json(value: object) -> str | None:
    import json

    return (
        None
        if value is None
        else json.dumps(value.to_list() if isinstance(value, pl.Series) else value, default=str)
    )


def _scaled(number: pl.Series, size: int) -> pl.Series:
    """Numbers of a unit of `size` nanoseconds, as nanoseconds; null where that is too large."""
    most = LARGEST // size
    column = pl.col("n")
    scaled = pl.when(column.abs() <= most).then(column) * size
    return number.to_frame("n").select(scaled.cast(pl.Int64, strict=False))["n"]


def _clock(text: pl.Series) -> pl.Series:
    """Nanoseconds of [days-]HH:MM:SS and MM:SS."""
    days, hours, minutes = (text.str.extract(_CLOCK, part).cast(pl.Int64, strict=False) for part in (1, 2, 3))
    seconds = _scaled(text.str.extract(_CLOCK, 4).cast(EXACT, strict=False), SECOND)
    whole = (days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes) * SECOND
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


def _of_dates(cells: pl.Series, clock: Clock) -> pl.Series:
    dates = cells.cast(pl.Datetime("us")) if isinstance(cells.dtype, pl.Date) else cells
    if getattr(dates.dtype, "time_zone", None):
        return dates.dt.epoch("ns")
    return _placed(dates, clock)


def _placed(walls: pl.Series, clock: Clock) -> pl.Series:
    """Wall times without a zone, in the zone given, else as if in UTC."""
    clock.walls, clock.naive = True, clock.naive or not clock.tz
    zone = clock.tz or "UTC"
    first = walls.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    last = walls.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null")
    clock.unsure += int((first != last).sum()) + first.null_count() - walls.null_count()
    return first.dt.epoch("ns")


def _of_numbers(number: pl.Series, name: str, unit: str, clock: Clock) -> pl.Series:
    """Numbers as nanoseconds since 1970; none is negative, and 0 is none among dates."""
    number = number.set((number < 0).fill_null(value=False), None)
    largest = number.max()
    if not isinstance(largest, Decimal):
        return number.cast(pl.Int64, strict=False)
    guess = next((finer for least, finer in reversed(FINER) if largest >= least), "s")
    chosen = unit or clock.unit.setdefault(name, guess)
    if chosen == "s":
        number = number.set(number.is_in(list(NO_VAL)), None)
    ns = _scaled(number, UNITS[chosen])
    latest = ns.max()
    if isinstance(latest, int) and latest < OLDEST:
        clock.relative = True
        return ns
    return ns.set(ns == 0, None)


def _of_texts(text: pl.Series, clock: Clock) -> Read:
    """Dates, most of them in one format."""
    sample = text.drop_nulls().head(TRIED)
    form = next((form for form in FORMATS if not _dates(sample, form).null_count()), None)
    if form is not None and (dates := _dates(text, form)).null_count() == text.null_count():
        clock.walls = True
        ns = dates.dt.epoch("ns") if form.endswith(("Z", "z")) else _placed(dates, clock)
        return Read(ns, pl.repeat(value=False, n=len(text), eager=True))
    dashed = text.str.replace(r"^(\d{4})/(\d\d)/(\d\d)", "$1-$2-$3")
    dashed = dashed.str.replace(r"^(\d{4}-\d\d-\d\d)$", "${1}T00:00:00")
    dashed = dashed.str.replace(r"(\d\d):(\d\d) ([+-]\d)", "$1:$2$3")
    times = wall_times.parse(dashed, clock.tz)
    clock.walls = clock.walls or bool(times.ns.is_not_null().any())
    clock.naive = clock.naive or (times.naive and not clock.tz)
    clock.unsure += int(times.unsure.sum())
    return Read(
        times.ns, times.bad | (text.is_not_null() & times.ns.is_null() & ~times.unsure & ~_no_time(text))
    )


def _dates(text: pl.Series, form: str) -> pl.Series:
    zone = "UTC" if form.endswith("z") else None
    return text.str.to_datetime(form, strict=False, time_unit="ns", time_zone=zone)


def _no_time(text: pl.Series) -> pl.Series:
    return text.str.to_lowercase().is_in(list(wall_times.NO_TIME))
