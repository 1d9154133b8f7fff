"""Free chips of every node over time: capacity less what is allocated, down, drained or leaked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from mpg_cli.goodput.scheduling.inventory import Inventory

_CHANGES = ("there", "used", "away")


def per_node(inventory: Inventory, used: pl.DataFrame) -> pl.DataFrame:
    """A row for each stretch in which a node does not change: subject, start_ns, end_ns, free, away.

    used: subject, start_ns, end_ns, chips. free: chips that can be allocated; away: those of the rest that are not
    allocated because they are down, drained or leaked. Sorted by subject and time.
    """
    changes = pl.concat(
        [
            _changes(inventory.capacity, "there"),
            _changes(used.filter(col.subject.is_not_null()), "used"),
            _changes(inventory.unavailable, "away"),
        ],
        how="diagonal",
    ).with_columns(col(_CHANGES).fill_null(0))
    # a subject's changes add up to zero, so that one running sum over all of them is right for each
    at = changes.sort("subject", "at").with_columns(col(_CHANGES).cum_sum(), end_ns=col.at.shift(-1))
    at = at.filter((col.subject == col.subject.shift(-1)) & (col.at < col.end_ns))
    left = (col.there - col.used).clip(0)
    away = pl.min_horizontal("away", left)
    rows = at.filter(col.end_ns.is_not_null(), col.there > 0)
    return rows.select("subject", start_ns="at", end_ns="end_ns", free=left - away, away=away)


def _changes(rows: pl.DataFrame, what: str) -> pl.DataFrame:
    solid = rows.filter(col.start_ns < col.end_ns)
    begin = solid.select("subject", col.chips.alias(what), at="start_ns")
    end = solid.select("subject", (0 - col.chips).alias(what), at="end_ns")
    return pl.concat([begin, end])


def total(stretches: pl.DataFrame, value: str) -> pl.DataFrame:
    """The sum of `value` over all subjects of `stretches`, by time: start_ns, end_ns, chips."""
    deltas = pl.concat(
        [
            stretches.select(at="start_ns", delta=value),
            stretches.select(at="end_ns", delta=0 - col(value)),
        ]
    )
    sums = deltas.sort("at").with_columns(chips=col.delta.cum_sum(), end_ns=col.at.shift(-1))
    return sums.filter(col.at < col.end_ns).select(start_ns="at", end_ns="end_ns", chips="chips")
