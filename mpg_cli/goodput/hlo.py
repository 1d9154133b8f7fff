"""Computing kernels that run operations of XLA programs, with the FLOPs and bytes of the operation.

What one execution of an operation costs is known (hlo_ops). On a TPU a record is an execution, or a part of one; on a
GPU an operation may launch several kernels, which share its cost by duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col, lit

from mpg_cli.goodput.pricing import TIMES, Priced, with_times
from mpg_cli.hardware.stated import TPU_VENDOR
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpg_cli.hardware.chip import Chip
    from mpg_cli.store import Dataset

# where FLOPs of XLA operations come from: values of hlo_ops.flops_source
SOURCES = {
    "hlo": "the compiled programs (HLO)",
    "custom_call": "what custom calls state",
    "model_flops": "the profiler's model_flops",
    "flops": "the profiler's flops",
}
NOTABLE = 0.01
SHOWN = 0.0005  # what is not rounded to 0.0 %
COLUMNS = (
    "source", "hlo", "program_id", "program", "name", "flops", "dtype", "bytes", "flops_source", "opaque", "recompute",
)  # fmt: skip
# XLA multiplies float32 in bfloat16 on a TPU unless it is told otherwise (jax.default_matmul_precision)
TPU_TYPES = {"f32": "bf16", "f16": "bf16"}


def load(dataset: Dataset) -> pl.DataFrame | None:
    """The operations of XLA programs, with operator (program/operation); None if there are none."""
    table = dataset.scan("hlo_ops").select(COLUMNS).collect()
    if table.is_empty():
        return None
    # programs of one name, as of one function for several shapes, go apart by number, as in XLA's own tools
    several = col.program_id.n_unique().over("source", "program") > 1
    number = pl.when(several & col.program_id.is_not_null()).then(pl.format("({})", "program_id"))
    program = col.program + number.fill_null("") + "/"
    return table.with_columns(operator=program.fill_null("") + col.name)


def fill(priced: Priced, operations: pl.DataFrame, chips: Mapping[int, Chip], basis: str) -> Priced:
    """`priced` with the cost of their XLA operation in those of its kernels that have no peak time.

    The operation stands for the operator, opaque ones too, which get no cost.
    """
    kernels = priced.kernels.with_row_index("at")
    asked = kernels.filter(col.peak_ps.is_null() & col.hlo.is_not_null())
    told = asked.select("at", "subject", "source", "stream", "start_ns", "dur_ns", "name", "hlo", "part")
    told = _shared(_executions(told)).join(_named(operations), on=["source", "hlo"])
    told = _on_chips(told, chips).select(
        "at", "operator", "recomputes", flops=col.flops * col.share, bytes=col.bytes * col.share,
        dtype=col.dtype.cast(pl.Categorical), model=col.flops_source.cast(pl.Categorical), charged="execution",
    )  # fmt: skip
    own = asked.drop("flops", "dtype", "bytes", "model", "operator", "charged", *TIMES)
    known = own.join(told, on="at").with_columns(
        call=lit(None, kernels.schema["call"]),
        charged=col.charged.cast(kernels.schema["charged"]),
        exact=lit(value=True),
        inferred=lit(value=False),
        recompute=col.recompute | col.recomputes,
    )
    timed = with_times(known.drop("recomputes"), chips, basis)
    rest = kernels.join(timed, on="at", how="anti")
    return Priced(pl.concat([rest, timed.select(rest.columns)]).drop("at"), priced.calls)


def _executions(records: pl.DataFrame) -> pl.DataFrame:
    """`records` with execution: which run of its operation each belongs to.

    Records of one operation that follow one another on a device are one execution, until a kernel comes again that
    has run in it. Where kernels come differently often, there are as many executions as the rarest has runs: the
    others run several times in each. On a TPU a record that is whole, or the first part of an operation, begins one.
    """
    ordered = records.sort("subject", "stream", "start_ns", "at")
    by = ["subject", "stream"]
    other = col.hlo != col.hlo.shift(1).over(by)
    begins = ordered.with_columns(group=other.fill_null(value=True).cum_sum())
    again = pl.int_range(pl.len()).over("group", "name")
    times = pl.len().over("group", "name")  # a kernel may run several times in each execution
    # of parts the first counts, wherever others ran in between
    part = pl.when(col.part.is_not_null()).then(((col.part == 0).cum_sum()).over("subject", "stream", "hlo"))
    counted = begins.with_columns(again=again, times=times, interrupted=part)
    numbered = counted.with_columns(again=col.again * col.times.min().over("group") // col.times)
    group = pl.when(col.interrupted.is_null()).then("group")
    key = pl.struct(
        "subject",
        "stream",
        "hlo",
        "interrupted",
        group.alias("group"),
        pl.when(group.is_not_null()).then("again"),
    )
    return numbered.with_columns(execution=key.rank("dense").cast(pl.Int64) - 1).select(
        "at", "subject", "source", "hlo", "dur_ns", "execution"
    )


def _shared(executions: pl.DataFrame) -> pl.DataFrame:
    """With share: each record's part of its execution, by duration."""
    whole, count = col.dur_ns.sum().over("execution"), pl.len().over("execution")
    share = pl.when(whole > 0).then(col.dur_ns / whole).otherwise(1.0 / count)
    return executions.with_columns(share=share)


