"""What the rules for findings look at, gathered from one analysis."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.findings.facts import Facts
from mpg_cli.goodput.collectives.kinds import described
from mpg_cli.goodput.collectives.waiting import cut_records
from mpg_cli.goodput.windows import OWNER
from mpg_cli.rows.idle import hotspot_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.attribution import Attribution
    from mpg_cli.report.model import Hotspot, Report

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
    owners = loaded.subjects.select("subject", *OWNER, "rank")
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
        rank_hotspots=_by_rank(loaded, account, report.totals.capacity_ns),
        collectives=report.collectives,
        communicators=report.communicators,
        operators=report.ops,
        tpu=bool(report.devices) and all("tpu" in (each.name or "").casefold() for each in report.devices),
    )


def _by_rank(
    loaded: Activity, account: Attribution, capacity_ns: int
) -> Callable[[int], tuple[Hotspot, ...]]:
    """The hotspots of one rank, counted when asked for."""
    paths, ranks = (dict(loaded.sources.select("source", name).iter_rows()) for name in ("path", "rank"))
    owners = loaded.subjects.select("subject", "source")

    @cache
    def hotspots(rank: int) -> tuple[Hotspot, ...]:
        mine = col.source.is_in([source for source, of in ranks.items() if of == rank])
        idle = account.idle.join(owners.filter(mine), on="subject", maintain_order="left")
        return hotspot_rows(idle, account.evidence.filter(mine), capacity_ns, paths, ranks)

    return hotspots


def _communication(loaded: Activity, matched: pl.DataFrame) -> pl.DataFrame:
    """The communication records: subject, name, group, kernel, index, start_ns, end_ns, cut_ns, met_ns."""
    records = described(cut_records(loaded, matched).filter(col.dur_ns > 0))
    met = matched.select("subject", "index", met_ns=col.end_ns - col.transfer_ns)
    named = records.join(met, on=["subject", "index"], how="left", maintain_order="left").select(
        "subject", "group", "index", "start_ns", "end_ns", "cut_ns", "met_ns", name="short", kernel="name"
    )
    return named.cast({pl.Categorical: pl.String})
