"""Small clusters, made of rows instead of files. Times are whole seconds after an arbitrary instant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from polars import col

from mpg_cli.fleet.analysis import analyze
from mpg_cli.fleet.compute import Computed, compute
from mpg_cli.fleet.options import FleetOptions
from tests.mpg_cli.datasets import dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mpg_cli.report.model import Report, Scheduling

S = 10**9
Row = dict[str, Any]
File = dict[str, list[Row]]


def nanoseconds(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * S


def job(
    raw: object,
    submit: int | None,
    start: int | None = None,
    end: int | None = None,
    nodes: str = "n1",
    chips: int = 4,
    **more: Any,
) -> Row:
    """One record of a job: by default it was eligible when it was submitted, and completed, or waits still."""
    began = start is not None
    row: Row = {
        "kind": "job",
        "raw_id": str(raw),
        "job": str(raw),
        "user": "ann",
        "name": "train",
        "state": "COMPLETED" if end is not None else "RUNNING" if began else "PENDING",
        "submit_ns": nanoseconds(submit),
        "eligible_ns": nanoseconds(submit),
        "start_ns": nanoseconds(start),
        "end_ns": nanoseconds(end),
        "chips": chips if began else 0,
        "chips_requested": chips,
        "nodes": json.dumps(nodes.split(",")) if began and nodes else None,
    }
    for name, value in more.items():
        known = f"{name}_ns" if name in {"eligible", "run", "suspended", "limit"} else name
        row[known] = nanoseconds(value) if known != name else value
    return row


def node(name: str, chips: int = 4, kind: str | None = "h100", *parts: str, **more: Any) -> Row:
    return {
        "node": name,
        "chips": chips,
        "chip_type": kind,
        "partitions": json.dumps(parts) if parts else None,
    } | more


def registered(chips: int, start: int, end: int | None = None, **types: int) -> Row:
    """What the accounting says the whole cluster had."""
    kinds = json.dumps(types) if types else None
    span = {"start_ns": nanoseconds(start), "end_ns": nanoseconds(end)}
    return {"node": None, "chips": chips, "chips_by_type": kinds, "state": "up", **span}


def away(name: str, start: int, end: int | None = None, state: str = "down", **more: Any) -> Row:
    """A stretch in which a node could not be given to jobs."""
    return {"node": name, "state": state, "start_ns": nanoseconds(start), "end_ns": nanoseconds(end)} | more


def switch(name: str, nodes: str, level: int = 0) -> Row:
    return {"name": name, "kind": "switch", "level": level, "nodes": json.dumps(nodes.split(","))}


def event(at: float, what: str, raw: object = None, **more: Any) -> Row:
    return {
        "ts_ns": round(at * S),
        "count": 1,
        "event": what,
        "raw_id": None if raw is None else str(raw),
    } | more


def rollup(measure: str, seconds: int, start: int, end: int, resource: str = "gres/gpu", **more: Any) -> Row:
    span = {"start_ns": start * S, "end_ns": end * S}
    return {"resource": resource, "measure": measure, "seconds": seconds, **span} | more


def file(
    attempts: Sequence[Row] = (),
    *,
    nodes: Iterable[Row] = (),
    capacity: Iterable[Row] = (),
    topology: Iterable[Row] = (),
    events: Iterable[Row] = (),
    pending: Iterable[Row] = (),
    rollups: Iterable[Row] = (),
    as_of: int | None = 100,
    naive: bool | None = None,
    form: str = "slurm-sacct",
    **about: Any,
) -> File:
    """What one file of a scheduler says; as_of: the latest second that it proves."""
    source = {"path": form, "sha256": "0" * 64, "size": 1, "format": form, "framework": "Slurm", "events": 1}
    source |= {"notices": "[]", "as_of_ns": nanoseconds(as_of), "naive_time": naive}
    return {
        "sources": [source | about],
        "attempts": list(attempts),
        "nodes": list(nodes),
        "capacity": list(capacity),
        "topology": list(topology),
        "scheduler_events": list(events),
        "pending": list(pending),
        "rollups": list(rollups),
    }


def _options(chosen: Row) -> FleetOptions:
    """Options with their times in seconds."""
    known = {"start": "start_ns", "end": "end_ns", "as_of": "as_of_ns"}
    return FleetOptions(
        **{known.get(name, name): value * S if name in known else value for name, value in chosen.items()}
    )


def computed(*files: File, **options: Any) -> Computed:
    return compute(dataset(*files), _options(options))


def report(*files: File, **options: Any) -> Report:
    return analyze(dataset(*files), _options(options))


def scheduling(*files: File, **options: Any) -> Scheduling:
    found = report(*files, **options).scheduling
    assert found is not None
    return found


def causes(found: Computed) -> dict[str, float]:
    """The account in chip-seconds; it closes."""
    assert found.closed is not None
    rows = found.closed.rows.group_by("cause").agg(col.chip_ns.sum())
    assert rows["chip_ns"].sum() == capacity(found)
    return {cause: ns / S for cause, ns in sorted(rows.iter_rows()) if ns}


def capacity(found: Computed) -> int:
    """Chip-nanoseconds of capacity within the window, added up by hand."""
    window, rows = found.window, found.stock.capacity
    return sum(
        max(0, min(row["end_ns"], window.end_ns) - max(row["start_ns"], window.start_ns)) * row["chips"]
        for row in rows.iter_rows(named=True)
    )


def waits(found: Computed) -> dict[str, dict[str, float]]:
    """By job, the seconds of its waits by cause, all attempts together."""
    jobs = dict(found.attempts.select("id", "job").iter_rows())
    told: dict[str, dict[str, float]] = {}
    for row, cause, ns in found.waited.select("id", "cause", "wait_ns").sort("id", "cause").iter_rows():
        by = told.setdefault(jobs[row], {})
        by[cause] = by.get(cause, 0) + ns / S
    return told


def attempts(found: Computed, *names: str) -> list[tuple[Any, ...]]:
    """Columns of the attempts in order of job and attempt; what ends in _ns is in seconds."""
    rows = found.attempts.sort("job_id", "attempt", "id")
    picked = [rows[name].to_list() for name in names]
    for name, values in zip(names, picked, strict=True):
        if name.endswith("_ns"):
            values[:] = [None if ns is None else ns / S for ns in values]
    return list(zip(*picked, strict=True))
