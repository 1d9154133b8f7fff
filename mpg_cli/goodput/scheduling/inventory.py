"""What chips there were, node by node, and when they could not be allocated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from polars._typing import PolarsDataType as PolarsType

WHOLE = "(all)"  # the one node of a cluster, or of a type of chips, whose nodes are not known
# what a state of a node is charged to; the accounting counts drained nodes as down
CAUSES = {
    "down": "down", "drained": "down", "draining": "drained", "maintenance": "drained", "reserved": "drained",
}  # fmt: skip
UNTYPED = ""
MOST_PLACES = 20_000_000  # nodes of attempts that are followed one by one: about 10 GB


@dataclass(frozen=True)
class Window:
    """The stretch of time that the account covers, in ns."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Inventory:
    """The chips of a fleet.

    nodes        node (Int64, its number), cluster, name, chips, chip_type, partitions (list), pool (Int64)
    capacity     subject (the node), start_ns, end_ns, chips: when it was there, within the window
    unavailable  subject, start_ns, end_ns, chips, cause (down, drained, leaked)
    placed       the nodes are real ones, so that placement can be judged
    basis        where the capacity is from; "" if it is not known
    """

    nodes: pl.DataFrame
    capacity: pl.DataFrame
    unavailable: pl.DataFrame
    placed: bool
    basis: str
    notices: list[Notice] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether there is any capacity to account for."""
        return bool(self.basis)


def build(
    nodes: pl.DataFrame,
    capacity: pl.DataFrame,
    attempts: pl.DataFrame,
    window: Window,
    given: dict[str, int] | None = None,
) -> Inventory:
    """The inventory from the tables nodes and capacity, or from the chips by type that the user gives.

    attempts: those of the jobs, for which nodes they name. Leaked chips are not in it yet: see `leaks.added`.
    """
    registered = _registered(capacity)
    listed = _listed(nodes)
    by_type = _by_type(registered)
    notices: list[Notice] = []
    if given is not None:
        found, basis = _pseudo(given), "--capacity"
        by_type, placed = by_type.clear(), False
    elif _usable(listed, registered, attempts, notices):
        found, basis, placed = listed, _basis(nodes, registered), True
    elif registered.height or listed.height:
        others = listed.join(registered, on="cluster", how="anti", nulls_equal=True)
        # as many as there ever were of those registered, all of those listed
        parts = _standing_for(by_type, col.chips.max()), _standing_for(others, col.chips.sum())
        found, placed = pl.concat(parts), False
        basis = "the chips registered with the accounting" if registered.height else _basis(nodes, registered)
    else:
        return _unknown(notices)
    found = _with_pools(found)
    there = _there(found, registered if placed else by_type, window)
    unavailable = _unavailable(found, capacity, window, None if placed else listed)
    return Inventory(found, there, unavailable, placed, basis, notices)


def _unknown(notices: list[Notice]) -> Inventory:
    nodes = _with_pools(_pseudo({}))
    empty = pl.DataFrame(schema=_CAPACITY)
    unavailable = pl.DataFrame(schema=UNAVAILABLE)
    return Inventory(nodes, empty, unavailable, placed=False, basis="", notices=notices)


_CAPACITY: dict[str, PolarsType] = {
    "subject": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "chips": pl.Int64,
}
UNAVAILABLE: dict[str, PolarsType] = {**_CAPACITY, "cause": pl.String}
_NODES: dict[str, PolarsType] = {
    "cluster": pl.String,
    "name": pl.String,
    "chips": pl.Int64,
    "chip_type": pl.String,
    "partitions": pl.List(pl.String),
}


def _registered(capacity: pl.DataFrame) -> pl.DataFrame:
    """What the accounting says the clusters had, each stretch once; the next one ends what an older file has open."""
    whole = capacity.filter(col.node.is_null(), col.chips.fill_null(0) > 0, col.start_ns.is_not_null())
    known = whole.sort("cluster", "start_ns", "end_ns", nulls_last=True)
    once = known.unique(["cluster", "start_ns"], keep="first", maintain_order=True)
    return once.with_columns(end_ns=pl.min_horizontal("end_ns", col.start_ns.shift(-1).over("cluster")))


def _listed(nodes: pl.DataFrame) -> pl.DataFrame:
    """Every node once, by what the latest inventory that says it says of it."""
    lists = nodes.with_columns(partitions=col.partitions.str.json_decode(pl.List(pl.String)))
    ranked = lists.sort("at_ns", descending=True, nulls_last=True, maintain_order=True)
    names = ("chips", "chip_type", "partitions")
    once = ranked.group_by("cluster", name="node", maintain_order=True).agg(
        *(col(name).drop_nulls().first() for name in names)
    )
    chips = once.filter(col.chips.fill_null(0) > 0).sort("cluster", "name")
    return chips.select(*_NODES)


def _usable(
    listed: pl.DataFrame, registered: pl.DataFrame, attempts: pl.DataFrame, notices: list[Notice]
) -> bool:
    """Whether the nodes listed are those there were: all that the accounting registered, and all jobs name theirs."""
    if listed.is_empty():
        return False
    totals = listed.group_by("cluster").agg(total=col.chips.sum())
    met = registered.join(totals, on="cluster", how="left", nulls_equal=True)
    other = met.filter(col.chips != col.total.fill_null(0))
    if other.height:
        chips, total = other.select("chips", col.total.fill_null(0)).row(0)
        message = f"{chips} chips are registered with the accounting, but {total} are on the nodes listed"
        notices.append(Notice("capacity_differs", f"{message}: placement is not judged", other.height))
        return False
    started = attempts.filter(col.start_ns.is_not_null(), col.chips > 0)
    places = int(
        started.select(col.nodes.str.count_matches(",", literal=True).fill_null(0).sum()).item() or 0
    )
    if places > MOST_PLACES:
        message = f"attempts are on {places:,} nodes in all, too many to follow: placement is not judged"
        notices.append(Notice("nodes_unknown", message, places))
        return False
    unplaced = started.filter(col.nodes.is_null())
    if unplaced.height:
        message = f"{unplaced.height} attempts do not name their nodes (NodeList): placement is not judged"
        notices.append(Notice("nodes_unknown", message, unplaced.height))
        return False
    return True


def _basis(nodes: pl.DataFrame, registered: pl.DataFrame) -> str:
    count = nodes["node"].n_unique()
    what = f"{count} node{'s' if count != 1 else ''} listed"
    return (
        f"{what}, for as long as registered" if registered.height else f"{what}, taken as there all the time"
    )


def _by_type(registered: pl.DataFrame) -> pl.DataFrame:
    """What was registered by type of chips, where the types always make up the whole: cluster, chip_type, chips, …"""
    rows = []
    for _, stretches in registered.group_by("cluster", maintain_order=True):
        told = [(row, _types(row["chips_by_type"], row["chips"])) for row in stretches.iter_rows(named=True)]
        typed = not any(UNTYPED in kinds for _, kinds in told)
        for row, kinds in told:
            parts = kinds if typed else {UNTYPED: row["chips"]}
            rows += [row | {"chip_type": kind or None, "chips": chips} for kind, chips in parts.items()]
    found = pl.DataFrame(rows, schema={**registered.schema, "chip_type": pl.String})
    return found.select("cluster", "chip_type", "chips", "start_ns", "end_ns").filter(col.chips > 0)


def _standing_for(rows: pl.DataFrame, chips: pl.Expr) -> pl.DataFrame:
    """One node for each cluster and type of chips, with as many as `chips` makes of its rows."""
    whole = rows.group_by("cluster", "chip_type").agg(chips).sort("cluster", "chip_type")
    none = pl.lit(None, pl.List(pl.String))
    return whole.with_columns(name=pl.lit(WHOLE), partitions=none).select(*_NODES)


def _types(text: str | None, chips: int) -> dict[str, int]:
    """Chips by type, from a JSON object that adds up to `chips`; else all of them without a type."""
    try:
        found = {str(kind): int(count) for kind, count in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        found = {}
    return found if sum(found.values()) == chips else {UNTYPED: chips}


def _pseudo(chips: dict[str, int]) -> pl.DataFrame:
    """One node for each type."""
    rows = [
        {"cluster": None, "name": WHOLE, "chips": count, "chip_type": kind or None, "partitions": None}
        for kind, count in sorted(chips.items())
        if count > 0
    ]
    return pl.DataFrame(rows, schema=_NODES)


def _with_pools(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes numbered, with the pool of each: nodes of one type that are in the same partitions."""
    alike = pl.struct("cluster", "chip_type", col.partitions.list.sort().list.join(","))
    pool = alike.rank("dense").cast(pl.Int64) - 1
    return nodes.with_columns(pool=pool).with_row_index("node").cast({"node": pl.Int64})


