"""Lengths of time as Slurm writes them: D-HH:MM:SS, hours over 24, MM:SS.mmm, seconds or minutes."""

from __future__ import annotations

import re

import polars as pl

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
MOST = 100 * 365 * 86400  # seconds; what is longer is Slurm's word for "none" taken for a number
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d{1,9}))?", re.ASCII)
# what Slurm writes where it knows no length, or there is no limit
WORDS = frozenset(
    {"", "unlimited", "partition_limit", "invalid", "unknown", "none", "n/a", "infinite", "not_set"}
)


def clock_ns(text: str, *, plain: int = SECOND) -> int | None:
    """Nanoseconds of a duration; a bare number counts `plain` nanoseconds. None for a word and what is none.

    With days, hours come first (D-HH, D-HH:MM); without, one colon is MM:SS.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None or len(text) > 40:
        return None
    days, fraction = match[1], int((match[5] or "").ljust(9, "0"))
    fields = [int(field) for field in match.group(2, 3, 4) if field is not None]
    if days is None and len(fields) == 1:
        return _bounded(fields[0] * plain + fraction)
    if days is not None:
        fields = [*fields, 0, 0][:3]
    seconds = 0
    for field in fields:
        seconds = seconds * 60 + field
    return _bounded((int(days or 0) * 86400 + seconds) * SECOND + fraction)


def limit_ns(text: str) -> int | None:
    """A time limit: a bare number is minutes."""
    return clock_ns(text, plain=MINUTE)


def is_duration(text: str) -> bool:
    """Whether the text is a length of time, or a word for none."""
    return text.strip().lower() in WORDS or clock_ns(text) is not None


def column(texts: pl.Series, *, plain: int = SECOND) -> pl.Series:
    """Nanoseconds of each text, null where it is no duration; see clock_ns."""
    unique = texts.drop_nulls().unique()
    if not unique.len():
        return pl.Series(texts.name, [None] * texts.len(), dtype=pl.Int64)
    values = pl.Series([clock_ns(text, plain=plain) for text in unique], dtype=pl.Int64)
    return texts.replace_strict(unique, values, default=None, return_dtype=pl.Int64)


def numbers(texts: pl.Series, unit: int) -> pl.Series:
    """Nanoseconds of whole numbers of `unit`; null where the text is none, or one of Slurm's words for none."""
    number = texts.cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False)
    kept = (number >= 0) & (number <= MOST * SECOND // unit)
    return pl.select(pl.when(kept).then(number * unit))[:, 0].alias(texts.name)


def _bounded(ns: int) -> int | None:
    return ns if ns <= MOST * SECOND else None
