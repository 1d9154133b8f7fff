"""Communication by kind and process group: how much, how far computing hides it, who came last, how fast it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.collectives.kinds import (
    POINT_TO_POINT,
    ROOTED,
    bus_factor,
    described,
    message_bytes,
)
from mpg_cli.goodput.collectives.waiting import cut_records
from mpg_cli.goodput.overlaps import covered

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

KEY = ["name", "group", "group_ranks"]
RECORD = (
    "row", "index", "subject", "source", "name", "group", "group_ranks", "group_size", "bytes", "dur_ns", "start_ns",
    "end_ns", "cut_ns",
)  # fmt: skip


def communicators(
    activity: Activity, matched: pl.DataFrame, summary: pl.DataFrame, busy: pl.DataFrame, spans: pl.DataFrame
) -> pl.DataFrame:
    """One row per kind of communication and process group, most time first; columns as in the report.

    name, group, size, ranks (list), count, time_ns, hidden_ns, exposed_ns, transfer_ns, wait_ns, last_ranks and
    last_counts (lists), bytes, bus_gbps, scope, reason. All but the bandwidths is cut to the windows: `spans` has
    subject, start_ns, end_ns. count and bytes are those of one device: with several, of the one with most records, and
    bytes are null where devices differ. `summary` is that of `summarise`.
    """
    records = described_records(activity, matched)
    inside = intervals.clip(records, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    table = _totals(inside, busy)
    found = inside.filter(col("index").is_not_null()).select(*KEY, "index").unique()
    arrivals = found.join(summary.drop("name", "group"), on="index")
    table = table.join(_last(arrivals), on=KEY, how="left", nulls_equal=True)
    table = table.join(_bus(inside, arrivals), on=KEY, how="left", nulls_equal=True)
    table = table.sort("time_ns", *KEY, descending=[True, False, False, False])
    places = _Places(activity.sources)
    notes = [(places.scope(row), _reason(row)) for row in table.iter_rows(named=True)]
    texts = (pl.Series([note[i] for note in notes], dtype=pl.String) for i in range(2))
    return table.with_columns(scope=next(texts), reason=next(texts)).drop("group_ranks", "kernels", "matched")


def described_records(activity: Activity, matched: pl.DataFrame) -> pl.DataFrame:
    """All communication records of some length, with rank, name and the bytes of their message."""
    ranked = activity.subjects.select("subject", "rank")
    records = described(cut_records(activity, matched).filter(col("dur_ns") > 0))
    named = records.join(ranked, on="subject", maintain_order="left")
    sized = named.with_columns(bytes=message_bytes(col("group_size"))).drop("name").rename({"short": "name"})
    return sized.select(*RECORD, "rank").cast({pl.Categorical: pl.String})


def _totals(inside: pl.DataFrame, busy: pl.DataFrame) -> pl.DataFrame:
    """Sums over the devices, and count and bytes of one."""
    hidden = covered(inside, busy.filter(col("activity") == "compute"))
    length, waiting = (
        col("end_ns") - col("start_ns"),
        col("cut_ns").clip("start_ns", "end_ns") - col("start_ns"),
    )
    pieces = inside.with_columns(time_ns=length, hidden_ns=hidden)
    pieces = pieces.with_columns(
        wait_ns=pl.when(col("index").is_not_null()).then(waiting),
        transfer_ns=pl.when(col("index").is_not_null()).then(length - waiting),
    )
    devices = pieces.group_by(*KEY, "subject").agg(
        col("group_size").max(),
        col("rank").first(),
        col("time_ns", "hidden_ns", "wait_ns", "transfer_ns").sum(),
        kernels=pl.len(),
        matched=col("index").count(),
        bytes=pl.when(col("bytes").null_count() == 0).then(col("bytes").sum()),
    )
    known = col("matched").sum() > 0
    alike = col("bytes").n_unique() == 1
    return devices.group_by(KEY).agg(
        size=col("group_size").max(),
        ranks=col("rank").drop_nulls().unique().sort(),
        count=col("kernels").max(),
        time_ns=col("time_ns").sum(),
        hidden_ns=col("hidden_ns").sum(),
        exposed_ns=(col("time_ns") - col("hidden_ns")).sum(),
        transfer_ns=pl.when(known).then(col("transfer_ns").sum()),
        wait_ns=pl.when(known).then(col("wait_ns").sum()),
        bytes=pl.when(alike).then(col("bytes").first()),
        kernels=col("kernels").sum(),
        matched=col("matched").sum(),
    )


def _last(arrivals: pl.DataFrame) -> pl.DataFrame:
    """How often which rank came last."""
    counts = arrivals.group_by(*KEY, "last_rank").len().sort("last_rank")
    return counts.group_by(KEY, maintain_order=True).agg(
        last_ranks="last_rank", last_counts=col("len").cast(pl.Int64)
    )


def _bus(inside: pl.DataFrame, arrivals: pl.DataFrame) -> pl.DataFrame:
    """Bus bandwidth: of matched collectives that of all their bytes over all their transfer time.

    Without any, the highest lower bound: the shortest of equal collectives takes at least as long as its transfer.
    """
    rates = arrivals.filter(col("bus_gbps").is_not_null())
    moved = (col("bus_gbps") * col("transfer_ns")).sum() / col("transfer_ns").sum()
    measured = rates.group_by(KEY).agg(measured=moved)
    bounds = (
        lower_bounds(inside.filter(col("index").is_null())).group_by(KEY).agg(bound=col("bus_gbps").max())
    )
    both = bounds.join(measured, on=KEY, how="full", coalesce=True, nulls_equal=True)
    return both.select(*KEY, bus_gbps=pl.coalesce("measured", "bound"))


def lower_bounds(records: pl.DataFrame) -> pl.DataFrame:
    """Of equal records (name, group, group_ranks, bytes): bus_gbps of the shortest, in GB/s (10^9), a lower bound.

    A record lasts as long as the transfer or longer (waiting for other ranks), so the bandwidth was this or higher.
    """
    shortest = records.group_by(*KEY, "group_size", "bytes").agg(count=pl.len(), dur_ns=col("dur_ns").min())
    rate = col("bytes") / col("dur_ns") * bus_factor(col("group_size"), col("name"))
    return shortest.with_columns(bus_gbps=rate).filter(col("bus_gbps").is_not_null())


def _reason(row: dict[str, Any]) -> str | None:
    """Why transfer and wait are null, or are not of all its time."""
    if row["matched"] == row["kernels"]:
        return None
    if row["matched"]:
        return f"transfer and wait are those of {row['matched']} of {row['kernels']} kernels: the others have no match"
    if _one_sided(row["name"]):
        return "not every rank waits for every other in it, so the shortest duration is no measure of the transfer"
    if len(row["ranks"]) < 2:
        return "one rank alone: how much of it is waiting for others is not known"
    return "its kernels could not be matched over the ranks"


def _one_sided(name: str) -> bool:
    return bool(pl.select(pl.lit(name).str.contains(f"{POINT_TO_POINT}|{ROOTED}")).item())


class _Places:
    """On which nodes the ranks of a group are, as far as the sources say (column node: a node's id, or null)."""

    def __init__(self, sources: pl.DataFrame) -> None:
        node = "node" if "node" in sources.columns else pl.lit(None, pl.String).alias("node")
        self._nodes: dict[int, str | None] = dict(sources.drop_nulls("rank").select("rank", node).iter_rows())
        world = sources["world_size"].max()
        self._world = world if isinstance(world, int) else None

    def scope(self, row: dict[str, Any]) -> str:
        """intra-node, inter-node or unknown. Two nodes are enough to tell; one only with all ranks on it."""
        listed = _listed_ranks(row["group_ranks"])
        members = set(row["ranks"]) | set(listed)
        whole = len(members) == (row["size"] or self._world)
        known = {self._nodes.get(rank) for rank in members}
        if len(known - {None}) > 1:
            return "inter-node"
        return "intra-node" if members and whole and None not in known else "unknown"


def _listed_ranks(text: str | None) -> list[int]:
    """The ranks in a recorded list; PyTorch cuts it at 30 entries ("..."), which is no JSON then."""
    try:
        listed = json.loads(text or "")
    except (ValueError, RecursionError):
        return []
    return [rank for rank in listed if type(rank) is int] if isinstance(listed, list) else []
