"""Steps, inference steps, breakdowns and the dashboard's view as rows of the report."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from polars import col

from mpg_cli.goodput import steps
from mpg_cli.report import model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

    from mpg_cli.goodput.dashboard import Dashboard
    from mpg_cli.goodput.ledger import Rolled

MOST = 10_000  # rows of one breakdown in the report


def step_rows(
    figures: pl.DataFrame,
    subjects: pl.DataFrame,
    paths: Mapping[int, str],
    ranks: Mapping[int, int | None],
) -> tuple[model.Step, ...]:
    """Rows of `runtime.step_figures`, by step and device; subjects: subject, device."""
    rows = figures.join(subjects.select("subject", "device"), on="subject").sort("_step", "subject")
    names = ("busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns")
    return tuple(
        model.Step(**_place(row, paths, ranks), **{name: row[name] for name in names})
        for row in rows.iter_rows(named=True)
    )


def step_ledgers(
    rows: pl.DataFrame, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> tuple[model.StepLedger, ...]:
    """Rows of `steps.by_cause`, one per step and device, without the causes that took nothing.

    paths and ranks are by source.
    """
    some = rows.sort("row", "subject", "chip_ns", "cause", descending=[False, False, True, False])
    causes = some.filter(col.chip_ns > 0).group_by("row", "subject").agg("cause", "chip_ns")
    whole = rows.unique(["row", "subject"]).drop("cause", "chip_ns")
    found = whole.join(causes, on=["row", "subject"], how="left").sort("row", "subject")
    return tuple(
        model.StepLedger(
            **_place(row, paths, ranks),
            causes=dict(zip(row["cause"] or (), row["chip_ns"] or (), strict=True)),
        )
        for row in found.iter_rows(named=True)
    )


def step_spread(rows: pl.DataFrame) -> model.StepSpread | None:
    """Of the rows of `steps.by_cause`; None without steps."""
    walls = rows.unique(["row", "subject"])["wall_ns"].to_list()
    found = steps.spread(walls)
    return None if found is None else model.StepSpread(**asdict(found))


def step_outliers(
    rows: pl.DataFrame, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> tuple[model.StepOutlier, ...]:
    """Of the rows of `steps.by_cause`, most excess first."""
    found = steps.outliers(rows).sort("excess_ns", "row", "subject", descending=[True, False, False])
    names = ("excess_ns", "cause", "cause_excess_ns")
    return tuple(
        model.StepOutlier(**_place(row, paths, ranks), **{name: row[name] for name in names})
        for row in found.iter_rows(named=True)
    )


def _place(
    row: Mapping[str, Any], paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> dict[str, Any]:
    return {
        "source": paths[row["source"]],
        "rank": ranks[row["source"]],
        "device": row["device"],
        "step": row["name"] if row["step"] is None else row["step"],
        "wall_ns": row["wall_ns"],
    }


def inference_steps(
    rows: pl.DataFrame, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> tuple[model.InferenceStep, ...]:
    """Rows of `inference.steps`."""
    names = (
        "device", "name", "phase", "requests", "tokens", "host_ns", "device_ns", "busy_ns", "compute_ns",
    )  # fmt: skip
    return tuple(
        model.InferenceStep(
            source=paths[row["source"]], rank=ranks[row["source"]], **{name: row[name] for name in names}
        )
        for row in rows.iter_rows(named=True)
    )


def dashboard(found: Dashboard) -> model.Dashboard:
    """The dashboard's view."""
    return model.Dashboard(**asdict(found))


def breakdown_rows(by: str, rows: pl.DataFrame) -> tuple[model.Breakdown, ...]:
    """The first MOST rows of `breakdown.break_down`; of more keys the others are not in the report."""
    return tuple(model.Breakdown(by=by, **row) for row in rows.head(MOST).iter_rows(named=True))


def rank_segments(parts: Mapping[str, Rolled]) -> tuple[model.Segment, ...]:
    """The parts of `breakdown.by_rank`."""
    return tuple(
        model.Segment(
            by="rank",
            key=key,
            capacity_ns=part.capacity_ns,
            allocated_ns=part.allocated_ns,
            productive_ns=part.productive_ns,
            ideal_ns=part.ideal_ns,
            causes=_summed((total.cause, total.chip_ns) for total in part.by_cause),
        )
        for key, part in parts.items()
    )


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Causes may come twice, from different origins."""
    sums: dict[str, int] = {}
    for cause, ns in pairs:
        sums[cause] = sums.get(cause, 0) + ns
    return sums
