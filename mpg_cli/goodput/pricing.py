"""What each compute kernel could have taken at best: the FLOPs and bytes of its operator against its chip.

A kernel is charged to the innermost operator around its launch that has a model. The cost of an operator is shared out
over its kernels by duration. An operator whose FLOPs are already charged through an operator inside it is not charged
again: its own kernels (padding, casts) stay unmodelled. Kernels without a launch call take the cost of linked kernels
with the same neighbours (see `neighbours`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput.costing import find_costs
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
BASES = ("peak", "roofline", "achievable")
KERNEL_COLUMNS = (
    "subject", "source", "stream", "start_ns", "end_ns", "dur_ns", "name", "correlation", "external_id",
)  # fmt: skip
TF32_KERNEL = r"(?i)tf32|s1688(?:gemm|cudnn|fprop|dgrad|wgrad)"


@dataclass(frozen=True)
class Priced:
    """kernels: all compute kernels, with subject, stream, name, start_ns, end_ns, call (null: no model), op (row of
    the charged operator), recompute, inferred, flops, bytes, ideal_ps, roofline_ps, peak_ps (null: no model, or a type
    without a peak); the last five are the kernel's share of its operator's. assumed_fp32_ns: time of kernels whose
    operands are float and that were held against fp32 because no name says TF32.
    """

    kernels: pl.DataFrame
    calls: pl.DataFrame
    assumed_fp32_ns: int


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
    kernels = ops.filter(compute).select(KERNEL_COLUMNS)
    linked = launching_operator(kernels, operators)
    launched = linked.filter(pl.col("row").is_not_null()).select("row", pl.col("name").cast(pl.String))
    costs = find_costs(operators, models, annotations, launched)
    charged = charge(operators, costs, linked["row"].drop_nulls().unique())
    flags = operators.ops.select("row", "recompute", own_call="call")
    linked = (
        linked.join(flags, on="row", how="left", maintain_order="left")
        .join(charged, on="row", how="left", maintain_order="left")
        .join(_named(costs, operators), on="cost", how="left", maintain_order="left")
        .with_columns(
            recompute=pl.col("recompute").fill_null(value=False), tf32=_tf32(linked["name"].unique())
        )
    )
    timed = _with_times(_infer_unlinked(_share_costs(linked)), chips, basis)
    return Priced(timed, operators.calls, _assumed(timed))


def _named(costs: Costs, operators: Operators) -> pl.DataFrame:
    """The costs with the operator's name, and FLOPs and bytes of the whole operator beside those to be shared out."""
    names = operators.calls.select("call", operator="name")
    table = costs.table().join(names, on="call", how="left", maintain_order="left")
    return table.with_columns(flops_whole="flops", bytes_whole="bytes").cast({pl.String: pl.Categorical})


def _tf32(names: pl.Series) -> pl.Expr:
    """Whether the kernel's name says TF32; asked once per name."""
    return pl.col("name").is_in(names.filter(names.cast(pl.String).str.contains(TF32_KERNEL)).implode())


def launching_operator(ops: pl.DataFrame, operators: Operators) -> pl.DataFrame:
    """`ops` (kernels) with row: the innermost operator around the launch, by External id, else through the launch call.

    An external id that equals the correlation id is no link: some profilers write the one as the other.
    """
    asked = ops.select("source", "external_id").drop_nulls().unique()
    by_id = operators.ops.join(asked, on=["source", "external_id"], how="semi").unique(
        ["source", "external_id"], keep="first", maintain_order=True
    )
    real = pl.when(pl.col("external_id").ne_missing(pl.col("correlation"))).then("external_id")
    linked = ops.with_columns(_id=real).join(
        by_id.select("source", "external_id", _by_id="row"),
        left_on=["source", "_id"], right_on=["source", "external_id"], how="left", maintain_order="left",
    )  # fmt: skip
    for key in ("correlation", "external_id"):
        calls = operators.launches.filter(pl.col(key).is_not_null() & pl.col("op").is_not_null())
        calls = calls.unique(["source", key], keep="first").select(
            "source", key, pl.col("op").alias(f"_by_{key}")
        )
        linked = linked.join(calls, on=["source", key], how="left", maintain_order="left")
    by_launch = (
        pl.when(pl.col("correlation").is_not_null()).then("_by_correlation").otherwise("_by_external_id")
    )
    return linked.with_columns(row=pl.coalesce("_by_id", by_launch)).drop(
        "_id", "_by_id", "_by_correlation", "_by_external_id"
    )


def charge(operators: Operators, costs: Costs, used: Iterable[int]) -> pl.DataFrame:
    """row, charged, cost: for every operator that launched something (`used`), the operator that is charged and the
    number of its cost; rows for which there is none are left out.
    """
    parent = operators.column("parent")
    charged = {row: top for row in used if (top := _innermost(row, parent, costs)) >= 0}
    inside = {top for top in charged.values() if costs.flops(top)}
    shadowed = _ancestors(inside, parent)
    pairs = [
        (row, top, costs.of(top))
        for row, top in charged.items()
        if not (top in shadowed and costs.flops(top))
    ]
    schema = {"row": pl.UInt32, "charged": pl.UInt32, "cost": pl.UInt32}
    return pl.DataFrame(pairs, schema=schema, orient="row")


