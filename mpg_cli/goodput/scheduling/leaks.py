"""Chips that the scheduler believes to be in use, though nothing runs on them: they can be given to no job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling.inventory import UNAVAILABLE, on_nodes

if TYPE_CHECKING:
    from mpg_cli.goodput.scheduling.inventory import Inventory, Window

SECOND = 10**9
NEAR = 5 * SECOND  # between the end of a job and the message that its chips could not be given back


def added(
    inventory: Inventory, listed: pl.DataFrame, events: pl.DataFrame, attempts: pl.DataFrame, window: Window
) -> Inventory:
    """The inventory with leaked chips among what was unavailable, where its nodes are known.

    listed: rows of the table nodes, whose counts of chips in use are taken before the log's word; events: of the
    controller's log; attempts: of the jobs.
    """
    if not inventory.placed:
        return inventory
    counted = _counted(inventory.nodes, listed)
    told = events.filter(col.event == "leak", col.raw_id.is_not_null())
    if counted.is_empty() and told.is_empty():
        return inventory
    used = on_nodes(attempts, inventory.nodes)
    logged = _by_log(_on_nodes(inventory.nodes, told), used, attempts, window)
    unseen = logged.join(counted, on="subject", how="anti")
    leaked = pl.concat([_by_inventory(counted, used, window), unseen])
    return replace(inventory, unavailable=pl.concat([inventory.unavailable, leaked]))


def _counted(nodes: pl.DataFrame, listed: pl.DataFrame) -> pl.DataFrame:
    """What the latest inventory counts as in use: subject, chips_allocated, last_busy_ns, at_ns."""
    latest = listed.filter(col.chips_allocated.is_not_null()).sort("at_ns", nulls_last=False)
    latest = latest.unique(["cluster", "node"], keep="last", maintain_order=True)
    return nodes.select("cluster", "name", subject="node").join(
        latest.rename({"node": "name"}), on=["cluster", "name"], nulls_equal=True
    )


def _by_inventory(counted: pl.DataFrame, used: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Chips counted as in use where less runs: from when something last ran or began there, up to the inventory.

    Of a node on which nothing is known to have run, nobody knows since when: nothing is charged.
    """
    running = used.filter(col.open).group_by("subject").agg(running=col.chips.sum(), begun=col.start_ns.max())
    last = used.filter(~col.open).group_by("subject").agg(over=col.end_ns.max())
    rows = counted.join(running, on="subject", how="left").join(last, on="subject", how="left")
    rows = rows.with_columns(
        chips=col.chips_allocated - col.running.fill_null(0),
        start_ns=pl.max_horizontal("last_busy_ns", "over", "begun"),
        cause=pl.lit("leaked"),
        end_ns=pl.min_horizontal(pl.coalesce("at_ns", pl.lit(window.end_ns)), pl.lit(window.end_ns)),
    )
    return rows.filter(col.chips > 0, col.start_ns < col.end_ns).select(*UNAVAILABLE)


def _on_nodes(nodes: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """The messages by node: subject, raw_id, ts_ns."""
    lists = told.with_columns(name=col.nodes.str.json_decode(pl.List(pl.String))).explode("name")
    numbers = nodes.select("cluster", "name", subject="node")
    met = lists.join(numbers, on=["cluster", "name"], nulls_equal=True)
    return met.select("subject", "raw_id", "ts_ns").unique(maintain_order=True)


def _by_log(told: pl.DataFrame, used: pl.DataFrame, attempts: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Chips of a job that could not be given back at its end: until the node is used again, for all that is known."""
    named = used.join(attempts.select("id", "raw_id"), on="id")
    ended = told.join(named, on=["subject", "raw_id"]).filter((col.ts_ns - col.end_ns).abs() <= NEAR)
    begun = used.select("subject", again="start_ns").sort("again")
    since = ended.with_columns(at=pl.max_horizontal("ts_ns", "end_ns")).sort("at")
    met = since.join_asof(
        begun, left_on="at", right_on="again", by="subject", strategy="forward", check_sortedness=False
    )
    rows = met.with_columns(
        start_ns="at",
        cause=pl.lit("leaked"),
        end_ns=pl.min_horizontal(col.again.fill_null(window.end_ns), pl.lit(window.end_ns)),
    )
    whole = rows.unique(["subject", "start_ns"], keep="first", maintain_order=True)
    return whole.filter(col.start_ns < col.end_ns).select(*UNAVAILABLE)
