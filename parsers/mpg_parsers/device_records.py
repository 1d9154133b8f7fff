"""Device records as profilers get them wrong: without times, from another century, twice, or too long."""

from __future__ import annotations

import polars as pl

from mpg_parsers.errors import Notice

IDENTITY = ["process", "device", "stream", "start_ns", "dur_ns", "kind", "name", "correlation", "graph_node"]
MINUTE = 60_000_000_000
DAY = 1440 * MINUTE
LOOK_BACK = 8  # later kernels of the stream that are looked at for an overflow


def clean(ops: pl.DataFrame, host_span: tuple[int, int] | None) -> tuple[pl.DataFrame, list[Notice]]:
    """`ops` (device_ops) without records that cannot be, and a notice for each kind of them.

    host_span: first and last instant of the host's events, None if there are none.
    """
    notices: list[Notice] = []
    ops = _drop_untimed(ops, notices)
    ops = _drop_far_off(ops, host_span, notices)
    ops = _drop_duplicates(ops, notices)
    return clip_overflows(ops, notices), notices


def _drop_untimed(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    timed = ops.filter(pl.col("start_ns").is_not_null() & (pl.col("dur_ns") >= 0))
    if lost := ops.height - timed.height:
        message = f"{lost} device records without a usable start or duration were dropped"
        notices.append(Notice("dropped_events", message, lost))
    return timed


def _drop_far_off(ops: pl.DataFrame, span: tuple[int, int] | None, notices: list[Notice]) -> pl.DataFrame:
    """Records over a minute outside the host's events, or a day from the median where there are none."""
    if ops.is_empty():
        return ops
    middle = int(ops["start_ns"].median() or 0)  # type: ignore[arg-type]
    low, high = (span[0] - MINUTE, span[1] + MINUTE) if span else (middle - DAY, middle + DAY)
    if not low <= middle <= high:  # the host's clock is another one: no ground to stand on
        low, high = middle - DAY, middle + DAY
    near = ops.filter(pl.col("start_ns").is_between(low, high))
    if lost := ops.height - near.height:
        example = ops.filter(~pl.col("start_ns").is_between(low, high))["start_ns"][0]
        message = f"{lost} device records far outside the profiled time were dropped (first: ts {example} ns)"
        notices.append(Notice("dropped_events", message, lost))
    return near


def _drop_duplicates(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    single = ops.unique(IDENTITY, keep="first", maintain_order=True)
    if twice := ops.height - single.height:
        message = f"{twice} device records are exact duplicates and were counted once"
        notices.append(Notice("duplicate_events", message, twice))
    return single


def clip_overflows(ops: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    """Clip a kernel that outlasts the *end* of two later kernels of its stream at the start of the next one.

    Kernels of one stream run one after another, so such an end is a wrong stamp; small real overlaps (programmatic
    dependent launch) outlast at most one. Kernels of the same launch (a graph's branches) may run side by side.
    """
    by = ["process", "device", "stream"]
    end = pl.col("start_ns") + pl.col("dur_ns")
    kernels = (
        ops.with_row_index("row")
        .filter((pl.col("kind") == "kernel") & pl.col("stream").is_not_null())
        .select("row", *by, "start_ns", "dur_ns", "name", "correlation", end_ns=end)
        .sort(*by, "start_ns", "end_ns", "row")
    )
    outlasted = [
        (
            pl.all_horizontal(pl.col(c).shift(-k).eq_missing(pl.col(c)) for c in by)
            & (pl.col("end_ns").shift(-k) < pl.col("end_ns"))
            & (pl.col("start_ns").shift(-k) > pl.col("start_ns"))
            & (pl.col("correlation").shift(-k) != pl.col("correlation")).fill_null(value=True)
        ).fill_null(value=False)
        for k in range(1, LOOK_BACK + 1)
    ]
    over = kernels.with_columns(next_ns=pl.col("start_ns").shift(-1)).filter(pl.sum_horizontal(outlasted) >= 2)
    if over.is_empty():
        return ops
    worst = over.sort("dur_ns").row(-1, named=True)
    excess = worst["end_ns"] - worst["next_ns"]
    message = (
        f"{over.height} kernels end after two later kernels of their stream, which cannot be; clipped at the next "
        f"start (worst: {worst['name'][:80]}, by {excess / 1e6:.3f} ms)"
    )
    notices.append(Notice("duration_overflow", message, over.height))
    clipped = over.select("row", clipped_ns=pl.col("next_ns") - pl.col("start_ns"))
    return (
        ops.with_row_index("row")
        .join(clipped, on="row", how="left", maintain_order="left")
        .with_columns(dur_ns=pl.coalesce("clipped_ns", "dur_ns"))
        .drop("row", "clipped_ns")
    )
