"""The program layer from the FLOPs of whole XLA programs before optimisation, as the Google fleet paper defines PG.

What the compiler did (fusion, another algorithm) then changes the time and not the ideal. As in the paper all FLOPs of
the graph count, element-wise ones too, but not those that it computes again. They are of all devices together: each has
its part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.flops_per_step import Totals, computing
from mpg_cli.hardware import dtype_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.hardware import Chip, Peak
    from mpg_cli.store import Dataset

OWNER = ["source", "process", "device"]
NOTABLE = 0.99  # of the time in runs of programs: the share that programs with known FLOPs must have


def known(dataset: Dataset) -> pl.DataFrame:
    """The programs whose FLOPs before optimisation are known: columns of the table `programs`."""
    return dataset.scan("programs").filter(col.all_flops.is_not_null()).collect()


def account(
    dataset: Dataset, loaded: Activity, spans: pl.DataFrame, chips: Mapping[int, Chip], basis: str
) -> Totals:
    """Each device's computing time against the FLOPs of the runs of programs in its window.

    A run that the window cuts counts pro rata. spans: subject, start_ns, end_ns.
    """
    runs = _runs(dataset, loaded, spans)
    lengths = col.end_ns - col.start_ns
    total, told = (
        int(part.select(lengths.sum()).item()) for part in (runs, runs.filter(col.flops.is_not_null()))
    )
    if not total:
        return Totals(None, "no program ran in the window")
    coverage = told / total
    if coverage < NOTABLE:
        return Totals(None, f"programs with known FLOPs make {100 * coverage:.1f} % of the time in programs")
    counted = runs.filter(col.flops > 0)
    rates = {
        key: _rate(chips[key[0]], key[1], basis)
        for key in counted.select("subject", "dtype").unique().iter_rows()
    }
    if missing := sorted(
        {f"{key[1] or 'its type'} of {chips[key[0]].name}" for key, rate in rates.items() if rate is None}
    ):
        return Totals(None, f"no {basis} rate for {', '.join(missing)} is sourced")
    ideal = _ideal(counted, {key: rate for key, rate in rates.items() if rate is not None})
    rows, reason = _rows(computing(loaded, spans), ideal)
    named = sorted({f"{rate.dtype} {basis} of {chips[key[0]].name}" for key, rate in rates.items() if rate})
    return Totals(rows, reason, ", ".join(named), _caveats(runs))


def _runs(dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> pl.DataFrame:
    """The runs in the windows, cut to them, with whole_ns, their length before, and their program's columns."""
    runs = dataset.scan("program_runs").collect().drop("name")
    owned = runs.join(loaded.subjects.select("subject", *OWNER), on=OWNER, nulls_equal=True)
    programs = known(dataset).with_columns(
        flops=col.all_flops - col.repeated_flops.fill_null(0),
        devices=col.partitions.fill_null(1).clip(1) * col.replicas.fill_null(1).clip(1),
    )
    placed = owned.join(programs, on=["source", "program_id"], how="left").with_columns(
        whole_ns=col.end_ns - col.start_ns
    )
    return intervals.clip(placed, spans.select("subject", "start_ns", "end_ns"), ["subject"])


def _ideal(runs: pl.DataFrame, rates: Mapping[tuple[int, str], Peak]) -> dict[int, int]:
    """By subject, the ns that the FLOPs of its runs take."""
    found: dict[int, float] = {}
    columns = ("subject", "dtype", "flops", "devices", "start_ns", "end_ns", "whole_ns")
    for subject, dtype, flops, devices, start, end, whole in runs.select(columns).iter_rows():
        part = (end - start) / whole if whole else 1.0
        best = flops * 1e9 / devices / rates[subject, dtype].flops_per_second
        found[subject] = found.get(subject, 0.0) + part * best
    return {subject: round(ns) for subject, ns in found.items()}


def _rows(lengths: pl.DataFrame, ideal: Mapping[int, int]) -> tuple[pl.DataFrame | None, str]:
    rows = []
    for subject, length in lengths.iter_rows():
        best = ideal.get(subject, 0)
        if best > length:
            needed = 100 * best / max(1, length)
            return (
                None,
                f"the programs' FLOPs would need {needed:.0f} % of the chip's rate: is the number of devices right?",
            )
        rows += [(subject, "ideal", best), (subject, "unmodelled", length - best)]
    if not rows:
        return None, "no computing in the window"
    schema = {"subject": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.with_columns(origin=pl.lit("inferred"), evidence=pl.lit(None, pl.Int64)), ""


def _rate(chip: Chip, dtype: str | None, basis: str) -> Peak | None:
    name = dtype_name(dtype) if dtype else None
    if name is None:
        return None
    if chip.vendor == "Google" and name in ("fp32", "fp16"):
        name = "bf16"  # what a TPU multiplies them in, unless told otherwise
    return chip.achievable(name) if basis == "achievable" else chip.peak(name)


def _caveats(runs: pl.DataFrame) -> tuple[str, ...]:
    """What makes the FLOPs of the programs that ran less or more than what they did."""
    ran = runs.filter(col.flops.is_not_null()).unique(["source", "program_id"])
    opaque = ran.filter(col.opaque.is_not_null())
    loops = int(ran["unknown_loops"].fill_null(0).sum())
    found = []
    if opaque.height:
        found.append(
            f"programs call custom code whose FLOPs are not known ({opaque.height} of them): PG may be higher"
        )
    if loops:
        found.append(f"{loops} loops with an unknown number of passes are counted once: PG may be higher")
    return tuple(found)
