"""How far the figures can be trusted: linking, carry-over, graphs, unknown names; a grade with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

LAUNCH = r"(?i)launch|memcpy|memset|graph_?exec"
NO_KERNEL = (
    r"(?i)graph_?launch|host_?func|memcpy|memset|graph_?exec"  # launches without a kernel of their own
)
GRAPH_LAUNCH = r"(?i)graph_?launch"
# (worst grade it allows, why) for warnings that mean lost or altered data
WARNING_GRADES = {
    "truncated_input": ("C", "the file is cut short"),
    "device_records_lost": ("C", "device records are missing"),
    "dropped_events": ("B", "records with impossible times were dropped"),
    "duration_overflow": ("B", "impossible kernel ends were clipped"),
    "repaired_input": ("B", "damaged JSON was repaired"),
    "unmatched_events": ("B", "events without a partner were left out"),
    "no_steps": ("B", "no steps: the window is whatever the device recorded"),
}


@dataclass(frozen=True)
class Linking:
    """Device time by how it was launched, in summed ns of records inside the windows.

    unlinked_ns is None if no launches are recorded; carry_over_ns is a part of it.
    """

    total_ns: int
    unlinked_ns: int | None
    carry_over_ns: int
    graph_ns: int


def launches(dataset: Dataset) -> pl.DataFrame:
    """Runtime calls that put work on a device: source, correlation, external_id, kernel, graph.

    kernel and graph (bool) say what a call launches. Ids of 0 are none.
    """
    name = pl.col("name")
    return (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "runtime") & name.str.contains(LAUNCH))
        .select(
            "source",
            *(pl.when(pl.col(id_) != 0).then(id_).alias(id_) for id_ in ("correlation", "external_id")),
            graph=name.str.contains(GRAPH_LAUNCH),
            kernel=~name.str.contains(NO_KERNEL),
        )
        .collect()
    )


def link(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`ops` with linked and graph (bool): by correlation, or by external id where there is no correlation."""
    found = ops.join(
        _distinct(calls, "correlation"), on=["source", "correlation"], how="left", maintain_order="left"
    ).join(
        _distinct(calls, "external_id"),
        on=["source", "external_id"],
        how="left",
        maintain_order="left",
        suffix="_ext",
    )
    graph = pl.when(pl.col("correlation").is_null()).then("graph_ext").otherwise("graph")
    known = found.with_columns(linked=graph.is_not_null(), graph=graph.fill_null(value=False))
    return known.drop("graph_ext")


def _distinct(calls: pl.DataFrame, column: str) -> pl.DataFrame:
    known = calls.filter(pl.col(column).is_not_null())
    return known.group_by("source", column).agg(pl.col("graph").any())


def measure_linking(linked: pl.DataFrame, calls: pl.DataFrame) -> Linking:
    """Sums of record durations. Carried over: launched before the first recorded launch, which is missing.

    Correlation numbers are given out in the order of the calls.
    """
    first_call = calls.group_by("source").agg(first=pl.col("correlation").min())
    rows = linked.join(first_call, on="source", how="left")
    carried = ~pl.col("linked") & (pl.col("correlation") < pl.col("first"))
    sums = rows.select(
        total=pl.col("dur_ns").sum(),
        unlinked=pl.col("dur_ns").filter(~pl.col("linked")).sum(),
        carried=pl.col("dur_ns").filter(carried).sum(),
        graph=pl.col("dur_ns").filter(pl.col("graph") | pl.col("graph_node").is_not_null()).sum(),
    ).row(0, named=True)
    unlinked = None if calls.is_empty() else sums["unlinked"]
    return Linking(sums["total"], unlinked, sums["carried"], sums["graph"])


def lost_records(linked: pl.DataFrame, calls: pl.DataFrame) -> dict[int, int]:
    """By source, kernel launches in the file that no device record answers.

    Copies and sets of no bytes leave no record, and launches after the last recorded activity may not have
    run yet: only kernel launches whose correlation is below the highest one seen on the device count.
    """
    seen = linked.filter(pl.col("correlation").is_not_null()).select("source", "correlation").unique()
    highest = seen.group_by("source").agg(last=pl.col("correlation").max())
    missing = calls.filter(pl.col("kernel")).join(seen, on=["source", "correlation"], how="anti")
    lost = missing.join(highest, on="source").filter(pl.col("correlation") < pl.col("last"))
    return dict(lost.group_by("source").len().sort("source").iter_rows())


def outside_ns(busy: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Per source: busy device time before and after its window (spans: subject, source, start_ns, end_ns)."""
    whole = spans.join(intervals.union(busy, by=["subject"]), on="subject", how="left", suffix="_busy")
    before = pl.min_horizontal("end_ns_busy", "start_ns") - pl.col("start_ns_busy")
    after = pl.col("end_ns_busy") - pl.max_horizontal("start_ns_busy", "end_ns")
    return whole.group_by("source").agg(before_ns=before.clip(0).sum(), after_ns=after.clip(0).sum())


def overhead_ns(dataset: Dataset, windows: pl.DataFrame) -> int:
    """Summed length of the profiler's own overhead rows inside the windows."""
    rows = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "overhead") & pl.col("dur_ns").is_not_null())
        .select("source", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
        .collect()
    )
    inside = intervals.clip(rows, windows.select("source", "start_ns", "end_ns"), ["source"])
    return int(intervals.total(inside, ["source"])["length_ns"].sum())


def grade(
    notices: Sequence[Notice], unlinked: float | None, carried: float, unknown: float
) -> tuple[str, list[str]]:
    """The grade A to D and its reasons; shares are of summed device time. The table is in docs/metrics.md."""
    reasons = [
        WARNING_GRADES[kind] for kind in dict.fromkeys(n.kind for n in notices) if kind in WARNING_GRADES
    ]
    stray = None if unlinked is None else unlinked - carried
    reasons += _by_share("work without a launch call in the file", stray, ((0.5, "C"), (0.05, "B")))
    reasons += _by_share("work carried over from before the profile", carried, ((0.5, "C"), (0.10, "B")))
    reasons += _by_share("kernels whose name no rule knows", unknown, ((0.5, "C"), (0.10, "B")))
    worst = max((letter for letter, _ in reasons), default="A")
    if sum(letter == "C" for letter, _ in reasons) > 1:
        worst = "D"
    return worst, [why for letter, why in sorted(reasons, reverse=True)]


def _by_share(what: str, share: float | None, limits: tuple[tuple[float, str], ...]) -> list[tuple[str, str]]:
    for limit, letter in limits:
        if share is not None and share > limit:
            return [(letter, f"{100 * share:.1f} % of device time is {what}")]
    return []
