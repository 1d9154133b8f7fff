"""What ran on the devices, by name and by the rule that recognised it: sums of durations in the windows."""

from __future__ import annotations

import polars as pl

TOP = 20
NOTABLE = 0.01  # unknown names above this share are listed


def by_name(ops: pl.DataFrame) -> pl.DataFrame:
    """name, kind, family, count, time_ns, mean_ns, max_ns, share; most time first. `ops`: cut to windows."""
    table = ops.group_by("name", "kind", "family").agg(
        count=executions(ops),
        time_ns=pl.col("dur_ns").sum(),
        mean_ns=(pl.col("dur_ns").sum() + executions(ops) // 2) // executions(ops).clip(1),
        max_ns=pl.col("dur_ns").max(),
    )
    return _with_share(table, "name", "kind", "family")


def executions(ops: pl.DataFrame) -> pl.Expr:
    """How many records there are: an operation that others ran inside of is one, however many parts it has.

    Where the window cut the first part away it does not count.
    """
    return (pl.col("part").fill_null(0) == 0).sum() if "part" in ops.columns else pl.len()


def by_rule(ops: pl.DataFrame) -> pl.DataFrame:
    """rule, activity, count, time_ns, share; most time first."""
    table = ops.group_by("rule", "activity").agg(count=pl.len(), time_ns=pl.col("dur_ns").sum())
    return _with_share(table, "rule", "activity")


def unknown(table: pl.DataFrame) -> pl.DataFrame:
    """Of `by_name`'s rows those that no rule knows."""
    return table.filter(pl.col("family") == "unknown")


def _with_share(table: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """`table` with each row's share of all time_ns, most time first, then by `keys`."""
    total = table["time_ns"].sum() or 1
    # Polars would multiply by the reciprocal, which is off in the last digit
    shares = pl.Series("share", [time / total for time in table["time_ns"]], dtype=pl.Float64)
    texts = table.with_columns(shares).cast({pl.Categorical: pl.String})
    return texts.sort("time_ns", *keys, descending=[True, *(False for _ in keys)])
