"""Tables of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from mpg_parsers.jobtable.table import Table


def is_one(columns: Sequence[str]) -> bool:
    """A table of nodes."""
    return False


def batches(table: Table, tz: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Nothing."""
    yield from ()
