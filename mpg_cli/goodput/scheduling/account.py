"""The account of a fleet: every chip-nanosecond of its capacity, by what the scheduler did with it.

    capacity = allocated as asked + topology violated + partial + suspended + down + drained + leaked + idle by cause

First every node is resolved: what is allocated, then what could not be. What is left idle is then refined pool by pool:
it is charged to what kept the job that was first in line from starting, and to no demand where nobody waited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals, ledger
from mpg_cli.goodput.scheduling import supply

if TYPE_CHECKING:
    from mpg_cli.goodput.scheduling.inventory import Inventory, Window

ALLOCATED = "unobserved"  # allocated as asked: what ran in it is not for schedulers to know
HELD = (ALLOCATED, "topology_violated", "partial", "suspended")
AWAY = ("down", "drained", "leaked")
IDLE = "idle"
# what keeps the first in line from starting is what the idle chips of its pool are charged to
IDLE_CAUSES = {
    "shortage": "shortage", "unavailable": "shortage", "fragmentation": "fragmentation", "topology": "topology",
    "fits": "policy", "limit": "policy", "unplaced": "idle_unexplained",
}  # fmt: skip
_LARGEST = 1 << 61  # chip-ns of a stretch of one pool: well within int64
_IDLE_ORDER = tuple(dict.fromkeys(IDLE_CAUSES.values()))


@dataclass(frozen=True)
class Account:
    """rows: of the ledger, with pool; claimed_ns: chip-time that attempts hold within the window;
    outside_ns: of it, on nodes or at times without known capacity; excess_ns: of it, beyond the chips of its node.
    """

    rows: pl.DataFrame
    claimed_ns: int
    outside_ns: int
    excess_ns: int


def held(used: pl.DataFrame, attempts: pl.DataFrame, ready: pl.DataFrame) -> pl.DataFrame:
    """What attempts hold, by cause: subject, id, start_ns, end_ns, chips, cause.

    attempts: id, violated (bool), suspended_ns; ready: id, start_ns, end_ns: when all parts of the job were there, of
    the attempts that are parts of one. Suspension, of which only the length is known, is put at the end.
    """
    rows = used.join(attempts.select("id", "violated", "suspended_ns"), on="id", how="left")
    stop = pl.max_horizontal("start_ns", col.end_ns - col.suspended_ns.fill_null(0))
    rows = rows.with_columns(
        _stop=stop,
        cause=pl.when(col.violated.fill_null(value=False))
        .then(pl.lit("topology_violated"))
        .otherwise(pl.lit(ALLOCATED)),
    )
    running = rows.select(*_PIECE[:3], end_ns="_stop", chips="chips", cause="cause")
    alone = running.join(ready, on="id", how="anti")
    of_several = running.join(ready, on="id", how="semi")
    suspended = rows.select(
        "subject", "id", start_ns="_stop", end_ns="end_ns", chips="chips", cause=pl.lit("suspended")
    )
    pieces = pl.concat([alone, *_complete(of_several, ready), suspended])
    return pieces.filter(col.start_ns < col.end_ns)


_PIECE = ("subject", "id", "start_ns", "end_ns", "chips", "cause")


def _complete(rows: pl.DataFrame, ready: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows where all parts of their job were there, and where some were missing (partial)."""
    windows = intervals.union(ready, ["id"])
    by = ["subject", "id", "chips"]
    whole = intervals.clip(rows, windows, ["id"]).select(_PIECE)
    rest = intervals.subtract(
        rows.select(*by, "start_ns", "end_ns"), whole.select(*by, "start_ns", "end_ns"), by
    )
    return [whole, rest.with_columns(cause=pl.lit("partial")).select(_PIECE)]


