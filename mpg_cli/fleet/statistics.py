"""What a fleet's attempts tell of preemptions, failures of hardware and fragmentation."""

from __future__ import annotations

import json
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.scheduling import account, boxes, failures, fragmentation, preemptions
from mpg_cli.report import model
from mpg_cli.rows.scheduling import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.fleet.compute import Computed
    from mpg_cli.fleet.options import FleetOptions
    from mpg_cli.goodput.scheduling.inventory import Window

MOST_PREEMPTORS, MOST_VICTIMS = 50, 20
MOST_DETECTIONS, MOST_MESHES, MOST_DIMS = 200, 16, 4
SERIES = 120  # points of the fragmentation index over time
# what a failure is taken to cost where nobody says: hourly checkpoints, and ten minutes from start to training, the
# middle of the 5 to 20 that the RSC paper (arXiv 2410.21680) reports
USUAL = failures.Recovery(checkpoint_s=3600.0, restart_s=600.0)
RECOVERY = "a checkpoint every hour, ten minutes from start to training, and no wait"
FAILED = ("NODE_FAIL", "BOOT_FAIL")
SILENT_NS = 900 * SECOND  # before a failure, in which a node's first silence is taken for its cause


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
    """The attempts in the window as the statistics want them: one job for each number."""
    return found.in_window().with_columns(
        run_ns="ran_ns",
        failed=col.state.is_in(FAILED).fill_null(value=False),
    )


def reliability_of(found: Computed, options: FleetOptions) -> tuple[model.Reliability, ...]:
    """Failures by size class, with what they let expect."""
    # without its state nobody knows whether hardware ended it
    told = _for_statistics(found).filter(col.state.is_not_null())
    rows = told.with_columns(job=col.job_id.cast(pl.String))
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


def detections_of(found: Computed) -> tuple[model.Detection, ...]:
    """How long failed attempts kept their chips after their node fell silent, where the controller's log tells."""
    failed = _for_statistics(found).filter(col.failed, col.start_ns.is_not_null(), col.nodes.is_not_null())
    events = found.gathered.records.scheduler_events.filter(col.event == "node_silent")
    if failed.is_empty() or events.is_empty():
        return ()
    silent = events.select("cluster", "ts_ns", node=col.nodes.str.json_decode(pl.List(pl.String))).explode(
        "node"
    )
    held = failed.with_columns(node=col.nodes.str.json_decode(pl.List(pl.String))).explode("node")
    met = held.join(silent, on=["cluster", "node"], nulls_equal=True).filter(
        col.ts_ns.is_between(pl.max_horizontal("start_ns", col.end_ns - SILENT_NS), "end_ns")
    )
    first = met.sort("ts_ns").unique("id", keep="first").sort("end_ns").head(MOST_DETECTIONS)
    delays = failures.detection_delays(first.with_columns(last_seen_ns="ts_ns"))
    told = zip(first["node"], delays.iter_rows(), strict=True)
    return tuple(
        model.Detection(job, attempt, node, delay / SECOND, int(chip_ns))
        for node, (job, attempt, delay, chip_ns) in told
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
    return (*told, *_meshes(found))


def _meshes(found: Computed) -> Iterator[model.Fragmentation]:
    """Of meshes and tori, how much of what is free lies outside the largest free box."""
    shaped = found.gathered.records.topology.filter(col.dims.is_not_null()).unique(
        "name", maintain_order=True
    )
    for name, kind, text, sides in (
        shaped.head(MOST_MESHES).select("name", "kind", "nodes", "dims").iter_rows()
    ):
        cells = json.loads(text)
        dims = tuple(json.loads(sides))
        if len(cells) == prod(dims) and 1 <= len(dims) <= MOST_DIMS:
            yield _mesh(found, name, kind, cells, dims)


def _mesh(
    found: Computed, name: str, kind: str, cells: list[str], dims: tuple[int, ...]
) -> model.Fragmentation:
    """One mesh, looked at in the middle of each of SERIES equal parts of the window. Cells are nodes, in row order."""
    nodes = found.stock.nodes.filter(col.name.is_in(cells)).select(subject="node", name="name", chips="chips")
    rows = account.clipped(found.stretches, found.window).join(nodes, on="subject")
    place = {cell: tuple(index) for cell, index in zip(cells, product(*map(range, dims)), strict=True)}
    size = max((found.window.end_ns - found.window.start_ns) // SERIES, 1)
    series, free = list[tuple[int, float]](), list[int]()
    for start in range(found.window.start_ns, found.window.end_ns, size):
        at = start + size // 2
        now = rows.filter(col.start_ns <= at, col.end_ns > at, col.free == col.chips)["name"]
        busy = {place[cell] for cell in set(cells) - set(now)}
        index = boxes.index(dims, busy, wrap=kind == "torus")
        free.append(len(cells) - len(busy))
        if index is not None:
            series.append((start, float(index)))
    values = [value for _, value in series]
    mean = sum(values) / len(values) if values else None
    chips = int(nodes["chips"].sum())
    mean_free = sum(free) / max(len(free), 1) * chips / max(len(cells), 1)
    return model.Fragmentation(name, chips, mean_free, mean, max(values, default=None), tuple(series), kind)


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
