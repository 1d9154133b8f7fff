"""What it means that a thread is in an operator or a runtime call while a device starves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals, ledger
from mpg_cli.goodput.idle.host import CALLS, innermost, touching
from mpg_cli.goodput.nesting import around
from mpg_cli.goodput.overlaps import covered

if TYPE_CHECKING:
    from mpg_cli.goodput.idle.host import Host
    from mpg_cli.goodput.idle.rules import IdleRules

CALL, ALONE, QUIET = "call", "alone", "quiet"  # in order of priority
SPAN = ("key", "start_ns", "end_ns")


def blame(host: Host, rules: IdleRules, blocking: pl.Series, places: pl.DataFrame) -> pl.DataFrame:
    """Every thread's time in operators and runtime calls: key, start_ns, end_ns, row, cause, firm; disjoint per key.

    It is right in `places` (start_ns, end_ns); what is far from them is not looked at.
    A call that a rule names, that copies and waits for it (`blocking`: rows of such calls), or that lasts so long that
    it does something once, claims all its time. So does an operator that is on its own for long, or launches nothing
    in spite of its length: host code. All other time is launch-bound, and its row the outermost event. `firm`: not
    overruled by a sync that drained the device.
    """
    solid = col.kind.is_in(CALLS) & col.key.is_not_null() & (col.start_ns < col.end_ns)
    margin = rules.limits.long_self_ns  # an edge farther away makes no stretch long
    near = places.select(col.start_ns - margin, col.end_ns + margin)
    events = touching(host.events.lazy().filter(solid).collect(), near).sort("end_ns", descending=True)
    events = events.sort("start_ns", maintain_order=True).sort("key", maintain_order=True)
    outer = _outermost(events)
    claims = pl.concat(
        [
            _named_calls(host, events, rules, blocking),
            _alone(host, events, outer, rules),
            _quiet(host, events, rules),
        ]
    )
    taken = _resolve(claims)
    free = intervals.subtract(outer.select(SPAN), taken.select(SPAN), ["key"])
    rest = intervals.clip(free, outer, ["key"], keep=["row"]).filter(col.start_ns < col.end_ns)
    rest = rest.with_columns(cause=pl.lit("launch_bound"), firm=pl.lit(value=False))
    return pl.concat([taken, rest.select(taken.columns)]).sort("start_ns").sort("key", maintain_order=True)


def _outermost(events: pl.DataFrame) -> pl.DataFrame:
    """The stretches of each thread in any of its `events` (sorted), each with the row of the first."""
    reach = col.end_ns.cum_max().over("key")
    reached = events.select(*SPAN, "row", reach=reach).with_columns(before=col.reach.shift(1).over("key"))
    first = col.before.is_null() | (col.start_ns >= col.before)
    marked = reached.with_columns(first=first)
    last = marked.filter(col.first.shift(-1, fill_value=True))["reach"]
    return marked.filter("first").select("key", "start_ns", "row").with_columns(end_ns=last)


def _resolve(claims: pl.DataFrame) -> pl.DataFrame:
    """`claims` (key, start_ns, end_ns, slot, row, cause, firm) made disjoint per key, in the order of the slots."""
    numbered = claims.with_row_index("claim").with_columns(col.claim.cast(pl.Int64))
    asked = numbered.select(
        "start_ns", "end_ns", subject=col.key.cast(pl.Int64), cause="slot", evidence="claim"
    )
    pieces = ledger.by_priority(asked, (CALL, ALONE, QUIET)).select("start_ns", "end_ns", claim="evidence")
    return pieces.join(numbered.select("claim", "key", "row", "cause", "firm"), on="claim").drop("claim")


def _named_calls(host: Host, events: pl.DataFrame, rules: IdleRules, blocking: pl.Series) -> pl.DataFrame:
    """The runtime calls that wait, allocate, or load and compile something."""
    calls = events.filter(col.kind == "runtime")
    told = calls.join(rules.cause_of_call(calls), on="name", how="left", maintain_order="left")
    waits = col.row.is_in(blocking.implode())
    long = _without_overhead(host, calls, rules.limits.long_call_ns) > rules.limits.long_call_ns
    cause = (
        pl.when(waits)
        .then(pl.lit("synchronisation"))
        .otherwise(pl.coalesce("called", pl.when(long).then(pl.lit("compile"))))
    )
    named = told.select(*SPAN, "row", slot=pl.lit(CALL), cause=cause, firm=pl.lit(value=False))
    return named.filter(col.cause.is_not_null())


def _alone(host: Host, events: pl.DataFrame, outer: pl.DataFrame, rules: IdleRules) -> pl.DataFrame:
    """Stretches inside operators in which no event begins or ends for long.

    Between two starts that are close nothing can be long: only the others are looked at.
    """
    least = rules.limits.long_self_ns
    following = col.start_ns.shift(-1).over("key").fill_null(2**62)
    apart = events.select("key", since="start_ns", until=following).filter(col.until - col.since > least)
    ends = (
        events.select("key", at="end_ns")
        .sort("at")
        .join_asof(
            apart.sort("since"),
            left_on="at",
            right_on="since",
            by="key",
            check_sortedness=False,
            coalesce=False,
        )
    )
    inside = ends.filter(col.at < col.until)
    edges = pl.concat([apart.select("key", "until", at="since"), inside.select("key", "until", "at")])
    edges = edges.unique().sort("key", "at")
    next_edge = col.at.shift(-1).over("key", "until").fill_null(col.until)
    stretches = edges.select("key", start_ns="at", end_ns=next_edge).filter(col.end_ns - col.start_ns > least)
    solid = intervals.clip(stretches, outer, ["key"]).filter(col.start_ns < col.end_ns)
    solid = solid.filter(_without_overhead(host, solid, least) > least)
    ops = innermost(host, ("op",), solid)
    told = solid.with_columns(row=around(solid.select("key", at="start_ns"), ops)).drop_nulls("row")
    return told.select(*SPAN, "row", slot=pl.lit(ALONE), cause=pl.lit("host_code"), firm=pl.lit(value=True))


def _quiet(host: Host, events: pl.DataFrame, rules: IdleRules) -> pl.DataFrame:
    """The operators of some length under which nothing is launched."""
    lengths = col.end_ns - col.start_ns
    long = events.filter((col.kind == "op") & (lengths >= rules.limits.quiet_op_ns)).sort("start_ns")
    launches = host.calls.select("key", launch_ns="start_ns").sort("launch_ns")
    following = long.join_asof(
        launches,
        left_on="start_ns",
        right_on="launch_ns",
        by="key",
        strategy="forward",
        check_sortedness=False,
    )
    silent = following.filter(col.launch_ns.is_null() | (col.launch_ns >= col.end_ns))
    return silent.select(
        *SPAN, "row", slot=pl.lit(QUIET), cause=pl.lit("host_code"), firm=pl.lit(value=False)
    )


def _without_overhead(host: Host, spans: pl.DataFrame, least_ns: int) -> pl.Series:
    """The length of each of `spans`; of those longer than `least_ns` without the profiler's own work in them."""
    lengths = spans["end_ns"] - spans["start_ns"]
    overhead = host.events.filter(col.kind == "overhead")
    long = lengths > least_ns
    if overhead.is_empty() or not long.any():
        return lengths
    one = pl.lit(0, pl.Int64).alias("subject")
    pieces = intervals.union(overhead.select(one, "start_ns", "end_ns"), ["subject"])
    taken = covered(spans.filter(long).select(one, "start_ns", "end_ns"), pieces)
    return lengths.scatter(long.arg_true(), lengths.filter(long) - taken)
