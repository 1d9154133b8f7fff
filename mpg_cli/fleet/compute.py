"""Everything that the parts of a fleet's report are told from, worked out once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.fleet.gather import Gathered, gather
from mpg_cli.goodput import intervals
from mpg_cli.goodput.scheduling import (
    account,
    demand,
    inventory,
    leaks,
    preemptors,
    stated,
    supply,
    topology,
    waits,
)
from mpg_cli.goodput.scheduling.inventory import Window
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.goodput.scheduling.inventory import Inventory
    from mpg_cli.store import Dataset

UNKNOWN = 0.01  # share of the attempts without a submission up to which the queue counts as known


@dataclass(frozen=True)
class Computed:
    """What the parts of the report are told from.

    attempts   see `Gathered`, with violated, preempted_by and need (chips asked for, or held)
    holding    see `account.held`, of all time; stretches see `supply.per_node`
    waiting    see `waits.spans` and `demand.classify`; segments see `demand.timelines`; first `demand.first_in_line`
    waited     see `waits.decompose`
    why        pool, start_ns, end_ns, status: what kept the first in line of each pool from starting
    closed     the account of the window, None where the capacity is not known
    """

    gathered: Gathered
    attempts: pl.DataFrame
    window: Window
    stock: Inventory
    holding: pl.DataFrame
    stretches: pl.DataFrame
    waiting: pl.DataFrame
    segments: pl.DataFrame
    first: pl.DataFrame
    waited: pl.DataFrame
    why: pl.DataFrame
    closed: account.Account | None

    @property
    def naive(self) -> bool:
        """Whether the zone of the times is not known."""
        return self.gathered.naive

    def in_window(self) -> pl.DataFrame:
        """The attempts that waited or ran in the window."""
        since = pl.coalesce("submit_ns", "start_ns").fill_null(self.window.start_ns)
        until = col.end_ns.fill_null(self.window.end_ns)
        inside = (since < self.window.end_ns) & (until > self.window.start_ns)
        whole = self.attempts.select(inside.all()).item()
        return self.attempts if whole else self.attempts.filter(inside)

    def account_of(self, window: Window) -> account.Account:
        """The account of another window. Raises ValueError where the capacity is not known."""
        if not self.stock.known:
            raise ValueError("the capacity is not known")
        return _closed(self.stock, self.holding, self.stretches, self.why, window, _rest(self.attempts))


def compute(dataset: Dataset, options: FleetOptions) -> Computed:
    """The account and the waits of a fleet. Raises InputError: no_jobs, naive_time; UsageError for an empty window."""
    gathered = gather(dataset, options)
    window, hull = _window(gathered, options)
    records = gathered.records
    stock = inventory.build(records.nodes, records.capacity, gathered.attempts, hull, options.capacity)
    stock = leaks.added(stock, records.nodes, records.scheduler_events, gathered.attempts, hull)
    spread = inventory.on_nodes if stock.placed else inventory.on_types
    used = spread(gathered.attempts, stock.nodes)
    leaf = topology.leaves(records.topology, stock.nodes)
    attempts = topology.violated(gathered.attempts, used, leaf)
    attempts = preemptors.with_preemptors(attempts, records.scheduler_events)
    attempts = attempts.with_columns(need=pl.coalesce("chips_requested", "chips").fill_null(0))
    stretches = supply.per_node(stock, used)
    waiting = demand.classify(waits.spans(attempts), stock)
    later = demand.after_switches(waiting)
    segments = demand.timelines(pl.concat([waiting, later]), stretches, stock, leaf)
    said = stated.stretches(records.pending, attempts, waiting, stock)
    said = pl.concat([said, stated.of_classes(later, segments)])
    waiting, segments = stated.applied(waiting, segments, said)
    first = demand.first_in_line(waiting)
    holding = account.held(used, attempts, gathered.ready)
    why = _why(first, segments)
    closed = _closed(stock, holding, stretches, why, window, _rest(attempts)) if stock.known else None
    waited = waits.decompose(waiting, segments, first)
    return Computed(
        gathered, attempts, window, stock, holding, stretches, waiting, segments, first, waited, why, closed
    )


def _rest(attempts: pl.DataFrame) -> str:
    """What idle chips with nobody in line are charged to: no demand, if it is known who waited."""
    asking = attempts.filter(col.need > 0)
    unknown = asking["submit_ns"].null_count()
    return "no_demand" if unknown <= UNKNOWN * asking.height else "idle_unexplained"


def _closed(
    stock: Inventory,
    holding: pl.DataFrame,
    stretches: pl.DataFrame,
    why: pl.DataFrame,
    window: Window,
    rest: str,
) -> account.Account:
    inside = replace(
        stock,
        capacity=account.clipped(stock.capacity, window),
        unavailable=account.clipped(stock.unavailable, window),
    )
    holding, stretches = account.clipped(holding, window), account.clipped(stretches, window)
    return account.close(inside, holding, stretches, why, rest)


def _window(gathered: Gathered, options: FleetOptions) -> tuple[Window, Window]:
    """The window of the account, and all that is known of."""
    begun = pl.min_horizontal(col.submit_ns.min(), col.start_ns.min())
    first = int(gathered.attempts.select(begun).item() or 0)
    start = first if options.start_ns is None else options.start_ns
    end = gathered.as_of_ns if options.end_ns is None else min(options.end_ns, gathered.as_of_ns)
    if options.start_ns is None and options.end_ns is None:
        end = max(end, start + 1)
    if end <= start:
        message = "nothing is known between --from and --to: the window is empty"
        raise UsageError(message, hint="the records must reach into the window")
    # of the capacity all is known, so that roll-ups of other periods can be reconciled too
    known = gathered.records.capacity["start_ns"].min()
    begin = min(first, start, known if isinstance(known, int) else start)
    return Window(start, end), Window(begin, max(gathered.as_of_ns, end))


def _why(first: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """What kept the first in line of each pool from starting: pool, start_ns, end_ns, status."""
    return intervals.clip(first, segments, ["class"], keep=["status"]).select(
        "pool", "start_ns", "end_ns", "status"
    )
