"""Events that are not complete on their own: begin/end pairs, and rows without a category."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl

from mpg_parsers.errors import InputError, Notice
from mpg_parsers.kineto import categories

XLA_PREFIXES = ("/device:", "/host:")
LEGACY_DEVICE = "CUDA functions"
LEGACY_HOST = "CPU functions"
Meta = Sequence[tuple[str, str, str]]  # (what, pid, value) of the metadata events


def resolve(loose: pl.DataFrame, meta: Meta, path: str) -> tuple[pl.DataFrame, list[Notice]]:
    """Rows with a `kind` each, and what could not be matched.

    Raises InputError(unsupported_format) for traces of another producer in the same container.
    """
    refuse_other_producers(meta, path)
    complete = loose.filter(pl.col("ph") == "X")
    pairs, unmatched = _pair(loose.filter(pl.col("ph") != "X"))
    rows = pl.concat([complete, pairs]).with_columns(
        kind=pl.when(pl.col("pid") == LEGACY_DEVICE)
        .then(pl.lit("kernel"))
        .when(pl.col("pid") == LEGACY_HOST)
        .then(pl.lit("op"))
        .otherwise(pl.col("cat").replace_strict(categories.DEVICE | categories.HOST, default=None))
    )
    legacy = pl.col("pid") == LEGACY_DEVICE
    rows = rows.with_columns(device=pl.when(legacy).then("thread").otherwise("device"))
    notices = [_note(unmatched)] if unmatched else []
    return rows.filter(pl.col("kind").is_not_null()), notices


def refuse_other_producers(meta: Meta, path: str) -> None:
    """Raise InputError(unsupported_format) if the process names are those of XLA or Ascend."""
    processes = {value for what, _, value in meta if what == "process_name"}
    if any(name.startswith(XLA_PREFIXES) for name in processes):
        message = "an XLA (JAX or TensorFlow) trace, which this version does not read"
        raise InputError("unsupported_format", path, message, hint="only PyTorch-profiler traces are read so far")
    if "Ascend Hardware" in processes:
        message = "an Ascend trace_view, which this version does not read: its layers repeat the same time"
        raise InputError("unsupported_format", path, message, hint="only PyTorch-profiler traces are read so far")


def _pair(events: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """Begin and end events of a thread matched as a stack; the pair has the begin's columns."""
    columns = events.select("ph", "name", "pid", "thread", "start_ns").with_row_index("row")
    ordered = columns.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    stacks: dict[Any, list[tuple[int, str | None, int]]] = defaultdict(list)
    unmatched: Counter[str] = Counter()
    begins: list[int] = []
    durations: list[int] = []
    for row, phase, name, pid, thread, ts in ordered.iter_rows():
        stack = stacks[pid, thread]
        if phase == "B":
            stack.append((row, name, ts))
        elif stack and name in (None, stack[-1][1]):
            begin, _, start = stack.pop()
            begins.append(begin)
            durations.append(ts - start)
        else:
            unmatched["end"] += 1
    unmatched["begin"] = sum(map(len, stacks.values()))
    pairs = events[begins].with_columns(pl.Series("dur_ns", durations, dtype=pl.Int64))
    return pairs, +unmatched


def _note(unmatched: Counter[str]) -> Notice:
    parts = " and ".join(f"{count} {word}" for word, count in sorted(unmatched.items()))
    message = f"{parts} without a partner on the same thread: no duration, not counted"
    return Notice("unmatched_events", message, unmatched.total())