def clipped(rows: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Rows with start_ns and end_ns, cut to the window."""
    cut = rows.with_columns(
        start_ns=pl.max_horizontal("start_ns", pl.lit(window.start_ns)),
        end_ns=pl.min_horizontal("end_ns", pl.lit(window.end_ns)),
    )
    return cut.filter(col.start_ns < col.end_ns)


def chip_time(rows: pl.DataFrame) -> int:
    """Chips times length of rows with start_ns, end_ns and chips, in chip-ns."""
    return int(rows.select(((col.end_ns - col.start_ns).cast(pl.Int128) * col.chips).sum()).item() or 0)


def close(inventory: Inventory, holding: pl.DataFrame, stretches: pl.DataFrame, why: pl.DataFrame) -> Account:
    """The account of the capacity in `inventory`.

    holding: see `held`; stretches: see `supply.per_node`; why: pool, start_ns, end_ns, status: what kept the first in
    line of a pool from starting. All but `why` is cut to the window. Raises LedgerNotClosed if it does not close,
    which is a bug.
    """
    inside = holding
    claims = pl.concat(
        [
            inside.filter(col.subject.is_not_null()).select(
                "subject", "start_ns", "end_ns", "chips", "cause"
            ),
            inventory.unavailable.select("subject", "start_ns", "end_ns", "chips", "cause"),
        ]
    ).with_columns(evidence=pl.lit(None, pl.Int64))
    resolved = ledger.resolve(inventory.capacity, _within_reason(claims), [*HELD, *AWAY], IDLE)
    pools = inventory.nodes.select(subject="node", pool="pool")
    parent = resolved.rows.join(pools, on="subject")
    rows = ledger.refine(parent, IDLE, _idle(pools, stretches, why), key="pool").rows
    ledger.check_closed(rows, chip_time(inventory.capacity))
    claimed = chip_time(inside)
    counted = _held_in(rows)
    excess = _excess(resolved.faults)
    return Account(rows, claimed, max(claimed - counted - excess, 0), excess)


def _within_reason(claims: pl.DataFrame) -> pl.DataFrame:
    """The claims of one subject, cause and interval added up, which is what `resolve` does with them anyway."""
    same = ["subject", "start_ns", "end_ns", "cause"]
    return claims.group_by(same, maintain_order=True).agg(
        col.chips.sum(), evidence=pl.lit(None, pl.Int64).first()
    )


def _held_in(rows: pl.DataFrame) -> int:
    return int(rows.filter(col.cause.is_in(HELD)).select(col.chip_ns.cast(pl.Int128).sum()).item() or 0)


def _excess(faults: pl.DataFrame) -> int:
    """Chip-time claimed beyond the chips of the node by attempts."""
    over = faults.filter(col.cause.is_in(HELD))
    return int(
        over.select(((col.end_ns - col.start_ns) * (col.chips_claimed - col.chips_there)).sum()).item() or 0
    )


def _idle(pools: pl.DataFrame, stretches: pl.DataFrame, why: pl.DataFrame) -> pl.DataFrame:
    """The idle chips of every pool by cause: rows with pool; subject is a stretch of its time."""
    free = stretches.join(pools, on="subject").filter(col.free > 0)
    parts = [
        _chunked(supply.total(rows, "free").filter(col.chips > 0), pool)
        for (pool,), rows in free.group_by("pool", maintain_order=True)
    ]
    if not parts:
        return pl.DataFrame(schema={**ledger.ROW_SCHEMA, "pool": pl.Int64})
    capacity = pl.concat(parts)
    numbers = capacity.select("pool", "chunk").unique(maintain_order=True).with_row_index("subject")
    numbers = numbers.cast({"subject": pl.Int64})
    capacity = capacity.join(numbers, on=["pool", "chunk"], maintain_order="left")
    shape = ("subject", "start_ns", "end_ns", "chips")
    found = ledger.resolve(capacity.select(shape), _claims(why, capacity), _IDLE_ORDER, "no_demand").rows
    return found.with_columns(origin=pl.lit("inferred")).join(numbers.drop("chunk"), on="subject")


def _chunked(capacity: pl.DataFrame, pool: int) -> pl.DataFrame:
    """The chips of a pool over time, cut so that no part of its chip-time is beyond int64: with pool and chunk."""
    most = capacity["chips"].max()
    length = _LARGEST // int(most) if isinstance(most, int) else _LARGEST
    first = capacity["start_ns"].min()
    begin = int(first) if isinstance(first, int) else 0
    last = capacity["end_ns"].max()
    count = (int(last) - begin) // length + 1 if isinstance(last, int) else 1
    chunks = pl.DataFrame(
        {
            "pool": [pool] * count,
            "chunk": list(range(count)),
            "start_ns": [begin + n * length for n in range(count)],
            "end_ns": [begin + (n + 1) * length for n in range(count)],
        }
    )
    return intervals.clip(
        capacity.with_columns(pool=pl.lit(pool, pl.Int64)), chunks, ["pool"], keep=["chunk"]
    )


def _claims(why: pl.DataFrame, capacity: pl.DataFrame) -> pl.DataFrame:
    """The first in line claims all that is idle while it waits."""
    causes = col.status.replace_strict(IDLE_CAUSES, return_dtype=pl.String)
    named = why.select("pool", "start_ns", "end_ns", cause=causes)
    spans = capacity.select("pool", "start_ns", "end_ns", "subject", "chips")
    pieces = intervals.clip(named, spans, ["pool"], keep=["subject", "chips"])
    return pieces.filter(col.start_ns < col.end_ns).with_columns(evidence=pl.lit(None, pl.Int64))


def with_as_asked(attempts: pl.DataFrame, ready: pl.DataFrame) -> pl.DataFrame:
    """The attempts with as_asked_ns: how long each ran with all that it asked for.

    That is without suspension, with all parts of its job there, and with its topology met.
    """
    one = attempts.filter(col.start_ns.is_not_null()).select(
        "id", "start_ns", "end_ns", subject=pl.lit(0, pl.Int64), chips=pl.lit(1, pl.Int64)
    )
    pieces = held(one, attempts, ready).filter(col.cause == ALLOCATED)
    asked = pieces.group_by("id").agg(as_asked_ns=(col.end_ns - col.start_ns).sum())
    met = attempts.join(asked, on="id", how="left", maintain_order="left")
    return met.with_columns(col.as_asked_ns.fill_null(0))


def by_attempt(holding: pl.DataFrame) -> pl.DataFrame:
    """Chip-time that each attempt holds, suspension left out: id, chip_ns."""
    rows = holding.filter(col.cause != "suspended")
    size = (col.end_ns - col.start_ns) * col.chips
    return rows.group_by("id").agg(chip_ns=size.cast(pl.Int128).sum())
