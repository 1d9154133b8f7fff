"""Steps by cause: what each step's time went to, how far steps spread, and which ones stand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import overlaps
from mpg_cli.goodput.windows import OWNER

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTSIDE = "unobserved"  # the part of a step that lies outside the account's window
FEWEST = 4  # steps of a device below which none of them can be told to stand out
# 3 robust standard deviations; 1.4826 x MAD estimates one of a normal distribution
MADS = 44_478  # 3 x 1.4826, in ten-thousandths
LEAST = 500  # ten-thousandths of the median: steps that differ by less are alike, however small the MAD
SCALE = 10_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Wall times of steps, in ns; mad_ns is the median absolute deviation from the median."""

    count: int
    median_ns: int
    mad_ns: int
    min_ns: int
    p95_ns: int
    max_ns: int


def by_cause(segments: pl.DataFrame, steps: pl.DataFrame, subjects: pl.DataFrame) -> pl.DataFrame:
    """One row per step, device of its process and cause: row (number of the step), subject, source, device, step, name,
    wall_ns, cause, chip_ns.

    segments: subject, start_ns, end_ns, cause, disjoint within a subject; steps: as in windows.Windows, which may
    overlap or nest; subjects: subject, source, process, device. The chip_ns of a step on a device sum to wall_ns
    exactly; every cause of the segments has a row, be it 0, and what lies outside all segments is OUTSIDE.
    """
    devices = subjects.select("subject", *OWNER, "device")
    spans = steps.with_row_index("row").join(devices, on=OWNER, nulls_equal=True, maintain_order="left")
    spans = spans.with_columns(wall_ns=col.end_ns - col.start_ns)
    inside = _measured(segments, spans)
    known = inside.group_by("row", "subject").agg(known_ns=col.chip_ns.sum())
    rest = spans.join(known, on=["row", "subject"], how="left")
    rest = rest.with_columns(cause=pl.lit(OUTSIDE), chip_ns=col.wall_ns - col.known_ns.fill_null(0))
    rows = pl.concat([inside, rest.select(inside.columns)])
    return rows.group_by(col("*").exclude("chip_ns")).agg(col.chip_ns.sum()).sort("row", "subject", "cause")


def _measured(segments: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The time of each cause in each span; subject and cause together make the key that is measured."""
    causes = segments["cause"].cast(pl.String).unique().sort().to_list()
    numbered = pl.DataFrame({"cause": causes, "_number": range(len(causes))}, schema=_CAUSES)
    key = col.subject * len(causes) + col("_number")
    named = segments.select("subject", "start_ns", "end_ns", col.cause.cast(pl.String))
    pieces = named.join(numbered, on="cause").select(key.alias("subject"), "start_ns", "end_ns")
    pairs = spans.join(numbered, how="cross")
    chip_ns = overlaps.covered(pairs.select(key.alias("subject"), "start_ns", "end_ns"), pieces)
    pairs = pairs.with_columns(chip_ns=chip_ns.cast(pl.Int64))
    return pairs.select("row", "subject", "source", "device", "step", "name", "wall_ns", "cause", "chip_ns")


_CAUSES = pl.Schema({"cause": pl.String, "_number": pl.Int64})


def spread(walls: Sequence[int]) -> Spread | None:
    """How wall times spread; None without any.

    p95 is the smallest of them that at least 95 % do not exceed. Medians of an even number are rounded down.
    """
    if not walls:
        return None
    ordered = sorted(walls)
    median = _median(ordered)
    deviations = sorted(abs(wall - median) for wall in ordered)
    p95 = ordered[-(-95 * len(ordered) // 100) - 1]
    return Spread(len(ordered), median, _median(deviations), ordered[0], p95, ordered[-1])


def _median(ordered: Sequence[int]) -> int:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def outliers(rows: pl.DataFrame) -> pl.DataFrame:
    """The steps that took longer than the others of their device: row, subject, source, device, step, name, wall_ns,
    excess_ns (above the median wall time), cause (whose time grew most) and cause_excess_ns (above its median).

    rows: of `by_cause`. A step stands out above median + max(3 x 1.4826 x MAD, 5 % of the median), where its device has
    at least four.
    """
    key = ["row", "subject"]
    walls = rows.unique(key, maintain_order=True).select(
        *key, "wall_ns", middle=_middle("wall_ns", "subject")
    )
    walls = walls.with_columns(excess_ns=col.wall_ns - col.middle, count=pl.len().over("subject"))
    walls = walls.with_columns(off=col.excess_ns.abs()).with_columns(mad=_middle("off", "subject"))
    limit = pl.max_horizontal(MADS * col.mad, LEAST * col.middle) // SCALE
    found = walls.filter((col.count >= FEWEST) & (col.excess_ns > limit)).select(*key, "excess_ns")
    usual = _middle("chip_ns", "subject", "cause")
    moved = rows.with_columns(cause_excess_ns=col.chip_ns - usual).join(found, on=key)
    order = ("row", "subject", "cause_excess_ns", "cause")
    worst = moved.sort(order, descending=[name == "cause_excess_ns" for name in order])
    return worst.unique(key, keep="first", maintain_order=True).drop("chip_ns")


def _middle(name: str, *over: str) -> pl.Expr:
    """The median, rounded down."""
    return col(name).median().over(*over).floor().cast(pl.Int64)
