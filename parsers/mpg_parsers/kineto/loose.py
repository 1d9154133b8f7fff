"""Events that are not complete on their own: begin/end pairs, and rows without a category."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import polars as pl

from mpg_parsers.errors import InputError, Notice
from mpg_parsers.kineto import categories

XLA_PREFIXES = ("/device:", "/host:")
ASCEND = "Ascend Hardware"
LEGACY_KINDS = {
    "CUDA functions": "kernel",
    "CPU functions": "op",
}  # by process, until 2020; the thread is the device
HINT = "only PyTorch-profiler traces are read so far"
Meta = Collection[tuple[str, str, str]]  # (what, pid, value) of the metadata events


def refuse_other_producers(meta: Meta, path: str) -> None:
    """Raise InputError(unsupported_format) if the process names are those of XLA or Ascend."""
    processes = {value for what, _, value in meta if what == "process_name"}
    if any(name.startswith(XLA_PREFIXES) for name in processes):
        message = "an XLA (JAX or TensorFlow) trace, which this version does not read"
        raise InputError("unsupported_format", path, message, hint=HINT)
    if ASCEND in processes:
        message = "an Ascend trace_view, which this version does not read: its layers repeat the same time"
        raise InputError("unsupported_format", path, message, hint=HINT)


def resolve(loose: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """Rows with a `kind` each, and what could not be matched or told apart.

    loose: packed columns of begin, end and complete events, with their ph, cat, pid and tid as text.
    """
    pairs, unmatched = _pair(loose.filter(pl.col("ph") != "X"))
    rows = pl.concat([loose.filter(pl.col("ph") == "X"), pairs])
    legacy = pl.col("pid").is_in(list(LEGACY_KINDS))
    kinds = categories.DEVICE | categories.HOST
    rows = rows.with_columns(
        kind=pl.when(legacy)
        .then(pl.col("pid").replace_strict(LEGACY_KINDS, default=None, return_dtype=pl.String))
        .otherwise(pl.col("cat").replace_strict(kinds, default=None, return_dtype=pl.String)),
        device=pl.when(legacy).then("thread").otherwise("device"),
        stream=pl.when(~legacy).then("stream"),
        thread=pl.when(~legacy | (pl.col("pid") != "CUDA functions")).then("thread"),
    )
    notices = [*_unmatched(unmatched), *_unnamed(rows)]
    return rows.filter(pl.col("kind").is_not_null()), notices


def _pair(events: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """Begin and end events of a thread matched as brackets; the pair has the begin's columns.

    An end without a name closes the innermost begin, one with a name the innermost of that name.
    """
    columns = events.select("ph", "name", "pid", "tid", "start_ns").with_row_index("row")
    ordered = columns.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    stacks: defaultdict[tuple[str, str], list[tuple[int, str | None, int]]] = defaultdict(list)
    unmatched: Counter[str] = Counter()
    begins: list[int] = []
    durations: list[int] = []
    for row, phase, name, pid, tid, ts in ordered.iter_rows():
        stack = stacks[pid, tid]
        if phase == "B":
            stack.append((row, name, ts))
        elif (at := _innermost(stack, name)) is None:
            unmatched["end"] += 1
        else:
            begin, _, start = stack.pop(at)
            begins.append(begin)
            durations.append(ts - start)
    unmatched["begin"] = sum(map(len, stacks.values()))
    unmatched["event without a start"] = columns.height - ordered.height
    return events[begins].with_columns(pl.Series("dur_ns", durations, dtype=pl.Int64)), +unmatched


def _innermost(stack: list[tuple[int, str | None, int]], name: str | None) -> int | None:
    """Where in the stack the event is that an end of this name closes."""
    for at in range(len(stack) - 1, max(-1, len(stack) - 1000), -1):
        if name is None or stack[at][1] == name:
            return at
    return None


def _unmatched(counts: Counter[str]) -> list[Notice]:
    if not counts:
        return []
    parts = " and ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    message = f"{parts} without a partner on the same thread: no duration, not counted"
    return [Notice("unmatched_events", message, counts.total())]


def _unnamed(rows: pl.DataFrame) -> list[Notice]:
    """What looks like device work of no category."""
    lost = rows.filter(
        pl.col("kind").is_null() & pl.col("device").is_not_null() & pl.col("stream").is_not_null()
    ).height
    if not lost:
        return []
    message = f"{lost} events that name a device and a stream have no known category and were dropped"
    return [Notice("dropped_events", message, lost)]
