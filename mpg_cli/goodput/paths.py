"""Trees of calls folded into trees of names: every call gets the path of names that leads to it."""

from __future__ import annotations

import polars as pl
from polars import col

MAX_DEPTH = 64  # calls nested deeper are of no use to a reader, and would take long
TOO_DEEP = "(nested deeper)"
MAX_LABEL = 120  # characters of a name
PATHS = pl.Schema({"path": pl.UInt32, "above": pl.UInt32, "label": pl.String, "depth": pl.Int64})


def fold(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The paths of `calls` (row, parent: row of the enclosing call or null, label).

    Returns row and path (a number) of every call, and the distinct paths (PATHS): `above` is the path one shorter, or
    null; the outermost have depth 0. Paths are numbered from 0, each after the one above it. All calls deeper than
    MAX_DEPTH share one path.
    """
    left = calls.select("row", "parent", col.label.cast(pl.String).str.slice(0, MAX_LABEL))
    level = left.filter(col.parent.is_null()).with_columns(above=pl.lit(None, pl.UInt32))
    left = left.filter(col.parent.is_not_null())
    found, paths = [level.clear().select("row", path="above")], [pl.DataFrame(schema=PATHS)]
    for depth in range(MAX_DEPTH):
        _name(level, depth, found, paths)
        above = found[-1].select(parent="row", above="path")
        placed = left.join(above, on="parent", how="left", maintain_order="left")
        level = placed.filter(col.above.is_not_null())
        left = placed.filter(col.above.is_null()).drop("above")
        if level.is_empty():
            break
    rest = pl.concat([level.drop("above"), left]).with_columns(above=pl.lit(None, pl.UInt32))
    if rest.height:
        _name(rest.with_columns(label=pl.lit(TOO_DEEP)), 0, found, paths)
    return pl.concat(found), pl.concat(paths)


def _name(level: pl.DataFrame, depth: int, found: list[pl.DataFrame], paths: list[pl.DataFrame]) -> None:
    """Number the paths of the calls of one level (row, label, above), after those there are."""
    count = sum(part.height for part in paths)
    names = level.select("above", "label").unique().sort("above", "label").with_row_index("path", count)
    names = names.with_columns(depth=pl.lit(depth, pl.Int64)).cast(PATHS)
    paths.append(names.select(list(PATHS)))
    found.append(level.join(names, on=["above", "label"], nulls_equal=True).select("row", "path"))


def texts(paths: pl.DataFrame) -> list[str]:
    """By number of the path, its names joined by slashes."""
    whole: list[str] = []
    for above, label in paths.select("above", "label").iter_rows():
        whole.append(label if above is None else f"{whole[above]} / {label}")
    return whole
