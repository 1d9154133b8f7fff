"""Which operator launched a kernel: by id, else by nesting on the launching thread.

Around an operator or a launch call is the last of the operators before it on its thread that is still open. "Before" is
by start: of equal starts the operator that ends last comes first, and launch calls come after the operators. An end
beyond the parent's, which rounding to whole microseconds makes, is taken as it is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.quality import LAUNCH

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

SLICE_ROWS = 50_000
THREAD = ("source", "process", "thread")
EVALUATE = "autograd::engine::evaluate_function"
REENTRANT = "CheckpointFunctionBackward"
OUTSIDE = -1  # stands for no row, where that cannot be null
CALL = ("name", "input_dims", "input_types", "concrete_inputs")


@dataclass(frozen=True)
class Operators:
    """ops: row (0, 1, …), source, start_ns, external_id, call (index into calls), parent (row or null), recompute;
    calls: the distinct calls (name, input_dims, input_types, concrete_inputs), by index;
    launches: source, correlation, external_id, op (row of the innermost enclosing operator or null); rows: one more
    than the highest row.
    """

    ops: pl.DataFrame
    calls: pl.DataFrame
    launches: pl.DataFrame
    rows: int

    def column(self, name: str) -> array[int]:
        """A column of `ops` by row, -1 where it is null: eight bytes each, unlike a dict."""
        values = array("q")
        for part in self.ops.select(col(name).cast(pl.Int64).fill_null(OUTSIDE)).iter_slices(SLICE_ROWS):
            values.extend(part[name].to_list())
        return values


def load(dataset: Dataset) -> Operators:
    """Read the operators and launch calls of all sources and nest them."""
    host = dataset.scan("host_events")
    is_op = (col.kind == "op") & col.dur_ns.is_not_null()
    is_launch = (col.kind == "runtime") & col.name.str.contains(LAUNCH)
    threads = _threads(host, is_op, is_launch)
    # a large trace has millions of calls and a few thousand distinct ones: only their numbers are kept per event
    calls = (
        host.filter(is_op).select(CALL).unique().sort(CALL).with_row_index("call").collect(engine="streaming")
    )
    ops = _sorted(host.filter(is_op), threads, calls)
    launches = (
        host.filter(is_launch)
        .join(threads.lazy(), on=THREAD, nulls_equal=True)
        .select("at", "start_ns", "source", "correlation", "external_id")
        .collect(engine="streaming")
        .sort("at", "start_ns", "correlation", nulls_last=True)
    )
    nesting, innermost = _nest(ops, launches)
    ops = ops.select("source", "start_ns", "external_id", "call").hstack(nesting)
    launches = launches.select("source", "correlation", "external_id").with_columns(op=innermost)
    return Operators(ops.with_row_index("row"), calls, launches, ops.height)


def _threads(host: pl.LazyFrame, is_op: pl.Expr, is_launch: pl.Expr) -> pl.DataFrame:
    """THREAD and its number `at`, of the threads that launch; where no launch is recorded, of all with operators."""
    launching = host.filter(is_launch).select(THREAD).unique()
    silent = host.filter(is_op).join(launching, on="source", how="anti").select(THREAD).unique()
    return pl.concat([launching, silent]).sort(THREAD).with_row_index("at").collect()


def _sorted(host: pl.LazyFrame, threads: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Operators in the order of the walk. Threads that launch nothing come last (at is null): ids may lead there."""
    narrow = (
        host.join(calls.lazy(), on=CALL, how="left", nulls_equal=True)
        .join(threads.lazy(), on=THREAD, how="left", nulls_equal=True)
        .select(
            "at", "source", "start_ns", "external_id", "call",
            end_ns=col.start_ns + col.dur_ns,
            recomputes=_recomputes(),
        )
        .collect(engine="streaming")
    )  # fmt: skip
    # of two with the same times, the one that began first, and so got the lower id, is around the other
    order = ("at", "start_ns", "end_ns", "external_id", "call")
    return narrow.sort(order, descending=[name == "end_ns" for name in order], nulls_last=True)


def _recomputes() -> pl.Expr:
    """1: autograd evaluates a node; 2: reentrant checkpointing; 4: a forward operator, if it is under one of them.

    A forward operator carries a sequence number and no forward thread, and is no *Backward* node
    (torch/csrc/autograd/profiler_kineto: `Fwd thread id` is written for backward operators).
    """
    name = col.name
    forward = (
        col.sequence.is_not_null() & (col.forward_thread.fill_null(0) == 0) & ~name.str.contains("Backward")
    )
    return (
        name.str.starts_with(EVALUATE).cast(pl.Int8)
        + name.str.starts_with(REENTRANT).cast(pl.Int8) * 2
        + forward.cast(pl.Int8) * 4
    )