def _innermost(row: int, parent: array[int], costs: Costs) -> int:
    while row >= 0 and costs.of(row) is None:
        row = parent[row]
    return row


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


def _infer_unlinked(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels without an operator take the model, and the mean FLOPs and bytes, of those that run amid the same names.

    What they take is told apart by operator, FLOPs, bytes and type; whether it was recomputation is asked apart, and
    taken for no where the neighbours do not tell.
    """
    rows = kernels.with_columns(linked=pl.col("row").is_not_null(), inferred=pl.col("row").is_null())
    if rows["linked"].all():
        return rows
    alike = ["operator", "flops_whole", "bytes_whole", "dtype"]
    kinds = rows.filter("linked", pl.col("cost").is_not_null()).select(alike).unique(maintain_order=True)
    rows = rows.join(
        kinds.with_row_index("alike"), on=alike, how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(alike=pl.when("linked").then("alike"))
    rows = rows.with_columns(infer(rows, "alike"), infer(rows, "recompute").fill_null(value=False))
    taught = ["cost", "call", "flops", "bytes", "dtype", "unit", "model", "tf32", "operator"]
    typical = (
        rows.filter("linked", pl.col("alike").is_not_null())
        .group_by("subject", "alike", "name")
        .agg(
            pl.col("flops", "bytes").mean(),
            pl.col(*(c for c in taught if c not in ("flops", "bytes"))).first(),
        )
    )
    guessed = rows.filter("inferred").drop(taught).join(
        typical, on=["subject", "alike", "name"], how="left", maintain_order="left"
    )  # fmt: skip
    guessed = guessed.with_columns(pl.col("tf32").fill_null(value=False))
    return pl.concat([rows.filter("linked"), guessed.select(rows.columns)])


def _with_times(kernels: pl.DataFrame, chips: Mapping[int, Chip], basis: str) -> pl.DataFrame:
    """The kernel's best time by FLOPs, by bytes, and by the basis, in picoseconds."""
    rates = pl.concat([_rates(subject, chip, kernels, basis) for subject, chip in chips.items()])
    bandwidth = pl.DataFrame(
        [(subject, chip.bytes_per_second) for subject, chip in chips.items()],
        schema={"subject": pl.Int64, "bytes_per_s": pl.Int64}, orient="row",
    )  # fmt: skip
    timed = kernels.join(
        rates, on=["subject", "dtype", "tf32"], how="left", nulls_equal=True, maintain_order="left"
    )
    timed = timed.join(bandwidth, on="subject", how="left", maintain_order="left")
    by_flops = (
        pl.when(pl.col("flops") == 0).then(0.0).otherwise(pl.col("flops") * PS_PER_S / pl.col("flops_per_s"))
    )
    by_bytes = pl.col("bytes") * PS_PER_S / pl.col("bytes_per_s")
    timed = timed.with_columns(peak_ps=by_flops, bytes_ps=by_bytes)
    roofline = pl.max_horizontal("peak_ps", pl.col("bytes_ps").fill_null(0.0))
    known = pl.col("peak_ps").is_not_null()
    ideal = roofline if basis == "roofline" else pl.col("peak_ps")
    return timed.with_columns(
        ideal_ps=pl.when(known).then(ideal).round().cast(pl.Int64),
        roofline_ps=pl.when(known).then(roofline).round().cast(pl.Int64),
    )


def _rates(subject: int, chip: Chip, kernels: pl.DataFrame, basis: str) -> pl.DataFrame:
    """FLOP/s by (dtype, tf32) on one chip; float without a TF32 kernel is held against the fp32 of the vector unit."""
    rows = []
    for dtype in kernels["dtype"].drop_nulls().unique().sort():
        for tf32 in (False, True):
            rate = _rate(chip, dtype, tf32=tf32, basis=basis)
            rows.append((subject, dtype, tf32, rate))
    schema = {"subject": pl.Int64, "dtype": pl.String, "tf32": pl.Boolean, "flops_per_s": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").cast({"dtype": kernels.schema["dtype"]})


def _rate(chip: Chip, dtype: str, *, tf32: bool, basis: str) -> int | None:
    name = dtype_name(dtype)
    if name == "fp32" and tf32:
        name = "tf32"
    if name is None:
        return None
    if basis == "achievable":
        sustained = chip.achievable(name)
        return sustained.flops_per_second if sustained else None
    peaks = [chip.peak(name, "matrix"), chip.peak(name, "vector")]
    known = [peak.flops_per_second for peak in peaks if peak is not None]
    return max(known, default=None)


def _assumed(kernels: pl.DataFrame) -> int:
    assumed = (pl.col("dtype") == "float") & ~pl.col("tf32") & (pl.col("flops") > 0)
    return int(kernels.filter(assumed)["dur_ns"].sum())
