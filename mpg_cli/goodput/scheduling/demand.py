"""What waiting jobs ask for, and whether the free chips could have held it, over time.

Jobs that ask for the same chips of the same nodes are one class: whether they fit is worked out once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.ledger import join_touching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.goodput.scheduling.inventory import Inventory

# what keeps a class from starting; fits: nothing of this kind
STATUSES = ("hold", "limit", "shortage", "unavailable", "fragmentation", "topology", "fits", "unplaced")
# reasons that begin so are limits that somebody set; they are checked before chips are looked for, and a scheduler
# passes over what they hold
LIMITS = (
    "qos",
    "assoc",
    "maxper",
    "partitiontimelimit",
    "partitionnodelimit",
    "licenses",
    "reservation",
    "group",
)
MAX_SWITCH_WAIT_NS = 300 * 10**9
SEGMENTS = {"class": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "status": pl.String}


def classify(waits: pl.DataFrame, inventory: Inventory) -> pl.DataFrame:
    """`waits` with the number of the class of each; null for those that ask for no chips, or whose pools are unknown.

    Adds: class, pools (text: the numbers of the pools it may run in), need (chips), nodes_asked (how many it must be
    spread over), each (chips on each of them) and limited (the reason recorded is a limit).
    """
    asked = waits.with_columns(need=pl.coalesce("chips_requested", "chips").fill_null(0))
    where = asked.select("cluster", "partition", "chip_type").unique()
    pools = [_pools(inventory.nodes, *row) for row in where.iter_rows()]
    where = where.with_columns(
        pools=pl.Series([",".join(map(str, found)) for found, _ in pools], dtype=pl.String),
        largest=pl.Series([largest for _, largest in pools], dtype=pl.Int64),
    )
    asked = asked.join(where, on=["cluster", "partition", "chip_type"], how="left", nulls_equal=True)
    least = -(-col.need // col.largest)
    nodes = pl.max_horizontal(col.node_count.fill_null(1).clip(1), least)
    # a pod runs on one node, however much it asks for
    nodes = pl.when(col.kind == "pod").then(1).otherwise(nodes)
    asked = asked.with_columns(nodes_asked=nodes, each=-(-col.need // nodes), limited=_limited())
    known = (col.need > 0) & (col.pools != "")
    number = pl.struct("pools", "need", "nodes_asked", "switches", "limited").rank("dense").cast(pl.Int64) - 1
    return asked.with_columns(pl.when(known).then(number).alias("class"))


def after_switches(waits: pl.DataFrame) -> pl.DataFrame:
    """The waits that go on after their wish for few switches has run out, from then on and without it.

    waits: see `classify`. Slurm lets a job wait for its switches for the time it says, but no longer than
    max_switch_wait, which is five minutes where nobody changed it. The classes are new ones.
    """
    longest = pl.min_horizontal(
        col.switches_wait_ns.fill_null(MAX_SWITCH_WAIT_NS), pl.lit(MAX_SWITCH_WAIT_NS)
    )
    wish = waits.filter(col.switches.is_not_null(), col("class").is_not_null(), ~col.limited)
    rows = wish.with_columns(eligible_ns=col.eligible_ns + longest, switches=pl.lit(None, pl.Int64))
    most = waits["class"].max()
    number = pl.struct("pools", "need", "nodes_asked").rank("dense").cast(pl.Int64)
    rows = rows.filter(col.eligible_ns < col.until_ns)
    return rows.with_columns((number + (most if isinstance(most, int) else 0)).alias("class"))


def _limited() -> pl.Expr:
    plain = col.reason.str.to_lowercase()
    return pl.any_horizontal(plain.str.starts_with(word) for word in LIMITS).fill_null(value=False)


def _pools(
    nodes: pl.DataFrame, cluster: str | None, partition: str | None, chip_type: str | None
) -> tuple[list[int], int]:
    """The pools that a job of this partition and type may run in, and the chips of their largest node."""
    found = (
        nodes
        if nodes["cluster"].null_count() == nodes.height
        else nodes.filter(col.cluster.eq_missing(pl.lit(cluster)))
    )
    if partition and found["partitions"].null_count() < found.height:
        wanted = partition.split(",")
        inside = col.partitions.list.eval(pl.element().is_in(wanted)).list.any()
        members = found.filter(inside.fill_null(value=True))
        # a name that no node is in, such as a flavour of Kueue's, says nothing of them
        found = found if members.is_empty() else members
    if chip_type and found["chip_type"].null_count() < found.height:
        found = found.filter((col.chip_type == chip_type).fill_null(value=True))
    largest = found["chips"].max()
    return sorted(found["pool"].unique()), int(largest) if isinstance(largest, int) else 1


def timelines(
    waits: pl.DataFrame, stretches: pl.DataFrame, inventory: Inventory, leaves: pl.DataFrame
) -> pl.DataFrame:
    """What keeps each class from starting, while any of it waits: class, start_ns, end_ns, status.

    waits: class, pools, need, nodes_asked, each, switches, eligible_ns, until_ns; stretches: see `supply.per_node`;
    leaves: subject, leaf (the innermost group of the network that the node is in).
    """
    classes = waits.filter(col("class").is_not_null()).group_by("class", maintain_order=True).agg(
        *(col(name).first() for name in ("pools", "need", "nodes_asked", "each", "switches", "limited")),
        since=col.eligible_ns.min(), until=col.until_ns.max(),
    )  # fmt: skip
    parts = [pl.DataFrame(schema=SEGMENTS)]
    for (pools,), alike in classes.group_by("pools", maintain_order=True):
        wanted = [int(pool) for pool in str(pools).split(",")]
        members = inventory.nodes.filter(col.pool.is_in(wanted))
        rows = stretches.join(members.select(subject="node"), on="subject", how="semi")
        steps = _steps(rows, leaves)
        for (each,), same in alike.group_by("each", maintain_order=True):  # at once they would be too wide
            switches = same["switches"].max()
            wide = _wide(
                steps, int(str(each)), switches if isinstance(switches, int) and leaves.height else None
            )
            parts += [_of_class(wide, one, placed=inventory.placed) for one in same.iter_rows(named=True)]
    return pl.concat(parts)


def _steps(rows: pl.DataFrame, leaves: pl.DataFrame) -> pl.DataFrame:
    """What becomes free (sign 1) and what no longer is (-1): at, sign, free, away, leaf (a number), by time."""
    met = rows.join(leaves, on="subject", how="left").with_columns(col.leaf.rank("dense").cast(pl.Int64))
    kept = ("free", "away", "leaf")
    begin = met.select(*kept, at="start_ns", sign=pl.lit(1, pl.Int64))
    end = met.select(*kept, at="end_ns", sign=pl.lit(-1, pl.Int64))
    return pl.concat([begin, end]).sort("at")


def _wide(steps: pl.DataFrame, each: int, switches: int | None) -> pl.DataFrame:
    """By time: free and away chips of the nodes, and how many nodes have as many free as a class needs on each.

    Columns n4: nodes with at least 4 chips free; l4: a list of that for each leaf, largest first, where some want to
    be under few `switches`: only the largest where all want one.
    """
    enough = pl.when(col.free >= each).then("sign").otherwise(0)
    # where none of the nodes is under a known switch, none is together with another: 0 stands for no leaf
    leaves = (sorted(steps["leaf"].drop_nulls().unique()) or [0]) if switches is not None else []
    inside = {f"_{leaf}": pl.when(col.leaf == leaf).then(enough).otherwise(0) for leaf in leaves}
    wide = steps.select(
        (col.free * col.sign).cum_sum(),
        (col.away * col.sign).cum_sum(),
        enough.cum_sum().alias(f"n{each}"),
        *(value.cast(pl.Int32).cum_sum().alias(name) for name, value in inside.items()),
        start_ns="at",
        end_ns=col.at.shift(-1),
    ).filter(col.start_ns < col.end_ns)
    if not leaves:
        return wide
    most = pl.concat_list(pl.max_horizontal(list(inside)))
    every = pl.concat_list(list(inside)).list.sort(descending=True)
    listed = (every if (switches or 1) > 1 else most).alias(f"l{each}")
    return wide.with_columns(listed).drop(list(inside))


def _of_class(wide: pl.DataFrame, one: dict[str, int], *, placed: bool) -> pl.DataFrame:
    """The segments of one class, as long as any of it waits."""
    if one["limited"]:
        whole = {"class": one["class"], "start_ns": one["since"], "end_ns": one["until"], "status": "limit"}
        return pl.DataFrame([whole], schema=SEGMENTS)
    rows = wide.filter(col.end_ns > one["since"], col.start_ns < one["until"])
    status = _status(wide.columns, one, placed=placed)
    pieces = rows.select("start_ns", "end_ns", status=status)
    return join_touching(pieces, ["status"]).select(
        pl.lit(one["class"], pl.Int64).alias("class"), "start_ns", "end_ns", "status"
    )


def _status(columns: Sequence[str], one: dict[str, int], *, placed: bool) -> pl.Expr:
    """What keeps a class from starting; the first that does counts."""
    need, nodes, each, switches = (one[name] for name in ("need", "nodes_asked", "each", "switches"))
    short = pl.when(col.free + col.away >= need).then(pl.lit("unavailable")).otherwise(pl.lit("shortage"))
    found = pl.lit("fits" if placed else "unplaced")
    if placed and switches is not None and f"l{each}" in columns:
        within = col(f"l{each}").list.head(max(switches, 1)).list.sum()
        found = pl.when(within < nodes).then(pl.lit("topology")).otherwise(found)
    if placed:
        found = pl.when(col(f"n{each}") < nodes).then(pl.lit("fragmentation")).otherwise(found)
    return pl.when(col.free < need).then(short).otherwise(found)


def first_in_line(waits: pl.DataFrame) -> pl.DataFrame:
    """Who was first in line in each pool, over time: pool, start_ns, end_ns, id, class.

    waits: id, class, pools, limited, priority, submit_ns, eligible_ns, until_ns. First is the highest priority, then
    the earliest submission, and last what a limit holds; a job that may run in several pools is in the line of each.
    """
    lined = waits.filter(col("class").is_not_null(), col.pools != "", col.eligible_ns < col.until_ns)
    order = {"limited": False, "priority": True, "submit_ns": False, "id": False}
    ranked = lined.sort(list(order), descending=list(order.values()), nulls_last=True)
    ranked = ranked.with_row_index("rank").with_columns(pool=col.pools.str.split(",")).explode("pool")
    ranked = ranked.with_columns(col.pool.cast(pl.Int64)).sort("eligible_ns")
    parts = [
        pl.DataFrame(schema={"pool": pl.Int64, "rank": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})
    ]
    for (pool,), line in ranked.group_by("pool", maintain_order=True):
        found = _sweep(line.select("eligible_ns", "rank", "until_ns"))
        parts.append(found.select(pl.lit(pool, pl.Int64).alias("pool"), "rank", "start_ns", "end_ns"))
    who = ranked.select("rank", "id", "class").unique("rank")
    return pl.concat(parts).join(who, on="rank").drop("rank").sort("pool", "start_ns")


def _sweep(line: pl.DataFrame) -> pl.DataFrame:
    """The stretches in which each is first, of waits sorted by when they begin."""
    from heapq import heappop, heappush

    begins, over = line["eligible_ns"].to_list(), line["until_ns"].to_list()
    arrived = line["rank"].to_list()
    until_of = dict(zip(arrived, over, strict=True))
    heap = list[int]()  # ranks alone: Python need not look through a million pairs for garbage
    ranks, starts, ends = list[int](), list[int](), list[int]()

    def serve(now: int, until: int) -> None:
        while heap and now < until:
            rank = heap[0]
            stop = min(until_of[rank], until)
            if stop <= now:
                heappop(heap)
                continue
            if ranks and ranks[-1] == rank and ends[-1] == now:
                ends[-1] = stop
            else:
                ranks.append(rank)
                starts.append(now)
                ends.append(stop)
            now = stop

    last = 0
    for begin, rank in zip(begins, arrived, strict=True):
        serve(last, begin)
        heappush(heap, rank)
        last = begin
    serve(last, 1 << 62)
    data = {"rank": ranks, "start_ns": starts, "end_ns": ends}
    return pl.DataFrame(data, schema={"rank": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})
