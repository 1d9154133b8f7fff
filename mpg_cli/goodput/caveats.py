"""What had to be assumed of computing time, and what it would be otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import measured
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpg_cli.hardware import Chip

NOTABLE = 0.01  # share of computing time below which an assumption is not worth a line


def assumptions(
    inside: pl.DataFrame, chips: Mapping[int, Chip], ideal_ns: int, useful_tokens: float | None
) -> Iterator[Notice]:
    """What was assumed, and what it would be otherwise. ideal_ns: of all useful FLOPs in the windows."""
    yield from _tf32(inside, chips, ideal_ns)
    blind = sorted({chip.name for chip in chips.values() if chip.bytes_per_second is None})
    if blind:
        message = f"no memory bandwidth of {', '.join(blind)} is sourced: memory-bound time is in kernel inefficiency"
        yield Notice("no_bandwidth", message)
    modelled = inside.filter(pl.col("ideal_ps").is_not_null())
    share, ops = _part_of(modelled.filter(pl.col("bytes").is_null()), inside)
    if share > NOTABLE:
        message = (
            f"{100 * share:.1f} % of computing moves bytes that shapes do not tell ({ops}): "
            "its memory-bound time is in kernel inefficiency"
        )
        yield Notice("bytes_unknown", message)
    share, ops = _part_of(modelled.filter(~pl.col("exact"), pl.col("flops") > 0), inside)
    if share > NOTABLE:
        message = (
            f"{100 * share:.1f} % of computing has FLOPs that are lower bounds ({ops}): PG may be higher"
        )
        yield Notice("lower_bounds", message)
    share = measured.share(inside)
    if share > NOTABLE:
        message = (
            f"the FLOPs of {100 * share:.1f} % of the judged computing are those that Nsight Compute counted: as "
            "executed, tile padding and, without operators, recomputation included"
        )
        yield Notice("measured_flops", message)
    if useful_tokens is None and modelled.filter(pl.col("flops") > 0).height:
        yield Notice("padding_unknown", "padding does not show in shapes: say --useful-tokens FRACTION")


def _tf32(inside: pl.DataFrame, chips: Mapping[int, Chip], ideal_ns: int) -> Iterator[Notice]:
    """Float that was held against fp32 because no kernel's name says TF32."""
    gains = {
        subject: 1 - float(vector.tflops / tensor.tflops)
        for subject, chip in chips.items()
        if (vector := chip.peak("fp32") or chip.peak("fp32", "vector")) and (tensor := chip.peak("tf32"))
    }
    floats = inside.filter(
        pl.col("subject").is_in(list(gains))
        & (pl.col("dtype") == "float")
        & (pl.col("flops") > 0)
        & ~pl.col("tf32")
        & pl.col("ideal_ps").is_not_null()
    )
    share, _ = _part_of(floats, inside)
    if share <= NOTABLE:
        return
    useful = floats.filter(~pl.col("recompute"))
    by_subject = useful.group_by("subject").agg(pl.col("peak_ps").sum()).iter_rows()
    less = sum(gains[subject] * ps / 1000 for subject, ps in by_subject)
    percent = 100 * (1 - less / ideal_ns) if ideal_ns else 100.0
    message = (
        f"{100 * share:.1f} % of computing multiplies float, and no kernel's name says TF32: held against fp32. "
        f"If it ran in TF32, PG is {percent:.0f} % of what is shown"
    )
    yield Notice("tf32_assumed_off", message)


def _part_of(part: pl.DataFrame, inside: pl.DataFrame) -> tuple[float, str]:
    """The share of computing time, and the operator with the most of it."""
    sums = part.group_by("operator").agg(pl.col("dur_ns").sum()).sort("dur_ns", "operator", descending=True)
    whole = int(inside["dur_ns"].sum())
    return int(part["dur_ns"].sum()) / max(1, whole), str(sums["operator"].first())
