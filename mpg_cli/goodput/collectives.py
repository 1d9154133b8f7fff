"""Collectives across ranks: transfer and waiting, without aligning clocks.

All ranks leave a collective together, so the rank that is in it for the shortest time came last, and that time is the
transfer; what another rank spends beyond it is waiting. Records are matched by process group and sequence number
where both are recorded, else by order within (group, name).
"""

from __future__ import annotations

import polars as pl

from mpg_cli.goodput.activity import Activity
from mpg_parsers.errors import Notice

POINT_TO_POINT = r"(?i)send_?recv|\bsend\b|\brecv\b|p2p"
SHORT_NAME = r"^(?:void )?(?:\w+::)*(\w+)"
NOTABLE_SKEW_NS = 1_000_000
TRANSIENT_FACTOR = 10


def match(activity: Activity) -> tuple[pl.DataFrame, list[Notice]]:
    """One row per collective and rank: index, name, group, seq, matched_by, rank, start_ns, end_ns, dur_ns,
    transfer_ns, wait_ns. Empty unless at least two ranks are known.
    """
    records = _records(activity)
    ranks = records["rank"].n_unique()
    if ranks < 2:
        return _empty(records), []
    keyed = _with_place(records)
    per_rank = keyed.group_by("key", "rank").len()
    counts = per_rank.group_by("key").agg(n=pl.col("len").n_unique(), ranks=pl.len())
    whole = counts.filter((pl.col("ranks") > 1) & ((pl.col("n") == 1) | pl.col("key").str.starts_with("seq")))
    matched = keyed.join(whole.select("key"), on="key", how="semi")
    lost = counts.height - whole.height
    notices = []
    if lost:
        message = f"{lost} kinds of collectives occur a different number of times on the ranks and were not matched"
        notices.append(Notice("unmatched_events", message, lost))
    return _measure(matched), notices + _clock_notices(_measure(matched))


def _records(activity: Activity) -> pl.DataFrame:
    ranked = activity.sources.filter(pl.col("rank").is_not_null()).select("source", "rank")
    comm = activity.ops.filter((pl.col("activity") == "comm") & (pl.col("dur_ns") > 0)).join(ranked, on="source")
    return comm.with_columns(
        short=pl.coalesce("collective", pl.col("name").str.extract(SHORT_NAME), "name"),
    ).filter(~pl.col("name").str.contains(POINT_TO_POINT) | pl.col("seq").is_not_null())


def _with_place(records: pl.DataFrame) -> pl.DataFrame:
    """Records with key (what they are matched within) and place (number within it)."""
    sequenced = pl.col("seq").is_not_null() & pl.col("group").is_not_null()
    group = pl.col("group").fill_null("")
    keyed = records.with_columns(
        key=pl.when(sequenced)
        .then(pl.format("seq {} {}", group, "short"))
        .otherwise(pl.format("order {} {}", group, "short")),
        matched_by=pl.when(sequenced).then(pl.lit("sequence")).otherwise(pl.lit("order")),
    ).sort("rank", "start_ns", "stream")
    order = pl.int_range(pl.len()).over("key", "rank")
    return keyed.with_columns(place=pl.when(sequenced).then("seq").otherwise(order))


def _measure(matched: pl.DataFrame) -> pl.DataFrame:
    """Every rank's transfer and wait; of several kernels of one rank for one collective the hull counts."""
    hulls = matched.group_by("key", "place", "rank", maintain_order=True).agg(
        pl.col("short", "name", "group", "seq", "matched_by").first(),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
    )
    hulls = hulls.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns"))
    of = ["key", "place"]
    full = hulls.filter(pl.len().over(of) > 1).with_columns(transfer_ns=pl.col("dur_ns").min().over(of))
    # in the order of the first rank that took part, on its own clock
    first = full.sort("rank").unique(of, keep="first").sort("rank", "start_ns").select(of).with_row_index("index")
    return full.join(first, on=of).with_columns(wait_ns=pl.col("dur_ns") - pl.col("transfer_ns")).sort("index", "rank")


def _empty(records: pl.DataFrame) -> pl.DataFrame:
    return _measure(_with_place(records.clear()))


def _clock_notices(measured: pl.DataFrame) -> list[Notice]:
    """Ranks whose clock differs from the first rank's: collectives end everywhere at about the same time."""
    if measured.is_empty():
        return []
    base = int(measured["rank"].min())  # type: ignore[arg-type]
    reference = measured.filter(pl.col("rank") == base).select("index", base_end="end_ns")
    skew = (
        measured.join(reference, on="index")
        .group_by("rank")
        .agg(skew=(pl.col("end_ns") - pl.col("base_end")).median())
        .filter(pl.col("skew").abs() >= NOTABLE_SKEW_NS)
        .sort("rank")
    )
    return [
        Notice(
            "clock_skew",
            f"rank {rank}'s clock is {abs(ns) / 1e6:.3f} ms {'ahead of' if ns > 0 else 'behind'} rank {base}'s "
            "(collectives end together); waiting times do not depend on it",
        )
        for rank, ns in skew.iter_rows()
    ]


def transient_notices(activity: Activity) -> list[Notice]:
    """A first collective of a device that lasts ten times the usual: ranks entered the profiled stretch apart."""
    comm = activity.ops.filter((pl.col("activity") == "comm") & (pl.col("dur_ns") > 0)).sort("subject", "start_ns")
    first = comm.group_by("subject", maintain_order=True).agg(pl.all().first())
    others = comm.with_columns(n=pl.int_range(pl.len()).over("subject")).filter(pl.col("n") > 0)
    usual = others.group_by("subject", "name").agg(usual=pl.col("dur_ns").median(), n=pl.len())
    spins = first.join(usual, on=["subject", "name"]).filter(
        (pl.col("n") >= 2) & (pl.col("dur_ns") >= TRANSIENT_FACTOR * pl.col("usual")) & (pl.col("dur_ns") > 1_000_000)
    )
    paths = dict(activity.sources.select("source", "path").iter_rows())
    return [
        Notice(
            "start_transient",
            f"the first {name[:60]} lasted {dur / 1e6:.3f} ms, usually {usual / 1e6:.3f} ms: the ranks entered the "
            "profiled stretch at different times; it says nothing of a straggler",
            1,
            paths[source],
        )
        for source, name, dur, usual in spins.select("source", "name", "dur_ns", "usual").iter_rows()
    ]
