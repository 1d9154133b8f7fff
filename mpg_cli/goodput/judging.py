"""How close the computing time of a dataset comes to the hardware: chips, prices, the program layer, and what is wrong.

PG is given where models cover at least reasons.COVERAGE_NEEDED of the computing time. Operators that would have run
above the peak of their chip are input faults (a wrong type, TF32, a fast algorithm, a cut kernel): they are named and
count as unmodelled, so that they are never averaged in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import (
    above_peak,
    caveats,
    flops_per_step,
    hlo,
    intervals,
    ledger,
    measured,
    operator_tables,
    operators,
    pricing,
    program,
    program_flops,
    reasons,
)
from mpg_cli.goodput.chips import Ceiling, ceilings, find_chips, no_figure
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.hardware import Catalogue, Chip, dtype_name
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.flops_per_step import Totals
    from mpg_cli.goodput.models import Models
    from mpg_cli.store import Dataset


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
    the basis (None: not known); basis, peak_basis: of PG, of MFU and HFU; ceilings: of each kind of chip; profiled: the
    kernels that Nsight Compute measured (`measured.table`), empty without a profile.
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
    mfu_ns: int | None = 0
    hfu_ns: int | None = None
    basis: str = ""
    peak_basis: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    notices: tuple[Notice, ...] = field(default=())
    profiled: pl.DataFrame = field(default_factory=pl.DataFrame)


def judge(dataset: Dataset, loaded: Activity, spans: pl.DataFrame, options: ProgramOptions) -> Judged:
    """The program layer of all devices over their windows (spans: subject, start_ns, end_ns, steps).

    Raises UndecidedError, UsageError: see flops_per_step.
    """
    profile = measured.load(dataset)
    if profile is None:
        return _judge(dataset, loaded, spans, options)
    profiled = measured.table(loaded.ops, spans, profile)
    judged = _judge(dataset, loaded, spans, options, profile, profiled)
    notices = (*judged.notices, *measured.elsewhere(dataset, loaded))
    return replace(judged, profiled=profiled, notices=notices)


def _judge(
    dataset: Dataset,
    loaded: Activity,
    spans: pl.DataFrame,
    options: ProgramOptions,
    profile: pl.DataFrame | None = None,
    profiled: pl.DataFrame | None = None,
) -> Judged:
    chips, reason = find_chips(dataset, loaded, options.catalogue, options.chip)
    if len(chips) < loaded.subjects.height:
        return _nothing(reason)
    if options.flops_per_step is not None:
        return _declared(loaded, spans, chips, options, options.flops_per_step)
    if reason := no_figure(chips.values(), options.basis):
        return _nothing(reason)
    if not program_flops.known(dataset).is_empty():
        return _by_programs(dataset, loaded, spans, chips, options)
    nested = operators.load(dataset)
    annotations = batch_annotations(dataset.scan("host_events"))
    priced = pricing.price(loaded.ops, nested, annotations, chips, options.models, options.basis)
    operations = hlo.load(dataset)
    hidden = None
    if operations is not None:
        priced = hlo.fill(priced, operations, chips, options.basis)
        hidden = hlo.opaque(loaded.ops, operations)
    if profile is not None:
        priced = measured.fill(priced, profile, chips, options.basis)
    inside = above_peak.mark(_inside(_with_names(priced), spans), chips)
    if not inside["dur_ns"].sum() or not inside["peak_ps"].is_not_null().any():
        formats = loaded.sources.join(inside, on="source", how="semi")["format"]
        reason = reasons.nothing(inside, nested, set(formats), profiled)
        return _nothing(reason, operator_tables.unmodelled(inside))
    return _judged(inside, chips, options, profiled, hidden)


def _nothing(reason: str, unmodelled: pl.DataFrame | None = None) -> Judged:
    empty = pl.DataFrame()
    return Judged(None, reason, empty, empty if unmodelled is None else unmodelled)


def _with_names(priced: pricing.Priced) -> pl.DataFrame:
    """Kernels with the name and arguments of the operator charged, else the name of the one around the launch."""
    texts = priced.calls.select("call", "input_dims", "input_types")
    own = priced.calls.select(own_call="call", around="name")
    kernels = priced.kernels.join(texts, on="call", how="left", maintain_order="left")
    kernels = measured.with_arguments(kernels)
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


def _judged(
    inside: pl.DataFrame,
    chips: Mapping[int, Chip],
    options: ProgramOptions,
    profiled: pl.DataFrame | None,
    hidden: pl.DataFrame | None,
) -> Judged:
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
        *(() if hidden is None else hlo.notices(hidden)),
    )
    counted = measured.basis(inside) + hlo.basis(inside)
    priced = f"of {names}{counted}" + ("" if dtype else ", no matrix product ran")
    return Judged(
        rows,
        reasons.too_little(account.coverage, inside, options.models, profiled, hidden),
        operator_tables.modelled(inside),
        operator_tables.unmodelled(inside),
        int(modelled["dur_ns"].sum()) / total,
        linked / total,
        at_peak.coverage,
        account.coverage,
        _ideal(rows),
        None if measured.executed(inside) else _ideal(_without_padding(at_peak.rows, options.useful_tokens)),
        at_peak.hardware_ideal_ns,
        f"{dtype} {options.basis} {priced}".lstrip(),
        f"{dtype} peak {priced}".lstrip(),
        ceilings(chips.values(), dtype),
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


def _by_programs(
    dataset: Dataset,
    loaded: Activity,
    spans: pl.DataFrame,
    chips: Mapping[int, Chip],
    options: ProgramOptions,
) -> Judged:
    """PG from the programs before optimisation, which say nothing of single operations, nor of what the compiler made
    the chips compute again: no HFU.
    """
    if options.basis == "roofline":
        return _nothing("the basis roofline needs bytes, which programs before optimisation do not tell")
    found, at_peak = (
        program_flops.account(dataset, loaded, spans, chips, basis) for basis in (options.basis, "peak")
    )
    return _by_totals(found, at_peak, "FLOPs of the programs before optimisation", options)


def _declared(
    loaded: Activity, spans: pl.DataFrame, chips: Mapping[int, Chip], options: ProgramOptions, flops: float
) -> Judged:
    """PG from FLOPs per step. Whether they hold recomputation is not known: no HFU."""
    found, at_peak = (
        flops_per_step.account(loaded, spans, chips, flops, basis) for basis in (options.basis, "peak")
    )
    return _by_totals(found, at_peak, "declared FLOPs", options)


def _by_totals(found: Totals, at_peak: Totals, what: str, options: ProgramOptions) -> Judged:
    """PG from FLOPs (`what`) of devices as a whole: against the rate of the basis, and against the peak."""
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
        basis=f"{what}, {found.rate}",
        peak_basis=f"{what}, {at_peak.rate}",
        notices=tuple(Notice("program_flops", text) for text in found.caveats),
    )
