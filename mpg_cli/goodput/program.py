"""Program Goodput: what share of the computing time was useful FLOPs at the hardware's peak.

Compute kernels come priced (see `pricing`): the time their FLOPs take at peak (ideal) and the time their FLOPs or bytes
take at the roofline, in picoseconds, shared out over the kernels of an operator by duration. Here they become ledger
rows under the computing time of each device.

Kernels that overlap share one stretch of computing time U (DESIGN §1): those without a model and those that recompute
take their share of U by duration; of the rest Um

    ideal = min(sum of ideal, Um)
    memory_bound = min(max(sum of roofline, ideal), Um) - ideal
    kernel_inefficiency = what is left
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mpg_cli.goodput import ledger

CAUSES = ("ideal", "memory_bound", "kernel_inefficiency", "recompute", "unmodelled")
PS = 1000  # picoseconds in a nanosecond


@dataclass(frozen=True)
class Program:
    """rows: subject, cause, chip_ns for CAUSES, summing to the computing time of each subject; useful and hardware:
    ideal time without and with recomputation, in chip-ns; modelled: duration of kernels with a model, of `total`.
    """

    rows: pl.DataFrame
    ideal_ns: int
    hardware_ideal_ns: int
    modelled_ns: int
    inferred_ns: int
    total_ns: int

    @property
    def coverage(self) -> float:
        """Share of compute kernel time that has a model."""
        return self.modelled_ns / self.total_ns if self.total_ns else 0.0


def account(priced: pl.DataFrame) -> Program:
    """The program layer of priced kernels.

    priced: subject, start_ns, end_ns (inside the window), ideal_ps, roofline_ps (null: no model), recompute (bool),
    inferred (bool; the model was matched by neighbours, not by a link).
    """
    clusters = _clusters(numbered(priced))
    rows = _rows(clusters)
    length = pl.col("end_ns") - pl.col("start_ns")
    known = pl.col("ideal_ps").is_not_null()
    sums = priced.select(
        total=length.sum(),
        modelled=length.filter(known).sum(),
        inferred=length.filter(known & pl.col("inferred")).sum(),
    ).row(0, named=True)
    ideal = int(rows.filter(pl.col("cause") == "ideal")["chip_ns"].sum())
    hardware = int(clusters["hardware"].sum()) // PS
    return Program(rows, ideal, max(ideal, hardware), sums["modelled"], sums["inferred"], sums["total"])


def numbered(priced: pl.DataFrame) -> pl.DataFrame:
    """Kernels that last with the number of the cluster of overlapping kernels they belong to, sorted."""
    ordered = priced.filter(pl.col("end_ns") > pl.col("start_ns")).sort("subject", "start_ns", "end_ns")
    reach = pl.col("end_ns").cum_max().over("subject")
    first = (pl.col("start_ns") >= reach.shift(1).over("subject")).fill_null(value=True)
    return ordered.with_columns(cluster=first.cum_sum())


def _clusters(kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per cluster: subject and its time by cause, in picoseconds; hardware is ideal with recomputation."""
    length = (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int128)
    modelled = pl.col("ideal_ps").is_not_null() & ~pl.col("recompute")
    sums = kernels.group_by("cluster").agg(
        pl.col("subject").first(),
        whole=(pl.col("end_ns").max() - pl.col("start_ns").min()).cast(pl.Int128) * PS,
        total=length.sum(),
        recomputing=length.filter(pl.col("recompute")).sum(),
        modelled=length.filter(modelled).sum(),
        ideal=pl.col("ideal_ps").filter(modelled).cast(pl.Int128).sum(),
        roofline=pl.col("roofline_ps").filter(modelled).cast(pl.Int128).sum(),
        spent=pl.col("ideal_ps").cast(pl.Int128).sum(),
    )
    return _shares(sums)


def _shares(sums: pl.DataFrame) -> pl.DataFrame:
    whole, total = pl.col("whole"), pl.col("total")
    useful = sums.with_columns(
        mine=whole * pl.col("modelled") // total, recompute=whole * pl.col("recomputing") // total
    )
    useful = useful.with_columns(
        unmodelled=whole - pl.col("mine") - pl.col("recompute"),
        ideal=pl.min_horizontal("ideal", "mine"),
        hardware=pl.min_horizontal("spent", "whole"),
    )
    # a picosecond that rounding left belongs to a part that has time of its own
    spare = (pl.col("recomputing") + pl.col("modelled")) == total
    to_mine = spare & (pl.col("modelled") > 0)
    to_recompute = spare & (pl.col("modelled") == 0)
    useful = useful.with_columns(
        mine=pl.col("mine") + pl.when(to_mine).then("unmodelled").otherwise(0),
        recompute=pl.col("recompute") + pl.when(to_recompute).then("unmodelled").otherwise(0),
        unmodelled=pl.when(spare).then(0).otherwise("unmodelled"),
    )
    reached = pl.min_horizontal(pl.max_horizontal("roofline", "ideal"), "mine")
    return useful.with_columns(
        memory_bound=reached - pl.col("ideal"), kernel_inefficiency=pl.col("mine") - reached
    )


def _rows(clusters: pl.DataFrame) -> pl.DataFrame:
    """Sums per subject and cause in whole nanoseconds, by largest remainder, so that no total changes."""
    sums = clusters.group_by("subject").agg(pl.col(*CAUSES, "whole").sum()).sort("subject")
    leaves = sums.select(
        "subject",
        cause=pl.lit("productive"),
        chip_ns=(pl.col("whole") // PS).cast(pl.Int64),
        origin=pl.lit("observed"),
        evidence=pl.lit(None, pl.Int64),
    )
    parts = sums.unpivot(CAUSES, index="subject", variable_name="cause", value_name="weight")
    return ledger.split(leaves, "productive", parts.cast({"weight": pl.Int64}), origin="inferred")
