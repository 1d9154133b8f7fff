"""Which operator launched a kernel: by id, else by nesting on the launching thread.

The operators and launch calls of each thread are walked once, in order of start, with a stack of those still open. That
gives every operator its parent and every launch call its innermost enclosing operator.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput.quality import LAUNCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.store import Dataset

SLICE_ROWS = 50_000
THREAD = ("source", "process", "thread")
EVALUATE = "autograd::engine::evaluate_function"
REENTRANT = "CheckpointFunctionBackward"
CALL = ("name", "input_dims", "input_types", "concrete_inputs")


@dataclass(frozen=True)
class Operators:
    """ops: row (number), source, start_ns, external_id, call (index into calls), parent (row or null), recompute;
    calls: the distinct calls (name, input_dims, input_types, concrete_inputs), by index;
    launches: source, correlation, external_id, op (row of the innermost enclosing operator or null); rows: one more
    than the highest row.
    """

    ops: pl.DataFrame
    calls: pl.DataFrame
    launches: pl.DataFrame
    rows: int

    def column(self, name: str) -> array[int]:
        """A column of `ops` by row, -1 where it is null or there is no operator: eight bytes each, unlike a dict."""
        values = array("q", [-1]) * self.rows
        for part in self.ops.select("row", name).iter_slices(SLICE_ROWS):
            for row, value in part.iter_rows():
                if value is not None:
                    values[row] = value
        return values


def load(dataset: Dataset) -> Operators:
    """Read the operators and launch calls of all sources and nest them."""
    host = dataset.scan("host_events")
    is_op = (pl.col("kind") == "op") & pl.col("dur_ns").is_not_null()
    is_launch = (pl.col("kind") == "runtime") & pl.col("name").str.contains(LAUNCH)
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
    nesting = _nest(ops, launches)
    ops = ops.select("source", "start_ns", "external_id", "call").with_columns(
        parent=_filled(nesting.parents), recompute=pl.Series(nesting.flags, dtype=pl.Int8) > 0
    )
    launches = launches.select("source", "correlation", "external_id", op=_filled(nesting.launch_parents))
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
            end_ns=pl.col("start_ns") + pl.col("dur_ns"),
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
    name = pl.col("name")
    forward = (
        pl.col("sequence").is_not_null()
        & (pl.col("forward_thread").fill_null(0) == 0)
        & ~name.str.contains("Backward")
    )
    return (
        name.str.starts_with(EVALUATE).cast(pl.Int8)
        + name.str.starts_with(REENTRANT).cast(pl.Int8) * 2
        + forward.cast(pl.Int8) * 4
    )


@dataclass
class _Nesting:
    """By row: parent (-1: none) and whether it recomputes; by launch: the innermost enclosing operator."""

    parents: array[int] = field(default_factory=lambda: array("q"))
    flags: array[int] = field(default_factory=lambda: array("b"))
    launch_parents: array[int] = field(default_factory=lambda: array("q"))


class _OpenOperators:
    """The operators of one thread that are still open, innermost last: (end, row, state)."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._stack: list[tuple[int, int, int]] = []

    def around(self, thread: int | None, start: int) -> tuple[int, int]:
        """(row, state) of the innermost operator open at `start`; (-1, OUTSIDE) if there is none.

        Threads that launch nothing (None) are not told apart, and so not nested.
        """
        if thread != self._thread or thread is None:
            self._thread, self._stack = thread, []
        # an end beyond the parent's is rounding to whole microseconds
        while self._stack and self._stack[-1][0] <= start:
            self._stack.pop()
        return (self._stack[-1][1], self._stack[-1][2]) if self._stack else (-1, OUTSIDE)

    def add(self, end: int, row: int, state: int) -> None:
        """Open an operator inside those that are."""
        self._stack.append((end, row, state))


def _nest(ops: pl.DataFrame, launches: pl.DataFrame) -> _Nesting:
    """Walk operators and launch calls of each thread together, in order of start; an operator goes before a launch."""
    out, still_open = _Nesting(), _OpenOperators()
    waiting = _rows(launches, "at", "start_ns")
    launch = next(waiting, None)
    for row, (at, start, end, marks) in enumerate(_rows(ops, "at", "start_ns", "end_ns", "recomputes")):
        while launch is not None and (at is None or launch < (at, start)):
            out.launch_parents.append(still_open.around(*launch)[0])
            launch = next(waiting, None)
        parent, state = still_open.around(at, start)
        state = _state(state, marks)
        out.parents.append(parent)
        out.flags.append(state == RECOMPUTING)
        still_open.add(end, row, state)
    while launch is not None:
        out.launch_parents.append(still_open.around(*launch)[0])
        launch = next(waiting, None)
    return out


OUTSIDE, IN_NODE, RECOMPUTING = 0, 1, 2


def _state(state: int, marks: int) -> int:
    """Whether recomputation starts here: reentrant, or a forward operator inside an autograd node."""
    if state == RECOMPUTING or marks & 2 or (state == IN_NODE and marks & 4):
        return RECOMPUTING
    return IN_NODE if state == IN_NODE or marks & 1 else OUTSIDE


def _rows(frame: pl.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    for part in frame.select(columns).iter_slices(SLICE_ROWS):
        yield from part.iter_rows()


def _filled(parents: array[int]) -> pl.Expr:
    column = pl.lit(pl.Series("parent", parents, dtype=pl.Int64))
    return pl.when(column >= 0).then(column)
