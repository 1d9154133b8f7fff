"""Traces of a few ranks, made of rows. Times are milliseconds where a function says nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import activity, collectives, ledger, runtime
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import Windows
from tests.mpg_cli.datasets import COMM, comm, dataset, source

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_parsers.errors import Notice

MS = 1_000_000
RULES = NameRules.load()
GATHER, SEND_RECV = (
    "ncclDevKernel_AllGather_RING_LL",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
)


def reduce(start: float, dur: float, seq: int | None = None, **more: Any) -> dict[str, Any]:
    """An all-reduce with its arguments."""
    about = {"collective": "allreduce", "group": "0", "seq": seq}
    return comm(int(start * MS), int(dur * MS), **(about | more))


def plain(start: float, dur: float, name: str = COMM, **more: Any) -> dict[str, Any]:
    """A collective of which only the kernel's name is known."""
    return comm(int(start * MS), int(dur * MS), name, **more)


def load(*ranks: list[Any], names: list[int | None] | None = None) -> Activity:
    numbers = range(len(ranks)) if names is None else names
    files = [
        source(ops, rank=n, path=f"{i}.json") for i, (ops, n) in enumerate(zip(ranks, numbers, strict=True))
    ]
    made = dataset(*files)
    return activity.load(made, made.scan("sources").collect(), RULES)


def kinds(notices: list[Notice]) -> list[str]:
    return [notice.kind for notice in notices]


def busy_of(loaded: Activity) -> pl.DataFrame:
    return runtime.busy_intervals(loaded.ops)


def windows_of(loaded: Activity, basis: str = "steps") -> Windows:
    """Windows over each source's device activity, said to be of this basis."""
    hulls = loaded.ops.group_by("source").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    about = {"process": pl.lit(None, pl.Int64), "basis": pl.lit(basis), "steps": pl.lit(1)}
    by_source = hulls.with_columns(**about).sort("source")
    return Windows(by_source, pl.DataFrame())


def spans_of(loaded: Activity, windows: Windows) -> pl.DataFrame:
    return loaded.subjects.select("subject", "source").join(windows.by_source, on="source")


def segments_of(loaded: Activity, matched: pl.DataFrame, spans: pl.DataFrame, idle: str) -> pl.DataFrame:
    """Who had the devices when, with all idle time under the cause `idle`."""
    claims = runtime.claims(busy_of(loaded), collectives.claims(loaded, matched))
    capacity = spans.select("subject", "start_ns", "end_ns", chips=pl.lit(1, pl.Int64))
    found = ledger.resolve(capacity, claims, runtime.CAUSES, idle, segments=True).segments
    assert found is not None
    return found