def _nest(ops: pl.DataFrame, launches: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """parent and recompute of each operator, and the innermost operator around each launch call (rows, null: none).

    Both frames are sorted. Threads that launch nothing (at is null) are not told apart, and so not nested.
    """
    nested = ops.select("at", "start_ns", "end_ns", "recomputes").head(ops["at"].count())
    alone = ops.select(parent=pl.lit(None, pl.Int64), recompute=col.recomputes & 2 > 0).slice(nested.height)
    calls = launches.select("at", "start_ns")
    borders = _borders(nested)
    met = [bisect_left(range(calls.height), nested.row(row)[:2], key=calls.row) for row in borders]
    found, innermost = [], []
    for (first, stop), (first_call, stop_call) in zip(
        pairwise((0, *borders, nested.height)), pairwise((0, *met, calls.height)), strict=True
    ):
        part, around = _nest_part(nested[first:stop], calls[first_call:stop_call])
        found.append(part.with_columns(col.parent + first))
        innermost.append(around + first)
    return pl.concat([*found, alone]), pl.concat(innermost)


def _borders(ops: pl.DataFrame) -> list[int]:
    """In each slice but the first, the first row at which no operator is open: parts bound the memory of nesting."""
    reach = col.end_ns.cum_max().shift(1).over("at")
    free = ops.select((col.start_ns >= reach).fill_null(value=True)).to_series().arg_true()
    return free.filter((free // SLICE_ROWS).diff() > 0).to_list()


def _nest_part(ops: pl.DataFrame, launches: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """As `_nest`, of operators and launch calls around which nothing else is open."""
    walk = _walk(ops, launches)
    crossing = _crossing(ops, walk)
    if crossing.any():
        ops = _lengthened(ops, walk, crossing)
        walk = _walk(ops, launches)
    parents = walk.filter("is_op").select("parent")
    return parents.with_columns(recompute=_recompute(ops)), walk.filter(~col.is_op)["parent"]


def _walk(ops: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Operators and launch calls in order of thread and start: is_op; level, the number of operators open around it;
    parent, the row of the innermost of them if none cross.
    """
    is_solid = col.start_ns < col.end_ns
    # at one instant: ends, then starts, then launch calls
    parts = (
        ops.filter(is_solid).select("at", time="end_ns", delta=pl.lit(-1, pl.Int8), is_op=False),
        ops.select("at", time="start_ns", delta=is_solid.cast(pl.Int8), is_op=True),
        launches.select("at", time="start_ns", delta=pl.lit(0, pl.Int8), is_op=False),
    )
    # sorting twice, stably, is faster than by two columns: each part is mostly in order of time already
    edges = (
        pl.concat(parts).sort("time", maintain_order=True).sort("at", maintain_order=True).drop("time", "at")
    )
    # each thread's edges add up to zero, so one running sum serves them all
    level = col.delta.cast(pl.Int32).cum_sum() - col.delta
    walk = edges.with_columns(level=level).filter(col.delta >= 0).drop("delta")
    # what is one level deeper than the row before is inside that one; the next on its level have the same parent
    row = col.is_op.cum_sum().cast(pl.Int64) - 1
    first = pl.when(col.level > col.level.shift(1)).then(row.shift(1))
    return walk.with_columns(parent=first).with_columns(col.parent.forward_fill().over("level"))


def _crossing(ops: pl.DataFrame, walk: pl.DataFrame) -> pl.Series:
    """Which operators end after their parent."""
    return ops["end_ns"].gather(walk.filter("is_op")["parent"]) < ops["end_ns"]


def _lengthened(ops: pl.DataFrame, walk: pl.DataFrame, crossing: pl.Series) -> pl.DataFrame:
    """`ops` that last as long as all that began in them: none cross any more, and who is around whom stays the same.

    Ends seldom cross, so those concerned are walked one by one: all from one moment when none is open to the next.
    """
    rows = ops.with_row_index("row").with_columns(walk.filter("is_op")["level"])
    rows = rows.with_columns(island=(col.level == 0).cum_sum())
    mixed = rows.filter(col.island.is_in(rows.filter(crossing)["island"].unique().implode()))
    ends = pl.Series(_last_ends(mixed.select("level", "start_ns", "end_ns")), dtype=pl.Int64)
    return ops.with_columns(end_ns=ops["end_ns"].scatter(mixed["row"], ends))


def _last_ends(ops: pl.DataFrame) -> array[int]:
    """When the last of an operator and those inside it ends; `ops` has level, start_ns, end_ns."""
    ends, parents = array("q"), array("q")
    still_open: list[int] = []
    for part in ops.iter_slices(SLICE_ROWS):
        for level, start, end in part.iter_rows():
            if level == 0:
                still_open.clear()
            while still_open and ends[still_open[-1]] <= start:
                still_open.pop()
            parents.append(still_open[-1] if still_open else OUTSIDE)
            still_open.append(len(ends))
            ends.append(end)
    for row in reversed(range(len(ends))):
        if parents[row] != OUTSIDE:
            ends[parents[row]] = max(ends[parents[row]], ends[row])
    return ends


def _recompute(ops: pl.DataFrame) -> pl.Series:
    """Whether it, or one around it, starts recomputation: reentrant, or a forward operator inside an autograd node."""
    node, reentrant, forward = (ops["recomputes"] & mark > 0 for mark in (1, 2, 4))
    starts = reentrant | (forward & _inside(ops, node))
    return starts | _inside(ops, starts)


def _inside(ops: pl.DataFrame, outer: pl.Series) -> pl.Series:
    """Which operators, none of which cross, are inside one of the `outer`.

    Inside an operator are the rows after it, up to the last that starts before its end.
    """
    rows = ops.select("at", "start_ns", "end_ns").with_row_index("row").cast({"row": pl.Int64})
    solid = rows.filter(outer & (ops["start_ns"] < ops["end_ns"])).select("at", "end_ns", first=col.row + 1)
    runs = solid.sort("end_ns").join_asof(
        rows.select("at", "start_ns", last="row"), left_on="end_ns", right_on="start_ns", by="at",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    merged = intervals.union(runs.select(start_ns="first", end_ns=col.last + 1), [])
    found = rows.select("row").join_asof(merged, left_on="row", right_on="start_ns")
    return found.select((col.row < col.end_ns).fill_null(value=False)).to_series()
