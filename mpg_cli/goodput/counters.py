"""What Nsight Compute measured of kernels, joined to the kernels of a trace by name and launch shape.

Operations are counted as executed: tile padding and recomputation are in them. Only counts and fractions of the peak
are taken over; durations and rates are of replayed kernels at the profiler's clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

TOLERANCE = 0.01  # relative, between launches of one shape, and of printed digits
WORK = ("flops", "fp64_flops", "fp32_flops", "fp16_flops", "tensor_ops")
FRACTIONS = (
    "sm_throughput", "memory_throughput", "dram_fraction", "tensor_pipe", "sm_active", "achieved_occupancy",
    "fp64_fraction", "fp32_fraction", "fp16_fraction",
)  # fmt: skip
SHAPE = ("grid", "block")
KEY = ("head", *SHAPE)

# reasons for having no operations
NOT_PROFILED = "not among the profiled kernels"
NO_SHAPE = "the trace has no launch shape of it"
NOT_COUNTED = "not all kinds of operations were counted"
FEW_DIGITS = "printed with too few digits for 1 %"
DIFFER = "launches of one name and shape differ by more than 1 %"
AMBIGUOUS = "several profiled kernels have this name and shape"

CLONE = re.compile(r" \[clone [^\]]*\]$|\.kd$")
UNNAMED = re.compile(r"<unnamed>|\(anonymous namespace\)|\(anonymous\)|_GLOBAL__N__\w+?(?=::)")
CAST = re.compile(r"\([A-Za-z_][\w:<>, ]*\)(?=-?\d)")
SUFFIX = re.compile(r"\b(\d+)(?:ull|ul|u|ll|l)\b")
CONST = re.compile(r"\bconst\b")
BOOLEANS = {"true": "1", "false": "0"}
BOOLEAN = re.compile(r"\b(?:true|false)\b")
SPACE = re.compile(r"\s+(?!\w)|(?<!\w)\s+")
PLACEHOLDER = re.compile(r"\bT\d+\b")


def load(dataset: Dataset) -> pl.DataFrame:
    """`measured` of all that the dataset holds."""
    return measured(dataset.scan("kernel_counters").collect())


def signature(name: str) -> tuple[str, str]:
    """(name with template arguments, parameters) of a demangled kernel name, written in one way.

    NVIDIA's demangler and the C++ library's (which PyTorch uses) differ: "k<(int)4, (bool)1>(const float *, T2)" is
    "void k<4, true>(float const*, unsigned long)" there. A name without parameters has "" for them.
    """
    plain = CLONE.sub("", name).strip()
    at = _parameters_at(plain)
    return _plain(plain[:at]).removeprefix("void "), _plain(plain[at:])


def _parameters_at(name: str) -> int:
    """Where the parenthesis begins that ends the name; its length if none does."""
    depth = 0
    if name.endswith(")"):
        for at in range(len(name) - 1, 0, -1):
            depth += (name[at] == ")") - (name[at] == "(")
            if not depth:
                return at
    return len(name)


def _plain(text: str) -> str:
    text = CAST.sub("", UNNAMED.sub("(anonymous)", text))
    text = BOOLEAN.sub(lambda match: BOOLEANS[match[0]], SUFFIX.sub(r"\1", text))
    return SPACE.sub("", CONST.sub("", text)).strip()


def measured(counters: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel name and launch shape of kernel_counters.

    head, parameters (see signature), grid, block ("x y z"), launches; flops and its parts, FLOP per launch: their
    mean where launches agree within TOLERANCE, else null with `reason`; spread: highest by lowest flops, less 1;
    tensor_type where it is one; the means of FRACTIONS, waves_per_sm and dram_bytes.
    """
    keyed = _keyed(counters).with_columns(reason=_reason_of_launch())
    lowest, highest = pl.col("flops").min(), pl.col("flops").max()
    grouped = keyed.group_by(*KEY, "parameters", maintain_order=True).agg(
        name=pl.col("name").first(),
        launches=pl.len().cast(pl.Int64),
        reason=pl.col("reason").drop_nulls().first(),
        spread=pl.when(lowest > 0).then(highest / lowest - 1).when(highest == 0).then(0.0),
        differ=highest > lowest * (1 + TOLERANCE),
        tensor_type=pl.when(pl.col("tensor_type").n_unique() == 1).then(pl.col("tensor_type").first()),
        **{column: pl.col(column).mean() for column in (*WORK, *FRACTIONS, "waves_per_sm", "dram_bytes")},
    )
    differ = pl.when("differ").then(pl.lit(DIFFER))
    known = grouped.with_columns(reason=pl.coalesce("reason", differ)).drop("differ")
    return known.with_columns(
        pl.when(pl.col("reason").is_null()).then(column).alias(column) for column in WORK
    )


