"""How far the figures can be trusted: linking, carry-over, graphs, unknown names, and a grade with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mpg_cli.goodput import intervals
from mpg_cli.goodput.activity import Activity
from mpg_cli.store import Dataset
from mpg_parsers.errors import Notice

LAUNCH = r"(?i)launch|memcpy|memset|graph_?exec"
GRAPH_LAUNCH = r"(?i)graph_?launch"
GRADES = "ABCD"
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
    """Device time by how it was launched, in summed ns of records inside the windows; None: no launches recorded."""

    total_ns: int
    unlinked_ns: int | None
    carry_over_ns: int
    graph_ns: int


def launches(dataset: Dataset) -> pl.DataFrame:
    """Runtime calls that put work on a device: source, correlation, external_id, graph (whether a graph launch)."""
    return (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "runtime") & pl.col("name").str.contains(LAUNCH))
        .select("source", "correlation", "external_id", graph=pl.col("name").str.contains(GRAPH_LAUNCH))
        .collect()
    )


def link(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`ops` with linked (bool) and graph (bool): the launch by correlation, else by external id where that is missing."""
    by_correlation = _distinct(calls, "correlation")
    by_external = _distinct(calls, "external_id")
    joined = ops.join(by_correlation, on=["source", "correlation"], how="left", maintain_order="left")
    joined = joined.join(by_external, on=["source", "external_id"], how="left", maintain_order="left", suffix="_ext")
    graph = pl.when(pl.col("correlation").is_null()).then("graph_ext").otherwise("graph")
    return joined.with_columns(linked=graph.is_not_null(), graph=graph.fill_null(value=False)).drop("graph_ext")


def _distinct(calls: pl.DataFrame, column: str) -> pl.DataFrame:
    known = calls.filter(pl.col(column).is_not_null())
    return known.group_by("source", column).agg(pl.col("graph").any())


def measure_linking(linked: pl.DataFrame, calls: pl.DataFrame) -> Linking:
    """Sums of record durations. Carried over: launched before the first recorded launch, so its call is missing."""
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


def lost_records(linked: pl.DataFrame, calls: pl.DataFrame) -> int:
    """Kernel launches in the file, other than graph launches, that no device record answers.

    Launches after the last recorded device activity may simply not have run yet; only those whose correlation is
    below the highest one seen on the device count.
    """
    seen = linked.filter(pl.col("correlation").is_not_null()).select("source", "correlation").unique()
    highest = seen.group_by("source").agg(last=pl.col("correlation").max())
    missing = calls.filter(~pl.col("graph") & pl.col("correlation").is_not_null()).join(
        seen, on=["source", "correlation"], how="anti"
    )
    return missing.join(highest, on="source").filter(pl.col("correlation") < pl.col("last")).height


def outside_ns(busy: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Per source: busy device time before and after its window (spans: subject, source, start_ns, end_ns)."""
    whole = intervals.union(busy, by=["subject"]).join(spans, on="subject", suffix="_window")
    before = pl.min_horizontal("end_ns", "start_ns_window") - pl.col("start_ns")
    after = pl.col("end_ns") - pl.max_horizontal("start_ns", "end_ns_window")
    return whole.group_by("source").agg(before_ns=before.clip(0).sum(), after_ns=after.clip(0).sum())


def overhead_ns(dataset: Dataset, windows: pl.DataFrame) -> int:
    """Summed length of the profiler's own overhead rows inside the windows."""
    rows = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "overhead") & pl.col("dur_ns").is_not_null())
        .select("source", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
        .collect()
    )
    covered = intervals.total(intervals.clip(rows, windows.select("source", "start_ns", "end_ns"), ["source"]), ["source"])
    return int(covered["length_ns"].sum())


def grade(notices: Sequence[Notice], unlinked: float | None, carried: float, unknown: float) -> tuple[str, list[str]]:
    """The grade A to D and its reasons; shares are of summed device time. The table is in docs/metrics.md."""
    reasons = [WARNING_GRADES[kind] for kind in dict.fromkeys(n.kind for n in notices) if kind in WARNING_GRADES]
    reasons += _by_share("work without a launch call in the file", unlinked, ((0.5, "C"), (0.05, "B")))
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
