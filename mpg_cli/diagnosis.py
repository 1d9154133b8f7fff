"""What the rules for findings look at, gathered from one analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.findings.facts import Facts
from mpg_cli.goodput.collectives.kinds import described
from mpg_cli.goodput.collectives.waiting import cut_records

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.attribution import Attribution
    from mpg_cli.report.model import Report

OPS = ("subject", "source", "start_ns", "end_ns", "kind", "name", "activity", "bytes", "blocks_per_sm")


def gather(
    report: Report,
    loaded: Activity,
    account: Attribution,
    matched: pl.DataFrame,
    inside: pl.DataFrame,
    steps: pl.DataFrame,
) -> Facts:
    """The facts of a report that is complete but for its findings.

    matched: of `collectives.match`; inside: the device activity cut to the windows; steps: of `windows.Windows`.
    """
    causes: dict[str, int] = {}
    for row in report.ledger:
        causes[row.cause] = causes.get(row.cause, 0) + row.chip_ns
    owners = loaded.subjects.select("subject", "source").join(
        loaded.sources.select("source", "rank"), on="source", maintain_order="left"
    )
    by_subject = account.rows.group_by("subject", "cause").agg(col.chip_ns.sum()).sort("subject", "cause")
    return Facts(
        capacity_ns=report.totals.capacity_ns,
        causes=causes,
        by_subject=by_subject.join(owners, on="subject", maintain_order="left"),
        segments=account.segments,
        idle=account.idle,
        evidence=account.evidence,
        syncs=account.syncs,
        communication=_communication(loaded, matched),
        steps=steps,
        ops=inside.select(OPS),
        paths=dict(loaded.sources.select("source", "path").iter_rows()),
        ranks=dict(loaded.sources.select("source", "rank").iter_rows()),
        goodput=report.goodput,
        hotspots=report.hotspots,
        collectives=report.collectives,
        communicators=report.communicators,
        operators=report.ops,
    )


def _communication(loaded: Activity, matched: pl.DataFrame) -> pl.DataFrame:
    """The communication records: subject, name, group, kernel, index, start_ns, end_ns, cut_ns."""
    records = described(cut_records(loaded, matched).filter(col.dur_ns > 0))
    named = records.select(
        "subject", "group", "index", "start_ns", "end_ns", "cut_ns", name="short", kernel="name"
    )
    return named.cast({pl.Categorical: pl.String})
