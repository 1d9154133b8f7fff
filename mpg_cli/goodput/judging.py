"""How close the computing time of a dataset comes to the hardware: chips, prices, the program layer, and what is wrong.

PG is given where models cover at least COVERAGE_NEEDED of the computing time. Operators that would have run above the
peak of their chip are input faults (a wrong type, TF32, a fast algorithm, a cut kernel): they are named and count as
unmodelled, so that they are never averaged in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import (
    above_peak,
    caveats,
    flops_per_step,
    intervals,
    ledger,
    operator_tables,
    operators,
    pricing,
    program,
)
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.hardware import Catalogue, Chip, dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.models import Models
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

COVERAGE_NEEDED = 0.90


@dataclass(frozen=True)
class ProgramOptions:
    """chip: name that replaces what the trace reports; basis: peak, roofline or achievable; useful_tokens: share of
    tokens that are not padding, None: not known; flops_per_step: declared FLOPs of one step on one device, instead of
    models.
    """

    catalogue: Catalogue
    models: Models
    chip: str | None = None
    basis: str = "peak"
    useful_tokens: float | None = None
    flops_per_step: float | None = None


@dataclass(frozen=True)
class Judged:
    """What is known of the program layer.

    rows: subject, cause, chip_ns, … to put under `productive`, None where there is nothing to split; ops, unmodelled:
    tables for the report; modelled: share of compute time with a model, linked_coverage without inferred ones;
    coverage: modelled without faults, which is what the figures hold for; reason:
    why PG is null, "" if it is not; ideal_ns: of the useful FLOPs by the basis, the numerator of PG, which covers
    basis_coverage; mfu_ns, hfu_ns: the time that the useful FLOPs, and all of them, take at the chips' peak, whatever
    the basis (hfu_ns None: not known); basis, peak_basis: of PG, of MFU and HFU; ceilings: (chip, operand type, peak
    TFLOP/s, GB/s or None) of each kind of chip.
    """

    rows: pl.DataFrame | None
    reason: str
    ops: pl.DataFrame
    unmodelled: pl.DataFrame
    modelled: float | None = None
    linked_coverage: float | None = None
    coverage: float | None = None
    basis_coverage: float | None = None
    ideal_ns: int = 0
    mfu_ns: int = 0
    hfu_ns: int | None = None
    basis: str = ""
    peak_basis: str = ""
    ceilings: tuple[tuple[str, str, float, float | None], ...] = ()
    notices: tuple[Notice, ...] = field(default=())


def judge(dataset: Dataset, loaded: Activity, spans: pl.DataFrame, options: ProgramOptions) -> Judged:
    """The program layer of all devices over their windows (spans: subject, start_ns, end_ns, steps).

    Raises UndecidedError, UsageError: see flops_per_step.
    """
    chips, reason = find_chips(dataset, loaded, options)
    if len(chips) < loaded.subjects.height:
        return _nothing(reason)
    if options.flops_per_step is not None:
        return _declared(loaded, spans, chips, options, options.flops_per_step)
    if reason := _no_figure(chips.values(), options.basis):
        return _nothing(reason)
    nested = operators.load(dataset)
    annotations = batch_annotations(dataset.scan("host_events"))
    priced = pricing.price(loaded.ops, nested, annotations, chips, options.models, options.basis)
    inside = above_peak.mark(_inside(_with_names(priced), spans), chips)
    if not inside["dur_ns"].sum() or not inside["peak_ps"].is_not_null().any():
        return _nothing(_why_nothing(inside, nested), operator_tables.unmodelled(inside))
    return _judged(inside, chips, options)


def find_chips(dataset: Dataset, loaded: Activity, options: ProgramOptions) -> tuple[dict[int, Chip], str]:
    """The chip of each subject that has one, and why another has none."""
    keys = ["source", "process", "device"]
    about = ["name", "compute_capability", "sm_count", "memory_bytes"]
    devices = loaded.subjects.select("subject", *keys).join(
        dataset.scan("devices").select(*keys, *about).unique(keys).collect(),
        on=keys,
        how="left",
        nulls_equal=True,
    )
    chips: dict[int, Chip] = {}
    reason = ""
    for subject, name, capability, units, memory in devices.select("subject", *about).iter_rows():
        if options.chip:
            found = options.catalogue.lookup(options.chip)
        else:
            found = options.catalogue.lookup(
                name, compute_capability=capability, sm_count=units, memory_bytes=memory
            )
        if found.chip:
            chips[subject] = found.chip
        else:
            reason = (
                f"the chip is not known: {found.reason}; say --chip NAME (`mpg hardware` lists the names)"
            )
    return chips, reason


def _no_figure(chips: Iterable[Chip], basis: str) -> str:
    """Why a basis cannot be used, "" if it can."""
    if basis == "peak":
        return ""
    missing = {
        chip.name
        for chip in chips
        if (chip.bytes_per_second is None if basis == "roofline" else not chip.measured)
    }
    what = "memory bandwidth" if basis == "roofline" else "sustained rate"
    names = ", ".join(sorted(missing))
    return f"no {what} of {names} is sourced, which --pg-basis {basis} needs" if missing else ""


def _nothing(reason: str, unmodelled: pl.DataFrame | None = None) -> Judged:
    empty = pl.DataFrame()
    return Judged(None, reason, empty, empty if unmodelled is None else unmodelled)


def _with_names(priced: pricing.Priced) -> pl.DataFrame:
    """Kernels with the name and arguments of the operator charged, else the name of the one around the launch."""
    texts = priced.calls.select("call", "input_dims", "input_types")
    own = priced.calls.select(own_call="call", around="name")
    kernels = priced.kernels.join(texts, on="call", how="left", maintain_order="left")
    kernels = kernels.join(own, on="own_call", how="left", maintain_order="left")
    return kernels.drop("collective", "group", "group_ranks", "element_type", strict=False)


def _inside(kernels: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Kernels cut to the windows; FLOPs, bytes and times pro rata."""
    whole = kernels.with_columns(whole=pl.col("dur_ns"))
    cut = intervals.clip(whole, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    cut = cut.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns"))
    part = pl.when(pl.col("whole") > 0).then(pl.col("dur_ns") / pl.col("whole")).otherwise(1.0)
    times = ("ideal_ps", "roofline_ps")
    return cut.with_columns(
        *((pl.col(name) * part).alias(name) for name in ("flops", "bytes", "peak_ps", "bytes_ps")),
        *(pricing.picoseconds(pl.col(name) * part).alias(name) for name in times),
    )


def _why_nothing(inside: pl.DataFrame, nested: operators.Operators) -> str:
    if not inside["dur_ns"].sum():
        return "no computing in the window"
    if nested.ops.is_empty():
        return "the trace holds no operators: profile with ProfilerActivity.CPU and record_shapes=True"
    if nested.calls["input_dims"].null_count() == nested.calls.height:
        return "no operand shapes were recorded: profile with record_shapes=True"
    if inside["row"].is_not_null().sum() == 0:
        return "no kernel can be linked to an operator (graph replay, or launches not recorded)"
    return "no operator that ran has a model"


def _judged(inside: pl.DataFrame, chips: Mapping[int, Chip], options: ProgramOptions) -> Judged:
    account = program.account(inside)
    at_peak = account if options.basis == "peak" else program.account(_at_peak(inside))
    modelled = inside.filter(pl.col("peak_ps").is_not_null())
    linked = int(modelled.filter(~pl.col("inferred"))["dur_ns"].sum())
    rows = _without_padding(account.rows, options.useful_tokens)
    total, dtype = account.total_ns, _main_dtype(inside)
    names = ", ".join(sorted({chip.name for chip in chips.values()}))
    notices = (
        *above_peak.notices(inside, chips),
        *caveats.assumptions(inside, chips, account.ideal_ns, options.useful_tokens),
    )
    return Judged(
        rows,
        _too_little(account.coverage, inside, options),
        operator_tables.modelled(inside),
        operator_tables.unmodelled(inside),
        int(modelled["dur_ns"].sum()) / total,
        linked / total,
        at_peak.coverage,
        account.coverage,
        _ideal(rows),
        _ideal(_without_padding(at_peak.rows, options.useful_tokens)),
        at_peak.hardware_ideal_ns,
        f"{dtype} {options.basis} of {names}".lstrip(),
        f"{dtype} peak of {names}".lstrip(),
        _ceilings(chips, dtype),
        notices,
    )


def _at_peak(inside: pl.DataFrame) -> pl.DataFrame:
    """Kernels as under the basis peak."""
    best = pricing.picoseconds(pl.when(~pl.col("fault")).then("peak_ps"))
    return inside.with_columns(ideal_ps=best, roofline_ps=best)


def _ideal(rows: pl.DataFrame) -> int:
    return int(rows.filter(pl.col("cause") == "ideal")["chip_ns"].sum())


def _without_padding(rows: pl.DataFrame, useful: float | None) -> pl.DataFrame:
    """Rows with the padded share of ideal as its own cause."""
    if useful is None or useful >= 1:
        return rows
    millionths = round(useful * 1_000_000)
    parts = pl.DataFrame({"cause": ["ideal", "padding"], "weight": [millionths, 1_000_000 - millionths]})
    return ledger.split(rows, "ideal", parts)


def _main_dtype(inside: pl.DataFrame) -> str:
    """The operand type that most FLOPs are in, "" if there are none."""
    known = (pl.col("flops") > 0) & pl.col("ideal_ps").is_not_null()
    heavy = inside.filter(known).group_by(pl.col("dtype").cast(pl.String), "tf32").agg(pl.col("flops").sum())
    if heavy.is_empty():
        return ""
    reported, tf32, _ = heavy.sort("flops", "dtype", "tf32", descending=[True, False, False]).row(0)
    return "tf32" if tf32 and reported == "float" else dtype_name(reported) or ""


def _ceilings(chips: Mapping[int, Chip], dtype: str) -> tuple[tuple[str, str, float, float | None], ...]:
    found = {}
    for chip in chips.values():
        peak = chip.peak(dtype) or chip.peak(dtype, "vector")
        if peak is not None:
            bandwidth = None if chip.bandwidth_gbps is None else float(chip.bandwidth_gbps)
            found[chip.name] = (chip.name, dtype, float(peak.tflops), bandwidth)
    return tuple(found.values())


def _too_little(coverage: float, inside: pl.DataFrame, options: ProgramOptions) -> str:
    """Why PG is null for want of models, "" if it is not: the largest operators without one, with what helps."""
    if coverage >= COVERAGE_NEEDED:
        return ""
    total = int(inside["dur_ns"].sum())
    above = int(inside.filter("fault")["dur_ns"].sum()) / total
    missing = operator_tables.unmodelled(inside.filter(~pl.col("fault")))
    largest = [
        f"{op} {100 * ns / total:.1f} %" for op, ns in missing.select("op", "time_ns").head(2).iter_rows()
    ]
    what = "models without a fault cover" if above else "models cover"
    parts = [f"{what} {100 * coverage:.1f} % of computing time, under {100 * COVERAGE_NEEDED:.0f} %"]
    parts += [f"above peak: {100 * above:.1f} %"] if above else []
    parts += [f"without one: {', '.join(largest)}"] if largest else []
    first = str(missing["op"].first())
    opaque = missing.height and first != operator_tables.NO_OPERATOR and not options.models.has_model(first)
    hint = (
        f"; declare it in mpg.toml: [[model]] op = {json.dumps(first, ensure_ascii=False)}" if opaque else ""
    )
    return ": ".join([parts[0], "; ".join(parts[1:])]) + hint


def _declared(
    loaded: Activity, spans: pl.DataFrame, chips: Mapping[int, Chip], options: ProgramOptions, flops: float
) -> Judged:
    """PG from FLOPs per step. Whether they hold recomputation is not known: no HFU."""
    found, at_peak = (
        flops_per_step.account(loaded, spans, chips, flops, basis) for basis in (options.basis, "peak")
    )
    if found.rows is None or at_peak.rows is None:
        return _nothing(found.reason or at_peak.reason)
    rows = _without_padding(found.rows, options.useful_tokens)
    return Judged(
        rows,
        "",
        pl.DataFrame(),
        pl.DataFrame(),
        ideal_ns=_ideal(rows),
        mfu_ns=_ideal(_without_padding(at_peak.rows, options.useful_tokens)),
        basis=f"declared FLOPs, {found.rate}",
        peak_basis=f"declared FLOPs, {at_peak.rate}",
    )
