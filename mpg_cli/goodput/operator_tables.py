"""Operators of the computing time: those with a model, by what they could save, and those without."""

from __future__ import annotations

import polars as pl

from mpg_cli.goodput import hlo, measured

KEY = ["operator", "input_dims", "input_types"]
NO_OPERATOR = "no operator (graph replay or launch not recorded)"
ABOVE = " (above its peak)"
LAUNCH_SCALE_NS = 5_000  # kernels shorter than this are bound by latency if they miss their roofline by half


def unmodelled(inside: pl.DataFrame) -> pl.DataFrame:
    """op, count (kernels), time_ns, share of computing, most time first; ABOVE marks operators above their peak."""
    total = inside["dur_ns"].sum()
    around = pl.coalesce("operator", "around")
    named = around.cast(pl.String).fill_null(NO_OPERATOR) + pl.when("fault").then(pl.lit(ABOVE)).otherwise(
        pl.lit("")
    )
    table = (
        inside.filter(pl.col("ideal_ps").is_null())
        .group_by(op=named)
        .agg(count=pl.len(), time_ns=pl.col("dur_ns").sum())
    )
    share = pl.col("time_ns") / total if total else pl.lit(0.0)
    return table.with_columns(share=share).sort("time_ns", "op", descending=[True, False])


def modelled(inside: pl.DataFrame) -> pl.DataFrame:
    """One row per modelled operator and shapes; most recoverable time first (time above the roofline)."""
    known = inside.filter(pl.col("ideal_ps").is_not_null())
    table = known.group_by(KEY).agg(
        count=pl.when((pl.col("model") == measured.MODEL).all())
        .then(pl.len())
        .otherwise(pl.col("charged").n_unique() - pl.col("charged").has_nulls().cast(pl.UInt32)),
        kernels=pl.len(),
        time_ns=pl.col("dur_ns").sum(),
        flops=pl.col("flops").sum(),
        bytes=pl.when(pl.col("bytes").null_count() == 0).then(pl.col("bytes").sum()),
        peak_ns=pl.col("peak_ps").sum() / 1000,
        bytes_ns=pl.col("bytes_ps").sum() / 1000,
        roofline_ns=pl.col("roofline_ps").sum() / 1000,
        inferred_ns=pl.col("dur_ns").filter("inferred").sum(),
        recompute_ns=pl.col("dur_ns").filter("recompute").sum(),
        model=pl.col("model").first(),
    )
    time = pl.col("time_ns")
    short = (time / pl.col("kernels") < LAUNCH_SCALE_NS) & (pl.col("roofline_ns") < time / 2)
    table = table.with_columns(
        share=_over(time, pl.lit(int(inside["dur_ns"].sum()))),
        tflops=_over(pl.col("flops"), time).fill_null(0.0) / 1000,
        gbps=_over(pl.col("bytes"), time),
        intensity=pl.when(pl.col("flops") > 0).then(_over(pl.col("flops"), pl.col("bytes"))),
        efficiency=pl.when(pl.col("roofline_ns") > 0).then(_over(pl.col("roofline_ns"), time)),
        bound=pl.when(short)
        .then(pl.lit("latency"))
        .when((pl.col("flops") == 0) | (pl.col("bytes_ns") > pl.col("peak_ns")))
        .then(pl.lit("memory"))
        .otherwise(pl.lit("compute")),
        flops_source=pl.when(pl.col("model") == "declared")
        .then(pl.lit("declared"))
        .when(pl.col("inferred_ns") == time)
        .then(pl.lit("inferred"))
        .when(pl.col("model") == measured.MODEL)
        .then(pl.lit("measured"))
        .when(pl.col("model").cast(pl.String).is_in(list(hlo.SOURCES)))
        .then(pl.col("model").cast(pl.String))
        .otherwise(pl.lit("shapes")),
        recoverable_ns=(time - pl.col("roofline_ns")).clip(0).round().cast(pl.Int64),
    )
    return table.sort("recoverable_ns", "operator", "input_dims", descending=[True, False, False])


def _over(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)
