"""What each compute kernel could have taken at best: the FLOPs and bytes of its operator against its chip.

A kernel is charged to the innermost operator around its launch that has a model, or to the nearest one that the user
declared: a declaration covers all that runs inside. The cost of an operator is shared out over its kernels by duration.
An operator whose work is already charged through operators inside it is not charged again: its own kernels (padding,
casts) stay unmodelled. Kernels whose launch call is not in the file take the cost of linked kernels with the same
neighbours (see `neighbours`); those of a replayed graph do not, since what was launched is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput.costing import find_costs
from mpg_cli.goodput.models import is_wrapper
from mpg_cli.goodput.neighbours import infer
from mpg_cli.hardware.dtypes import dtype_name

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Mapping

    from mpg_cli.goodput.costing import Costs
    from mpg_cli.goodput.models import Models
    from mpg_cli.goodput.operators import Operators
    from mpg_cli.hardware.chip import Chip

PS_PER_S = 10**12
LONGEST_PS = 1 << 62
KERNEL_COLUMNS = (
    "subject", "source", "stream", "start_ns", "end_ns", "dur_ns", "name", "correlation", "external_id",
    "graph_node",
)  # fmt: skip
XLA = ("hlo", "part")  # only where there are operations of XLA programs
PROFILED = ("family", "grid", "block")  # what profiled kernels are joined by; only where there are some
TIMES = ("peak_ps", "bytes_ps", "ideal_ps", "roofline_ps")
TF32_KERNEL = r"(?i)tf32|s1688(?:gemm|cudnn|fprop|dgrad|wgrad)"


@dataclass(frozen=True)
class Priced:
    """kernels: all compute kernels, one row each.

    subject, stream, name, start_ns, end_ns, dur_ns, PROFILED: what ran; row, own_call: the operator around the launch;
    charged, call, operator, model, dtype, exact: the operator that pays, and its cost (null: no model); recompute,
    inferred, tf32 (bool); flops, bytes: the kernel's share of the cost; peak_ps, bytes_ps: the time they take at the
    chip's peak and bandwidth; ideal_ps: at what the basis says; roofline_ps: the larger of the first two, as far as
    they are known. The last two are null where the basis has no figure: no model, no peak of the type, and for
    `roofline` no bytes.
    """

    kernels: pl.DataFrame
    calls: pl.DataFrame


def price(
    ops: pl.DataFrame,
    operators: Operators,
    annotations: pl.DataFrame,
    chips: Mapping[int, Chip],
    models: Models,
    basis: str = "peak",
) -> Priced:
    """Price the compute kernels of `ops` (activity.ops) on the chips of their subjects; others are left out."""
    compute = (pl.col("activity") == "compute") & pl.col("subject").is_in(list(chips))
    extras = (extra for extra in (PROFILED, XLA) if extra[-1] in ops.columns)
    columns = [*KERNEL_COLUMNS, *chain.from_iterable(extras)]
    kernels = ops.filter(compute).select(columns)
    linked = launching_operator(kernels, operators)
    launched = linked.filter(pl.col("row").is_not_null()).select("row", pl.col("name").cast(pl.String))
    costs = find_costs(operators, models, annotations, launched)
    charged = charge(operators, costs, linked["row"].drop_nulls().unique())
    flags = operators.ops.select("row", "recompute", own_call="call")
    in_call = pl.col("tf32").any().over("charged")  # of the kernels of a product only one may say so
    linked = (
        linked.join(flags, on="row", how="left", maintain_order="left")
        .join(charged, on="row", how="left", maintain_order="left")
        .join(_named(costs, operators), on="cost", how="left", maintain_order="left")
        .with_columns(
            recompute=pl.col("recompute").fill_null(value=False), tf32=_tf32(linked["name"].unique())
        )
        .with_columns(tf32=pl.when(pl.col("charged").is_null()).then("tf32").otherwise(in_call))
    )
    return Priced(with_times(_infer_carried(_share_costs(linked)), chips, basis), operators.calls)


def _named(costs: Costs, operators: Operators) -> pl.DataFrame:
    """The costs with the operator's name, and FLOPs and bytes of the whole operator beside those to be shared out."""
    names = operators.calls.select("call", operator="name")
    table = costs.table().join(names, on="call", how="left", maintain_order="left")
    return table.with_columns(flops_whole="flops", bytes_whole="bytes").cast({pl.String: pl.Categorical})


def _tf32(names: pl.Series) -> pl.Expr:
    """Whether the kernel's name says TF32; asked once per name."""
    return pl.col("name").is_in(names.filter(names.cast(pl.String).str.contains(TF32_KERNEL)).implode())


