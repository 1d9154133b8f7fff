"""The program layer from FLOPs per step that the user declares, without models of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import intervals
from mpg_parsers.errors import UndecidedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.hardware import Chip, Peak

DTYPES = ("bf16", "fp16")  # the first that the chip has a figure for


@dataclass(frozen=True)
class Totals:
    """Computing time against FLOPs of devices as a whole.

    rows: subject, cause (ideal, unmodelled), chip_ns, origin, evidence; None with a reason where there are none;
    rate: what the FLOPs were held against; caveats: what makes them a bound.
    """

    rows: pl.DataFrame | None
    reason: str = ""
    rate: str = ""
    caveats: tuple[str, ...] = ()


def account(
    loaded: Activity, spans: pl.DataFrame, chips: Mapping[int, Chip], flops: float, basis: str
) -> Totals:
    """Each device's computing time against its steps times `flops`.

    spans: subject, start_ns, end_ns, steps (of its source). Raises UndecidedError where a source has no steps,
    UsageError for the basis roofline, which needs bytes as well.
    """
    if basis == "roofline":
        raise UsageError("--pg-basis roofline needs operator models", hint="leave out --flops-per-step")
    if spans["steps"].min() == 0:
        raise UndecidedError("--flops-per-step needs steps in every trace", hint="see --step-regex")
    rows, rates = [], set[str]()
    for subject, length in computing(loaded, spans).iter_rows():
        chip = chips[subject]
        rate = _rate(chip, basis)
        if rate is None:
            return Totals(None, f"no {basis} rate of {chip.name} in {' or '.join(DTYPES)} is sourced")
        steps = spans.filter(pl.col("subject") == subject)["steps"].item()
        best = round(flops * steps * 1e9 / rate.flops_per_second)
        if best > length:
            needed = 100 * best / max(1, length)
            return Totals(None, f"the declared FLOPs would need {needed:.0f} % of the chip's {basis} rate")
        rates.add(f"{rate.dtype} {basis} of {chip.name}")
        rows += [(subject, "ideal", best), (subject, "unmodelled", length - best)]
    if not rows:
        return Totals(None, "no computing in the window")
    schema = {"subject": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        origin=pl.lit("inferred"), evidence=pl.lit(None, pl.Int64)
    )
    return Totals(table, "", ", ".join(sorted(rates)))


def computing(loaded: Activity, spans: pl.DataFrame) -> pl.DataFrame:
    """subject, length_ns of the devices that compute in their windows."""
    compute = loaded.ops.filter(pl.col("activity") == "compute").select("subject", "start_ns", "end_ns")
    cut = intervals.clip(compute, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    return intervals.total(cut, ["subject"])


def _rate(chip: Chip, basis: str) -> Peak | None:
    figures = (chip.achievable(dtype) if basis == "achievable" else chip.peak(dtype) for dtype in DTYPES)
    return next((rate for rate in figures if rate is not None), None)
