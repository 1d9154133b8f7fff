"""Our chip-seconds beside the scheduler's own roll-up, with what explains each difference.

sreport adds up the records of the accounting as they are: a resized job twice, a suspended one as if it ran, an attempt
that the accounting lost not at all. Each of these is worked out for itself, over the period of the roll-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling import account
from mpg_cli.goodput.scheduling.inventory import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECOND = 10**9
SLACK = 1  # seconds by which sums of whole seconds may differ
OF_JOBS = ("used", "allocated")
OF_LEDGER = {"down": ("down",), "planned_down": ("drained",), "planned down": ("drained",)}


class Row(NamedTuple):
    """One figure of theirs beside ours, in seconds of the resource."""

    resource: str
    measure: str
    account: str | None
    user: str | None
    theirs_s: int
    ours_s: float
    explanation: str


def reconciled(
    rollups: pl.DataFrame,
    attempts: pl.DataFrame,
    by_cause: Callable[[Window, str | None], dict[str, int]] | None,
    whole: Window,
) -> Iterator[Row]:
    """A row for each figure of accelerators in `rollups` that we have a counterpart of.

    attempts: id, job, cluster, user, account, chip_type, chips, start_ns, end_ns, suspended_ns, resized,
    recorded_start_ns, lost;
    by_cause: the ledger of a window and a cluster, in chip-ns by cause, None where the capacity is not known.
    """
    for row in rollups.filter(col.resource.str.starts_with("gres/")).iter_rows(named=True):
        window = Window(row["start_ns"] or whole.start_ns, row["end_ns"] or whole.end_ns)
        if row["measure"] in OF_JOBS:
            yield _of_jobs(row, attempts, window)
        elif (
            by_cause is not None and ":" not in row["resource"] and row["measure"] in (*OF_LEDGER, "reported")
        ):
            yield _of_ledger(row, by_cause(window, row["cluster"]))


def _of_jobs(row: dict[str, str | int | None], attempts: pl.DataFrame, window: Window) -> Row:
    rows = _chosen(row, attempts)
    ours = _seconds(account.clipped(rows, window)) - _suspended(rows, window)
    parts = {
        "counted twice at a resize": _seconds(account.clipped(account.counted_twice(rows), window)),
        "suspended, which they count as running": _suspended(rows, window),
        "lost by the accounting": -_seconds(account.clipped(rows.filter(col.lost), window)),
    }
    return _row(row, ours, parts)


def _chosen(row: dict[str, str | int | None], attempts: pl.DataFrame) -> pl.DataFrame:
    """The attempts that a figure is about. The account root is everybody's."""
    rows = attempts.filter(col.start_ns.is_not_null()).with_columns(col.chips.fill_null(0))
    _, _, kind = str(row["resource"]).partition(":")
    if kind:
        rows = rows.filter(col.chip_type == kind)
    if row["cluster"] is not None:
        rows = rows.filter(col.cluster.fill_null(row["cluster"]) == row["cluster"])
    if row["user"]:
        rows = rows.filter(col.user == row["user"])
    if row["account"] not in (None, "root"):
        rows = rows.filter(col.account == row["account"])
    return rows


def _seconds(rows: pl.DataFrame) -> int:
    return account.chip_time(rows) // SECOND


def _suspended(rows: pl.DataFrame, window: Window) -> int:
    """Suspended chip-seconds; only its length is known, so that it is put at the end."""
    tail = rows.filter(col.suspended_ns > 0).with_columns(
        start_ns=pl.max_horizontal("start_ns", col.end_ns - col.suspended_ns)
    )
    return _seconds(account.clipped(tail, window))


def _of_ledger(row: dict[str, str | int | None], causes: dict[str, int]) -> Row:
    measure = str(row["measure"])
    names = OF_LEDGER.get(measure, tuple(causes))
    return _row(row, sum(causes.get(name, 0) for name in names) // SECOND, {})


def _row(row: dict[str, str | int | None], ours: int, parts: dict[str, int]) -> Row:
    theirs = int(row["seconds"] or 0)
    difference = theirs - ours
    rest = difference - sum(parts.values())
    told = [f"{value:+,} {what}" for what, value in parts.items() if value]
    if abs(rest) > SLACK:
        told.append(f"{rest:+,} not explained")
    agrees = "equal" if not difference else "; ".join(told) or "rounding"
    account_, user = (None if row[name] is None else str(row[name]) for name in ("account", "user"))
    return Row(str(row["resource"]), str(row["measure"]), account_, user, theirs, float(ours), agrees)
