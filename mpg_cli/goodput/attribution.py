"""Every nanosecond of the windows under one cause, and when: busy time by activity, idle time by what caused it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import idle, ledger, runtime

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.idle import IdleRules
    from mpg_cli.store import Dataset


@dataclass(frozen=True, slots=True)
class Attribution:
    """The runtime account.

    rows: of the ledger, one per subject and cause
    segments: subject, start_ns, end_ns, cause, busy (the device did something); by subject and time, they partition
        every window, and neighbours differ
    idle: subject, start_ns, end_ns, cause, evidence (a row of `evidence`, or null): the idle segments in more detail
    evidence, syncs: see `idle.evidence`
    """

    rows: pl.DataFrame
    segments: pl.DataFrame
    idle: pl.DataFrame
    evidence: pl.DataFrame
    syncs: pl.DataFrame


def attribute(
    dataset: Dataset,
    activity: Activity,
    claims: pl.DataFrame,
    spans: pl.DataFrame,
    steps: pl.DataFrame,
    rules: IdleRules,
) -> Attribution:
    """Resolve `claims` (of `runtime.claims`) over the windows, and put the causes of idle time in the place of idle.

    `spans`: subject, source, start_ns, end_ns; `steps`: source, name, start_ns.
    """
    resolution = runtime.resolve_windows(claims, spans)
    why = idle.attribute(dataset, activity, spans, steps, rules)
    refined = ledger.refine(resolution.rows, runtime.IDLE, why.rows())
    ledger.check_closed(refined.faults.rename({"excess_ns": "chip_ns"}), 0)
    idle_ns = resolution.rows.filter(col.cause == runtime.IDLE)
    ledger.check_closed(why.rows(), int(idle_ns["chip_ns"].sum()))
    return Attribution(refined.rows, _timeline(resolution, why), why.segments, why.evidence, why.syncs)


def _timeline(resolution: ledger.Resolution, why: idle.Idle) -> pl.DataFrame:
    columns = ("subject", "start_ns", "end_ns", "cause")
    busy = resolution.timeline().filter(col.cause != runtime.IDLE).select(*columns, busy=pl.lit(value=True))
    causes = ledger.join_touching(why.segments.select(columns), ["subject", "cause"])
    both = pl.concat([busy, causes.with_columns(busy=pl.lit(value=False))])
    ordered = both.sort("start_ns").sort("subject", maintain_order=True)
    return ledger.join_touching(ordered, ["subject", "cause", "busy"])
