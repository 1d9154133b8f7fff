"""Computing that would have had to run above the chip's peak: an input is wrong, or does less than its shapes say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import program
from mpg_cli.goodput.operator_tables import KEY
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpg_cli.hardware import Chip

MOST = 5  # operators that are named
FAULT = [*KEY, "chip"]


def mark(inside: pl.DataFrame, chips: Mapping[int, Chip]) -> pl.DataFrame:
    """Kernels with chip (its name) and fault (bool): where that is true, ideal_ps and roofline_ps become null.

    Faults are judged call by call, and then over kernels that overlap, which share the chip.
    """
    names = {subject: chip.name for subject, chip in chips.items()}
    known = inside.with_columns(
        chip=pl.col("subject").replace_strict(names, return_dtype=pl.String),
        tick=pl.when((pl.col("whole") % 1000 == 0).all().over("source")).then(1000).otherwise(1),
    )
    single = _with_fault(known, _calls(known), [*FAULT, "charged"], "single")
    together = program.numbered(_without_ideal(single, "single"))
    marked = _with_fault(together, _clusters(together), ["cluster"], "together")
    marked = marked.with_columns(pl.col("together") & (pl.col("peak_ps") > 0).fill_null(value=False))
    marked = pl.concat([marked, single.filter(pl.col("start_ns") >= pl.col("end_ns"))], how="diagonal")
    faulty = pl.col("single") | pl.col("together").fill_null(value=False)
    return _without_ideal(marked.with_columns(fault=faulty), "fault").drop("cluster", "tick", "single")


def _calls(kernels: pl.DataFrame) -> pl.DataFrame:
    """The calls (FAULT, charged) whose FLOPs would need more than peak speed.

    A duration is only as fine as its file's clock: it may have been longer by less than one tick.
    """
    sums = (
        kernels.filter(pl.col("peak_ps") > 0)
        .group_by(*FAULT, "charged")
        .agg(pl.col("peak_ps").sum() / 1000, room=(pl.col("dur_ns") + pl.col("tick")).sum())
    )
    return sums.filter(pl.col("peak_ps") > pl.col("room")).select(*FAULT, "charged")


def _clusters(kernels: pl.DataFrame) -> pl.DataFrame:
    """The clusters of overlapping kernels that would need more than peak speed together."""
    length = pl.col("end_ns").max() - pl.col("start_ns").min()
    sums = kernels.group_by("cluster").agg(
        pl.len(),
        needed=pl.when(pl.col("ideal_ps").is_not_null()).then("peak_ps").sum() / 1000,
        room=length + pl.col("tick").sum(),
    )
    return sums.filter(pl.col("len") > 1, pl.col("needed") > pl.col("room")).select("cluster")


def _with_fault(kernels: pl.DataFrame, found: pl.DataFrame, key: list[str], name: str) -> pl.DataFrame:
    marks = found.with_columns(pl.lit(value=True).alias(name))
    joined = kernels.join(marks, on=key, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col(name).fill_null(value=False))


def _without_ideal(kernels: pl.DataFrame, fault: str) -> pl.DataFrame:
    times = ("ideal_ps", "roofline_ps")
    return kernels.with_columns(pl.when(~pl.col(fault)).then(time).alias(time) for time in times)


def notices(marked: pl.DataFrame, chips: Mapping[int, Chip]) -> Iterator[Notice]:
    """A notice for each of the largest operators above peak, with the likely reason; one for the others."""
    by_name = {chip.name: chip for chip in chips.values()}
    total = max(1, int(marked["dur_ns"].sum()))
    faults = _by_operator(marked.filter("fault"))
    for row in faults.head(MOST).iter_rows(named=True):
        speed, share = 100 * row["ideal_ns"] / max(1, row["time_ns"]), 100 * row["time_ns"] / total
        reason = TOGETHER if row["together"] else _likely_reason(row, by_name[row["chip"]])
        message = (
            f"{row['operator']} would have run at {speed:.0f} % of the chip's peak ({share:.1f} % of computing); "
            f"likely: {reason}. It counts as unmodelled"
        )
        yield Notice("above_peak", message)
    rest = faults[MOST:]
    if rest.height:
        share = 100 * int(rest["time_ns"].sum()) / total
        message = (
            f"{rest.height} more operators would have run above the chip's peak ({share:.1f} % of computing)"
        )
        yield Notice("above_peak", message, rest.height)


def _by_operator(faulty: pl.DataFrame) -> pl.DataFrame:
    """FAULT, time_ns, ideal_ns, names (of kernels), tf32 and together (bool, of all), longest first."""
    sums = faulty.group_by(FAULT).agg(
        time_ns=pl.col("dur_ns").sum(),
        ideal_ns=pl.col("peak_ps").sum() / 1000,
        names=pl.col("name").cast(pl.String).unique().sort(),
        tf32=pl.col("tf32").all(),
        together=pl.col("together").fill_null(value=False).all(),
    )
    return sums.sort("time_ns", *FAULT, descending=[True] + [False] * len(FAULT))


TOGETHER = "kernels that overlap would need more than the chip can do, so times or types are wrong"


def _likely_reason(fault: Mapping[str, Any], chip: Chip) -> str:
    lower = " ".join(fault["names"]).lower()
    for word, what in (("winograd", "a Winograd"), ("fft", "an FFT")):
        if word in lower:
            return f"{what} convolution multiplies less than a direct one, which is what is counted"
    if '"float"' in (fault["input_types"] or "") and not fault["tf32"] and chip.peak("tf32") is not None:
        return "float operands were held against fp32, but may have run in TF32 or a lower type"
    return "a lower operand type than recorded, sparse operands, or cut kernel times"
