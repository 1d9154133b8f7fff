"""How close the computing time of a dataset comes to the hardware: chips, prices, the program layer, and what is wrong.

PG is given where models cover at least COVERAGE_NEEDED of the computing time. Operators that would have run above the
peak of their chip are input faults (a wrong type, TF32, a fast algorithm, a cut kernel): they are named and count as
unmodelled, so that they are never averaged in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import intervals, ledger, operator_tables, operators, pricing, program
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.goodput.operator_tables import KEY
from mpg_cli.hardware import Catalogue, Chip, dtype_name
from mpg_parsers.errors import Notice, UndecidedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.models import Models
    from mpg_cli.store import Dataset

COVERAGE_NEEDED = 0.90


@dataclass(frozen=True)
class ProgramOptions:
    """chip: name that replaces what the trace reports; basis: one of pricing.BASES; useful_tokens: share of tokens that
    are not padding, None: not known; flops_per_step: declared FLOPs of one step on one device, instead of models.
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
    tables for the report; coverage: share of compute time with a model, linked_coverage without inferred ones; reason:
    why PG is null, "" if it is not; ceilings: (chip, operand type, peak TFLOP/s, GB/s or None) of each kind of chip.
    """

    rows: pl.DataFrame | None
    reason: str
    ops: pl.DataFrame
    unmodelled: pl.DataFrame
    coverage: float | None = None
    linked_coverage: float | None = None
    ideal_ns: int = 0
    hardware_ideal_ns: int = 0
    basis: str = ""
    ceilings: tuple[tuple[str, str, float, float | None], ...] = ()
    notices: tuple[Notice, ...] = field(default=())


def judge(
    dataset: Dataset, loaded: Activity, spans: pl.DataFrame, steps: int, options: ProgramOptions
) -> Judged:
    """The program layer of all devices over their windows (spans: subject, start_ns, end_ns)."""
    chips, reason = find_chips(dataset, loaded, options)
    if len(chips) < loaded.subjects.height:
        return _nothing(reason)
    if options.flops_per_step is not None:
        return _declared(loaded, spans, steps, chips, options)
    nested = operators.load(dataset)
    annotations = batch_annotations(dataset.scan("host_events"))
    priced = pricing.price(loaded.ops, nested, annotations, chips, options.models, options.basis)
    inside = _inside(_with_names(priced), spans)
    if not inside["ideal_ps"].is_not_null().any():
        return _nothing(_why_nothing(inside, nested), operator_tables.unmodelled(inside))
    faults = above_peak(inside)
    kept = inside.with_columns(
        pl.when(pl.struct(KEY).is_in(faults.select(pl.struct(KEY)).to_series().implode()))
        .then(None)
        .otherwise(pl.col(name))
        .alias(name)
        for name in ("ideal_ps", "roofline_ps")
    )
    account = program.account(kept)
    return _judged(account, kept, faults, chips, options)


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
        *((pl.col(name) * part).round().cast(pl.Int64).alias(name) for name in times),
    )


def _why_nothing(inside: pl.DataFrame, nested: operators.Operators) -> str:
    if inside.is_empty():
        return "no computing in the window"
    if nested.ops.is_empty():
        return "the trace holds no operators: profile with ProfilerActivity.CPU and record_shapes=True"
    if nested.calls["input_dims"].null_count() == nested.calls.height:
        return "no operand shapes were recorded: profile with record_shapes=True"
    if inside["row"].is_not_null().sum() == 0:
        return "no kernel can be linked to an operator (graph replay, or launches not recorded)"
    return "no operator that ran has a model"


def above_peak(inside: pl.DataFrame) -> pl.DataFrame:
    """Operators (KEY) whose FLOPs would need more than peak speed: KEY, subject, time_ns, ideal_ns, names (of kernels).

    A duration is only as fine as the clock: it may have been shorter by less than one tick of it.
    """
    tick = 1000 if (inside["dur_ns"] % 1000 == 0).all() else 1
    sums = inside.filter(pl.col("peak_ps") > 0).group_by(KEY).agg(
        pl.col("subject").first(),
        time_ns=pl.col("dur_ns").sum(),
        slack_ns=pl.len() * tick,
        ideal_ns=pl.col("peak_ps").sum() / 1000,
        names=pl.col("name").cast(pl.String).unique(),
    )  # fmt: skip
    return sums.filter(pl.col("ideal_ns") > pl.col("time_ns") + pl.col("slack_ns")).sort(
        "time_ns", descending=True
    )


def _likely_reason(names: list[str], dtypes: str | None, chip: Chip) -> str:
    lower = " ".join(names).lower()
    for word, what in (("winograd", "a Winograd"), ("fft", "an FFT")):
        if word in lower:
            return f"{what} convolution multiplies less than a direct one, which is what is counted"
    if dtypes and '"float"' in dtypes and chip.peak("tf32") is not None:
        return "float operands were held against fp32, but may have run in TF32 or a lower type"
    return "a lower operand type than recorded, sparse operands, or cut kernel times"


def _fault_notices(faults: pl.DataFrame, total: int, chips: Mapping[int, Chip]) -> list[Notice]:
    columns = faults.select(*KEY, "subject", "time_ns", "ideal_ns", "names").head(5)
    notices = []
    for op, _, types, subject, time, ideal, names in columns.iter_rows():
        message = (
            f"{op} would have run at {100 * ideal / max(1, time):.0f} % of the chip's peak "
            f"({100 * time / total:.1f} % of computing); likely: {_likely_reason(names, types, chips[subject])}. "
            "It counts as unmodelled"
        )
        notices.append(Notice("above_peak", message))
    return notices


def _judged(
    account: program.Program,
    inside: pl.DataFrame,
    faults: pl.DataFrame,
    chips: Mapping[int, Chip],
    options: ProgramOptions,
) -> Judged:
    linked = int(inside.filter(~pl.col("inferred") & pl.col("ideal_ps").is_not_null())["dur_ns"].sum())
    reason = ""
    if account.coverage < COVERAGE_NEEDED:
        reason = (
            f"models cover {100 * account.coverage:.1f} % of computing time, under {100 * COVERAGE_NEEDED:.0f} %: "
            f"{_largest(inside)}"
        )
    rows = _without_padding(account.rows, options.useful_tokens)
    useful = int(rows.filter(pl.col("cause") == "ideal")["chip_ns"].sum())
    total, dtype = account.total_ns, _main_dtype(inside)
    return Judged(
        rows,
        reason,
        operator_tables.modelled(inside),
        operator_tables.unmodelled(inside),
        account.coverage,
        linked / total if total else None,
        useful,
        account.hardware_ideal_ns,
        f"{dtype} {options.basis} of {', '.join(sorted({chip.name for chip in chips.values()}))}".lstrip(),
        _ceilings(chips, dtype),
        tuple(_fault_notices(faults, total, chips) + _assumptions(inside, chips, options)),
    )


def _without_padding(rows: pl.DataFrame, useful: float | None) -> pl.DataFrame:
    """Rows with the padded share of ideal as its own cause."""
    if useful is None or useful >= 1:
        return rows
    millionths = round(useful * 1_000_000)
    parts = pl.DataFrame({"cause": ["ideal", "padding"], "weight": [millionths, 1_000_000 - millionths]})
    return ledger.split(rows, "ideal", parts)


def _assumptions(inside: pl.DataFrame, chips: Mapping[int, Chip], options: ProgramOptions) -> list[Notice]:
    tf32_chips = [subject for subject, chip in chips.items() if chip.peak("tf32") is not None]
    floats = inside.filter(
        pl.col("subject").is_in(tf32_chips)
        & (pl.col("dtype") == "float")
        & (pl.col("flops") > 0)
        & ~pl.col("tf32")
        & pl.col("ideal_ps").is_not_null()
    )
    notices = []
    share = 100 * int(floats["dur_ns"].sum()) / max(1, int(inside["dur_ns"].sum()))
    if share > 1:
        message = (
            f"{share:.1f} % of computing multiplies float without TF32 in a kernel's name: held against fp32"
        )
        notices.append(Notice("tf32_assumed_off", message))
    blind = sorted({chip.name for chip in chips.values() if chip.bytes_per_second is None})
    if blind:
        message = f"no memory bandwidth of {', '.join(blind)} is sourced: memory-bound time is in kernel inefficiency"
        notices.append(Notice("no_bandwidth", message))
    if options.useful_tokens is None:
        notices.append(
            Notice("padding_unknown", "padding does not show in shapes: say --useful-tokens FRACTION")
        )
    return notices


def _main_dtype(inside: pl.DataFrame) -> str:
    """The operand type that most FLOPs are in, "" if there are none."""
    heavy = inside.filter(pl.col("flops") > 0).group_by("dtype", "tf32").agg(pl.col("flops").sum())
    if heavy.is_empty():
        return ""
    reported, tf32, _ = heavy.sort("flops", descending=True).row(0)
    return "tf32" if tf32 and reported == "float" else dtype_name(reported) or ""


def _ceilings(chips: Mapping[int, Chip], dtype: str) -> tuple[tuple[str, str, float, float | None], ...]:
    found = {}
    for chip in chips.values():
        peak = chip.peak(dtype) or chip.peak(dtype, "vector")
        if peak is not None:
            bandwidth = None if chip.bandwidth_gbps is None else float(chip.bandwidth_gbps)
            found[chip.name] = (chip.name, dtype, float(peak.tflops), bandwidth)
    return tuple(found.values())


def _largest(inside: pl.DataFrame) -> str:
    """The largest operators without a model, with the line that declares one."""
    missing = operator_tables.unmodelled(inside).head(2)
    parts = [f"{name} {100 * share:.1f} %" for name, share in missing.select("op", "share").iter_rows()]
    first = missing["op"][0] if missing.height else ""
    hint = f'; declare it in mpg.toml: [[model]] op = "{first}"' if "::" in str(first) else ""
    return f"without one: {', '.join(parts)}{hint}"


def _declared(
    loaded: Activity, spans: pl.DataFrame, steps: int, chips: Mapping[int, Chip], options: ProgramOptions
) -> Judged:
    """PG from FLOPs per step that the user declares, held against the bf16 (else fp16) peak."""
    if not steps:
        raise UndecidedError("--flops-per-step needs steps in the trace", hint="see --step-regex")
    compute = loaded.ops.filter(pl.col("activity") == "compute")
    cut = intervals.clip(
        compute.select("subject", "start_ns", "end_ns"),
        spans.select("subject", "start_ns", "end_ns"),
        ["subject"],
    )
    busy = intervals.total(cut, ["subject"])
    per_device = steps // max(1, spans["source"].n_unique()) if "source" in spans.columns else steps
    rows, ideal = [], 0
    for subject, length in busy.iter_rows():
        chip = chips[subject]
        peak = chip.peak("bf16") or chip.peak("fp16")
        if peak is None:
            return _nothing(f"no bf16 peak of {chip.name} is known")
        best = round(float(options.flops_per_step or 0) * per_device * 1e9 / peak.flops_per_second)
        if best > length:
            return _nothing(
                f"the declared FLOPs would need {100 * best / max(1, length):.0f} % of the chip's peak"
            )
        ideal += best
        rows += [(subject, "ideal", best), (subject, "unmodelled", length - best)]
    table = pl.DataFrame(
        rows, schema={"subject": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64}, orient="row"
    )
    table = table.with_columns(origin=pl.lit("inferred"), evidence=pl.lit(None, pl.Int64))
    empty = pl.DataFrame()
    names = ", ".join(sorted({chip.name for chip in chips.values()}))
    return Judged(table, "", empty, empty, None, None, ideal, ideal, f"declared FLOPs, bf16 peak of {names}")
