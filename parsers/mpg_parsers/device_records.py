"""Device records as profilers get them wrong: without times, from another century, twice, or too long."""

from __future__ import annotations

import polars as pl

from mpg_parsers.errors import Notice

MINUTE = 60_000_000_000
DAY = 1440 * MINUTE
LOOK_AHEAD = 8  # later kernels of the stream that are looked at for an overflow
SMALL_OVERLAP = 100_000  # ns: kernels of one stream may really overlap by some tens of microseconds
STREAM = ("process", "device", "stream")


def clean(ops: pl.DataFrame, host_span: tuple[int, int] | None) -> tuple[pl.DataFrame, list[Notice]]:
    """`ops` (device_ops) without records that cannot be, and a notice for each kind of them.

    host_span: first and last instant of the host's events, None if there are none.
    """
    ops, notices = usable(ops, host_span)
    return clip_overflows(ops, notices), notices


def usable(ops: pl.DataFrame, host_span: tuple[int, int] | None) -> tuple[pl.DataFrame, list[Notice]]:
    """The same, but every end is believed."""
    notices: list[Notice] = []
    ops = _drop_untimed(ops, notices)
    ops = _drop_far_off(ops, host_span, notices)
    return _drop_duplicates(ops, notices), notices


def _drop_untimed(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    usable = ops["start_ns"].is_not_null() & ops["dur_ns"].is_between(0, DAY).fill_null(value=False)
    if usable.all():  # a filter would copy millions of rows
        return ops
    lost = ops.height - int(usable.sum())
    message = f"{lost} device records without a usable start or duration were dropped"
    notices.append(Notice("dropped_events", message, lost))
    return ops.filter(usable)


def _drop_far_off(
    ops: pl.DataFrame, host_span: tuple[int, int] | None, notices: list[Notice]
) -> pl.DataFrame:
    near = _near(ops["start_ns"], host_span)
    if near.all():
        return ops
    far = ops["start_ns"].filter(~near)
    message = f"{far.len()} device records far outside the profiled time were dropped (first: ts {far[0]} ns)"
    notices.append(Notice("dropped_events", message, far.len()))
    return ops.filter(near)


def _near(starts: pl.Series, host_span: tuple[int, int] | None) -> pl.Series:
    """Which starts belong to the profiled time.

    Those that lead to the host's events without a gap of over a minute; where there are no host events, or
    most of the device's are elsewhere (another clock), those within a day of the median.
    """
    ordered = starts.sort()
    middle = int(ordered[ordered.len() // 2]) if ordered.len() else 0
    if host_span:
        low, high = _connected(ordered, host_span[0] - MINUTE, host_span[1] + MINUTE)
        if low <= middle <= high:
            return starts.is_between(low, high)
    return starts.is_between(middle - DAY, middle + DAY)


def _connected(ordered: pl.Series, low: int, high: int) -> tuple[int, int]:
    """[low, high] extended over starts that follow, or precede, one another within a minute."""
    earlier = ordered.filter(ordered < low).reverse()
    later = ordered.filter(ordered > high)
    return _extended(earlier, low, -1), _extended(later, high, 1)


def _extended(starts: pl.Series, edge: int, sign: int) -> int:
    """The last of `starts`, which lead away from `edge`, before the first gap of over a minute."""
    gaps = (starts - starts.shift(1).fill_null(edge)) * sign
    reached = starts.filter((gaps > MINUTE).cum_sum() == 0)
    return int(reached[-1]) if reached.len() else edge


def _drop_duplicates(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    starts = ops["start_ns"].sort()
    suspect = ops["start_ns"].is_in(starts.filter(starts == starts.shift(1)).unique().implode())
    if not suspect.any():
        return ops
    rows = ops.with_row_index("row")
    suspects = rows.filter(suspect)  # to compare all columns of all rows would take hundreds of bytes a row
    single = suspects.unique(ops.columns, keep="first", maintain_order=True)
    twice = suspects.height - single.height
    if not twice:
        return ops
    message = f"{twice} device records are exact duplicates and were counted once"
    notices.append(Notice("duplicate_events", message, twice))
    return ops.filter(~suspect | rows["row"].is_in(single["row"].implode()))


def clip_overflows(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    """Clip a kernel that outlasts the *end* of two later kernels of its stream where the next one starts.

    Kernels of one stream run one after another, so such an end is a wrong stamp. What is left alone: overlaps
    of up to 100 us (programmatic dependent launch), and kernels of one launch, since branches of a graph run
    side by side.
    """
    over = _overflows(ops)
    if over.is_empty():
        return ops
    worst = over.sort("excess_ns", "row").row(-1, named=True)
    message = (
        f"{over.height} kernels end after two later kernels of their stream, which cannot be; clipped at the "
        f"next start (worst: {worst['name'][:80]}, by {worst['excess_ns'] / 1e6:.3f} ms)"
    )
    notices.append(Notice("duration_overflow", message, over.height))
    return (
        ops.with_row_index("row")
        .join(over.select("row", "excess_ns"), on="row", how="left", maintain_order="left")
        .with_columns(dur_ns=pl.col("dur_ns") - pl.col("excess_ns").fill_null(0))
        .drop("row", "excess_ns")
    )


def _overflows(ops: pl.DataFrame) -> pl.DataFrame:
    """row, name and excess_ns (reach beyond the next start) of the kernels with an impossible end."""
    end = pl.col("end_ns")
    kernels = (
        ops.with_row_index("row")
        .filter((pl.col("kind") == "kernel") & pl.col("stream").is_not_null())
        .select(
            "row", *STREAM, "start_ns", "name", "correlation", end_ns=pl.col("start_ns") + pl.col("dur_ns")
        )
        .sort(*STREAM, "start_ns", "end_ns", "row")
    )
    reaches_on = end - pl.col("start_ns").shift(-1) > SMALL_OVERLAP
    if not kernels.select(reaches_on.any()).item():  # as a rule; what follows takes much memory
        kernels = kernels.clear()
    later = [_is_later(k) for k in range(1, LOOK_AHEAD + 1)]
    outlasted = [is_later & (end.shift(-k) < end) for k, is_later in enumerate(later, 1)]
    following = [pl.when(is_later).then(pl.col("start_ns").shift(-k)) for k, is_later in enumerate(later, 1)]
    return (
        kernels.with_columns(excess_ns=end - pl.coalesce(following))
        .filter((pl.sum_horizontal(outlasted) >= 2) & (pl.col("excess_ns") > SMALL_OVERLAP))
        .select("row", "name", "excess_ns")
    )


def _is_later(k: int) -> pl.Expr:
    """Whether the k-th next row is a later kernel of the same stream that is not of the same launch."""
    correlation = pl.col("correlation")
    return (
        pl.all_horizontal(pl.col(c).shift(-k).eq_missing(pl.col(c)) for c in STREAM)
        & (pl.col("start_ns").shift(-k) > pl.col("start_ns"))
        & (correlation.shift(-k) != correlation).fill_null(value=True)
    ).fill_null(value=False)
