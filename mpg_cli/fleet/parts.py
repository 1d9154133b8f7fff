"""The parts of a fleet's report that are told from its attempts: integrity, preemptions, failures, segments, …"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling import (
    account,
    integrity,
    reconcile,
    segments,
    simpson,
    sizes,
)
from mpg_cli.goodput.scheduling.inventory import Window
from mpg_cli.report import model
from mpg_cli.rows.scheduling import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mpg_cli.fleet.compute import Computed
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.scheduler.records import Records
    from mpg_parsers.errors import Notice

# what reading and stitching noticed that bears on the figures of a fleet
NOTICED = ("naive_time", "repaired_input", "bad_row", "inconsistent_times", "capacity_differs", "nodes_unknown",
           "clock_skew", "missing_event", "truncated_input", "no_chips")  # fmt: skip
# how far SG must move from one half of the window to the other for the parts to be looked at
MOVED = Fraction(1, 100)


def integrity_of(found: Computed, notices: Sequence[Notice]) -> tuple[model.Integrity, ...]:
    """What is wrong with the records, most chip-time first."""
    records, window = found.gathered.records, found.window
    attempts = found.attempts.select(integrity.LOOKED_AT)
    checks: Iterable[integrity.Found] = chain(
        integrity.without_duplicates(attempts),
        integrity.lost(attempts, window),
        integrity.phantoms(found.stock, window),
        integrity.resized(attempts, window),
        integrity.of_capacity(found.stock, found.closed, attempts),
        integrity.absent(attempts, *_of_slurm(records)),
        integrity.reused(attempts),
        integrity.clipped_by_window(attempts, window),
    )
    told = [model.Integrity(one.kind, one.message, one.count, one.chip_ns) for one in checks]
    noticed: dict[tuple[str, str], int] = {}
    for notice in notices:
        if notice.kind in NOTICED:
            key = (notice.kind, notice.message)
            noticed[key] = noticed.get(key, 0) + notice.count
    told += [model.Integrity(kind, message, count) for (kind, message), count in noticed.items()]
    last = ("window_clipping",)
    return tuple(sorted(told, key=lambda one: (one.kind in last, -(one.chip_ns or 0))))


def _of_slurm(records: Records) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What Slurm's queues and logs name."""
    slurm = records.sources.filter(col.format.str.starts_with("slurm")).select("source")
    pending, events = records.pending, records.scheduler_events
    return pending.join(slurm, on="source", how="semi"), events.join(slurm, on="source", how="semi")


def halves_of(found: Computed) -> list[pl.DataFrame]:
    """The jobs' own time in the first and the second half of the window (`segments.time_of_jobs`).

    Without a submission nobody knows how long a job waited: it is left out, not taken as one that never did.
    """
    submitted = found.attempts.filter(col.submit_ns.is_not_null()).select("id")
    holding = found.holding.join(submitted, on="id", how="semi")
    middle = (found.window.start_ns + found.window.end_ns) // 2
    windows = Window(found.window.start_ns, middle), Window(middle, found.window.end_ns)
    return [
        segments.time_of_jobs(holding, found.waiting, found.segments, found.first, window)
        for window in windows
    ]


def segments_of(
    found: Computed, halves: Sequence[pl.DataFrame], options: FleetOptions
) -> tuple[segments.Segment, ...]:
    """The parts of the fleet, then those of the jobs. halves: of the window, see `halves_of`."""
    of_jobs = segments.of_jobs(pl.concat(halves), found.attempts, options.sizes, options.by)
    of_fleet = segments.of_fleet(found.closed.rows, found.stock) if found.closed is not None else ()
    return (*of_fleet, *of_jobs)


def segment_rows(parts: Iterable[segments.Segment]) -> tuple[model.ScheduleSegment, ...]:
    """The parts as rows of the report."""
    return tuple(
        model.ScheduleSegment(
            part.by,
            part.key,
            part.basis,
            part.jobs,
            part.whole_ns,
            part.allocated_ns,
            part.allocated_ns / part.whole_ns if part.whole_ns else None,
            part.causes,
        )
        for part in parts
    )


def remarks_of(
    found: Computed,
    parts: Sequence[segments.Segment],
    halves: Sequence[pl.DataFrame],
    options: FleetOptions,
) -> tuple[str, ...]:
    """What the parts say of the whole."""
    return (*_pattern(parts), *_paradoxes(found, halves, options))