def _there(nodes: pl.DataFrame, registered: pl.DataFrame, window: Window) -> pl.DataFrame:
    """When each node was there: while its cluster was registered, else all the time.

    registered: by type of chips where a node stands for all of one type, which then has as many as were registered.
    """
    whole = nodes.select("cluster", "chip_type", subject="node", chips="chips")
    begin, end = pl.lit(window.start_ns, pl.Int64), pl.lit(window.end_ns, pl.Int64)
    spans = registered.with_columns(
        start_ns=pl.max_horizontal("start_ns", begin),
        end_ns=pl.min_horizontal(col.end_ns.fill_null(window.end_ns), end),
    ).filter(col.start_ns < col.end_ns)
    by = ["cluster", "chip_type"] if "chip_type" in registered.columns else ["cluster"]
    always = whole.join(registered, on=by, how="anti", nulls_equal=True)
    met = whole.join(spans, on=by, nulls_equal=True, suffix="_then")
    then = "chips_then" if "chip_type" in by else "chips"
    return pl.concat(
        [
            always.with_columns(start_ns=begin, end_ns=end).select(*_CAPACITY),
            met.with_columns(chips=then).select(*_CAPACITY),
        ]
    )


def _unavailable(
    nodes: pl.DataFrame, capacity: pl.DataFrame, window: Window, listed: pl.DataFrame | None
) -> pl.DataFrame:
    """When nodes were down or drained, as the accounting or a table of capacity has it.

    listed: the real nodes, where `nodes` only stand for them.
    """
    causes = col.state.replace_strict(CAUSES, default=None, return_dtype=pl.String)
    down = capacity.filter(col.node.is_not_null()).with_columns(cause=causes).filter(col.cause.is_not_null())
    # of several exports an older one may not know the end yet
    down = down.sort("end_ns", nulls_last=True, maintain_order=True)
    down = down.unique(["cluster", "node", "start_ns", "cause"], keep="first", maintain_order=True)
    if listed is None:
        named = nodes.select("cluster", "node", node_chips="chips", key="name")
        met = down.rename({"node": "key"}).join(named, on=["cluster", "key"], nulls_equal=True)
        met = met.with_columns(subject="node", chips="node_chips")
    else:
        met = _on_pseudo(down, nodes, listed)
    clipped = met.with_columns(
        start_ns=pl.max_horizontal(col.start_ns.fill_null(window.start_ns), pl.lit(window.start_ns)),
        end_ns=pl.min_horizontal(col.end_ns.fill_null(window.end_ns), pl.lit(window.end_ns)),
    )
    return clipped.filter(col.start_ns < col.end_ns, col.chips > 0).select(*UNAVAILABLE)