def _named(operations: pl.DataFrame) -> pl.DataFrame:
    """source, hlo and what is known of the operations."""
    return operations.select(
        "source", "hlo", "flops", "dtype", "bytes", "flops_source", operator=col.operator.cast(pl.Categorical),
        recomputes=col.recompute.fill_null(value=False),
    )  # fmt: skip


def _on_chips(told: pl.DataFrame, chips: Mapping[int, Chip]) -> pl.DataFrame:
    """With the operand type that the chip's matrix unit works in."""
    tpus = [subject for subject, chip in chips.items() if chip.vendor == TPU_VENDOR]
    native = pl.when(col.subject.is_in(tpus)).then(col.dtype.replace(TPU_TYPES)).otherwise("dtype")
    # no matrix work takes no time at peak, whatever the type
    return told.with_columns(dtype=pl.when(col.flops > 0).then(native))


def basis(inside: pl.DataFrame) -> str:
    """What to add to the basis of PG for FLOPs of XLA operations: where they come from, most first."""
    known = inside.filter((col.flops > 0) & col.ideal_ps.is_not_null()).with_columns(
        col.model.cast(pl.String)
    )
    known = known.filter(col.model.is_in(list(SOURCES)))
    if known.is_empty():
        return ""
    sums = known.group_by("model").agg(col.flops.sum()).sort("flops", "model", descending=[True, False])
    return ", FLOPs of " + " and ".join(SOURCES[model] for model in sums["model"])


def opaque(loaded: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """operator, call, time_ns, share: the computing of `loaded` (activity.ops) in operations whose work is not visible;
    call: the operator without the number that tells the calls of one function apart.
    """
    computing = loaded.filter(col.activity == "compute")
    whole = max(1, int(computing["dur_ns"].sum()))
    hidden = operations.filter("opaque").select("source", "hlo", "operator")
    found = computing.select("source", "hlo", "dur_ns").join(hidden, on=["source", "hlo"])
    sums = found.group_by("operator").agg(time_ns=col.dur_ns.sum())
    named = sums.with_columns(share=col.time_ns / whole, call=col.operator.str.replace(r"\.\d+$", ""))
    return named.sort("time_ns", "operator", descending=[True, False])


def notices(hidden: pl.DataFrame) -> Iterator[Notice]:
    """What to say of opaque operations."""
    share = float(hidden["share"].sum())
    if share > NOTABLE:
        message = (
            f"{100 * share:.1f} % of computing is in custom calls whose work XLA cannot see ({largest(hidden)}): they "
            "count as unmodelled. Figures of runs with another share cannot be compared"
        )
        yield Notice("opaque_operations", message)


def largest(hidden: pl.DataFrame, most: int = 2) -> str:
    """The opaque calls with most time, for a message; the first, and others as far as they show in it."""
    sums = hidden.group_by("call").agg(col.share.sum(), times=pl.len())
    ordered = sums.sort("share", "call", descending=[True, False]).with_row_index("place")
    rows = ordered.filter((col.place == 0) | (col.share >= SHOWN)).drop("place").head(most)
    return ", ".join(
        f"{call} {100 * share:.1f} %" + (f" in {times} places" if times > 1 else "")
        for call, share, times in rows.iter_rows()
    )