def launching_operator(ops: pl.DataFrame, operators: Operators) -> pl.DataFrame:
    """`ops` (kernels) with row: the innermost operator around the launch, by External id, else through the launch call;
    and launched (bool): whether the launch call is in the file.

    Ids of 0 are none. An external id that equals the correlation id is no link: some profilers write the one as the
    other.
    """
    ids = ("correlation", "external_id")
    kernels = ops.with_columns(pl.when(pl.col(key) != 0).then(key).alias(key) for key in ids)
    asked = kernels.select("source", "external_id").drop_nulls().unique()
    by_id = operators.ops.join(asked, on=["source", "external_id"], how="semi").unique(
        ["source", "external_id"], keep="first", maintain_order=True
    )
    real = pl.when(pl.col("external_id").ne_missing(pl.col("correlation"))).then("external_id")
    linked = kernels.with_columns(_id=real).join(
        by_id.select("source", "external_id", _by_id="row"),
        left_on=["source", "_id"], right_on=["source", "external_id"], how="left", maintain_order="left",
    )  # fmt: skip
    for key in ids:
        calls = operators.launches.filter(pl.col(key) != 0).sort("op", nulls_last=True)
        found = calls.unique(["source", key], keep="first").select(
            "source", key, pl.col("op").alias(f"_by_{key}"), pl.lit(value=True).alias(f"_at_{key}")
        )
        linked = linked.join(found, on=["source", key], how="left", maintain_order="left")
    by_correlation = pl.col("correlation").is_not_null()
    by_launch, launched = (
        pl.when(by_correlation).then(f"_{what}_correlation").otherwise(f"_{what}_external_id")
        for what in ("by", "at")
    )
    linked = linked.with_columns(
        row=pl.coalesce("_by_id", by_launch), launched=launched.fill_null(value=False)
    )
    return linked.select(*ops.columns, "row", "launched")


def charge(operators: Operators, costs: Costs, used: Iterable[int]) -> pl.DataFrame:
    """row, charged, cost: for every operator that launched something (`used`), the operator that is charged and the
    number of its cost; rows for which there is none are left out.
    """
    parent = operators.column("parent")
    find = _declared_or_innermost if costs.any_declared else _innermost
    charged = {row: top for row in used if (top := find(row, parent, costs)) >= 0}
    tops = set(charged.values())
    around_flops = _ancestors({top for top in tops if costs.flops(top)}, parent)
    around = _ancestors(tops, parent)
    twice = {
        top
        for top in tops
        if top in (around_flops if costs.flops(top) else around if is_wrapper(costs.name(top)) else ())
    }
    pairs = [(row, top, costs.of(top)) for row, top in charged.items() if top not in twice]
    schema = {"row": pl.UInt32, "charged": pl.UInt32, "cost": pl.UInt32}
    return pl.DataFrame(pairs, schema=schema, orient="row")


def _innermost(row: int, parent: array[int], costs: Costs) -> int:
    while row >= 0 and costs.of(row) is None:
        row = parent[row]
    return row


def _declared_or_innermost(row: int, parent: array[int], costs: Costs) -> int:
    up = row
    while up >= 0 and not costs.declared(up):
        up = parent[up]
    return up if up >= 0 else _innermost(row, parent, costs)


def _ancestors(rows: Iterable[int], parent: array[int]) -> set[int]:
    seen: set[int] = set()
    for row in rows:
        up = parent[row]
        while up >= 0 and up not in seen:
            seen.add(up)
            up = parent[up]
    return seen


def _share_costs(kernels: pl.DataFrame) -> pl.DataFrame:
    """FLOPs and bytes of each kernel: its operator's, in proportion to its duration among the operator's kernels."""
    whole = pl.col("dur_ns").sum().over("charged")
    count = pl.len().over("charged")
    part = pl.when(whole > 0).then(pl.col("dur_ns") / whole).otherwise(1.0 / count)
    known = pl.col("charged").is_not_null()
    return kernels.with_columns(
        flops=pl.when(known).then(pl.col("flops") * part), bytes=pl.when(known).then(pl.col("bytes") * part)
    )


