"""What launched a communication kernel, where its own name leaves that open: by nesting on the launching thread.

A kernel of sends and receives may be an all-to-all, and RCCL's generic kernel anything. The kernel's correlation id
leads to its launch call, and what is open around that call names the collective: the operator `c10d::alltoall_base_`,
or the range `nccl:all_to_all` of the process group. Whether a kernel communicates does not depend on it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput.collectives.kinds import ALL_TO_ALL, POINT_TO_POINT

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

GENERIC = r"(?i)generic|msccl"
# c10d's operators, and the ranges that its process groups open (ProcessGroupNCCL's profilingTitle)
NAMING = r"^(?:_?c10d(?:_functional)?::|(?:nccl|xccl):)(\w+?)_?(?:\W.*)?$"
# torch/csrc/distributed/c10d/Ops.cpp: (output, input, group, output splits, input splits, timeout)
ALL_TO_ALL_CALL = r"^c10d::alltoall_base_$"
# a group of calls, most often sends and receives: nothing is said of who waits for whom
GROUPED = r"(?i)coalesced$"
THREAD = ["source", "process", "thread"]
MAX_ELEMENTS = 2**48
END, START, LAUNCH = 0, 1, 2  # the order of what happens at one instant


def with_callers(activity: Activity, dataset: Dataset) -> Activity:
    """`activity` with collective, in_elements and element_type of such kernels taken from what launched them.

    A kernel of sends and receives is given a name only if that is an all-to-all. Elements are those of the operator's
    input; null where it is called with lists of tensors, where no shapes were recorded, and where the output has
    another size: then ranks exchange parts of different sizes.
    """
    ops = activity.ops.with_row_index("row")
    calls = _launches(dataset, _unnamed(ops))
    if calls.is_empty():
        return activity
    found = calls.join(_innermost(dataset, calls, NAMING), on="launch")
    found = found.join(_innermost(dataset, calls, ALL_TO_ALL_CALL), on="launch", how="left", suffix="_args")
    known = _named(found).cast({pl.String: pl.Categorical})
    merged = ops.join(known, on="row", how="left", maintain_order="left", suffix="_call")
    columns = ("collective", "in_elements", "element_type")
    filled = merged.with_columns(pl.coalesce(name, f"{name}_call").alias(name) for name in columns)
    return replace(activity, ops=filled.select(activity.ops.columns))


def _unnamed(ops: pl.DataFrame) -> pl.DataFrame:
    """row, source, correlation, p2p of communication kernels whose name leaves the collective open."""
    recorded = col("collective").is_not_null() | col("correlation").is_null()
    kernels = ops.filter((col("activity") == "comm") & ~recorded).select(
        "row", "source", "correlation", "name"
    )
    text = col("name").cast(pl.String)
    p2p = text.str.contains(POINT_TO_POINT)
    names = (
        kernels.select("name").unique().with_columns(p2p=p2p).filter(col("p2p") | text.str.contains(GENERIC))
    )
    return kernels.join(names, on="name", maintain_order="left").drop("name")


def _launches(dataset: Dataset, kernels: pl.DataFrame) -> pl.DataFrame:
    """`kernels` with the thread and start of the launch call (launch: its number); those without one are left out."""
    calls = (
        dataset.scan("host_events")
        .filter((col("kind") == "runtime") & (col("correlation") != 0))
        .select(*THREAD, "start_ns", "correlation")
        .join(kernels.lazy(), on=["source", "correlation"], how="semi")
        .collect()
    )
    # a runtime call may contain the driver call of the same correlation: either will do
    first = calls.sort("start_ns").unique(["source", "correlation"], keep="first")
    joined = kernels.join(first, on=["source", "correlation"]).sort("row")
    return joined.with_row_index("launch")


def _innermost(dataset: Dataset, calls: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """launch, name, input_dims, input_types: of the operators and ranges that match, the innermost open at a launch.

    Events of one thread nest, so the innermost is the last to have begun at the depth at which the launch lies.
    """
    events = (
        dataset.scan("host_events")
        .filter(
            col("kind").is_in(["op", "annotation"]) & (col("dur_ns") > 0) & col("name").str.contains(pattern)
        )
        .join(calls.select(THREAD).unique().lazy(), on=THREAD, how="semi", nulls_equal=True)
        .select(*THREAD, "start_ns", "dur_ns", "name", "input_dims", "input_types")
        .collect()
        .with_row_index("event")
    )
    ends = events.select(*THREAD, at=col("start_ns") + col("dur_ns"), what=END, longest=0, step=-1)
    starts = events.select(*THREAD, "event", at="start_ns", what=START, longest=-col("dur_ns"), step=1)
    points = calls.select(*THREAD, "launch", at="start_ns", what=LAUNCH, longest=0, step=0)
    edges = pl.concat([ends, starts, points], how="diagonal_relaxed")
    edges = edges.sort(*THREAD, "at", "what", "longest", maintain_order=True)
    deep = edges.with_columns(depth=col("step").cum_sum().over(THREAD)).with_columns(
        event=col("event").forward_fill().over(*THREAD, "depth")
    )
    inside = deep.filter((col("what") == LAUNCH) & (col("depth") > 0)).select("launch", "event")
    return inside.join(events.drop(*THREAD), on="event").drop("event", "start_ns", "dur_ns")


def _named(found: pl.DataFrame) -> pl.DataFrame:
    """row, collective, in_elements, element_type of the kernels whose launch names a collective."""
    named = found.with_columns(collective=col("name").str.extract(NAMING)).filter(
        ~col("collective").str.contains(GROUPED) & (~col("p2p") | col("collective").str.contains(ALL_TO_ALL))
    )
    shapes = named.select("input_dims_args", "input_types_args").unique()
    sizes = [_even_input(dims, types) for dims, types in shapes.iter_rows()]
    elements = shapes.with_columns(
        in_elements=pl.Series([size for size, _ in sizes], dtype=pl.Int64),
        element_type=pl.Series([kind for _, kind in sizes], dtype=pl.String),
    )
    joined = named.join(elements, on=["input_dims_args", "input_types_args"], how="left", nulls_equal=True)
    return joined.select("row", "collective", "in_elements", "element_type")


def _even_input(dims: str | None, types: str | None) -> tuple[int | None, str | None]:
    """Elements and type of the input of an all-to-all, where the output has as many."""
    try:
        (output, given, *_), (_, kind, *_) = json.loads(dims or ""), json.loads(types or "")
    except (ValueError, TypeError, RecursionError):
        return None, None
    elements = _elements(given)
    if elements is None or elements != _elements(output) or not isinstance(kind, str):
        return None, None
    return elements, kind


def _elements(shape: object) -> int | None:
    """How many elements a recorded shape has; [] stands for what is no tensor."""
    flat = isinstance(shape, list) and shape and all(type(n) is int and 0 <= n < MAX_ELEMENTS for n in shape)
    size = prod(shape) if flat and isinstance(shape, list) else MAX_ELEMENTS
    return size if size < MAX_ELEMENTS else None
