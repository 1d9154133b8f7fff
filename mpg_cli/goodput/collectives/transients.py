"""First collectives of a profile in which ranks wait only because they entered the profiled stretch apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

TRANSIENT_FACTOR = 10
TRANSIENT_NS = 1_000_000


def transient_notices(activity: Activity) -> list[Notice]:
    """A first collective of a device that lasts ten times the usual, and twice any other of its size.

    The ranks then entered the profiled stretch apart.
    """
    comm = activity.ops.filter((col("activity") == "comm") & (col("dur_ns") > 0)).sort("subject", "start_ns")
    number = pl.int_range(pl.len()).over("subject")
    # sizes from an operator's shapes (no group is recorded then) are left out: too few of one size remain to compare
    comm = comm.with_columns(size=pl.when(col("group").is_not_null()).then("in_elements"))
    like = ["subject", "name", "size"]
    later = comm.filter(number > 0).group_by(like)
    usual = later.agg(usual=col("dur_ns").median(), longest=col("dur_ns").max(), n=pl.len())
    spins = (
        comm.filter(number == 0)
        .join(usual, on=like, nulls_equal=True)
        .filter((col("n") >= 2) & (col("dur_ns") > TRANSIENT_NS) & (col("dur_ns") > 2 * col("longest")))
        .filter(col("dur_ns") >= TRANSIENT_FACTOR * col("usual"))
        .sort("subject")
    )
    paths = dict(activity.sources.select("source", "path").iter_rows())
    return [
        Notice(
            "start_transient",
            f"the first {name[:60]} lasted {dur / 1e6:.3f} ms, usually {usual / 1e6:.3f} ms: the ranks "
            "entered the profiled stretch at different times; it says nothing of a straggler",
            1,
            paths[source],
        )
        for source, name, dur, usual in spins.select("source", "name", "dur_ns", "usual").iter_rows()
    ]


def transient_indexes(matched: pl.DataFrame) -> list[int]:
    """Indexes of collectives that are the first of all their ranks, with a wait far above those that follow.

    Waits (the longest over the ranks), unlike durations, do not depend on the size of the message: this one must be
    ten times the usual wait of the same ranks and twice the longest, and at least two must follow.
    """
    number = pl.int_range(pl.len()).over("rank", order_by=["start_ns", "index"])
    spans = with_ranks(matched.with_columns(number=number))
    longest = spans.group_by("index").agg(
        col("ranks").first(), first=(col("number") == 0).all(), wait=col("wait_ns").max()
    )
    usual = (
        longest.filter(~col("first"))
        .group_by("ranks")
        .agg(usual=col("wait").median(), longest=col("wait").max(), n=pl.len())
    )
    found = (
        longest.filter("first")
        .join(usual, on="ranks")
        .filter((col("n") >= 2) & (col("wait") > TRANSIENT_NS) & (col("wait") > 2 * col("longest")))
    )
    return sorted(found.filter(col("wait") >= TRANSIENT_FACTOR * col("usual"))["index"])


def with_ranks(matched: pl.DataFrame) -> pl.DataFrame:
    """`matched` with ranks: the ranks that took part in the collective, as text."""
    sets = (
        matched.sort("index", "rank")
        .group_by("index")
        .agg(ranks=col("rank").cast(pl.String))
        .with_columns(col("ranks").list.join(" "))
    )
    return matched.join(sets, on="index", how="left", maintain_order="left")
