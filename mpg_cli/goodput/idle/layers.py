"""Who gets which part of a device's gaps, layer by layer: each takes what the ones before it have left.

    the device side of a gap      its cause follows from the gap alone (`gaps.cut`)
    ranges that a rule names      input, checkpoints, compilation, the profiler: whatever happens inside them. Only the
                                  thread whose launch ends the gap and the one that steps are believed: a prefetcher
                                  that copies to the device is always loading
    the thread whose launch ends the gap, while it is in an operator or a runtime call
    other threads that launch, likewise, and Python frames of any: of several the one that began last
    annotations
    nothing recorded

A piece is subject, start_ns, end_ns, cause, row (of the host event, or null) and firm; pieces are disjoint per subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals, ledger
from mpg_cli.goodput.idle.calls import blame
from mpg_cli.goodput.idle.gaps import FAR
from mpg_cli.goodput.idle.host import CALLS, FRAMES, RANGES, innermost
from mpg_cli.goodput.nesting import around

if TYPE_CHECKING:
    from mpg_cli.goodput.idle.host import Host
    from mpg_cli.goodput.idle.rules import IdleRules

SCHEMA = pl.Schema(
    {
        "subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.String, "row": pl.UInt32,
        "firm": pl.Boolean,
    }
)  # fmt: skip
PIECE = ("subject", "start_ns", "end_ns")


def explain(host: Host, rules: IdleRules, gaps: pl.DataFrame, blocking: pl.Series) -> pl.DataFrame:
    """`gaps` (of `gaps.cut`, with key: the thread whose launch ends the gap) in pieces, by subject and time.

    `blocking`: the rows of copies that ended within their own call.
    """
    soft = gaps.filter(col.start_ns < col.soft_ns).select(
        "subject", "start_ns", "call", end_ns="soft_ns", owner="key"
    )
    if soft.is_empty():
        return _device_side(gaps).select(SCHEMA.names()).cast(SCHEMA)
    found = [_device_side(gaps), by_rule(host, rules, soft)]
    free = _without(soft, found[-1])
    heard = _heard(blame(host, rules, blocking, free.select(PIECE[1:])), host.votes, free)
    own = _late_launches(heard.filter(col.key == col.owner), host, soft)
    free = _without(free, own)
    slow = own.filter(col.cause == "host_code")
    frames = innermost(host, FRAMES, pl.concat([part.select(PIECE[1:]) for part in (free, slow)]))
    found.append(_with_frames(own, frames, host))
    found.append(latest(_others(heard, frames, host.votes, free), host))
    free = _without(free, found[-1])
    ranges = innermost(host, RANGES, free)
    found.append(latest(_as_host_code(_heard(ranges, host.votes, free)), host))
    found.append(_as_host_code(_without(free, found[-1]).with_columns(row=pl.lit(None, pl.UInt32))))
    pieces = pl.concat([part.select(SCHEMA.names()).cast(SCHEMA) for part in found])
    ordered = pieces.sort("start_ns").sort("subject", maintain_order=True)
    return ledger.join_touching(ordered, ["subject", "cause", "row", "firm"])


def with_waits(pieces: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """`pieces` (SCHEMA), where a device said what it waits for (`waits`: PIECE, cause, row) for that reason."""
    if waits.is_empty():
        return pieces
    claims = waits.select(*PIECE, cause=pl.lit("wait"), evidence=col.row.cast(pl.Int64))
    disjoint = ledger.by_priority(claims, ["wait"]).select(*PIECE, row=col.evidence.cast(pl.UInt32))
    known = disjoint.join(waits.select("row", "cause").unique("row"), on="row")
    cut = intervals.clip(pieces.select(PIECE), known, ["subject"], keep=["row", "cause"])
    taken = cut.filter(col.start_ns < col.end_ns).with_columns(firm=pl.lit(value=True))
    bare = intervals.subtract(pieces.select(PIECE), taken.select(PIECE), ["subject"])
    rest = intervals.clip(bare, pieces, ["subject"], keep=["cause", "row", "firm"]).filter(
        col.start_ns < col.end_ns
    )
    both = pl.concat([part.select(SCHEMA.names()).cast(SCHEMA) for part in (taken, rest)])
    return both.sort("start_ns").sort("subject", maintain_order=True)


def _device_side(gaps: pl.DataFrame) -> pl.DataFrame:
    behind = gaps.filter(col.soft_ns < col.end_ns)
    late = pl.when(col.cause == "launch_bound").then("call")
    return behind.select("subject", "end_ns", "cause", start_ns="soft_ns", row=late, firm=pl.lit(value=False))


def _late_launches(own: pl.DataFrame, host: Host, soft: pl.DataFrame) -> pl.DataFrame:
    """`own`, where what is launch-bound names the operator or call the host was in, at a level that says something.

    That is the outermost that began in the gap, else the innermost that was open already.
    """
    late = own.filter(col.cause == "launch_bound").select(PIECE)
    begun = _outermost_begun(host, soft)
    inside = intervals.clip(late, begun, ["subject"], keep=["key", "row"])
    before = intervals.subtract(late, begun.select(PIECE), ["subject"])
    owned = intervals.clip(before, soft.select(*PIECE, key="owner"), ["subject"], keep=["key"])
    opened = innermost(host, CALLS, owned.select("start_ns", end_ns=col.start_ns + 1))
    open_already = around(owned.select("key", at="start_ns"), opened)
    named = pl.concat([inside, owned.with_columns(row=open_already).select(inside.columns)])
    solid = named.filter(col.start_ns < col.end_ns)
    launching = solid.with_columns(cause=pl.lit("launch_bound"), firm=pl.lit(value=False))
    rest = own.filter(col.cause != "launch_bound")
    return (
        pl.concat([rest, launching], how="diagonal_relaxed")
        .sort("start_ns")
        .sort("subject", maintain_order=True)
    )


def _outermost_begun(host: Host, soft: pl.DataFrame) -> pl.DataFrame:
    """PIECE, key and row of the operators and calls that begin in `soft` pieces of their own thread, cut to these.

    Without those inside others: disjoint per subject.
    """
    pieces = soft.select("subject", key="owner", since="start_ns", until="end_ns").sort("since")
    pieces = pieces.with_row_index("piece")
    events = host.of_kinds(CALLS).sort("end_ns", descending=True)
    begun = events.sort("start_ns", maintain_order=True).join_asof(
        pieces, left_on="start_ns", right_on="since", by="key", check_sortedness=False
    )
    begun = begun.filter((col.start_ns < col.until) & (col.start_ns < col.end_ns))
    before = col.end_ns.cum_max().shift(1).over("piece")
    outer = begun.filter(before.is_null() | (col.start_ns >= before))
    return outer.select(
        "subject", "start_ns", pl.min_horizontal("end_ns", "until").alias("end_ns"), "key", "row"
    )


def by_rule(host: Host, rules: IdleRules, soft: pl.DataFrame) -> pl.DataFrame:
    """The parts of `soft` in ranges that a rule names, of threads that are believed and of the profiler itself."""
    names = host.events.select("kind", "name").unique()
    taken = rules.range_of(names.cast({"kind": pl.String, "name": pl.String})).cast(
        names.schema, strict=False
    )
    if taken.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    ranges = host.events.join(taken, on=["kind", "name"])
    everywhere = ranges.filter(col.key.is_null()).join(soft.select("subject").unique(), how="cross")
    found = pl.concat([believed(ranges, host, soft), everywhere], how="diagonal")
    claims = found.select(*PIECE, cause=col.slot.cast(pl.String), evidence=col.row.cast(pl.Int64))
    pieces = ledger.by_priority(claims, [str(slot) for slot in found["slot"].unique().sort()])
    causes = [rule.cause for rule in rules.ranges]
    slots = [str(slot) for slot in range(len(causes))]
    named = pieces.with_columns(col.cause.replace_strict(slots, causes, return_dtype=pl.String))
    cut = intervals.clip(named, soft.select(PIECE), ["subject"]).filter(col.start_ns < col.end_ns)
    return cut.with_columns(row=col.evidence.cast(pl.UInt32), firm=pl.lit(value=True))


def believed(events: pl.DataFrame, host: Host, gaps: pl.DataFrame) -> pl.DataFrame:
    """`events` (key, start_ns, end_ns…) by subject, of the threads that are believed on the time of `gaps`.

    `gaps`: subject, start_ns, end_ns, owner. Those are the thread that steps, everywhere (where none does, all that
    launch), and the owner of a gap in it.
    """
    told = events.join(host.principals(), on="key")
    if told.height == events.join(host.votes, on="key").height:
        return told
    others = events.join(host.votes, on="key").join(host.principals(), on=["subject", "key"], how="anti")
    cut = intervals.clip(others, gaps.select(*PIECE, "owner"), ["subject"], keep=["owner"])
    mine = cut.filter((col.key == col.owner) & (col.start_ns < col.end_ns))
    return pl.concat([told, mine.select(told.columns)])


def _without(pieces: pl.DataFrame, taken: pl.DataFrame) -> pl.DataFrame:
    """What `taken` leaves of `pieces` (PIECE, call, owner)."""
    if taken.is_empty() or pieces.is_empty():
        return pieces
    free = intervals.subtract(pieces.select(PIECE), taken.select(PIECE), ["subject"])
    return intervals.clip(free, pieces, ["subject"], keep=["call", "owner"])


def _heard(segments: pl.DataFrame, votes: pl.DataFrame, free: pl.DataFrame) -> pl.DataFrame:
    """`segments` (key, start_ns, end_ns, row…) of the voting threads, cut to `free`; with call and owner."""
    cut = intervals.clip(segments.join(votes, on="key"), free, ["subject"], keep=["call", "owner"])
    return cut.filter(col.start_ns < col.end_ns)


def _with_frames(own: pl.DataFrame, frames: pl.DataFrame, host: Host) -> pl.DataFrame:
    """`own`, where an operator's host code names the Python frame that it ran: the operator says little of it."""
    slow = own.filter(col.cause == "host_code").with_row_index("piece").drop("owner", "call")
    if slow.is_empty() or frames.is_empty():
        return own
    began = host.events.select("row", began="start_ns")
    places = slow.select("key", "start_ns", "end_ns", "piece", op="row").join(
        began.rename({"row": "op"}), on="op"
    )
    split = intervals.clip(
        frames, places.drop("began", "op").unique(["key", "start_ns"]), ["key"], keep=["piece"]
    )
    named = split.join(began.rename({"began": "entered"}), on="row").join(
        places.select("piece", "began"), on="piece"
    )
    inside = named.filter((col.entered >= col.began) & (col.start_ns < col.end_ns))
    bare = intervals.subtract(slow.select("piece", *PIECE[1:]), inside.select("piece", *PIECE[1:]), ["piece"])
    rest = slow.drop("start_ns", "end_ns")
    parts = (
        own.filter(col.cause != "host_code"),
        inside.select("piece", "start_ns", "end_ns", "row").join(rest.drop("row"), on="piece"),
        bare.join(rest, on="piece"),
    )
    return pl.concat([part.select(SCHEMA.names()) for part in parts])