def attach(kernels: pl.DataFrame, profiled: pl.DataFrame) -> pl.DataFrame:
    """`kernels` (name, grid, block as in device_ops, distinct or not), in order, with the columns of `measured`.

    The three come back as String.
    Of these, the names come as profiled_name. A kernel fits a profiled one of the same launch shape and name;
    parameters have to agree too, unless they are written as placeholders (T2). Where several fit, or none, launches
    is null and `reason` says why.
    """
    kernels = kernels.with_columns(pl.col("name", *SHAPE).cast(pl.String))
    asked = kernels.select("name", *SHAPE).unique(maintain_order=True)
    keyed = _keyed(asked.with_columns(asked_grid="grid", asked_block="block"))
    found = profiled.rename({"name": "profiled_name", "parameters": "profiled_parameters"})
    fits = keyed.join(found, on=list(KEY), how="inner").filter(
        (pl.col("parameters") == pl.col("profiled_parameters"))
        | pl.any_horizontal(
            pl.col(side).str.contains(PLACEHOLDER.pattern) for side in ("parameters", "profiled_parameters")
        )
    )
    back = fits.with_columns(grid="asked_grid", block="asked_block").drop(
        "asked_grid", "asked_block", "head", "parameters", "profiled_parameters"
    )
    alone = pl.len().over("name", *SHAPE) == 1
    ambiguous = back.filter(~alone).select("name", *SHAPE, ambiguous=pl.lit(value=True)).unique()
    joined = kernels.join(
        back.filter(alone), on=["name", *SHAPE], how="left", nulls_equal=True, maintain_order="left"
    ).join(ambiguous, on=["name", *SHAPE], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(reason=_reason_of_join()).drop("ambiguous")


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with head, parameters, and the sides of grid and block without brackets."""
    names = frame["name"].unique()
    pairs = [signature(name) for name in names]
    known = pl.DataFrame(
        {"name": names, "head": [head for head, _ in pairs], "parameters": [rest for _, rest in pairs]},
        schema={"name": pl.String, "head": pl.String, "parameters": pl.String},
    )
    sides = (pl.col(side).str.extract_all(r"\d+").list.join(" ") for side in SHAPE)
    return frame.with_columns(sides).join(known, on="name", how="left", maintain_order="left")


def _reason_of_launch() -> pl.Expr:
    few = pl.col("flops_error").is_null() | (pl.col("flops_error") > TOLERANCE)
    return pl.when(pl.col("flops").is_null()).then(pl.lit(NOT_COUNTED)).when(few).then(pl.lit(FEW_DIGITS))


def _reason_of_join() -> pl.Expr:
    return (
        pl.when(pl.any_horizontal(pl.col(side).is_null() for side in SHAPE))
        .then(pl.lit(NO_SHAPE))
        .when(pl.col("ambiguous").is_not_null())
        .then(pl.lit(AMBIGUOUS))
        .when(pl.col("launches").is_null())
        .then(pl.lit(NOT_PROFILED))
        .otherwise("reason")
    )
