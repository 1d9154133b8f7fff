"""Runtime Goodput from device activity: figures per device and step, and the ledger over the windows.

The order on a device (computing, exposed communication, exposed memory copy, other busy time, idle) is the
order in which `resolve` serves the causes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import intervals, ledger
from mpg_cli.goodput.overlaps import covered
from mpg_cli.goodput.windows import OWNER

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

ACTIVITIES = ("compute", "comm", "memory", "input", "other")
NESTED = (ACTIVITIES[:1], ACTIVITIES[:2], ACTIVITIES[:3], ACTIVITIES)  # each with the ones before it
OTHER = ("input", "other")  # what figures of a device count as other: busy, and none of the three kinds
CAUSE_OF = {
    "compute": "productive", "comm": "communication", "memory": "memory_copy", "input": "input",
    "other": "unclassified_busy",
}  # fmt: skip
CAUSES = (
    "productive", "communication", "communication_wait", "transient", "memory_copy", "input",
    "unclassified_busy",
)  # fmt: skip
IDLE = "unknown"
MAX_STEP_ROWS = (
    100_000  # more are of no use to a reader, and 3,000 steps of 1,000 devices would fill the memory
)
KINDS = {"kernel": "kernel_count", "memcpy": "memcpy_count", "memset": "memset_count"}


def busy_intervals(ops: pl.DataFrame) -> pl.DataFrame:
    """The union of each activity on each device: subject, activity, start_ns, end_ns."""
    return intervals.union(
        ops.select("subject", "activity", "start_ns", "end_ns"), by=["subject", "activity"]
    )


def device_figures(ops: pl.DataFrame, busy: pl.DataFrame) -> pl.DataFrame:
    """Per subject: span, busy, idle, the unions by activity, the exposed parts, counts of records by kind.

    exposed_comm = |compute ∪ comm| - |compute|, and so on down the order: nested unions, no sweep.
    """
    # an operation that others interrupt is one all the same
    first = pl.col("part").fill_null(0) == 0 if "part" in ops.columns else pl.lit(value=True)
    counts = (
        ((pl.col("kind") == kind) & first).sum().cast(pl.Int64).alias(name) for kind, name in KINDS.items()
    )
    span = pl.col("end_ns").max() - pl.col("start_ns").min()
    figures = ops.group_by("subject").agg(span.alias("span_ns"), *counts)
    for activity in (*ACTIVITIES[:3], "other"):
        same = OTHER if activity == "other" else (activity,)
        figures = _joined(figures, _length(busy, same), f"{activity}_ns")
    for depth, nested in enumerate(NESTED, start=1):
        figures = _joined(figures, _length(busy, nested), f"_{depth}")
    return figures.with_columns(
        busy_ns=pl.col("_4"),
        idle_ns=pl.col("span_ns") - pl.col("_4"),
        exposed_comm_ns=pl.col("_2") - pl.col("_1"),
        exposed_memory_ns=pl.col("_3") - pl.col("_2"),
        exposed_other_ns=pl.col("_4") - pl.col("_3"),
    ).sort("subject")


def _length(busy: pl.DataFrame, activities: tuple[str, ...]) -> pl.DataFrame:
    """subject, length_ns of the union of these activities."""
    return intervals.total(busy.filter(pl.col("activity").is_in(activities)), by=["subject"])


def _joined(figures: pl.DataFrame, length: pl.DataFrame, name: str) -> pl.DataFrame:
    joined = figures.join(length.rename({"length_ns": name}), on="subject", how="left")
    return joined.with_columns(pl.col(name).fill_null(0))


def resolve_windows(claims: pl.DataFrame, spans: pl.DataFrame) -> ledger.Resolution:
    """The ledger of all devices, each over its window (spans: subject, start_ns, end_ns), with its segments."""
    capacity = spans.select("subject", "start_ns", "end_ns", chips=pl.lit(1, pl.Int64))
    return ledger.resolve(capacity, claims, CAUSES, IDLE, segments=True)


def claims(busy: pl.DataFrame, communication: pl.DataFrame) -> pl.DataFrame:
    """What each device's activities claim.

    `busy`: of `busy_intervals`; `communication`: subject, start_ns, end_ns, cause, of all communication, split into
    transferring and waiting, disjoint per subject and cause.
    """
    rest = busy.filter(pl.col("activity") != "comm").with_columns(
        cause=pl.col("activity").replace_strict(CAUSE_OF, return_dtype=pl.String)
    )
    columns = ("subject", "start_ns", "end_ns", "cause")
    both = pl.concat([rest.select(columns), communication.select(columns)])
    return both.with_columns(chips=pl.lit(1, pl.Int64), evidence=pl.lit(None, pl.Int64))


def listed_steps(steps: pl.DataFrame, subjects: pl.DataFrame) -> pl.DataFrame:
    """The first of `steps` that make at most MAX_STEP_ROWS rows, one for each device, and one step in any case.

    subjects: source, process; one row per device.
    """
    devices = subjects.group_by(OWNER).agg(devices=pl.len().cast(pl.Int64))
    counted = steps.join(devices, on=OWNER, nulls_equal=True, maintain_order="left")
    before = pl.col("devices").cum_sum() - pl.col("devices")
    return counted.filter((before == 0) | (before + pl.col("devices") <= MAX_STEP_ROWS)).drop("devices")


def idle_steps(activity: Activity, busy: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """By source with devices: how many steps it has (total), and in how many their devices did nothing (idle)."""
    owners = activity.subjects.select(OWNER).unique().sort(OWNER).with_row_index("owner")
    devices = activity.subjects.select("subject", *OWNER).join(owners, on=OWNER, nulls_equal=True)
    merged = intervals.union(busy.join(devices, on="subject"), by=["owner"]).rename({"owner": "subject"})
    spans = steps.join(owners, on=OWNER, nulls_equal=True).rename({"owner": "subject"})
    idle = (pl.col("covered") == 0).sum()
    measured = spans.with_columns(covered=covered(spans, merged))
    counts = measured.group_by("source").agg(total=pl.len(), idle=idle)
    return counts.sort("source")


def step_figures(activity: Activity, busy: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per step and device: wall_ns, busy_ns, compute_ns, exposed_comm_ns, exposed_memory_ns.

    Steps may overlap (nested ranges), so each is measured alone, with running totals of the nested unions.
    """
    devices = activity.subjects.select("subject", *OWNER)
    spans = steps.with_row_index("_step").join(devices, on=OWNER, nulls_equal=True)
    for depth, nested in enumerate(NESTED, start=1):
        within = intervals.union(busy.filter(pl.col("activity").is_in(nested)), by=["subject"])
        spans = spans.with_columns(covered(spans, within).alias(f"_{depth}"))
    return spans.with_columns(
        wall_ns=pl.col("end_ns") - pl.col("start_ns"),
        busy_ns=pl.col("_4"),
        compute_ns=pl.col("_1"),
        exposed_comm_ns=pl.col("_2") - pl.col("_1"),
        exposed_memory_ns=pl.col("_3") - pl.col("_2"),
    ).sort("_step", "subject")