def _on_pseudo(down: pl.DataFrame, nodes: pl.DataFrame, listed: pl.DataFrame) -> pl.DataFrame:
    """Nodes that are down, on the one that stands for all of their type; what a row does not state, the list does."""
    known = listed.select("cluster", "chip_type", node="name", chips_listed="chips")
    met = down.join(known, on=["cluster", "node"], how="left", nulls_equal=True, maintain_order="left")
    stated = met.with_columns(
        chips=pl.coalesce("chips", "chips_listed"),
        chip_type=pl.coalesce(col.chips_by_type.str.extract(r'^\{"([^"]+)": ?\d+\}$', 1), "chip_type"),
    )
    return _to_pseudo(stated.filter(col.chips.is_not_null()), nodes)


def _to_pseudo(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """`rows` (cluster, chip_type, …) with the number of the node that stands for their type, or for all types.

    What does not state its type is of the only one that there is.
    """
    key = col.cluster if nodes["cluster"].null_count() < nodes.height else pl.lit(None, pl.String)
    kinds = nodes.select(_of=key, kind=col.chip_type.fill_null(UNTYPED), subject="node")
    only = kinds.filter(pl.len().over("_of") == 1).select("_of", only="kind")
    whole = kinds.filter(col.kind == UNTYPED).select("_of", whole="subject")
    met = rows.with_columns(_of=key)
    for other in (only, whole):
        met = met.join(other, on="_of", how="left", nulls_equal=True, maintain_order="left")
    met = met.with_columns(kind=pl.coalesce("chip_type", "only", pl.lit(UNTYPED)))
    met = met.join(kinds, on=["_of", "kind"], how="left", nulls_equal=True, maintain_order="left")
    return met.with_columns(subject=pl.coalesce("subject", "whole"))


def on_nodes(attempts: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """One row for each node of each attempt ever started: subject (the node), id, start_ns, end_ns, chips, open.

    The chips of an attempt are spread over its nodes as the file says, else evenly, the first ones taking the rest.
    A node that is not listed has no number.
    """
    started = attempts.filter(col.start_ns.is_not_null(), col.chips > 0)
    # without the texts, of which as many copies would be made as there are nodes
    names = col.nodes.str.json_decode(pl.List(pl.String))
    lists = started.select("id", "cluster", "start_ns", "end_ns", "chips", "open", name=names)
    many = col.name.list.len()
    spread = (
        lists.filter(many > 0)
        .with_columns(many=many.cast(pl.Int64), nth=pl.int_ranges(0, many))
        .explode("name", "nth")
        .with_columns(chips=col.chips // col.many + (col.nth < col.chips % col.many).cast(pl.Int64))
    )
    numbers = nodes.select("cluster", "name", subject="node")
    met = _as_stated(spread, started).join(
        numbers, on=["cluster", "name"], how="left", nulls_equal=True, maintain_order="left"
    )
    return met.filter(col.chips > 0).select("subject", "id", "start_ns", "end_ns", "chips", "open")


def on_types(attempts: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """The same where one node stands for all of a type: one row for each attempt and type of chips."""
    started = attempts.filter(col.start_ns.is_not_null(), col.chips > 0)
    mixed = started.filter(col.chip_type.is_null() & col.chips_by_type.is_not_null())
    parts = [
        {"id": row, "chip_type": kind or None, "chips": count}
        for row, text, chips in mixed.select("id", "chips_by_type", "chips").iter_rows()
        for kind, count in _types(text, chips).items()
    ]
    split = pl.DataFrame(parts, schema={"id": pl.Int64, "chip_type": pl.String, "chips": pl.Int64})
    keys = ("cluster", "id", "start_ns", "end_ns", "open")
    whole = started.join(mixed, on="id", how="anti").select(*keys, "chip_type", "chips")
    both = pl.concat([whole, mixed.select(*keys).join(split, on="id")])
    return _to_pseudo(both, nodes).select("subject", "id", "start_ns", "end_ns", "chips", "open")


def _as_stated(spread: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """The chips that the file states for the node, where it states them."""
    told = attempts.filter(col.chips_by_node.is_not_null())
    if told.is_empty():
        return spread
    rows = [
        (row, name, count)
        for row, text in told.select("id", "chips_by_node").iter_rows()
        for name, count in json.loads(text).items()
    ]
    stated = pl.DataFrame(rows, schema={"id": pl.Int64, "name": pl.String, "stated": pl.Int64}, orient="row")
    met = spread.join(stated, on=["id", "name"], how="left", maintain_order="left")
    return met.with_columns(chips=pl.coalesce("stated", "chips")).drop("stated")
