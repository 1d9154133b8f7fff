"""What was measured of kernels, and what the hardware counted, as rows of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.goodput import witness
from mpg_cli.report import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from mpg_cli.goodput.judging import Judged
    from mpg_cli.report.model import Goodput

MOST = 200  # rows in the report
VECTOR_TYPES = ("fp32", "fp64")  # which tensor cores do not work on, or not by default


def profiled_rows(table: pl.DataFrame) -> tuple[model.ProfiledKernel, ...]:
    """Rows of `measured.table`, most time first."""
    rows = table.drop("family", strict=False).head(MOST).iter_rows(named=True)
    return tuple(model.ProfiledKernel(**row) for row in rows)


def witness_row(
    found: witness.Witness,
    goodput: Goodput,
    judged: Judged,
    paths: Mapping[int, str],
    ranks: Mapping[int, int | None],
) -> model.Witness:
    """What the hardware counted, beside the ratios that it can contradict."""
    flops = goodput.hfu or goodput.mfu
    matrix = all(dtype not in VECTOR_TYPES for _, dtype, *_ in judged.ceilings)
    told = witness.disagreements(found, None if flops is None else flops.value, matrix=matrix)
    return model.Witness(
        coverage=found.covered,
        kernels=None if found.reason else found.kernels,
        **{name: found.means.get(name) for name in witness.FIGURES},
        disagreements=tuple(told),
        devices=_devices(found.devices, paths, ranks),
        reason=found.reason,
    )


def _devices(
    devices: pl.DataFrame, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> tuple[model.DeviceWitness, ...]:
    plain = ("process", "device", "samples", "period_ns", *witness.FIGURES)
    return tuple(
        model.DeviceWitness(
            source=paths[row["source"]],
            rank=ranks[row["source"]],
            kernels=row["kernels_ns"] / row["window_ns"],
            coverage=row["covered_ns"] / row["window_ns"],
            **{name: row[name] for name in plain},
        )
        for row in devices.iter_rows(named=True)
    )
