"""Why a rank came last: what it spent more time on than the others since the ranks were last together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.collectives.transients import with_ranks
from mpg_cli.goodput.overlaps import covered_by

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.windows import Windows

# causes of the ledger by what a user can do about a late rank; every other cause is "other"
GROUPS = {
    "compute": ("productive",),
    "input": ("input",),
    "host": (
        "launch_bound", "host_code", "synchronisation", "allocator", "compile", "checkpoint", "restore",
        "profiler_overhead",
    ),
    "copy": ("memory_copy",),
    "communication": ("communication", "communication_wait"),
}  # fmt: skip
BEFORE = {"end_ns": "before", "index": "left"}  # of the previous collective of the same ranks
REASONS = (*GROUPS, "other")
NO_REASON = pl.DataFrame(schema={"index": pl.UInt32, "reason": pl.String, "late_ns": pl.Int64})


def lateness(
    matched: pl.DataFrame, windows: Windows, activity: Activity, segments: pl.DataFrame
) -> pl.DataFrame:
    """index, reason (of REASONS or unknown) and late_ns: the last rank's time above the median of the others.

    Time is counted from the end of the previous collective of the same ranks, which they left together, and by cause
    from `segments` (subject, start_ns, end_ns, cause; disjoint, inside the windows). The reason is the group of causes
    with the largest excess. Without a previous collective in the window, ranks may have entered it apart: then the
    windows must begin with a step everywhere, and the excess must explain half of what the others waited.
    """
    spans = _since_together(matched, windows, activity)
    known = spans.filter(col("known").all().over("index"))
    kinds = {name: col("cause").is_in(causes) for name, causes in GROUPS.items()}
    kinds["other"] = ~pl.any_horizontal(kinds.values())
    spent = known.hstack(covered_by(known, segments, kinds).get_columns())
    arrived = spent.sort("index", "wait_ns", "rank")  # the last to arrive first
    excess = arrived.group_by("index", maintain_order=True).agg(
        *((col(name).first() - _median(col(name).slice(1))).alias(name) for name in REASONS),
        entered=col("entered").any(),
        waited=_median(col("wait_ns").slice(1)),
    )
    return _largest(excess)


def _median(values: pl.Expr) -> pl.Expr:
    """The median in whole ns: of an even number of values, the middle of the two, rounded down."""
    ordered, n = values.sort(), values.len()
    return (ordered.get((n - 1) // 2) + ordered.get(n // 2)) // 2


def _largest(excess: pl.DataFrame) -> pl.DataFrame:
    late = pl.max_horizontal(REASONS)
    first = pl.coalesce(pl.when(col(name) == late).then(pl.lit(name)) for name in REASONS)
    table = excess.select("index", "entered", "waited", late_ns=late, reason=first)
    explained = (col("late_ns") > 0) & (~col("entered") | (2 * col("late_ns") >= col("waited")))
    return table.filter(explained).select("index", "reason", "late_ns")


def _since_together(matched: pl.DataFrame, windows: Windows, activity: Activity) -> pl.DataFrame:
    """index, rank, subject, wait_ns, start_ns (the ranks were together), end_ns (this one's start), known, entered.

    entered: there is no earlier collective of these ranks in the window, so its start counts.
    """
    bounds = windows.of(activity.subjects).select("subject", "source", "basis", low="start_ns", high="end_ns")
    placed = with_ranks(matched).join(bounds, on="subject", how="left").sort("start_ns", "index")
    last = (col(name).shift(1).over("ranks", "subject").alias(new) for name, new in BEFORE.items())
    placed = placed.with_columns(last).with_columns(
        entered=(col("before").is_null() | (col("before") < col("low"))).any().over("index")
    )
    since = pl.when("entered").then("low").otherwise("before")
    spans = placed.select(
        "index",
        "rank",
        "subject",
        "wait_ns",
        "entered",
        "basis",
        "high",
        "left",
        start_ns=since,
        end_ns="start_ns",
    )
    inside = (col("start_ns") <= col("end_ns")) & (col("end_ns") <= col("high"))
    # kernels of different streams may have run in another order on another rank
    same = col("left").n_unique().over("index") == 1
    together = pl.when("entered").then(col("basis") == "steps").otherwise(same)
    return spans.with_columns(known=(inside & together).fill_null(value=False)).sort("index", "rank")
