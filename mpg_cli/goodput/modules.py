"""Which module of the model, or else which range of the user's, launched each piece of device activity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import inference
from mpg_cli.goodput.nesting import around, nest

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

MODULE = "nn.Module: "
THREAD = ("source", "process", "thread")
NODE = ("source", "process", "sequence")
# what is no part of a model: a step, the wrapper of one collective, the cache key of one compiled graph
NO_RANGE = r"^(ProfilerStep|nccl:|gloo:|mpi:|## Call CompiledFxGraph )"


class Modules:
    """The modules and ranges of a dataset, nested on their threads.

    calls: row, parent (row of the enclosing module, or for a range of the enclosing range), label, source, start_ns.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._host = dataset.scan("host_events")
        self._threads = self._host.select(THREAD).unique().sort(THREAD).with_row_index("key").collect()
        modules = self._events((col.kind == "python") & col.name.str.starts_with(MODULE))
        modules = modules.with_columns(label=col.name.str.strip_prefix(MODULE))
        ranges = self._ranges().with_columns(label="name")
        first = modules.height
        self._modules, module_calls = _nested(modules.with_row_index("row"))
        self._user_ranges, range_calls = _nested(ranges.with_row_index("row", first))
        self.calls = pl.concat([_grafted(module_calls), range_calls])

    def launching(self, ops: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """By row of `ops` (source, correlation): the call that launched it, and whether its launch call is in the file.

        That is the innermost module around the launch call; else the module around the forward operator whose backward
        launched it; else the innermost range around the launch call; null where there is none.
        """
        calls = self._calls()
        placed = ops.select("source", "correlation").join(
            calls, on=["source", "correlation"], how="left", maintain_order="left"
        )
        points = placed.select("key", at="start_ns")
        module = around(points, self._modules)
        if self._modules.height:
            backward = placed.with_row_index("op").filter(module.is_null())
            found = self._forward_module(backward)
            joined = placed.with_row_index("op").join(found, on="op", how="left", maintain_order="left")
            module = pl.select(pl.coalesce(module, joined["row"])).to_series()
        row = pl.select(pl.coalesce(module, around(points, self._user_ranges))).to_series()
        return row, placed["key"].is_not_null()

    def _events(self, which: pl.Expr, *columns: str) -> pl.DataFrame:
        """Host events with an end: key (of the thread), source, name, start_ns, end_ns and `columns`."""
        chosen = self._host.filter(which & col.dur_ns.is_not_null())
        return (
            chosen.join(self._threads.lazy(), on=THREAD, nulls_equal=True)
            .select("key", "source", "name", "start_ns", *columns, end_ns=col.start_ns + col.dur_ns)
            .collect()
        )

    def _ranges(self) -> pl.DataFrame:
        """The ranges of the user's that are no step."""
        ranges = self._events((col.kind == "annotation") & ~col.name.str.contains(NO_RANGE))
        steps = inference.read_names(ranges["name"].unique())["name"]
        return ranges.filter(~col.name.is_in(steps.implode()))

    def _calls(self) -> pl.DataFrame:
        """Where each correlation was launched: source, correlation, process, key, start_ns."""
        runtime = self._host.filter((col.kind == "runtime") & (col.correlation != 0))
        calls = (
            runtime.join(self._threads.lazy(), on=THREAD, nulls_equal=True)
            .select("source", "correlation", "process", "key", "start_ns")
            .collect()
        )
        return calls.sort("start_ns").unique(["source", "correlation"], keep="first", maintain_order=True)

    def _forward_module(self, placed: pl.DataFrame) -> pl.DataFrame:
        """op and row of the module around the forward operator, for launches inside an operator of the backward pass.

        Autograd gives a forward operator and its backward the same sequence number, counted per thread. Several
        operators may carry it: the last to start made the node (torch/csrc/profiler/kineto_shim.cpp links that one).
        """
        which = col.kind == "op"
        numbered = self._events(which & col.sequence.is_not_null(), "process", "sequence", "forward_thread")
        returns = col.forward_thread > 0
        backward = numbered.filter(returns).with_row_index("row")
        inside = around(placed.select("key", at="start_ns"), nest(backward).segments)
        asked = placed.select("op").with_columns(row=inside).drop_nulls()
        asked = asked.join(backward.select("row", *NODE, "forward_thread"), on="row").drop("row")
        forward = numbered.filter(~returns.fill_null(value=False) & ~col.name.str.contains("Backward"))
        made = forward.sort("start_ns").unique([*NODE, "key"], keep="last", maintain_order=True)
        pairs = _forward_thread(asked, made.select(*NODE, "key", at="start_ns"))
        return pairs.with_columns(row=around(pairs, self._modules)).select("op", "row").drop_nulls()


def _forward_thread(asked: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """op, key and at of the one forward operator of each `asked` (op, NODE, forward_thread).

    forward_thread is PyTorch's number of a thread, which the forward operator does not state: it is told by the
    sequence numbers that only one thread has. What stays ambiguous is left out.
    """
    pairs = asked.join(made, on=NODE, nulls_equal=True)
    pairs = pairs.with_columns(alone=pl.len().over("op") == 1)
    number = ["source", "process", "forward_thread"]
    sure = pairs.filter("alone").group_by(number).agg(col.key.unique())
    sure = sure.filter(col.key.list.len() == 1).select(*number, sure=col.key.list.first())
    told = pairs.join(sure, on=number, how="left", nulls_equal=True)
    return told.filter(pl.coalesce(col.key == col.sure, "alone")).select("op", "key", "at")


def _nested(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The segments in which each event is the innermost, and the events with their parents."""
    nesting = nest(events)
    parents = nesting.parents.select("row", "parent")
    calls = events.join(parents, on="row", how="left", maintain_order="left")
    return nesting.segments, calls.select("row", "parent", "label", "source", "start_ns")


def _grafted(calls: pl.DataFrame) -> pl.DataFrame:
    """`calls` in which an outermost one of a module that elsewhere runs inside another is put under that one.

    The profiler numbers the modules of a class, so a name is one module. Checkpointing runs it again from the backward
    pass, where the modules around it are not on the stack. A module that runs inside different ones stays.
    """
    place = ["source", "label"]
    inner = calls.join(calls.select(parent="row", around="label"), on="parent")
    homes = inner.group_by(place).agg(col.parent.min().alias("home"), col.around.n_unique())
    homes = homes.filter(col.around == 1).drop("around")
    found = calls.join(homes, on=place, how="left", maintain_order="left")
    return found.with_columns(parent=pl.coalesce("parent", "home")).drop("home")
