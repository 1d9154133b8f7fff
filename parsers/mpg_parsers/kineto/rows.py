"""Rows of the canonical tables from packed columns, whatever version or vendor wrote them."""

from __future__ import annotations

import polars as pl

from mpg_parsers.device_records import DAY
from mpg_parsers.tables import DEVICE_OPS, HOST_EVENTS

STEP_NAME = r"^ProfilerStep\s*#\s*(\d+)$"


def host_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """host_events; an event without a usable duration is one that was still open.

    PyTorch before 1.11 wrote its own step ranges as operators.
    """
    step = (pl.col("kind") == "op") & pl.col("name").str.starts_with("ProfilerStep#").fill_null(value=False)
    for name, dtype in (("external_id", pl.Int64), ("external_id_2021", pl.Int64)):
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype).alias(name))
    return HOST_EVENTS.conform(
        frame.with_columns(
            name=pl.col("name").fill_null(""),
            kind=pl.when(step).then(pl.lit("annotation")).otherwise("kind"),
            dur_ns=pl.when(pl.col("dur_ns").is_between(0, DAY)).then("dur_ns"),
            external_id=_nonzero(pl.coalesce("external_id", "external_id_2021")),
            input_dims=pl.coalesce("input_dims", "input_dims_2021"),
        )
    )


def device_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """device_ops. In Kineto's rows pid is the device and tid the stream, unless the arguments say so too."""
    return DEVICE_OPS.conform(
        frame.with_columns(
            name=pl.col("name").fill_null(""),
            device=pl.coalesce("device", "process", pl.lit(0)),
            stream=pl.coalesce("stream", "stream_mtia", "thread"),
            process=pl.lit(None, pl.Int64),
            external_id=_nonzero(pl.coalesce("external_id", "external_id_2021")),
            correlation=_nonzero(pl.col("correlation")),
            blocks_per_sm=_decimal("blocks_per_sm", float("inf")),
            occupancy=_decimal("occupancy", 100),
        )
    )


def step_rows(host: pl.DataFrame) -> pl.DataFrame:
    """step, name, start_ns and end_ns of the profiler's steps among host_events."""
    is_range = pl.col("kind").is_in(["annotation", "op"]) & pl.col("dur_ns").is_not_null()
    return (
        host.filter(is_range & pl.col("name").str.starts_with("ProfilerStep"))
        .with_columns(step=pl.col("name").str.extract(STEP_NAME).cast(pl.Int64, strict=False))
        .filter(pl.col("step").is_not_null())
        .select("step", "name", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    )


def extent(frame: pl.DataFrame, span: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """First start and last end of the rows and of `span`; (None, None) without any."""
    ends = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    first, last = frame.select(pl.col("start_ns").min(), ends.max().alias("end_ns")).row(0)
    firsts = [at for at in (first, span and span[0]) if at is not None]
    lasts = [at for at in (last, span and span[1]) if at is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _decimal(name: str, most: float) -> pl.Expr:
    """A number from its text; what is negative, above `most` or infinite is none (Kineto writes "inf")."""
    value = pl.col(name).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite() & value.is_between(0, most)).then(value)


def _nonzero(column: pl.Expr) -> pl.Expr:
    """Ids of 0 mean none."""
    return pl.when(column != 0).then(column)
