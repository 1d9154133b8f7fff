"""Why Program Goodput is null, and what to record to get it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import hlo, measured, operator_tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from mpg_cli.goodput.models import Models
    from mpg_cli.goodput.operators import Operators

COVERAGE_NEEDED = 0.90
EXECUTED = (
    "Nsight Compute counts recomputation and padding too, and without operators it cannot be told: see HFU"
)
# formats that record no operands
WITHOUT_OPERANDS = {
    "nsight-systems": "Nsight Systems records no operands, so FLOPs are not known: give an Nsight Compute report of "
    "the kernels as well (ncu --set roofline --metrics regex:sm__ops_path_tensor_src_.* --csv --page raw …), or say "
    "--flops-per-step, with NVTX ranges as steps",
    "rocprofv3": "rocprofv3 records no operands, so FLOPs are not known: say --flops-per-step, with ROCTx ranges as "
    "steps",
}


def nothing(
    inside: pl.DataFrame, nested: Operators, formats: Collection[str], profiled: pl.DataFrame | None
) -> str:
    """Why no kernel could be judged.

    inside: priced kernels in the windows; formats: of their sources; profiled: `measured.table`, if there is a profile.
    """
    if not inside["dur_ns"].sum():
        return "no computing in the window"
    return _without_rate(inside) or _without_operands(formats, profiled) or _without_models(inside, nested)


def _without_models(inside: pl.DataFrame, nested: Operators) -> str:
    if "hlo" in inside.columns and inside["hlo"].is_not_null().any():
        return (
            "no operation that ran has known FLOPs: the profile holds no programs and no model_flops, or only custom "
            "calls ran; say --flops-per-step"
        )
    if nested.ops.is_empty():
        return "the trace holds no operators: profile with ProfilerActivity.CPU and record_shapes=True"
    if nested.calls["input_dims"].null_count() == nested.calls.height:
        return "no operand shapes were recorded: profile with record_shapes=True"
    if inside["row"].is_not_null().sum() == 0:
        return "no kernel can be linked to an operator (graph replay, or launches not recorded)"
    return "no operator that ran has a model"


def _without_rate(inside: pl.DataFrame) -> str:
    """What to say where FLOPs were measured, but of a type that the chip has no sourced rate for."""
    found = inside.filter((col.model == measured.MODEL) & col.peak_ps.is_null())
    if found.is_empty():
        return ""
    types = ", ".join(found["dtype"].cast(pl.String).unique().drop_nulls().sort())
    chips = ", ".join(found["chip"].unique().sort())
    return f"no peak of {chips} for {types} is known: say --chip NAME, or declare the chip in mpg.toml"


def _without_operands(formats: Collection[str], profiled: pl.DataFrame | None) -> str:
    """What to say where no file is of a format that records operands."""
    if not formats or any(name not in WITHOUT_OPERANDS for name in formats):
        return ""
    if profiled is None:
        return WITHOUT_OPERANDS[min(formats)]
    return (
        f"the Nsight Compute report tells the FLOPs of no kernel of the trace: {measured.missing(profiled)}"
    )


def too_little(
    coverage: float,
    inside: pl.DataFrame,
    models: Models,
    profiled: pl.DataFrame | None = None,
    hidden: pl.DataFrame | None = None,
) -> str:
    """Why PG is null for want of models, "" if it is not: the largest operators without one, with what helps.

    hidden: `hlo.opaque`, where there are XLA operations.
    """
    if coverage >= COVERAGE_NEEDED:
        return ""
    total = int(inside["dur_ns"].sum())
    above = int(inside.filter("fault")["dur_ns"].sum()) / total
    missing = operator_tables.unmodelled(inside.filter(~col.fault))
    if hidden is not None:  # told apart, by function
        missing = missing.filter(~col.op.is_in(hidden["operator"].implode()))
    by_kernel = _profile(profiled)
    if by_kernel:  # says more of kernels without an operator than that they have none
        missing = missing.filter(col.op != operator_tables.NO_OPERATOR)
    largest = [
        f"{op} {100 * ns / total:.1f} %" for op, ns in missing.select("op", "time_ns").head(2).iter_rows()
    ]
    what = "models without a fault cover" if above else "models cover"
    parts = [f"{what} {100 * coverage:.1f} % of computing time, under {100 * COVERAGE_NEEDED:.0f} %"]
    parts += [f"above peak: {100 * above:.1f} %"] if above else []
    parts += [f"without one: {', '.join(largest)}"] if largest else []
    parts[1:] = ["; ".join(parts[1:])] if parts[1:] else []
    hints = (_declaration(missing, models) if hidden is None else _hidden(hidden), by_kernel)
    return "; ".join([": ".join(parts), *(hint for hint in hints if hint)])


def _hidden(hidden: pl.DataFrame) -> str:
    if hidden.is_empty():
        return "say --flops-per-step"
    share = 100 * float(hidden["share"].sum())
    return f"{share:.1f} % is in custom calls whose work XLA cannot see ({hlo.largest(hidden)}): say --flops-per-step"


def _declaration(missing: pl.DataFrame, models: Models) -> str:
    first = str(missing["op"].first())
    if missing.is_empty() or first == operator_tables.NO_OPERATOR or models.has_model(first):
        return ""
    return f"declare it in mpg.toml: [[model]] op = {json.dumps(first, ensure_ascii=False)}"


def _profile(profiled: pl.DataFrame | None) -> str:
    missing = "" if profiled is None else measured.missing(profiled)
    return f"of the kernels, by the Nsight Compute report: {missing}" if missing else ""
