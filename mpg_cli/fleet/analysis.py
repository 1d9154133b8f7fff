"""A fleet's report: its account, its waits, and everything told from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli import __version__
from mpg_cli.fleet.gather import Gathered, gather
from mpg_cli.goodput import intervals, ledger, quality
from mpg_cli.goodput.scheduling import account, demand, inventory, preemption, supply, topology, waits
from mpg_cli.goodput.scheduling.inventory import Window
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report import model
from mpg_cli.rows import account as account_rows
from mpg_cli.rows import scheduling as rows
from mpg_cli.sources import source_notices
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.goodput.scheduling.inventory import Inventory
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

UNKNOWN_CAPACITY = "the capacity is not known: give `sacctmgr show event` and `scontrol show node -o`, a table of nodes, or --capacity"
NOT_RUNTIME = "needs the jobs' own logs or profiles; only a scheduler's records were given"


@dataclass(frozen=True)
class Computed:
    """What the parts of the report are told from. closed is None where the capacity is not known."""

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
    closed: account.Account | None

    @property
    def naive(self) -> bool:
        """Whether the zone of the times is not known."""
        return self.gathered.naive


def compute(dataset: Dataset, options: FleetOptions) -> Computed:
    """The account and the waits of a fleet. Raises InputError: no_jobs, naive_time; UsageError for an empty window."""
    gathered = gather(dataset, options)
    window, hull = _window(gathered, options)
    records = gathered.records
    stock = inventory.build(records.nodes, records.capacity, gathered.attempts, hull, options.capacity)
    spread = inventory.on_nodes if stock.placed else inventory.on_types
    used = spread(gathered.attempts, stock.nodes)
    leaf = topology.leaves(records.topology, stock.nodes)
    attempts = topology.violated(gathered.attempts, used, leaf)
    attempts = preemption.with_preemptors(attempts, records.scheduler_events)
    stretches = supply.per_node(stock, used)
    waiting = demand.classify(waits.spans(attempts), stock)
    segments = demand.timelines(waiting, stretches, stock, leaf)
    first = demand.first_in_line(waiting)
    holding = account.clipped(account.held(used, attempts), window)
    closed = _closed(stock, holding, stretches, _why(first, segments), window)
    waited = waits.decompose(waiting, segments, first)
    return Computed(
        gathered, attempts, window, stock, holding, stretches, waiting, segments, first, waited, closed
    )


def _closed(
    stock: Inventory, holding: pl.DataFrame, stretches: pl.DataFrame, why: pl.DataFrame, window: Window
) -> account.Account | None:
    """The account of the window; None where the capacity is not known."""
    if not stock.known:
        return None
    inside = replace(
        stock,
        capacity=account.clipped(stock.capacity, window),
        unavailable=account.clipped(stock.unavailable, window),
    )
    return account.close(inside, holding, account.clipped(stretches, window), why)


def _window(gathered: Gathered, options: FleetOptions) -> tuple[Window, Window]:
    """The window of the account, and all that is known of."""
    begun = pl.min_horizontal(col.submit_ns.min(), col.start_ns.min())
    first = int(gathered.attempts.select(begun).item() or 0)
    start = first if options.start_ns is None else options.start_ns
    end = (
        gathered.as_of_ns
        if options.end_ns is None
        else min(options.end_ns, max(gathered.as_of_ns, start + 1))
    )
    if end <= start:
        raise UsageError("the window is empty: nothing is known between --from and --to", hint="widen it")
    return Window(start, end), Window(min(first, start), max(gathered.as_of_ns, end))


def _why(first: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """What kept the first in line of each pool from starting: pool, start_ns, end_ns, status."""
    return intervals.clip(first, segments, ["class"], keep=["status"]).select(
        "pool", "start_ns", "end_ns", "status"
    )


def analyze(dataset: Dataset, options: FleetOptions, *, view: str = "default") -> model.Report:
    """The report on a fleet. Raises as `compute` does."""
    found = compute(dataset, options)
    sources = found.gathered.records.sources
    notices = [*dataset.notices, *source_notices(sources), *found.gathered.notices, *found.stock.notices]
    rolled = _rolled(found, view)
    told = tuple(model.Warning(n.kind, n.message, n.count, n.source) for n in notices)
    chip_ns = account.by_attempt(found.holding)
    capacity = 0 if rolled is None else rolled.capacity_ns
    return model.Report(
        sources=account_rows.sources_of(sources),
        warnings=told,
        devices=(),
        steps=(),
        collectives=(),
        goodput=_goodput(found, rolled, view),
        ledger=() if rolled is None else account_rows.ledger_rows(rolled),
        kernels=(),
        name_rules=(),
        totals=model.Totals(
            chips=int(found.stock.nodes["chips"].sum()),
            capacity_ns=capacity,
            device_busy_ns=0,
            chip_seconds=int(chip_ns["chip_ns"].sum()) / rows.SECOND,
            steps=0,
        ),
        quality=_quality(notices),
        jobs=_jobs(found, chip_ns),
        scheduling=_scheduling(found, options, chip_ns),
        mpg_version=__version__,
    )


def _rolled(found: Computed, view: str) -> ledger.Rolled | None:
    return None if found.closed is None else ledger.roll(found.closed.rows, load_taxonomy(), view)


def _goodput(found: Computed, rolled: ledger.Rolled | None, view: str) -> model.Goodput:
    """SG of the fleet; the other ratios are not for schedulers to know."""
    reasons = dict.fromkeys(("rg", "pg", "mpg", "mfu", "hfu"), NOT_RUNTIME)
    sg = None
    if rolled is None:
        reasons["sg"] = UNKNOWN_CAPACITY
    elif not rolled.capacity_ns:
        reasons["sg"] = "no capacity within the window"
    else:
        basis = f"fleet capacity within the window ({found.stock.basis})"
        value = rolled.allocated_ns / rolled.capacity_ns
        sg = model.Ratio(value, rolled.allocated_ns, rolled.capacity_ns, basis, 1.0)
    return model.Goodput(sg, None, None, None, view=view, reasons=reasons)


def _quality(notices: list[Notice]) -> model.Quality:
    letter, reasons = quality.grade(notices, None, 0.0, 0.0)
    return model.Quality(letter, tuple(reasons), (), 0, 0, 0.0, None, 0.0, 0.0, (), 0, None)


def _jobs(found: Computed, chip_ns: pl.DataFrame) -> tuple[model.Job, ...]:
    listed = rows.chosen_jobs(found.attempts).with_columns(as_asked_ns=account.as_asked_ns())
    chosen = found.waiting.join(listed.select("id"), on="id", how="semi")
    pieces = rows.pieces(chosen, found.segments, found.first) if chosen.height <= rows.MOST_PIECES else None
    waited = found.waited.join(listed.select("id"), on="id", how="semi")
    return rows.jobs(
        listed, waited, pieces, dict(chip_ns.select("id", "chip_ns").iter_rows()), naive=found.naive
    )


def _scheduling(found: Computed, options: FleetOptions, chip_ns: pl.DataFrame) -> model.Scheduling:
    naive = found.naive
    begin, end = found.window.start_ns, found.window.end_ns
    clusters = sorted(found.attempts["cluster"].drop_nulls().unique())
    closed = found.closed
    known = found.stock.known
    return model.Scheduling(
        clusters=tuple(clusters),
        window_start=rows.instant(begin, naive=naive) or "",
        window_end=rows.instant(end, naive=naive) or "",
        window_ns=end - begin,
        as_of=rows.instant(found.gathered.as_of_ns, naive=naive) or "",
        naive=naive,
        chips=int(found.stock.nodes["chips"].sum()) if known else None,
        capacity_basis=found.stock.basis,
        jobs=found.attempts["job_id"].n_unique(),
        attempts=found.attempts.height,
        jobs_listed=min(found.attempts["job_id"].n_unique(), rows.MOST_JOBS),
        claimed_ns=account.chip_time(found.holding),
        outside_ns=0 if closed is None else closed.outside_ns,
        excess_ns=0 if closed is None else closed.excess_ns,
        integrity=(),
        waits=rows.wait_causes(found.waited, found.waiting),
        wait_spread=(),
        endings=rows.endings(found.attempts, chip_ns),
        preemptions=(),
        reliability=(),
        fragmentation=(),
        segments=(),
        reconciled=(),
        remarks=(),
        next_command="",
    )


def combined(traced: model.Report, fleet: model.Report) -> model.Report:
    """One report of traces and of the records of a scheduler: two accounts, which are never summed.

    The ledger is that of the traces; SG is the fleet's, so that MPG, which would take both to be of the same chips,
    stays null.
    """
    ratios = fleet.goodput
    reasons = {
        **traced.goodput.reasons,
        "mpg": "SG is of the fleet, RG and PG of the profiled time only: which jobs the traces are of is not known",
    }
    if ratios.sg is None:
        reasons["sg"] = ratios.reasons.get("sg", UNKNOWN_CAPACITY)
    else:
        reasons.pop("sg", None)
    return replace(
        traced,
        sources=(*traced.sources, *fleet.sources),
        warnings=tuple(dict.fromkeys((*traced.warnings, *fleet.warnings))),
        goodput=replace(traced.goodput, sg=ratios.sg, reasons=reasons),
        jobs=fleet.jobs,
        scheduling=fleet.scheduling,
    )
