"""What removing the waits of the host for the device would save at most."""

from __future__ import annotations

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.overlaps import covered

NEVER = 2**62  # no time is later
SOFT = ("launch_bound", "host_code", "synchronisation")  # idle time that a host further ahead would cover


def debt_ns(segments: pl.DataFrame, blocked: pl.DataFrame) -> int:
    """The chip-ns of idle time that the host would cover had it never waited for the device.

    segments: subject, start_ns, end_ns, cause; they part every device's window. blocked: subject, start_ns, end_ns,
    inside the windows. While the host is blocked it falls behind; each later nanosecond of `SOFT` idle pays one back,
    until nothing is owed (Lindley's recursion W' = max(W + x, 0), solved with a running sum and its minimum). Blocked
    time that is `SOFT` idle itself is paid at once. An upper bound: it supposes that the launch queue never fills, and
    that the host has no need of the values it waited for.
    """
    waits = intervals.union(blocked, ["subject"])
    until = col("start_ns").shift(-1).over("subject").fill_null(NEVER)
    spans = pl.concat([waits, waits.select("subject", start_ns="end_ns", end_ns=until)])
    soft = covered(spans, segments.filter(col("cause").is_in(SOFT)))
    at_once, later = soft.head(waits.height), soft.tail(waits.height)
    owed = waits["end_ns"] - waits["start_ns"] - at_once
    left = _left(waits.select("subject", owed=owed, paid=-later))
    return int(owed.sum()) + int(at_once.sum()) - left


def _left(turns: pl.DataFrame) -> int:
    """What is owed in the end, over all subjects; turns: subject, owed (>= 0), and then paid (<= 0), in order."""
    steps = turns.with_row_index("turn").unpivot(
        ["owed", "paid"], index=["turn", "subject"], value_name="change"
    )
    steps = steps.sort("turn", "variable").select("subject", level=col("change").cum_sum().over("subject"))
    lowest = pl.min_horizontal(col("level").min(), 0)
    ends = steps.group_by("subject").agg(left=col("level").last() - lowest)
    return int(ends["left"].sum())
