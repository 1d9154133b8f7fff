"""Sets of half-open intervals [start_ns, end_ns) in int64 nanoseconds, one set per key.

A frame has any number of key columns `by` (possibly none; a null is a key like any other) and the int64
columns `start_ns` and `end_ns`, never null and within ±2^62. All keys are handled in one pass: keys become
small integers, rows are sorted by (key, time), and a cumulative maximum or sum does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = "_key"


def union(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of each key's intervals: columns by…, start_ns, end_ns.

    The result is sorted by key and start; its intervals are disjoint and do not touch. Empty intervals
    (start >= end) vanish.
    """
    keys = _number_keys(by, frame)
    return _restore_keys(_islands(frame, keys, by), keys)


def total(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The length of each key's union: columns by…, length_ns.

    One row per key of `frame`, 0 where all its intervals are empty; exactly one row when `by` is empty.
    """
    keys = _number_keys(by, frame)
    lengths = _islands(frame, keys, by).group_by(_KEY).agg(length_ns=(col.end_ns - col.start_ns).sum())
    joined = keys.join(lengths, on=_KEY, how="left", maintain_order="left")
    return joined.drop(_KEY).with_columns(col.length_ns.fill_null(0))


def intersect(a: pl.DataFrame, b: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The intersection of the two unions, per key, in the form that `union` returns."""
    return _combine(a, b, by, inside=3)


def subtract(a: pl.DataFrame, b: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of `a` without that of `b`, per key, in the form that `union` returns."""
    return _combine(a, b, by, inside=1)


def clip(
    frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str], *, keep: Sequence[str] = ()
) -> pl.DataFrame:
    """Each row of `frame` cut to its key's windows: one row per window it meets, in the order of `frame`.

    `windows` has the columns by…, start_ns, end_ns; the windows of one key must be disjoint (ValueError
    otherwise); they may touch, and a row across the border becomes two. Columns of `frame` are kept, those of
    `windows` named in `keep` are added. A row of zero length is kept where its start lies inside a half-open
    window, so that counts stay right; rows that end before they start are dropped.
    """
    keys = _number_keys(by, windows)
    spans = _numbered_windows(windows, keys, by, keep)
    if frame.is_empty():
        return frame.with_columns(pl.lit(None, windows.schema[name]).alias(name) for name in keep)
    rows = _with_key(frame, keys, by).filter(col.start_ns <= col.end_ns).with_row_index("_row")
    met = rows.select("_row", _KEY, "start_ns", _stop=pl.max_horizontal("end_ns", col.start_ns + 1))
    pieces = _meet(met, spans)
    cut = rows.join(pieces, on="_row").join(spans.drop(_KEY), on="_window").sort("_row", "_window")
    return cut.select(
        *(col(name) for name in frame.columns if name not in {"start_ns", "end_ns"}),
        *keep,
        start_ns=pl.max_horizontal("start_ns", "_from"),
        end_ns=pl.min_horizontal("end_ns", "_to"),
    ).select(*frame.columns, *keep)


def _number_keys(by: Sequence[str], *frames: pl.DataFrame) -> pl.DataFrame:
    """The distinct keys of the frames in order, each with its number; one nameless key when `by` is empty."""
    if not by:
        return pl.DataFrame({_KEY: [0]}, schema={_KEY: pl.get_index_type()})
    return pl.concat([frame.select(by) for frame in frames]).unique().sort(by).with_row_index(_KEY)


def _with_key(frame: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows of `frame` whose key is known, with its number."""
    if not by:
        return frame.join(keys, how="cross")
    return frame.join(keys, on=by, nulls_equal=True, maintain_order="left")


def _restore_keys(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return keys.join(rows, on=_KEY, maintain_order="right").drop(_KEY)


def _islands(frame: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of each key's intervals, sorted: columns _key, start_ns, end_ns."""
    solid = frame.filter(col.start_ns < col.end_ns).select(*by, "start_ns", "end_ns")
    rows = _with_key(solid, keys, by).select(_KEY, "start_ns", "end_ns")
    # Sorting twice, stably, is faster than by two columns: input is mostly in order of time already.
    rows = rows.sort("start_ns").sort(_KEY, maintain_order=True)
    rows = rows.with_columns(reach=col.end_ns.cum_max().over(_KEY))
    gap = (col(_KEY) != col(_KEY).shift(1)) | (col.start_ns > col.reach.shift(1))
    rows = rows.with_columns(first=gap.fill_null(value=True))
    last = col.first.shift(-1, fill_value=True)
    return rows.select(
        col(_KEY).filter(col.first), col.start_ns.filter(col.first), end_ns=col.reach.filter(last)
    )


def _combine(a: pl.DataFrame, b: pl.DataFrame, by: Sequence[str], *, inside: int) -> pl.DataFrame:
    """Where the sum of 1 (inside `a`) and 2 (inside `b`) equals `inside`.

    Intervals of one union never touch, so the sum changes at every instant with an edge, and no two results
    touch. Every key's edges add up to zero, so one cumulative sum serves all keys.
    """
    keys = _number_keys(by, a, b)
    unions = ((_islands(a, keys, by), 1), (_islands(b, keys, by), 2))
    edges = pl.concat(
        rows.select(_KEY, col(column).alias("start_ns"), delta=pl.lit(sign * weight, pl.Int8))
        for rows, weight in unions
        for column, sign in (("start_ns", 1), ("end_ns", -1))
    )
    edges = edges.sort("start_ns").sort(_KEY, maintain_order=True)
    pieces = edges.with_columns(state=col.delta.cast(pl.Int64).cum_sum(), end_ns=col.start_ns.shift(-1))
    found = pieces.filter(col.state == inside, col.start_ns < col.end_ns)
    return _restore_keys(found.select(_KEY, "start_ns", "end_ns"), keys)


def _numbered_windows(
    windows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str], keep: Sequence[str]
) -> pl.DataFrame:
    """The windows that are not empty, in order, numbered: columns _window, _key, _from, _to, keep…."""
    solid = _with_key(windows.filter(col.start_ns < col.end_ns), keys, by)
    spans = solid.select(_KEY, *keep, _from="start_ns", _to="end_ns").sort(_KEY, "_from")
    overlap = (col(_KEY) == col(_KEY).shift(1)) & (col("_from") < col("_to").shift(1))
    if spans.select(overlap.any()).item():
        raise ValueError("the windows of one key overlap")
    return spans.with_row_index("_window")


def _meet(rows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Every pair of a row [start_ns, _stop) and a window that meet: columns _row, _window.

    The windows a row meets are consecutive: from the first that ends after the row's start to the last that
    starts before its stop.
    """
    first = rows.sort("start_ns").join_asof(
        spans.select(_KEY, "_to", _first="_window").sort("_to"),
        left_on="start_ns", right_on="_to", by=_KEY, strategy="forward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    both = first.sort("_stop").join_asof(
        spans.select(_KEY, "_from", _last="_window").sort("_from"),
        left_on="_stop", right_on="_from", by=_KEY, strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    found = both.filter(col("_first") <= col("_last"))
    numbered = found.select("_row", _window=pl.int_ranges(col("_first"), col("_last") + 1))
    return numbered.explode("_window").cast({"_window": spans.schema["_window"]})
