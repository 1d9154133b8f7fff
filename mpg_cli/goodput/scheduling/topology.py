"""The network as groups of nodes: which leaf a node is in, and whether an allocation spans more than it asked for."""

from __future__ import annotations

import polars as pl
from polars import col


def leaves(topology: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """subject (the node), leaf: the innermost group that each node is in; nodes in none are left out."""
    # without the texts, which as many copies as there are nodes would be made of
    lists = topology.select("cluster", "name", "level", name_of=col.nodes.str.json_decode(pl.List(pl.String)))
    lists = lists.explode("name_of")
    inner = lists.sort("level").unique(["cluster", "name_of"], keep="first", maintain_order=True)
    named = inner.select("cluster", leaf="name", name="name_of")
    met = nodes.select("cluster", "name", subject="node").join(
        named, on=["cluster", "name"], nulls_equal=True
    )
    if met.is_empty():  # a configuration may not name its cluster
        met = nodes.select("name", subject="node").join(named.drop("cluster"), on="name")
    return met.select("subject", "leaf")


def violated(attempts: pl.DataFrame, used: pl.DataFrame, leaf: pl.DataFrame) -> pl.DataFrame:
    """The attempts with `violated`: they span more leaf switches than they asked for, or their record says so.

    used: subject and id, of `inventory.on_nodes`. Null where nothing was asked, or the network is not known.
    """
    spans = used.join(leaf, on="subject").group_by("id").agg(spanned=col.leaf.n_unique().cast(pl.Int64))
    met = attempts.join(spans, on="id", how="left", maintain_order="left")
    wider = (col.spanned > col.switches) & col.start_ns.is_not_null()
    return met.with_columns(violated=pl.coalesce(~col.placed, wider)).drop("spanned")
