"""Regular expressions that users write in rules and options."""

from __future__ import annotations

import polars as pl

from mpg_parsers.errors import UsageError


def check(pattern: str, label: str) -> None:
    """Raises UsageError for a pattern that Polars cannot use, with what is wrong with it; label: where it stands."""
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        what = str(error).partition("\n\n")[0].rpartition("error: ")[2]  # the rest is about Polars
        hint = "patterns are Rust regular expressions: no look-around and no back-references"
        raise UsageError(f"{label} {pattern!r}: {what}", hint=hint) from error
