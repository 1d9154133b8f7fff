"""What a utilisation dashboard would have shown over the windows: GPU-Util, SM activity, occupancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

RESIDENT = ("kernel", "graph")  # copies and sets run on copy engines, which GPU-Util does not see
BILLION = 1_000_000_000
KNOWN = 0.9  # share of kernel time that must be known for an estimate to stand for all of it
# Kineto records the grid of this call in work items, where that of all others is in blocks
ITEM_LAUNCH = "hipExtModuleLaunchKernel"
DEVICE = ("source", "process", "device")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Shares of 0 to 1, null with a reason.

    gpu_util: time with any kernel resident; waiting: time in which only communication kernels were; sm_activity: sum of
    duration x min(blocks per SM, 1); all three of the windows' length. occupancy: duration-weighted mean over the
    kernels with a possible one. known, occupancy_known: share of summed kernel time whose blocks per SM are known, and
    whose occupancy is.
    """

    gpu_util: float
    waiting: float
    sm_activity: float | None
    occupancy: float | None
    known: float
    occupancy_known: float
    reasons: dict[str, str]


def measure(dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> Dashboard:
    """The dashboard's figures over `spans` (subject, start_ns, end_ns: the window of each device).

    nvidia-smi's GPU-Util is the share of time in which one or more kernels executed (NVML, nvmlUtilization_t). SM
    activity and occupancy are the estimates of torch-tb-profiler (docs/gpu_utilization.md there): blocks per SM are
    those of the launch, not of the kernel's whole run; kernels that run at the same time add up, to gpu_util at most.
    """
    spans = spans.select("subject", "start_ns", "end_ns")
    whole = int((spans["end_ns"] - spans["start_ns"]).sum())
    kinds = col.kind.cast(pl.String)
    # a core of a TPU that waits for a copy is at work; a GPU's copy engines are not seen
    waiting = (
        (kinds == "memcpy") & ~col.asynchronous
        if "asynchronous" in loaded.ops.columns
        else pl.lit(value=False)
    )
    resident = loaded.ops.filter(kinds.is_in(RESIDENT) | waiting.fill_null(value=False))
    comm = resident["activity"].cast(pl.String) == "comm"
    busy = _length(resident, spans)
    beside = _length(resident.filter(~comm), spans) if comm.any() else busy
    kernels = pl.concat([_recorded(dataset, loaded, spans), _from_grids(dataset, loaded, spans)])
    sums = _sums(kernels)
    reasons: dict[str, str] = {}
    known = _share(sums["known"], sums["total"], 1.0)
    if known < KNOWN:
        reasons["sm_activity"] = f"the blocks per SM are known for {_percent(known)} of kernel time only"
    occupied = _share(sums["occupied"], sums["total"], 1.0)
    if sums["total"] == 0:
        reasons["occupancy"] = "no kernel ran in the windows"
    elif occupied < KNOWN:
        reasons["occupancy"] = (
            f"a possible occupancy is recorded for {_percent(occupied)} of kernel time only"
        )
    return Dashboard(
        gpu_util=_share(busy, whole),
        waiting=_share(busy - beside, whole),
        sm_activity=None if "sm_activity" in reasons else _share(min(sums["active"], busy), whole),
        occupancy=None if "occupancy" in reasons else sums["warps"] / sums["occupied"],
        known=known,
        occupancy_known=occupied,
        reasons=reasons,
    )


def _sums(kernels: pl.LazyFrame) -> dict[str, float]:
    """Of kernel time: in all, with known blocks, times blocks (at most one per SM), with known occupancy, times it.

    kernels: ns, blocks (per SM; null: not known), occupancy (%; null: not known). One with a block on every SM keeps
    one of at most 64 warps busy, an occupancy of at least 1.6 %: a rounded 0 is then none (Kineto writes it for
    kernels whose attributes it cannot read).
    """
    possible = (col.occupancy > 0) | (col.blocks < 1) | col.blocks.is_null()
    sums = kernels.with_columns(occupancy=pl.when(possible).then("occupancy")).select(
        total=col.ns.sum(),
        known=col.ns.filter(col.blocks.is_not_null()).sum(),
        active=_weighted(pl.min_horizontal("blocks", 1.0)),
        occupied=col.ns.filter(col.occupancy.is_not_null()).sum(),
        warps=_weighted(col.occupancy / 100),
    )
    return sums.collect().row(0, named=True)


def _length(ops: pl.DataFrame, spans: pl.DataFrame) -> int:
    """The length of the union of `ops` inside the windows."""
    merged = intervals.union(ops.select("subject", "start_ns", "end_ns"), ["subject"])
    return int(_inside(merged.lazy(), spans).select(col.ns.sum()).collect().item())


def _inside(rows: pl.LazyFrame, spans: pl.DataFrame) -> pl.LazyFrame:
    """`rows` with ns, the length of what lies in their device's window."""
    met = rows.join(spans.lazy().rename({"start_ns": "from_ns", "end_ns": "to_ns"}), on="subject")
    end, start = pl.min_horizontal("end_ns", "to_ns"), pl.max_horizontal("start_ns", "from_ns")
    return met.with_columns(ns=(end - start).clip(0))


def _kernels(dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> pl.LazyFrame:
    """The kernels and graph rows of device_ops with ns and sm_count."""
    devices = dataset.scan("devices").select(*DEVICE, "sm_count").unique(DEVICE)
    subjects = loaded.subjects.lazy().select("subject", *DEVICE)
    subjects = subjects.join(devices, on=DEVICE, how="left", nulls_equal=True)
    rows = dataset.scan("device_ops").filter(col.kind.is_in(RESIDENT))
    rows = rows.with_columns(end_ns=col.start_ns + col.dur_ns).join(subjects, on=DEVICE, nulls_equal=True)
    return _inside(rows, spans)


def _recorded(dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> pl.LazyFrame:
    """ns, blocks and occupancy of the kernels whose blocks per SM are recorded."""
    rows = _kernels(dataset, loaded, spans).filter(col.blocks_per_sm.is_not_null())
    return rows.select("ns", "occupancy", blocks="blocks_per_sm")


def _from_grids(dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> pl.LazyFrame:
    """ns, blocks and occupancy of the other kernels: their blocks over the SMs of the device."""
    calls = (
        dataset.scan("host_events")
        .filter((col.kind == "runtime") & (col.name == ITEM_LAUNCH) & col.correlation.is_not_null())
        .select("source", "correlation", items=pl.lit(value=True))
        .unique()
    )
    rows = _kernels(dataset, loaded, spans).filter(col.blocks_per_sm.is_null())
    unknown = rows.select("ns", "source", "correlation", "sm_count", "occupancy", "grid", "block").collect()
    for name in ("grid", "block"):
        unknown = _with_product(unknown, name)
    # a grid is in work items there; XLA's own profiles have it in blocks
    items = col.items.is_not_null() & ~col.source.is_in(_of_xla(loaded))
    grid = pl.when(items).then(col.grid / col.block).otherwise("grid")
    blocks = grid / pl.when(col.sm_count > 0).then("sm_count")
    found = unknown.lazy().join(calls, on=["source", "correlation"], how="left")
    return found.select("ns", "occupancy", blocks=blocks)


def _of_xla(loaded: Activity) -> list[int]:
    return loaded.sources.filter(col.format == "xla")["source"].to_list()


def _with_product(kernels: pl.DataFrame, name: str) -> pl.DataFrame:
    """`kernels` with the text of a launch dimension, such as [608, 1, 1], replaced by the product of its numbers."""
    texts = kernels.select(name).unique().drop_nulls()
    numbers = col(name).str.extract_all(r"\d+").cast(pl.List(pl.Float64))
    product = numbers.list.eval(pl.element().product()).list.first()
    known = texts.with_columns(_product=pl.when((numbers.list.len() == 3) & (product > 0)).then(product))
    return kernels.join(known, on=name, how="left").drop(name).rename({"_product": name})


def _weighted(part: pl.Expr) -> pl.Expr:
    """The sum of ns times `part`, in integers: sums of floats would depend on the order of the rows."""
    billionths = (part * BILLION).round().cast(pl.Int128)
    return (col.ns.cast(pl.Int128) * billionths).sum() / BILLION


def _share(part: float, whole: float, empty: float = 0.0) -> float:
    return part / whole if whole else empty


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
