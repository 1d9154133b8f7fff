"""One row per collective: who came last and how clearly, why, how much computing hid, how fast data moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.collectives.kinds import bus_factor
from mpg_cli.goodput.collectives.lateness import NO_REASON, lateness
from mpg_cli.goodput.collectives.transients import transient_indexes
from mpg_cli.goodput.overlaps import covered

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.windows import Windows

RESOLUTIONS = (
    1000,
    100,
    10,
)  # ns; the coarsest clock that traces are written with is one of whole microseconds


def summarise(
    activity: Activity,
    matched: pl.DataFrame,
    busy: pl.DataFrame,
    windows: Windows,
    segments: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """One row per collective of `matched`, by index; columns are the fields of the report's Collective.

    index, name, group, seq, matched_by, transfer_ns, last_rank, margin_ns, bytes, near_tie, transient, reason, late_ns,
    hidden_ns, exposed_ns, algo_gbps, bus_gbps, and ranks and waits: lists in the order of the ranks. bytes is null
    where ranks move different amounts. `busy` has subject, activity, start_ns, end_ns (runtime.busy_intervals);
    `segments` says what the devices did when (subject, start_ns, end_ns, cause), without it no reason is known.
    """
    computing = busy.filter(col("activity") == "compute")
    hidden = matched.with_columns(hidden_ns=covered(matched, computing))
    table = _arrivals(hidden, _resolution_ns(activity)).with_columns(_bandwidths())
    early = pl.Series(transient_indexes(matched), dtype=table.schema["index"]).implode()
    table = table.with_columns(transient=col("index").is_in(early))
    reasons = NO_REASON if segments is None else lateness(matched, windows, activity, segments)
    return (
        table.join(reasons, on="index", how="left", maintain_order="left")
        .with_columns(col("reason").fill_null("unknown"), col("late_ns").fill_null(0))
        .drop("size")
    )


def _arrivals(hidden: pl.DataFrame, resolution: int) -> pl.DataFrame:
    """Who came last, by what margin, and sums over the ranks.

    Ranks do not leave a collective at exactly one instant, and times are rounded. A margin is the difference of two
    durations, four rounded times; ranks of a ring leave up to a few of its steps apart, which grows with the transfer
    (on 8 ranks of one node ends were seen to differ by 1 to 7 us for transfers of 7 to 86 us). Within four times the
    resolution and a quarter of the transfer either rank may have been the last.
    """
    arrived = hidden.sort("index", "wait_ns", "rank")
    table = arrived.group_by("index", maintain_order=True).agg(
        col("short").first().alias("name"),
        col("group", "seq", "matched_by", "transfer_ns", "size").first(),
        last_rank=col("rank").first(),
        margin_ns=col("wait_ns").get(1),
        bytes=pl.when(col("bytes").n_unique() == 1).then(col("bytes").first()),
        hidden_ns=col("hidden_ns").sum(),
        exposed_ns=(col("dur_ns") - col("hidden_ns")).sum(),
        ranks=col("rank").sort(),
        waits=col("wait_ns").sort_by("rank"),
    )
    near = col("margin_ns") <= 4 * resolution + col("transfer_ns") // 4
    return table.with_columns(near_tie=near)


def _bandwidths() -> list[pl.Expr]:
    """Bytes per ns are GB/s (10^9)."""
    algo = col("bytes") / col("transfer_ns")
    return [algo.alias("algo_gbps"), (algo * bus_factor(col("size"), col("name"))).alias("bus_gbps")]


def _resolution_ns(activity: Activity) -> int:
    """The coarsest unit that all times of communication are multiples of, at most a microsecond."""
    comm = activity.ops.filter(col("activity") == "comm")
    for unit in RESOLUTIONS:
        if comm.select(((col("start_ns") % unit == 0) & (col("dur_ns") % unit == 0)).all()).item():
            return unit
    return 1
