"""How much of computing time passes on SMs without a block."""

from __future__ import annotations

import polars as pl
from polars import col

FULL = 1_000_000  # all SMs, so that sums stay whole numbers


def unfilled_ns(kernels: pl.DataFrame) -> int:
    """The chip-ns in which a device computes, times the share of its SMs that no kernel had a block for.

    kernels: subject, start_ns, end_ns, activity, blocks_per_sm, of all that run. Kernels side by side fill the chip
    together. One whose grid is not known counts as filling it.
    """
    filled = (col("blocks_per_sm").fill_null(1.0).clip(0, 1) * FULL).round().cast(pl.Int64)
    computes = (col("activity") == "compute").cast(pl.Int64)
    starts = kernels.select("subject", at_ns="start_ns", filled=filled, computing=computes)
    ends = kernels.select("subject", at_ns="end_ns", filled=-filled, computing=-computes)
    edges = pl.concat([starts, ends]).sort("at_ns").sort("subject", maintain_order=True)
    # all that starts on a subject also ends there, so that each begins at zero
    length = col("at_ns").shift(-1) - col("at_ns")
    idle = (FULL - col("filled").cum_sum()).clip(0)
    busy = edges.select(ns=pl.when(col("computing").cum_sum() > 0).then(length * idle))
    return int(busy["ns"].sum()) // FULL
