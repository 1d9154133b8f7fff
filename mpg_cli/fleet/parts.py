"""The parts of a fleet's report that are told from its attempts: integrity, preemptions, failures, segments, …"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.scheduling import (
    account,
    failures,
    fragmentation,
    integrity,
    preemptions,
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
    from mpg_parsers.errors import Notice

# what reading and stitching noticed that bears on the figures of a fleet
NOTICED = ("naive_time", "repaired_input", "bad_row", "inconsistent_times", "capacity_differs", "nodes_unknown",
           "clock_skew", "missing_event", "truncated_input", "no_chips")  # fmt: skip
MOST_PREEMPTORS, MOST_VICTIMS = 50, 20
SERIES = 120  # points of the fragmentation index over time
# what a failure is taken to cost where nobody says: hourly checkpoints, and ten minutes from start to training, the
# middle of the 5 to 20 that the RSC paper (arXiv 2410.21680) reports
USUAL = failures.Recovery(checkpoint_s=3600.0, restart_s=600.0)
FAILED = ("NODE_FAIL", "BOOT_FAIL")
# how far SG must move from one half of the window to the other for the parts to be looked at
MOVED = Fraction(1, 100)


def integrity_of(found: Computed, notices: Sequence[Notice]) -> tuple[model.Integrity, ...]:
    """What is wrong with the records, most chip-time first."""
    records, attempts, window = found.gathered.records, found.attempts, found.window
    checks: Iterable[integrity.Found] = chain(
        integrity.without_duplicates(attempts),
        integrity.lost(attempts, window),
        integrity.phantoms(found.stock, window),
        integrity.resized(attempts, window),
        integrity.of_capacity(found.stock, found.closed, attempts),
        integrity.absent(attempts, records.pending, records.scheduler_events),
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


def preemptions_of(found: Computed) -> tuple[model.Preemption, ...]:
    """Who preempted whom, those who did most first."""
    preempted = (col.state == preemptions.PREEMPTED) | col.preempted_by.is_not_null()
    if not found.attempts.select(preempted.any()).item():
        return ()
    rows = _for_statistics(found)
    named = rows.filter(col.raw_id.is_in(rows["preempted_by"].drop_nulls().unique().implode()))
    jobs = dict(named.select("raw_id", "job").unique("raw_id").iter_rows())
    by = col.preempted_by.replace_strict(list(jobs), list(jobs.values()), default=col.preempted_by)
    told = preemptions.preemptions(rows.with_columns(preempted_by=by))
    victims = rows.filter(col.preempted_by.is_not_null()).group_by(by=by).agg(col.job.unique().sort())
    of = {who: tuple(ended[:MOST_VICTIMS]) for who, ended in victims.iter_rows()}
    known = tuple(
        model.Preemption(
            one.job, of.get(one.job, ()), one.preemptions, int(one.chip_ns), bool(one.second_order)
        )
        for one in told.by_preemptor[:MOST_PREEMPTORS]
    )
    return (*known, *_by_unknown(rows))


def _by_unknown(rows: pl.DataFrame) -> Iterator[model.Preemption]:
    """What was preempted, by whom no log tells."""
    alone = rows.filter(col.state == preemptions.PREEMPTED, col.preempted_by.is_null())
    if alone.height:
        size = (col.ran_ns.cast(pl.Int128) * col.chips.fill_null(0)).sum()
        victims = tuple(alone["job"].unique().sort()[:MOST_VICTIMS])
        yield model.Preemption("", victims, alone.height, int(alone.select(size).item()), second_order=False)


def _for_statistics(found: Computed) -> pl.DataFrame:
    """The attempts as the statistics want them: one job for each number."""
    return found.attempts.with_columns(
        run_ns="ran_ns",
        failed=col.state.is_in(FAILED).fill_null(value=False),
        unfinished=~col.state.is_in(["COMPLETED"]).fill_null(value=False),
    )


def reliability_of(found: Computed, options: FleetOptions) -> tuple[model.Reliability, ...]:
    """Failures by size class, with what they let expect."""
    rows = _for_statistics(found).with_columns(job=col.job_id.cast(pl.String))
    measured = {one.size: one.value for one in failures.measured_ettr(rows, options.sizes)}
    return tuple(_reliability(one, measured) for one in failures.mttf(rows, options.sizes))


def _reliability(one: failures.Failures, measured: dict[str, float | None]) -> model.Reliability:
    per = one.per_job
    hours = None if per is None else per.hours
    expected = None if hours is None else failures.expected_ettr(hours * 3600, USUAL)
    reason = (
        "" if hours is not None else "no hardware failure was recorded: only a lower bound of MTTF is known"
    )
    return model.Reliability(
        one.size,
        one.attempts,
        one.failures,
        one.run_ns / (3600 * SECOND),
        hours,
        None if per is None else per.low,
        None if per is None else per.high,
        measured.get(one.size),
        expected,
        reason,
    )


def fragmentation_of(found: Computed) -> tuple[model.Fragmentation, ...]:
    """How much of what was free the usual jobs could not use, by type of chips."""
    if not found.stock.placed:
        return ()
    nodes = found.stock.nodes
    inside = account.clipped(found.stretches, found.window).rename({"subject": "node"})
    asked = found.attempts.with_columns(chips="need", job=col.job_id)
    told = []
    for (kind,), members in nodes.group_by("chip_type", maintain_order=True):
        mine = asked.filter(col.chip_type.eq_missing(pl.lit(kind)) | col.chip_type.is_null())
        jobs = fragmentation.classes(mine.select("chips", "node_count", "job"))
        steps = fragmentation.over_time(inside.join(members.select("node"), on="node", how="semi"), jobs)
        told.append(_fragmentation(str(kind or "all"), int(members["chips"].sum()), steps, found.window))
    return tuple(told)


def _fragmentation(pool: str, chips: int, steps: pl.DataFrame, window: Window) -> model.Fragmentation:
    length = col.end_ns - col.start_ns
    free = steps.select((col.free.cast(pl.Float64) * length).sum()).item() or 0.0
    index = steps.filter(col.free > 0).with_columns(index=col.fragmented / col.free)
    most = index["index"].max()
    return model.Fragmentation(
        pool,
        chips,
        free / (window.end_ns - window.start_ns),
        fragmentation.mean_index(steps),
        float(most) if isinstance(most, float) else None,
        _series(steps, window),
    )


def _series(steps: pl.DataFrame, window: Window) -> tuple[tuple[int, float], ...]:
    """The index in equal parts of the window: when each begins, and its mean; parts with nothing free are left out."""
    size = max(-(-(window.end_ns - window.start_ns) // SERIES), 1)
    starts = list(range(window.start_ns, window.end_ns, size))
    spans = pl.DataFrame({"start_ns": starts, "end_ns": [start + size for start in starts], "part": starts})
    cut = intervals.clip(steps, spans, [], keep=["part"])
    means = {start: fragmentation.mean_index(rows) for (start,), rows in cut.group_by("part")}
    return tuple((start, mean) for start in starts if (mean := means.get(start)) is not None)


def halves_of(found: Computed) -> list[pl.DataFrame]:
    """The jobs' own time in the first and the second half of the window (`segments.time_of_jobs`)."""
    middle = (found.window.start_ns + found.window.end_ns) // 2
    windows = Window(found.window.start_ns, middle), Window(middle, found.window.end_ns)
    return [
        segments.time_of_jobs(found.holding, found.waiting, found.segments, found.first, window)
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
        ["cluster", "account", "user", "resource", "measure", "start_ns"], keep="first", maintain_order=True
    )

    def by_cause(window: Window) -> dict[str, int]:
        sums = found.account_of(window).rows.group_by("cause").agg(col.chip_ns.cast(pl.Int128).sum())
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
    started = found.attempts.filter(
        col.start_ns.is_not_null(), col.queue_wait_ns.is_not_null(), ~col.resized, col.need > 0
    ).with_columns(size=options.sizes.expression("need"))
    wait = col.queue_wait_ns / SECOND
    sums = started.group_by("size").agg(
        attempts=pl.len(),
        mean_s=wait.mean(),
        median_s=wait.median(),
        p90_s=wait.quantile(0.9, interpolation="higher"),
        max_s=wait.max(),
    )
    ordered = sorted(sums.iter_rows(named=True), key=lambda row: sizes.NAMES.index(row["size"]))
    return tuple(model.WaitSpread(**row) for row in ordered)