def _others(
    heard: pl.DataFrame, frames: pl.DataFrame, votes: pl.DataFrame, free: pl.DataFrame
) -> pl.DataFrame:
    """In `free`: operators and calls of threads that do not own the gap, and frames of threads that are in none."""
    elsewhere = heard.filter(col.key.ne_missing(col.owner)).drop("owner", "call")
    calls = intervals.clip(elsewhere, free.select(PIECE), ["subject"]).filter(col.start_ns < col.end_ns)
    idle = _heard(frames, votes, free)
    if calls.height and idle.height:
        by = ["subject", "key"]
        whole = idle.select(by).unique().with_columns(start_ns=pl.lit(-FAR), end_ns=pl.lit(FAR))
        outside = intervals.subtract(whole, calls.select(*by, "start_ns", "end_ns"), by)
        idle = intervals.clip(idle, outside, by).filter(col.start_ns < col.end_ns)
    return pl.concat([calls, _as_host_code(idle).select(calls.columns)])


def _as_host_code(pieces: pl.DataFrame) -> pl.DataFrame:
    return pieces.drop("owner", "call").with_columns(cause=pl.lit("host_code"), firm=pl.lit(value=False))


def latest(stream: pl.DataFrame, host: Host) -> pl.DataFrame:
    """Of several threads' pieces at one time, the one whose event began last: disjoint per subject.

    `stream`: subject, key, start_ns, end_ns, row, cause, firm; disjoint per subject and key.
    """
    lanes = stream.select("subject", "key").unique().sort("subject", "key")
    lanes = lanes.with_columns(lane=pl.int_range(pl.len()).over("subject"))
    count = lanes["lane"].n_unique()
    if count <= 1:
        return stream
    began = host.events.select("row", began="start_ns")
    numbered = stream.with_row_index("piece").join(lanes, on=["subject", "key"]).join(began, on="row")
    starts = numbered.select("subject", "lane", "piece", "began", at="start_ns")
    none = pl.lit(None, pl.UInt32).alias("piece")
    ends = numbered.select("subject", "lane", none, began=pl.lit(-FAR), at="end_ns")
    edges = pl.concat([ends, starts]).sort("at", maintain_order=True).sort("subject", maintain_order=True)
    won = _youngest(edges, count).with_columns(end_ns=col.at.shift(-1).over("subject"))
    won = won.filter(col.piece.is_not_null() & (col.at < col.end_ns)).select("piece", "end_ns", start_ns="at")
    return won.join(
        stream.drop("start_ns", "end_ns").with_row_index("piece"), on="piece", maintain_order="left"
    )


def _youngest(edges: pl.DataFrame, lanes: int) -> pl.DataFrame:
    """subject, at and piece: after each edge, of the lanes' pieces the one that began last."""
    best = edges.select("subject", "at", piece=pl.lit(None, pl.UInt32), best=pl.lit(-FAR))
    for lane in range(lanes):
        here = pl.when(col.lane == lane)
        # where a lane has no piece it began at -FAR, which never wins
        now = edges.select(
            piece=here.then(col.piece.fill_null(0)).forward_fill().over("subject"),
            began=here.then("began").forward_fill().over("subject"),
        )
        later = (now["began"] > best["best"]).fill_null(value=False)
        best = best.with_columns(
            piece=pl.when(later).then(now["piece"]).otherwise("piece"),
            best=pl.when(later).then(now["began"]).otherwise("best"),
        )
    return best.drop("best")
