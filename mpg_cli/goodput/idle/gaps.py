"""The idle gaps of each device, and what ends them.

A gap lasts from the end of all activity to the start of the next, over all streams. It is cut at the launch call
[l0, l1) of the activity that ends it: before l0 the device was starved (nothing was launched yet), then the call
itself, then the device side: launched, and not yet running. Only the first two can be the host's fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from mpg_cli.goodput.idle.rules import Limits

FAR = 2**62


def find(ops: pl.DataFrame, calls: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """The gaps of every subject, whole, where they meet its window; one row each, by subject and time.

    `ops`: subject, stream, start_ns, end_ns, correlation, call (row of the launch call or null), of all devices;
    `calls`: call, key, start_ns, end_ns; `windows`: subject, start_ns, end_ns. Columns gap, subject, start_ns,
    end_ns; of the activity that ends it (of several the one launched first; null in a tail): call, key (its thread),
    call_start_ns, call_end_ns, carried (no launch is recorded, and none was before on this device); near (what ended
    just before ran on the same stream or came from the same launch), follows (an activity ends at the gap's start),
    tail (nothing ends it).
    """
    gaps = _between(ops, windows)
    gaps = _ended_by(gaps, ops, calls)
    return _preceded_by(gaps, ops).sort("subject", "start_ns").with_row_index("gap")


def _between(ops: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """What lies between the activities of each subject, and from its window's edges to them."""
    busy = intervals.union(ops.select("subject", "start_ns", "end_ns"), ["subject"])
    around = windows.select(
        "subject", start_ns=pl.lit(-FAR), end_ns=pl.lit(FAR), window_start="start_ns", window_end="end_ns"
    )
    gaps = intervals.subtract(around.select("subject", "start_ns", "end_ns"), busy, ["subject"])
    gaps = gaps.join(around.select("subject", "window_start", "window_end"), on="subject")
    met = gaps.filter((col.start_ns < col.window_end) & (col.end_ns > col.window_start))
    return met.select(
        "subject",
        start_ns=pl.when(col.start_ns == -FAR).then("window_start").otherwise("start_ns"),
        end_ns=pl.when(col.end_ns == FAR).then("window_end").otherwise("end_ns"),
        tail=col.end_ns == FAR,
    )


def _ended_by(gaps: pl.DataFrame, ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`gaps` with the activity that begins at each one's end, and its launch call."""
    launched = calls.select("call", "key", call_start_ns="start_ns", call_end_ns="end_ns")
    launched = launched.unique("call", keep="first", maintain_order=True)  # one may launch several activities
    begins = ops.select("subject", "stream", "correlation", "call", end_ns="start_ns")
    begins = begins.join(
        gaps.filter(~col.tail).select("subject", "end_ns"), on=["subject", "end_ns"], how="semi"
    )
    begins = begins.join(launched, on="call", how="left").sort("call_start_ns", "stream", nulls_last=True)
    first = begins.unique(["subject", "end_ns"], keep="first", maintain_order=True)
    linked = ops.filter(col.call.is_not_null()).group_by("subject").agg(first_linked=col.start_ns.min())
    found = gaps.join(first, on=["subject", "end_ns"], how="left").join(linked, on="subject", how="left")
    carried = col.call.is_null() & ~col.tail & (col.end_ns <= col.first_linked)
    return found.with_columns(carried=carried.fill_null(value=False)).drop("first_linked")


def _preceded_by(gaps: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """`gaps` with near and follows, from the activities that end at each one's start."""
    edges = gaps.select("subject", "start_ns", of="stream", launch="correlation")
    before = ops.select("subject", "stream", "correlation", start_ns="end_ns").join(
        edges, on=["subject", "start_ns"]
    )
    same = col.stream.eq_missing(col.of) | (col.correlation == col.launch).fill_null(value=False)
    near = before.group_by("subject", "start_ns").agg(near=same.any())
    found = gaps.join(near, on=["subject", "start_ns"], how="left")
    return found.with_columns(follows=col.near.is_not_null(), near=col.near.fill_null(value=False)).drop(
        "stream", "correlation"
    )


def cut(gaps: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """`gaps` with soft_ns, where the host's part ends, and `cause` of the device side, which lies behind.

    A tail is the host's part as a whole; so is nothing of a gap whose launch is not in the file.
    """
    starved = pl.when(col.tail).then("end_ns").otherwise(pl.coalesce("call_end_ns", "start_ns"))
    soft = starved.clip(col.start_ns, col.end_ns)
    rest = col.end_ns - soft
    waited = col.call_end_ns > col.start_ns
    unlinked = (
        pl.when(rest <= limits.unlinked_gap_ns)
        .then(pl.lit("kernel_gap"))
        .when("carried")
        .then(pl.lit("transient"))
    )
    queued = (
        pl.when(col.near & (rest <= limits.kernel_gap_ns))
        .then(pl.lit("kernel_gap"))
        .when(~col.near & col.follows & (rest <= limits.dependency_ns))
        .then(pl.lit("dependency"))
    )
    launched = pl.when(rest <= limits.launch_latency_ns).then(pl.lit("launch_bound"))
    cause = (
        pl.when(col.call.is_null())
        .then(unlinked)
        .when(waited)
        .then(launched)
        .otherwise(queued)
        .fill_null("unknown")
    )
    return gaps.with_columns(soft_ns=soft, cause=cause)
