"""How far the figures can be trusted: linking, carry-over, graphs, unknown names; a grade with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import intervals
from mpg_cli.goodput.windows import OWNER
from mpg_parsers.launches import MIGRATION, OF_PROCESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

# DoEnqueueProgram begins a program on a TPU; a thunk is an operation of an XLA program
LAUNCH = r"(?i)launch|memcpy|memset|graph_?exec|enqueue_?program|^TSL:Thunk"
# launches without a kernel of their own, or with any number
NO_KERNEL = r"(?i)graph_?launch|host_?func|memcpy|memset|graph_?exec|enqueue_?program|^TSL:Thunk"
GRAPH_LAUNCH = r"(?i)graph_?launch"
CAPTURE = r"(?i)stream_?(?:begin|end)_?capture"
THREAD = ["source", "process", "thread"]
# (worst grade it allows, why) for warnings that mean lost or altered data
WARNING_GRADES = {
    "truncated_input": ("C", "the file is cut short"),
    "device_records_lost": ("C", "device records are missing"),
    "capture_incomplete": ("C", "the profiler says that it lost events"),
    "bad_row": ("B", "rows or values that make no sense were left out"),
    "graph_level_trace": ("B", "graphs were recorded as wholes: what ran in them is unknown"),
    "dropped_events": ("B", "records with impossible times were dropped"),
    "duration_overflow": ("B", "impossible kernel ends were clipped"),
    "repaired_input": ("B", "damaged input was repaired"),
    "unmatched_events": ("B", "events without a partner were left out"),
    "no_steps": ("B", "no steps: the window is whatever the device recorded"),
}


# overhead records of CUDA's own loading, which no profiler causes
LOADING = r"(?i)lazy|module ?load"


@dataclass(frozen=True)
class Linking:
    """Device time by how it was launched, in summed ns of records inside the windows.

    unlinked_ns is None if no launches are recorded; carry_over_ns is a part of it.
    """

    total_ns: int
    unlinked_ns: int | None
    carry_over_ns: int
    graph_ns: int


# the process whose calls are numbered, where a file has several
_NUMBERING = (pl.col("correlation") // OF_PROCESS).alias("numbering")


def launches(dataset: Dataset) -> pl.DataFrame:
    """Runtime calls that put work on a device: source, correlation, external_id, kernel, graph.

    kernel and graph (bool) say what a call launches. Ids of 0 are none. A call while its thread captures a graph
    launches nothing itself.
    """
    name = pl.col("name")
    runtime = dataset.scan("host_events").filter(pl.col("kind") == "runtime")
    captures = runtime.filter(name.str.contains(CAPTURE)).collect()
    place = [] if captures.is_empty() else [*THREAD[1:], "start_ns"]
    calls = (
        runtime.filter(name.str.contains(LAUNCH))
        .select(
            "source",
            *(pl.when(pl.col(id_) != 0).then(id_).alias(id_) for id_ in ("correlation", "external_id")),
            *place,
            graph=name.str.contains(GRAPH_LAUNCH),
            kernel=~name.str.contains(NO_KERNEL),
        )
        .collect()
    )
    if not place:
        return calls
    captured = _captured(calls, captures)
    return calls.with_columns(kernel=pl.col("kernel") & ~captured).drop(place)


def _captured(calls: pl.DataFrame, captures: pl.DataFrame) -> pl.Series:
    """Whether the last of the calls that begin or end a capture on a call's thread begins one."""
    thread = pl.col(THREAD[1:]).fill_null(-1)
    begins = pl.col("name").str.contains("(?i)begin")
    edges = captures.with_columns(thread, captured=begins).select(*THREAD, "start_ns", "captured")
    numbered = calls.with_columns(thread).with_row_index("row").sort("start_ns")
    met = numbered.join_asof(edges.sort("start_ns"), on="start_ns", by=THREAD, check_sortedness=False)
    return met.sort("row")["captured"].fill_null(value=False)


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

    Correlation numbers are given out in the order of a process's calls. Migrations of unified memory have no call, so
    that none is missing.
    """
    first_call = calls.group_by("source", _NUMBERING).agg(first=pl.col("correlation").min())
    key = ["source", "numbering"]
    rows = linked.with_columns(_NUMBERING).join(first_call, on=key, how="left")
    missing = ~pl.col("linked") & ~_migrations(rows["name"])
    carried = ~pl.col("linked") & (pl.col("correlation") < pl.col("first"))
    sums = rows.select(
        total=pl.col("dur_ns").sum(),
        unlinked=pl.col("dur_ns").filter(missing).sum(),
        carried=pl.col("dur_ns").filter(carried).sum(),
        graph=pl.col("dur_ns").filter(pl.col("graph") | pl.col("graph_node").is_not_null()).sum(),
    ).row(0, named=True)
    unlinked = None if calls.is_empty() else sums["unlinked"]
    return Linking(sums["total"], unlinked, sums["carried"], sums["graph"])


def _migrations(names: pl.Series) -> pl.Expr:
    """Whether a record is a migration of unified memory."""
    found = [name for name in names.unique().cast(pl.String) if name.startswith(MIGRATION)]
    return pl.col("name").cast(pl.String).is_in(found) if found else pl.lit(value=False)


def lost_records(linked: pl.DataFrame, calls: pl.DataFrame) -> dict[int, int]:
    """By source, kernel launches in the file that no device record answers.

    Copies and sets of no bytes leave no record, and launches after the last recorded activity may not have
    run yet: only kernel launches whose correlation is below the highest one seen on the process's devices count.
    """
    seen = linked.filter(pl.col("correlation").is_not_null()).select("source", "correlation").unique()
    highest = seen.group_by("source", _NUMBERING).agg(last=pl.col("correlation").max())
    missing = calls.filter(pl.col("kernel")).join(seen, on=["source", "correlation"], how="anti")
    numbered = missing.with_columns(_NUMBERING).join(highest, on=["source", "numbering"])
    lost = numbered.filter(pl.col("correlation") < pl.col("last"))
    return dict(lost.group_by("source").len().sort("source").iter_rows())


def outside_ns(busy: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Per device: subject, and its busy time before and after its window (spans: subject, start_ns, end_ns)."""
    whole = spans.join(intervals.union(busy, by=["subject"]), on="subject", how="left", suffix="_busy")
    before = pl.min_horizontal("end_ns_busy", "start_ns") - pl.col("start_ns_busy")
    after = pl.col("end_ns_busy") - pl.max_horizontal("start_ns_busy", "end_ns")
    return whole.group_by("subject").agg(before_ns=before.clip(0).sum(), after_ns=after.clip(0).sum())


def overhead_ns(dataset: Dataset, windows: pl.DataFrame) -> int:
    """The length of the profiler's own overhead inside the windows (`Windows.by_source`), of each process apart."""
    apart = windows.filter(pl.col("process").is_not_null())["source"].unique()
    process = pl.when(pl.col("source").is_in(apart.implode())).then("process")
    rows = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "overhead") & pl.col("dur_ns").is_not_null())
        .filter(~pl.col("name").str.contains(LOADING))
        .select("source", process, "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
        .collect()
    )
    inside = intervals.clip(rows, windows.select(*OWNER, "start_ns", "end_ns"), OWNER)
    return int(intervals.total(inside, OWNER)["length_ns"].sum())


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
