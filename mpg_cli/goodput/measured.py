"""Computing kernels with the FLOPs that Nsight Compute counted, where no model of their operator tells them.

Counts are of the kernel as executed: tile padding, masked-out work that was computed all the same, and recomputation
are in them. As everywhere, only the FLOPs of matrix products, convolutions and attention count: those of the tensor
cores, else those of the vector units, but none of a kernel that its name shows to be element-wise. Of several types of
vector operations those of the most frequent count. Bytes are what went to and from device memory in the replay, which
begins with cold caches; they are no minimum, so they serve to tell memory-bound time but not the basis `roofline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col, lit

from mpg_cli.goodput import counters, intervals
from mpg_cli.goodput.pricing import PROFILED, TIMES, Priced, with_times
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.hardware.chip import Chip
    from mpg_cli.store import Dataset

KERNEL = ("name", "family", "grid", "block")
VECTOR = ("fp32", "fp64", "fp16")
MODEL = "measured"
# families of names.toml whose work has no models with FLOPs
NO_FLOPS = (
    "activation", "copy", "elementwise", "embedding", "index", "kv_cache", "layout", "loss", "normalisation",
    "optimizer", "pooling", "quantisation", "random", "reduction", "resample", "rotary", "scan", "set", "softmax",
    "sort", "spin", "triton",
)  # fmt: skip
NOTABLE = 0.01
MIXED = "tensor operations of several types"
FRACTIONS = ("sm_throughput", "tensor_pipe", "dram_fraction", "achieved_occupancy")
SHOWN = ("launches", *FRACTIONS, "waves_per_sm", "flops", "dtype", "reason")


def load(dataset: Dataset) -> pl.DataFrame | None:
    """The profiled kernels of a dataset (`counters.measured`), None if there are none."""
    profile = counters.load(dataset)
    return None if profile.is_empty() else profile


def work(kernels: pl.DataFrame, profile: pl.DataFrame) -> pl.DataFrame:
    """One row per distinct KERNEL of `kernels`, with what was measured of one launch.

    Besides the columns of `counters.attach`: flops (of the kind that counts; null with `reason` if not known), dtype
    (that of flops, null if those are 0), moved (bytes to and from device memory).
    """
    shapes = kernels.select(KERNEL).unique(maintain_order=True)
    found = counters.attach(shapes.cast(pl.String), profile).rename({"flops": "all_flops"})
    vector = pl.max_horizontal(*(f"{kind}_flops" for kind in VECTOR))
    kind = pl.coalesce(pl.when(col(f"{kind}_flops") == vector).then(lit(kind)) for kind in VECTOR)
    tensor, known = col.tensor_ops > 0, col.launches.is_not_null()
    without = col.family.is_in(NO_FLOPS) & (col.tensor_pipe.fill_null(0) == 0) & known
    flops = (
        pl.when(tensor)
        .then(pl.when(col.tensor_type.is_not_null()).then("tensor_ops"))
        .when(without)
        .then(0.0)
        .when(col.reason.is_null())
        .then(vector)
    )
    dtype = pl.when(tensor).then("tensor_type").when(~without & (vector > 0)).then(kind)
    reason = pl.when(tensor & col.tensor_type.is_null()).then(lit(MIXED)).otherwise("reason")
    told = found.with_columns(flops=flops, dtype=dtype, reason=reason, moved="dram_bytes")
    return told.with_columns(shapes.get_columns(), reason=pl.when(col.flops.is_null()).then("reason"))


def fill(priced: Priced, profile: pl.DataFrame, chips: Mapping[int, Chip], basis: str) -> Priced:
    """`priced` with measured work in those of its kernels that have no peak time; `model` is MODEL there.

    The kernel itself stands for the operator.
    """
    kernels = priced.kernels.with_row_index("at")
    asked = kernels.filter(col.peak_ps.is_null())
    told = work(asked, profile).filter(col.flops.is_not_null())
    told = told.select(*KERNEL, "flops", col.dtype.cast(pl.Categorical), bytes="moved")
    own = asked.drop("flops", "dtype", "bytes", *TIMES).join(told, on=KERNEL, nulls_equal=True)
    known = own.with_columns(
        model=lit(MODEL, pl.Categorical),
        operator="name",
        call=lit(None, kernels.schema["call"]),
        charged=lit(None, kernels.schema["charged"]),
        exact=lit(value=True),
        inferred=lit(value=False),
        tf32=lit(value=False),
    )
    timed = with_times(known, chips, basis)
    if basis == "roofline":
        timed = timed.with_columns(lit(None, pl.Int64).alias(time) for time in ("ideal_ps", "roofline_ps"))
    rest = kernels.join(timed, on="at", how="anti")
    return Priced(pl.concat([rest, timed.select(rest.columns)]).drop("at"), priced.calls)


def with_arguments(kernels: pl.DataFrame) -> pl.DataFrame:
    """`kernels` with grid and block as input_dims, and the type as input_types, where the work was measured."""
    if "grid" not in kernels.columns:
        return kernels
    mine = col.model == MODEL
    grid, block, dtype = (col(name).cast(pl.String) for name in ("grid", "block", "dtype"))
    return kernels.with_columns(
        input_dims=pl.when(mine).then(pl.format("[{}, {}]", grid, block)).otherwise("input_dims"),
        input_types=pl.when(mine).then(pl.format('["{}"]', dtype.fill_null(""))).otherwise("input_types"),
    ).drop(*PROFILED)


def share(inside: pl.DataFrame) -> float:
    """The share of computing time with a peak time whose FLOPs were measured. inside: priced kernels in the windows."""
    judged = inside.filter(col.peak_ps.is_not_null())
    return int(judged.filter(col.model == MODEL)["dur_ns"].sum()) / max(1, int(judged["dur_ns"].sum()))


def basis(inside: pl.DataFrame) -> str:
    """What to add to the basis of PG for the FLOPs that were measured."""
    part = share(inside)
    if not part:
        return ""
    of = "" if part == 1 else f" of {100 * part:.1f} % of it"
    return f", FLOPs{of} by Nsight Compute"


def executed(inside: pl.DataFrame) -> bool:
    """Whether useful FLOPs cannot be told: over NOTABLE of the peak time is measured of kernels without an operator.

    Recomputation shows in operators alone.
    """
    peak = inside.filter(~col.fault)
    unknown = peak.filter((col.model == MODEL) & col.row.is_null())
    return float(unknown["peak_ps"].sum()) > NOTABLE * float(peak["peak_ps"].sum())


def table(ops: pl.DataFrame, spans: pl.DataFrame, profile: pl.DataFrame) -> pl.DataFrame:
    """Computing kernels of `ops` in their windows, by KERNEL, most time first.

    KERNEL, count, time_ns, share of the summed duration, and SHOWN.
    """
    computing = ops.filter(col.activity == "compute").select("subject", "start_ns", "end_ns", *KERNEL)
    inside = intervals.clip(computing, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    sums = inside.group_by(KERNEL).agg(count=pl.len(), time_ns=(col.end_ns - col.start_ns).sum())
    whole = max(1, int(sums["time_ns"].sum()))
    found = sums.join(work(inside, profile), on=KERNEL, nulls_equal=True).cast({pl.Categorical: pl.String})
    shares = (col.time_ns / whole).alias("share")
    return found.select(*KERNEL, "count", "time_ns", shares, *SHOWN).sort(
        "time_ns", *KERNEL, descending=[True] + [False] * len(KERNEL)
    )


def elsewhere(dataset: Dataset, loaded: Activity) -> Iterator[Notice]:
    """A notice where no device of the traces is of the kind that the kernels were profiled on."""
    named = dataset.scan("kernel_counters").select("device_name").unique().drop_nulls().collect()
    profiled, traced = set(named["device_name"]), set(loaded.subjects["name"].drop_nulls())
    if profiled and traced and not profiled & traced:
        message = (
            f"the kernels were profiled on {', '.join(sorted(profiled))[:200]}, the traces are of "
            f"{', '.join(sorted(traced))[:200]}: fractions of the peak are of the former, and FLOPs may differ"
        )
        yield Notice("profiled_elsewhere", message)


def missing(found: pl.DataFrame, most: int = 2) -> str:
    """The kernels of `table` with most time whose FLOPs are not known, and why; "" if there are none."""
    without = found.filter(col.flops.is_null()).head(most)
    rows = without.select("name", "reason", "share").iter_rows()
    return "; ".join(
        f"{name[:60]}, {100 * share:.1f} % of computing: {reason}" for name, reason, share in rows
    )
