"""Tiny datasets, made of rows instead of files. All times are nanoseconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.store import Dataset
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = dict[str, Any]
COMPUTE, COMM = "sgemm_128x64", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def op(start: int, dur: int, name: str = COMPUTE, *, device: int = 0, stream: int = 7, **more: Any) -> Row:
    row = {
        "device": device,
        "stream": stream,
        "start_ns": start,
        "dur_ns": dur,
        "kind": "kernel",
        "name": name,
    }
    return row | more


def comm(start: int, dur: int, name: str = COMM, **more: Any) -> Row:
    return op(start, dur, name, **({"stream": 9} | more))


def copy(start: int, dur: int, **more: Any) -> Row:
    return op(start, dur, "Memcpy HtoD (Pinned -> Device)", kind="memcpy", **more)


def graph(start: int, dur: int, **more: Any) -> Row:
    return op(start, dur, "graph", kind="graph", **more)


def host(start: int, dur: int | None, name: str, kind: str = "annotation", **more: Any) -> Row:
    return {"process": 1, "thread": 1, "start_ns": start, "dur_ns": dur, "name": name, "kind": kind} | more


def call(correlation: int | None, name: str = "cudaLaunchKernel", *, at: int = 0, **more: Any) -> Row:
    return host(at, 1, name, "runtime", correlation=correlation, **more)


def step(number: int | None, start: int, end: int, name: str = "") -> Row:
    return {"step": number, "name": name or f"ProfilerStep#{number}", "start_ns": start, "end_ns": end}


def source(
    ops: Sequence[Row] = (),
    *,
    steps: Sequence[Row] = (),
    events: Sequence[Row] = (),
    notices: Sequence[Mapping[str, Any]] = (),
    path: str = "trace.json",
    **about: Any,
) -> dict[str, list[Row]]:
    """The rows of one file."""
    ends = [(r["start_ns"], r["start_ns"] + (r["dur_ns"] or 0)) for r in (*ops, *events)]
    row = {
        "path": path,
        "sha256": "0" * 64,
        "size": 1,
        "format": "pytorch",
        "framework": "PyTorch",
        "events": len(ends),
        "notices": json.dumps(list(notices)),
        "first_ns": min((a for a, _ in ends), default=None),
        "last_ns": max((b for _, b in ends), default=None),
    }
    devices = sorted({(r.get("process"), r["device"]) for r in ops}, key=str)
    return {
        "sources": [row | about],
        "devices": [{"process": process, "device": device} for process, device in devices],
        "device_ops": list(ops),
        "host_events": list(events),
        "steps": list(steps),
    }


def dataset(*sources: dict[str, list[Row]]) -> Dataset:
    made = Dataset()
    for rows in sources:
        made.add({name: table(name, rows[name]).lazy() for name in rows})
    return made


def table(name: str, rows: Iterable[Row]) -> pl.DataFrame:
    """Rows of a canonical table; what a row leaves out is null."""
    schema = TABLES[name].schema()
    listed = [{column: row.get(column) for column in schema} | {"source": 0} for row in rows]
    return pl.DataFrame(listed, schema=schema)
