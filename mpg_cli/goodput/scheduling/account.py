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
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.goodput.scheduling.inventory import Inventory, Window

ALLOCATED = "unobserved"  # allocated as asked: what ran in it is not for schedulers to know
HELD = (ALLOCATED, "topology_violated", "partial", "suspended")
AWAY = ("down", "drained", "leaked")
IDLE = "idle"
# what keeps the first in line from starting is what the idle chips of its pool are charged to
IDLE_CAUSES = {
    "shortage": "shortage", "unavailable": "shortage", "fragmentation": "fragmentation", "topology": "topology",
    "fits": "policy", "limit": "policy", "hold": "policy", "unplaced": "idle_unexplained",
}  # fmt: skip
_LARGEST = 1 << 61  # chip-ns of a stretch of one subject: well within int64
_CHUNKS = 1 << 15  # stretches of one subject at most
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


def counted_twice(attempts: pl.DataFrame) -> pl.DataFrame:
    """What the record of a resized job has of the time before, which the first record has too: for `chip_time`."""
    again = attempts.filter(col.resized, col.recorded_start_ns < col.start_ns)
    return again.select("chips", "job", start_ns="recorded_start_ns", end_ns="start_ns")


def close(
    inventory: Inventory,
    holding: pl.DataFrame,
    stretches: pl.DataFrame,
    why: pl.DataFrame,
    rest: str = "no_demand",
) -> Account:
    """The account of the capacity in `inventory`.

    holding: see `held`; stretches: see `supply.per_node`; why: pool, start_ns, end_ns, status: what kept the first in
    line of a pool from starting; rest: the cause of idle time with nobody in line. All but `why` is cut to the window.
    Raises LedgerNotClosed if it does not close, which is a bug.
    """
    claims = pl.concat(
        [
            holding.filter(col.subject.is_not_null()).select(
                "subject", "start_ns", "end_ns", "chips", "cause"
            ),
            inventory.unavailable.select("subject", "start_ns", "end_ns", "chips", "cause"),
        ]
    ).with_columns(evidence=pl.lit(None, pl.Int64))
    resolved = _resolved(inventory.capacity, _added_up(claims), (*HELD, *AWAY), IDLE)
    pools = inventory.nodes.select(subject="node", pool="pool")
    parent = resolved.rows.join(pools, on="subject")
    rows = ledger.refine(parent, IDLE, _idle(pools, stretches, why, rest), key="pool").rows
    ledger.check_closed(rows, chip_time(inventory.capacity))
    claimed, excess = chip_time(holding), _excess(resolved.faults)
    return Account(rows, claimed, max(claimed - _held_in(rows) - excess, 0), excess)


def _resolved(
    capacity: pl.DataFrame, claims: pl.DataFrame, order: Sequence[str], rest: str
) -> ledger.Resolution:
    """`ledger.resolve` with subjects cut into stretches of time, so that no chip-time is beyond int64.

    Only causes that claim anything are served: each costs a pass over all edges.
    """
    most, begin = capacity["chips"].max(), capacity["start_ns"].min()
    if not isinstance(most, int) or not isinstance(begin, int):
        return ledger.resolve(capacity, claims.clear(), (), rest)
    length = _LARGEST // max(most, 1)
    causes = set(claims["cause"].unique())
    found = ledger.resolve(
        _cut(capacity, begin, length), _cut(claims, begin, length), [cause for cause in order if cause in causes], rest
    )  # fmt: skip
    whole = col.subject // _CHUNKS
    rows = found.rows.with_columns(subject=whole)
    return ledger.Resolution(rows, found.faults.with_columns(subject=whole), None)


def _cut(rows: pl.DataFrame, begin: int, length: int) -> pl.DataFrame:
    """Rows with the subject times _CHUNKS plus the number of the stretch of time, cut where it changes.

    Raises UsageError for more stretches than that, as an impossible number of chips makes them.
    """
    last = rows["end_ns"].max()
    count = (last - begin) // length + 1 if isinstance(last, int) else 1
    if count > _CHUNKS:
        message = "the window holds more chip-time than can be accounted for"
        raise UsageError(message, hint="choose a shorter one with --from and --to, or fewer chips")
    numbered = rows.with_columns(col.subject * _CHUNKS)
    if count <= 1 or not isinstance(last, int):
        return numbered
    starts = [begin + n * length for n in range(count)]
    spans = pl.DataFrame({"start_ns": starts, "end_ns": [*starts[1:], last], "chunk": list(range(count))})
    cut = intervals.clip(numbered, spans, [], keep=["chunk"])
    return cut.with_columns(subject=col.subject + col.chunk).drop("chunk")


def _added_up(claims: pl.DataFrame) -> pl.DataFrame:
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
    length = (col.end_ns - col.start_ns).cast(pl.Int128)
    return int(over.select((length * (col.chips_claimed - col.chips_there)).sum()).item() or 0)


def _idle(pools: pl.DataFrame, stretches: pl.DataFrame, why: pl.DataFrame, rest: str) -> pl.DataFrame:
    """The idle chips of every pool by cause: rows with pool."""
    free = stretches.join(pools, on="subject").filter(col.free > 0)
    parts = [
        supply.total(rows, "free").filter(col.chips > 0).with_columns(subject=pl.lit(pool, pl.Int64))
        for (pool,), rows in free.group_by("pool", maintain_order=True)
    ]
    if not parts:
        return pl.DataFrame(schema={**ledger.ROW_SCHEMA, "pool": pl.Int64})
    capacity = pl.concat(parts).select("subject", "start_ns", "end_ns", "chips")
    found = _resolved(capacity, _claims(why, capacity), _IDLE_ORDER, rest).rows
    return found.with_columns(origin=pl.lit("inferred"), pool="subject")


def _claims(why: pl.DataFrame, capacity: pl.DataFrame) -> pl.DataFrame:
    """The first in line claims all that is idle while it waits: as much as there ever is, of which it gets what is."""
    causes = col.status.replace_strict(IDLE_CAUSES, return_dtype=pl.String)
    named = why.select(subject="pool", start_ns="start_ns", end_ns="end_ns", cause=causes)
    joined = ledger.join_touching(named.sort("subject", "start_ns"), ["subject", "cause"])
    most = capacity.group_by("subject").agg(col.chips.max())
    return joined.join(most, on="subject").with_columns(evidence=pl.lit(None, pl.Int64))


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
    size = (col.end_ns - col.start_ns).cast(pl.Int128) * col.chips
    return rows.group_by("id").agg(chip_ns=size.sum())
