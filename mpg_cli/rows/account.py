"""The account as rows of the report: sources, devices, steps, windows, the ledger, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import kernels, runtime
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput import ledger
    from mpg_cli.goodput.activity import Activity


def source_rows(loaded: Activity) -> tuple[model.Source, ...]:
    """The files with device activity or without, in order."""
    return sources_of(loaded.sources)


def sources_of(sources: pl.DataFrame) -> tuple[model.Source, ...]:
    """The rows of the table sources."""
    columns = ("path", "format", "sha256", "size", "rank", "world_size", "framework", "host", "events")
    return tuple(model.Source(**row) for row in sources.select(columns).iter_rows(named=True))


def device_rows(
    loaded: Activity, busy: pl.DataFrame, paths: Mapping[int, str], ranks: Mapping[int, int | None]
) -> tuple[model.Device, ...]:
    """Every device over all its recorded activity."""
    figures = runtime.device_figures(loaded.ops, busy)
    rows = loaded.subjects.join(figures, on="subject").sort("subject")
    names = [f for f in model.Device.__dataclass_fields__ if f not in ("source", "rank")]
    return tuple(
        model.Device(
            source=paths[row["source"]], rank=ranks[row["source"]], **{name: row[name] for name in names}
        )
        for row in rows.iter_rows(named=True)
    )


def window_rows(
    spans: pl.DataFrame, outside: pl.DataFrame, paths: Mapping[int, str]
) -> tuple[model.Window, ...]:
    """The windows of every source: one, or as many as its processes have different ones.

    spans: of `Windows.of`; outside: the device activity outside them (`quality.outside_ns`).
    """
    key = ["source", "start_ns", "end_ns", "basis", "steps"]
    sums = pl.col("before_ns", "after_ns").sum()
    rows = spans.join(outside, on="subject").group_by(key).agg(sums, chips=pl.len()).sort(key)
    names = (*key[1:], "chips", "before_ns", "after_ns")
    return tuple(
        model.Window(source=paths[row["source"]], **{name: row[name] for name in names})
        for row in rows.iter_rows(named=True)
    )


def ledger_rows(rolled: ledger.Rolled) -> tuple[model.LedgerRow, ...]:
    """The account by cause."""
    taxonomy = load_taxonomy()
    return tuple(
        model.LedgerRow(
            layer=total.layer,
            cause=total.cause,
            label=taxonomy.cause(total.cause).label,
            chip_ns=total.chip_ns,
            share=share(total.chip_ns, rolled.capacity_ns),
            origin=total.origin,
        )
        for total in rolled.by_cause
    )


def kernel_rows(table: pl.DataFrame) -> tuple[model.Kernel, ...]:
    """Rows of `kernels.by_name`."""
    columns = ("name", "kind", "family", "count", "time_ns", "mean_ns", "max_ns", "share")
    return tuple(model.Kernel(**row) for row in table.select(columns).iter_rows(named=True))


def name_rule_rows(inside: pl.DataFrame) -> tuple[model.NameRule, ...]:
    """What each recognition rule matched in the windows."""
    table = kernels.by_rule(inside).select("rule", "activity", "count", "time_ns", "share")
    return tuple(model.NameRule(*row) for row in table.iter_rows())


def share(part: int, whole: int) -> float:
    """`part` of `whole`, 0 where there is no whole."""
    return part / whole if whole else 0.0
