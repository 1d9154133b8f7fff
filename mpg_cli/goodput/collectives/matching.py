"""Collectives across ranks: transfer and waiting, without aligning clocks.

All ranks leave a collective together, so the rank that is in it for the shortest time came last, and that
time is the transfer; what another rank spends beyond it is waiting. That is true where every rank needs the
data of every other, so point-to-point transfers and rooted collectives (broadcast, reduce, gather, scatter)
are left out. Records are matched by process group and sequence number where both are recorded, else by order
within (group, name); where that is a guess, there is no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.collectives.kinds import described, message_bytes
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

RECORD = (
    "row", "source", "subject", "stream", "start_ns", "end_ns", "name", "collective", "linked_op", "group",
    "group_ranks", "group_size", "seq", "in_elements", "element_type",
)  # fmt: skip
NOTABLE_SKEW_NS = 1_000_000


def match(activity: Activity) -> tuple[pl.DataFrame, list[Notice]]:
    """One row per collective and rank, by index and rank; none unless at least two ranks are known.

    Columns index, short (the collective's name), group, seq, matched_by, rank, subject, start_ns, end_ns, dur_ns,
    transfer_ns, wait_ns, size (ranks in the group, null if unknown), bytes (this rank's message as nccl-tests define
    it, null if unknown), rows (numbers of the rank's records in `activity.ops`).

    index numbers the collectives in the order of the lowest rank that took part, on its own clock.
    """
    keyed, several = _one_device_per_rank(_with_place(_records(activity)))
    sequenced, cut = _complete(keyed.filter(matched_by="sequence"))
    ordered, uneven = _even(keyed.filter(matched_by="order"))
    ordered, apart = _ending_together(_hulls(ordered))
    notices = _notices(
        (several, "ranks communicate on several devices: the collectives of their groups were not matched"),
        (cut, "collectives are not recorded on exactly the ranks of their group and were left out"),
        (uneven, "kinds of collectives occur a different number of times on the ranks and were not matched"),
        (apart, "kinds of collectives end at unrelated times on the ranks and were not matched by order"),
    )
    world = activity.sources["world_size"].max()
    measured = _measure(pl.concat([_hulls(sequenced), ordered]), world if isinstance(world, int) else None)
    return measured, notices + _clock_notices(measured)


def _notices(*found: tuple[int, str]) -> list[Notice]:
    return [Notice("unmatched_events", f"{count} {what}", count) for count, what in found if count]


def _records(activity: Activity) -> pl.DataFrame:
    """Communication kernels in which every rank waits for every other, of devices whose rank is known."""
    ranked = activity.subjects.filter(col("rank").is_not_null()).select("subject", "rank")
    ops = activity.ops.with_row_index("row").filter((col("activity") == "comm") & (col("dur_ns") > 0))
    if "hlo" in ops.columns:
        ops = ops.filter(col("hlo").is_null() | col("group").is_not_null())  # all devices take part
    records = described(ops.select(RECORD).join(ranked, on="subject", maintain_order="left"))
    return records.filter("mutual").drop("mutual", "name", "collective", "linked_op")


def _with_place(records: pl.DataFrame) -> pl.DataFrame:
    """Records with matched_by, members and key (numbers: what they are matched within) and place (number in it)."""
    sequenced = col("seq").is_not_null() & col("group").is_not_null()
    flagged = records.with_columns(sequenced=sequenced)
    group, texts = ["group", "group_ranks"], ["group", "group_ranks", "short", "sequenced"]
    kinds = flagged.select(texts).unique(maintain_order=True).with_row_index("key")
    groups = kinds.select(group).unique(maintain_order=True).with_row_index("members")
    by = pl.when("sequenced").then(pl.lit("sequence")).otherwise(pl.lit("order"))
    kinds = kinds.join(groups, on=group, nulls_equal=True).with_columns(matched_by=by)
    keyed = flagged.join(kinds, on=texts, nulls_equal=True).sort("rank", "start_ns", "stream", "end_ns")
    order = pl.int_range(pl.len()).over("key", "rank")
    return keyed.with_columns(place=pl.when("sequenced").then("seq").otherwise(order))


def _one_device_per_rank(keyed: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records of groups in which every rank uses one device, and how many ranks use several.

    With several it is not known which kernels belong together.
    """
    several = col("subject").n_unique().over("members", "rank") > 1
    ranks = keyed.filter(several)["rank"].n_unique()
    return keyed.filter(~several.any().over("members")), ranks


def _complete(records: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records of collectives that every known rank of the group took part in, and how many others.

    The members known are the ranks with any record of the group. More ranks than its stated size are none.
    """
    of = ["key", "place"]
    members, present = col("rank").n_unique().over("members"), col("rank").n_unique().over(of)
    fits = (present <= col("group_size").max().over("members")).fill_null(value=True)
    shared = records.filter(members > 1)
    whole = shared.filter((present == members) & fits)
    return whole, shared.select(of).n_unique() - whole.select(of).n_unique() if shared.height else 0


def _even(records: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records whose key occurs equally often on several ranks, and how many keys do not."""
    counts = records.group_by("key", "rank").len().group_by("key").agg(col("len").n_unique(), ranks=pl.len())
    shared = counts.filter(col("ranks") > 1)
    even = shared.filter(col("len") == 1)
    return records.join(even, on="key", how="semi"), shared.height - even.height


def _hulls(records: pl.DataFrame) -> pl.DataFrame:
    """One row per collective and rank: of several kernels of one rank for one collective the hull counts."""
    first = ("short", "group", "seq", "matched_by", "subject", "group_size", "in_elements", "element_type")
    return records.group_by("key", "place", "rank", maintain_order=True).agg(
        col(first).first(), col("start_ns").min(), col("end_ns").max(), rows=col("row")
    )


def _ending_together(hulls: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The hulls whose order agrees with their ends, and how many keys do not.

    Ends of one collective differ between two ranks by the difference of their clocks, which is constant; the
    n-th collectives of two unrelated groups end at unrelated times.
    """
    reference = hulls.sort("rank").group_by("key", "place").agg(base_ns=col("end_ns").first())
    ends = hulls.join(reference, on=["key", "place"]).with_columns(delta=col("end_ns") - col("base_ns"))
    deviation = (col("delta") - col("delta").median().over("key", "rank")).abs()
    spread = ends.with_columns(deviation=deviation).group_by("key", "rank").agg(col("deviation").median())
    apart = spread.filter(col("deviation") > NOTABLE_SKEW_NS).select("key").unique()
    return hulls.join(apart, on="key", how="anti", maintain_order="left"), apart.height


def _measure(hulls: pl.DataFrame, world: int | None) -> pl.DataFrame:
    """Every rank's transfer, wait and message.

    Where a group's size is not recorded it is known only of a collective in which the whole job took part.
    """
    of = ["key", "place"]
    timed = hulls.with_columns(dur_ns=col("end_ns") - col("start_ns"))
    full = timed.with_columns(
        transfer_ns=col("dur_ns").min().over(of), wait_ns=col("dur_ns") - col("dur_ns").min().over(of)
    )
    everyone = pl.when(pl.len().over(of) == pl.lit(world, pl.Int64)).then(pl.lit(world, pl.Int64))
    full = full.with_columns(size=pl.coalesce("group_size", everyone))
    full = full.with_columns(bytes=message_bytes(col("size")))
    full = full.drop("group_size", "in_elements", "element_type")
    first = full.sort("rank").unique(of, keep="first").sort("rank", "start_ns", *of).select(of)
    return full.join(first.with_row_index("index"), on=of).sort("index", "rank")


def _clock_notices(measured: pl.DataFrame) -> list[Notice]:
    """Ranks whose clock differs from the first rank's: collectives end everywhere at about the same time."""
    if measured.is_empty():
        return []
    base = min(measured["rank"])
    reference = measured.filter(col("rank") == base).select("index", base_end="end_ns")
    skew = (
        measured.join(reference, on="index")
        .group_by("rank")
        .agg(skew=(col("end_ns") - col("base_end")).median())
        .filter(col("skew").abs() >= NOTABLE_SKEW_NS)
        .sort("rank")
    )
    return [
        Notice(
            "clock_skew",
            f"rank {rank}'s clock is {abs(ns) / 1e6:.3f} ms {'ahead of' if ns > 0 else 'behind'} rank "
            f"{base}'s (collectives end together); waiting times do not depend on it",
        )
        for rank, ns in skew.iter_rows()
    ]