def _infer_carried(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels launched before the file begins take the model, and the mean FLOPs and bytes, of those that run amid the
    same names.

    What they take is told apart by operator, FLOPs, bytes, type and TF32; whether it was recomputation is asked apart,
    and taken for no where the neighbours do not tell.
    """
    carried = pl.col("row").is_null() & ~pl.col("launched") & pl.col("graph_node").is_null()
    if "hlo" in kernels.columns:
        carried &= pl.col("hlo").is_null()  # its operation is known
    rows = kernels.with_columns(linked=~carried, inferred=carried)
    if rows["linked"].all():
        return rows
    alike = ["operator", "flops_whole", "bytes_whole", "dtype", "tf32"]
    kinds = rows.filter("linked", pl.col("cost").is_not_null()).select(alike).unique(maintain_order=True)
    rows = rows.join(
        kinds.with_row_index("alike"), on=alike, how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(alike=pl.when("linked").then("alike"))
    rows = rows.with_columns(infer(rows, "alike"), infer(rows, "recompute").fill_null(value=False))
    means = ("flops", "bytes")
    taught = ("cost", "call", "dtype", "unit", "model", "exact", "tf32", "operator")
    typical = (
        rows.filter("linked", pl.col("alike").is_not_null())
        .group_by("subject", "alike", "name")
        .agg(pl.col(means).mean(), pl.col(taught).first())
    )
    guessed = rows.filter("inferred").drop(*means, *taught).join(
        typical, on=["subject", "alike", "name"], how="left", maintain_order="left"
    )  # fmt: skip
    guessed = guessed.with_columns(pl.col("tf32").fill_null(value=False))
    return pl.concat([rows.filter("linked"), guessed.select(rows.columns)])


def with_times(kernels: pl.DataFrame, chips: Mapping[int, Chip], basis: str) -> pl.DataFrame:
    """The kernel's best time by FLOPs, by bytes, and by the basis, in picoseconds."""
    rates = _rates(kernels, chips, basis)
    bandwidth = pl.DataFrame(
        [(subject, chip.bytes_per_second) for subject, chip in chips.items()],
        schema={"subject": pl.Int64, "bytes_per_s": pl.Int64}, orient="row",
    )  # fmt: skip
    timed = kernels.join(
        rates, on=["subject", "dtype", "tf32"], how="left", nulls_equal=True, maintain_order="left"
    ).join(bandwidth, on="subject", how="left", maintain_order="left")
    peak, sustained = (
        pl.when(pl.col("flops") == 0).then(0.0).otherwise(pl.col("flops") * PS_PER_S / pl.col(rate))
        for rate in ("peak", "sustained")
    )
    timed = timed.with_columns(
        peak_ps=peak, bytes_ps=pl.col("bytes") * PS_PER_S / pl.col("bytes_per_s"), sustained_ps=sustained
    )
    roofline = pl.max_horizontal("peak_ps", pl.col("bytes_ps").fill_null(0.0))
    whole = pl.when(pl.col("bytes_ps").is_not_null()).then(roofline)
    ideal = {"peak": pl.col("peak_ps"), "achievable": pl.col("sustained_ps"), "roofline": whole}[basis]
    known = pl.col("peak_ps").is_not_null() & ideal.is_not_null()
    return timed.with_columns(
        ideal_ps=picoseconds(pl.when(known).then(ideal)),
        roofline_ps=picoseconds(pl.when(known).then(roofline)),
    ).drop("peak", "sustained", "bytes_per_s", "sustained_ps")


def picoseconds(time: pl.Expr) -> pl.Expr:
    """Whole picoseconds, at most 53 days: damaged shapes may ask for more than an integer holds."""
    return time.clip(0, LONGEST_PS).round().cast(pl.Int64)


def _rates(kernels: pl.DataFrame, chips: Mapping[int, Chip], basis: str) -> pl.DataFrame:
    """FLOP/s by (subject, dtype, tf32): the peak, and what is sustained if the basis asks for that.

    Float is held against fp32 (of NVIDIA: the vector unit), unless the kernel's name says TF32.
    """
    rows = []
    for subject, chip in chips.items():
        for dtype in kernels["dtype"].drop_nulls().unique().sort():
            for tf32 in (False, True):
                name = dtype_name(dtype)
                name = "tf32" if tf32 and name == "fp32" else name
                sustained = chip.achievable(name) if name and basis == "achievable" else None
                rows.append(
                    (subject, dtype, tf32, _peak(chip, name), sustained and sustained.flops_per_second)
                )
    schema = {
        "subject": pl.Int64,
        "dtype": pl.String,
        "tf32": pl.Boolean,
        "peak": pl.Int64,
        "sustained": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").cast({"dtype": kernels.schema["dtype"]})


def _peak(chip: Chip, dtype: str | None) -> int | None:
    """The rate of the faster unit."""
    peaks = [chip.peak(dtype, "matrix"), chip.peak(dtype, "vector")] if dtype else []
    return max((peak.flops_per_second for peak in peaks if peak is not None), default=None)
