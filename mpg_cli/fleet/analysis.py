"""A fleet's report: its account, its waits, and everything told from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polars import col

from mpg_cli import __version__
from mpg_cli.fleet import parts, statistics
from mpg_cli.fleet.compute import Computed, compute
from mpg_cli.fleet.next_time import command
from mpg_cli.goodput import ledger, quality
from mpg_cli.goodput.scheduling import account, waits
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report import model
from mpg_cli.rows import account as account_rows
from mpg_cli.rows import scheduling as rows
from mpg_cli.sources import source_notices

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

UNKNOWN_CAPACITY = (
    "the capacity is not known: give `sacctmgr show event` and `scontrol show node -o`, "
    "a table of nodes, or --capacity"
)
NOT_RUNTIME = "needs the jobs' own logs or profiles; only a scheduler's records were given"


def analyze(dataset: Dataset, options: FleetOptions, *, view: str = "default") -> model.Report:
    """The report on a fleet. Raises as `compute` does."""
    found = compute(dataset, options)
    sources = found.gathered.records.sources
    # files that were not read have names too
    outside = [] if options.redact else dataset.notices
    notices = [*outside, *source_notices(sources), *found.gathered.notices, *found.stock.notices]
    rolled = _rolled(found, view)
    told = tuple(model.Warning(n.kind, n.message, n.count, n.source) for n in notices)
    holding = account.clipped(found.holding, found.window)
    chip_ns = account.by_attempt(holding)
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
            chip_seconds=sum(chip_ns["chip_ns"]) / rows.SECOND,
            steps=0,
        ),
        quality=_quality(notices),
        jobs=_jobs(found, chip_ns),
        scheduling=_scheduling(found, options, holding, chip_ns, notices),
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
    listed = rows.chosen_jobs(found.attempts)
    listed = account.with_as_asked(listed, found.gathered.ready)
    chosen = found.waiting.join(listed.select("id"), on="id", how="semi")
    pieces = rows.pieces(chosen, found.segments, found.first) if chosen.height <= rows.MOST_PIECES else None
    waited = found.waited.join(listed.select("id"), on="id", how="semi")
    return rows.jobs(
        listed, waited, pieces, dict(chip_ns.select("id", "chip_ns").iter_rows()), naive=found.naive
    )


def _waits_in_window(found: Computed) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The waits in the window, and those by cause."""
    inside = waits.within(found.waiting, found.window)
    if inside.equals(found.waiting):
        return inside, found.waited
    return inside, waits.decompose(inside, found.segments, account.clipped(found.first, found.window))


def _scheduling(
    found: Computed,
    options: FleetOptions,
    holding: pl.DataFrame,
    chip_ns: pl.DataFrame,
    notices: Sequence[Notice],
) -> model.Scheduling:
    """What the records tell. holding: what attempts hold in the window; chip_ns: the same by attempt."""
    naive, closed = found.naive, found.closed
    begin, end = found.window.start_ns, found.window.end_ns
    halves = parts.halves_of(found)
    segments = parts.segments_of(found, halves, options)
    jobs = found.attempts["job_id"].n_unique()
    attempts = found.in_window()
    inside, waited = _waits_in_window(found)
    return model.Scheduling(
        clusters=tuple(sorted(found.attempts["cluster"].drop_nulls().unique())),
        window_start=rows.instant(begin, naive=naive) or "",
        window_end=rows.instant(end, naive=naive) or "",
        window_ns=end - begin,
        as_of=rows.instant(found.gathered.as_of_ns, naive=naive) or "",
        naive=naive,
        chips=int(found.stock.nodes["chips"].sum()) if found.stock.known else None,
        capacity_basis=found.stock.basis,
        jobs=attempts["job_id"].n_unique(),
        attempts=attempts.height,
        jobs_listed=min(jobs, rows.MOST_JOBS),
        claimed_ns=account.chip_time(holding) if closed is None else closed.claimed_ns,
        outside_ns=0 if closed is None else closed.outside_ns,
        excess_ns=0 if closed is None else closed.excess_ns,
        integrity=parts.integrity_of(found, notices),
        waits=rows.wait_causes(waited, inside.filter(col.need > 0)),
        wait_spread=parts.spread_of(found, options),
        endings=rows.endings(attempts, chip_ns),
        preemptions=statistics.preemptions_of(found),
        reliability=statistics.reliability_of(found, options),
        fragmentation=statistics.fragmentation_of(found),
        segments=parts.segment_rows(segments),
        reconciled=parts.reconciled_of(found),
        remarks=parts.remarks_of(found, segments, halves, options),
        detections=statistics.detections_of(found),
        recovery=statistics.RECOVERY,
        next_command=command(found.gathered.records.sources, found.window, naive=naive),
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
