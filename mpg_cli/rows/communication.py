"""Collectives and communicators as rows of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.model import Collective, Communicator

if TYPE_CHECKING:
    import polars as pl

PLAIN = (
    "index", "name", "group", "seq", "matched_by", "transfer_ns", "last_rank", "margin_ns", "bytes", "near_tie",
    "transient", "reason", "late_ns", "hidden_ns", "exposed_ns", "algo_gbps", "bus_gbps",
)  # fmt: skip
COUNTED = (
    "name", "group", "size", "count", "time_ns", "hidden_ns", "exposed_ns", "transfer_ns", "wait_ns", "bytes",
    "bus_gbps", "scope", "reason",
)  # fmt: skip


def collective_rows(summary: pl.DataFrame) -> tuple[Collective, ...]:
    """Rows of `collectives.summarise`, in its order."""
    return tuple(
        Collective(
            wait_ns={str(rank): wait for rank, wait in zip(row["ranks"], row["waits"], strict=True)},
            **{name: row[name] for name in PLAIN},
        )
        for row in summary.iter_rows(named=True)
    )


def communicator_rows(table: pl.DataFrame) -> tuple[Communicator, ...]:
    """Rows of `collectives.communicators`, in its order."""
    return tuple(
        Communicator(
            ranks=tuple(row["ranks"]),
            last={
                str(rank): count
                for rank, count in zip(row["last_ranks"] or (), row["last_counts"] or (), strict=True)
            },
            **{name: row[name] for name in COUNTED},
        )
        for row in table.iter_rows(named=True)
    )