def _pattern(parts: Sequence[segments.Segment]) -> Iterator[str]:
    by_size = {
        part.key: sizes.ClassGoodput(part.jobs, part.allocated_ns, part.whole_ns)
        for part in parts
        if part.by == "size" and part.key in sizes.NAMES
    }
    told = sizes.healthy_pattern(by_size)
    verdict = {True: "holds", False: "does not hold", None: "cannot be judged"}[told.holds]
    yield f"the healthy pattern by size (small and extra-large near 95 %) {verdict}: {told.why}"


def _paradoxes(found: Computed, spent: Sequence[pl.DataFrame], options: FleetOptions) -> Iterator[str]:
    """Where SG of all jobs moved one way from the first half of the window to the second, and no part of it did."""
    before, after = (_whole(half) for half in spent)
    if before is None or after is None or abs(after - before) < MOVED:
        return
    halves = [list(segments.of_jobs(half, found.attempts, options.sizes, options.by)) for half in spent]
    for by in dict.fromkeys(part.by for part in halves[0]):
        told = simpson.compare(segments.ratios(halves[0], by), segments.ratios(halves[1], by), MOVED)
        if told is not None and told.paradox:
            yield (
                f"Simpson's paradox: SG of the jobs moved from {float(100 * told.before):.1f} % in the first half to "
                f"{float(100 * told.after):.1f} % in the second, and no part by {by.removeprefix('label:')} moved with "
                f"it: what changed is the mix ({float(100 * told.mix_effect):+.1f} points)"
            )


def _whole(spent: pl.DataFrame) -> Fraction | None:
    """SG of all jobs: allocated as asked, of all their time."""
    size = pl.when(col.cause == account.ALLOCATED).then("chip_ns").otherwise(0)
    part, whole = spent.select(size.sum().alias("part"), col.chip_ns.sum().alias("whole")).row(0)
    return Fraction(int(part), int(whole)) if whole else None


def reconciled_of(found: Computed) -> tuple[model.Reconciled, ...]:
    """The scheduler's own roll-up beside our figures."""
    rollups = found.gathered.records.rollups.unique(
        ["cluster", "account", "user", "resource", "measure", "start_ns", "end_ns"],
        keep="first",
        maintain_order=True,
    )

    pools = found.stock.nodes.unique("pool").select("pool", "cluster")

    @cache  # a roll-up has several figures of one period
    def account_of(window: Window) -> pl.DataFrame:
        return found.account_of(window).rows.join(pools, on="pool")

    def by_cause(window: Window, cluster: str | None) -> dict[str, int]:
        rows = account_of(window)
        mine = rows if cluster is None else rows.filter(col.cluster.fill_null(cluster) == cluster)
        sums = mine.group_by("cause").agg(col.chip_ns.cast(pl.Int128).sum())
        return {cause: int(ns) for cause, ns in sums.iter_rows()}

    told = reconcile.reconciled(
        rollups, found.attempts, by_cause if found.stock.known else None, found.window
    )
    return tuple(
        model.Reconciled(
            row.resource, row.measure, row.account, row.user, row.theirs_s, row.ours_s,
            row.theirs_s - row.ours_s, row.explanation,
        )
        for row in told
    )  # fmt: skip


def spread_of(found: Computed, options: FleetOptions) -> tuple[model.WaitSpread, ...]:
    """How long attempts that started had waited, by size class."""
    started = (
        found.in_window()
        .filter(col.start_ns.is_not_null(), col.queue_wait_ns.is_not_null(), ~col.resized, col.need > 0)
        .with_columns(size=options.sizes.expression("need"))
    )
    wait = col.queue_wait_ns  # divided last, so that whole seconds stay whole
    sums = started.group_by("size").agg(
        attempts=pl.len(),
        mean_s=wait.mean() / SECOND,
        median_s=wait.median() / SECOND,
        p90_s=wait.quantile(0.9, interpolation="higher") / SECOND,
        max_s=wait.max() / SECOND,
    )
    ordered = sorted(sums.iter_rows(named=True), key=lambda row: sizes.NAMES.index(row["size"]))
    return tuple(model.WaitSpread(**row) for row in ordered)
