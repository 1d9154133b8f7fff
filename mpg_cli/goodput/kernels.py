"""What ran on the devices, by name and by the rule that recognised it; sums of durations inside the windows."""

from __future__ import annotations

import polars as pl

TOP = 20
NOTABLE = 0.01  # unknown names above this share are listed


def by_name(ops: pl.DataFrame) -> pl.DataFrame:
    """name, kind, family, count, time_ns, mean_ns, max_ns, share; most time first. `ops` is clipped to the windows."""
    table = ops.group_by("name", "kind", "family", "rule").agg(
        count=pl.len(),
        time_ns=pl.col("dur_ns").sum(),
        mean_ns=pl.col("dur_ns").mean().round().cast(pl.Int64),
        max_ns=pl.col("dur_ns").max(),
    )
    return _with_share(table).sort("time_ns", "name", descending=[True, False])


def by_rule(ops: pl.DataFrame) -> pl.DataFrame:
    """rule, activity, count, time_ns, share; most time first."""
    table = ops.group_by("rule", "activity").agg(count=pl.len(), time_ns=pl.col("dur_ns").sum())
    return _with_share(table).sort("time_ns", "rule", descending=[True, False])


def unknown(table: pl.DataFrame) -> pl.DataFrame:
    """Of `by_name`'s rows those that no rule knows."""
    return table.filter(pl.col("rule") == "no rule")


def _with_share(table: pl.DataFrame) -> pl.DataFrame:
    total = table["time_ns"].sum()
    return table.with_columns(share=pl.col("time_ns") / total if total else pl.lit(0.0))
