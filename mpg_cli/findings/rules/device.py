"""Rules on what the device itself does: copies, small kernels, gaps, and computing below its ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.findings import text
from mpg_cli.findings.facts import Found, longest
from mpg_cli.findings.fill import unfilled_ns
from mpg_cli.goodput import intervals
from mpg_cli.goodput.overlaps import covered
from mpg_cli.report.model import Evidence
from mpg_cli.report.units import duration, percent
from mpg_cli.rows.operators import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.findings.facts import Facts
    from mpg_cli.report.model import Op

TINY_NS = 10_000  # a kernel shorter than two or three launch calls
MOST_DIMS = 80  # characters of an operator's dims in a sentence
MANY = 0.5  # share of kernels that are tiny, from which they are a finding of their own
PAGEABLE = (
    "Allocate the host side in pinned memory (pin_memory=True) and copy with non_blocking=True",
    "Copy on a stream of its own while the previous step computes",
    "Merge many small copies into one",
)
FILL = (
    "Larger batches or longer sequences per device, so that grids have at least one block per SM",
    "Split the reduction dimension (split-K, stream-K), or run independent small kernels on several streams",
    "Fuse or batch small operators; grouped or batched matrix products instead of loops",
)
GRAPH_ROWS = ("Record graph nodes instead of whole graphs (Nsight Systems: --cuda-graph-trace=node)",)


def pageable_copies(facts: Facts) -> Iterator[Found]:
    """Copies from or to pageable host memory: slow, and the host waits for them."""
    copies = _copies(facts).filter(_pageable())
    alone = _exposed(facts, copies)
    rows = (
        text.amount(facts, alone, "pageable copies with nothing beside them"),
        *(_by_name(row) for row in _named(copies)),
        *_longest(facts, copies),
    )
    where = ", ".join(row[0] for row in _named(copies))
    title = "Copies use pageable host memory"
    yield Found("pageable_copies", "memory_copy", title, alone, where, rows, PAGEABLE)


def memory_copies(facts: Facts) -> Iterator[Found]:
    """All other exposed copies and sets."""
    pageable = _exposed(facts, _copies(facts).filter(_pageable()))
    others = _copies(facts).filter(~_pageable())
    alone = facts.of("memory_copy") - pageable
    rows = (
        text.amount(facts, alone, "copies and sets with nothing beside them"),
        *_hidden_at_best(facts, alone),
        *(_by_name(row) for row in _named(others)),
        *_longest(facts, others),
    )
    where = ", ".join(row[0] for row in _named(others))
    title = "Memory copies are not hidden behind computing"
    yield Found("memory_copy", "memory_copy", title, alone, where, rows)


def _hidden_at_best(facts: Facts, alone: int) -> tuple[Evidence, ...]:
    """How much of the copies could hide behind the computing there is, where that is less."""
    computing = facts.goodput.rg.numerator_ns if facts.goodput.rg else 0
    if not 0 < computing < alone:
        return ()
    gain = facts.capacity_ns / (facts.capacity_ns - computing)
    return (
        Evidence(
            f"there is only {duration(computing)} of computing to hide them behind (at most {gain:.2f} ×): the rest "
            "goes by moving less"
        ),
    )


def _copies(facts: Facts) -> pl.DataFrame:
    rows = facts.ops.filter(col("kind").is_in(["memcpy", "memset"])).cast({"name": pl.String})
    return rows.with_columns(dur_ns=col("end_ns") - col("start_ns"))


def _pageable() -> pl.Expr:
    return (col("kind") == "memcpy") & col("name").str.contains("(?i)pageable")


def _named(copies: pl.DataFrame) -> list[tuple[str, int, int, int | None]]:
    """The two names with most time: name, count, ns, bytes (null where any is unknown)."""
    whole = pl.when(col("bytes").null_count() == 0).then(col("bytes").sum())
    groups = copies.group_by("name").agg(pl.len(), col("dur_ns").sum(), whole.alias("bytes"))
    return groups.sort("dur_ns", "name", descending=[True, False]).head(2).rows()


def _by_name(row: tuple[str, int, int, int | None]) -> Evidence:
    name, count, ns, moved = row
    said = f"{name}: {text.plural(count, 'record')}, {duration(ns)}"
    if moved and ns:
        said += f", {moved / 1e6:,.1f} MB at {moved / ns:,.1f} GB/s"  # bytes per ns are GB/s
    return Evidence(said)


def _longest(facts: Facts, ops: pl.DataFrame) -> tuple[Evidence, ...]:
    """The longest of these records."""
    top = longest(ops, "dur_ns")
    return tuple(
        Evidence(
            f"longest: {duration(row['dur_ns'])}{facts.on(row['source'])}",
            facts.paths[row["source"]],
            str(row["name"]),
            None,
            row["start_ns"],
            row["dur_ns"],
        )
        for row in top.iter_rows(named=True)
    )


def _exposed(facts: Facts, copies: pl.DataFrame) -> int:
    """The chip-ns of the ledger's memory_copy in which one of these records runs."""
    return int(covered(intervals.union(copies, ["subject"]), facts.pieces("memory_copy")).sum())


def _computing(facts: Facts) -> pl.DataFrame:
    """Kernels that compute: subject, source, start_ns, end_ns, name, blocks_per_sm, dur_ns."""
    kernels = facts.ops.filter((col("kind") == "kernel") & (col("activity") == "compute"))
    return kernels.with_columns(dur_ns=col("end_ns") - col("start_ns"))


def small_kernels(facts: Facts) -> Iterator[Found]:
    """Many kernels shorter than `TINY_NS`, with the gaps before them, and the other gaps between queued kernels."""
    kernels = _computing(facts)
    tiny, gaps = kernels.filter(col("dur_ns") < TINY_NS), 0
    if kernels.height and tiny.height >= MANY * kernels.height and not facts.tpu:
        gaps = _gaps_before(facts, tiny)
        yield _tiny(facts, tiny, gaps, tiny.height / kernels.height)
    yield _gaps(facts, facts.of("kernel_gap") - gaps)


def _tiny(facts: Facts, tiny: pl.DataFrame, gaps: int, share: float) -> Found:
    busy = int(intervals.total(tiny, ["subject"])["length_ns"].sum())  # computing comes first in the ledger
    mean = int(tiny["dur_ns"].sum()) // tiny.height
    often = _most_often(tiny)
    rows = (
        Evidence(
            f"{text.plural(tiny.height, 'kernel')} ({percent(share)} of those that compute) shorter than "
            f"{duration(TINY_NS)}: {duration(mean)} on average"
        ),
        text.amount(facts, busy, "computing in them"),
        text.amount(
            facts, gaps, "gaps right before them, with the next kernel queued (kernel_gap in the ledger)"
        ),
        Evidence("the bound takes away all of both; what fusion keeps of the computing is not known"),
        often,
    )
    return Found("tiny_kernels", "kernel_gap", "Many tiny kernels", busy + gaps, often.name, rows)


def _gaps(facts: Facts, gaps: int) -> Found:
    count, total = facts.pieces("kernel_gap").height, facts.of("kernel_gap")
    rows = [text.amount(facts, gaps, "gaps with the next kernel queued")]
    rows += (
        [Evidence(f"{text.plural(count, 'gap')} in all, {duration(total // count)} on average")]
        if count
        else []
    )
    rows += text.longest(facts, "kernel_gap")
    title = "The gaps between queued kernels add up"
    return Found("kernel_gap", "kernel_gap", title, gaps, text.where(facts, "kernel_gap"), tuple(rows))


def _gaps_before(facts: Facts, kernels: pl.DataFrame) -> int:
    """The chip-ns of kernel_gap that end where one of these kernels starts."""
    starts = kernels.select("subject", end_ns="start_ns").unique()
    before = facts.pieces("kernel_gap").join(starts, on=["subject", "end_ns"], how="semi")
    return int((before["end_ns"] - before["start_ns"]).sum())


def _most_often(kernels: pl.DataFrame) -> Evidence:
    groups = kernels.group_by("name").agg(pl.len(), col("dur_ns").sum()).cast({"name": pl.String})
    name, count, ns = groups.sort("len", "name", descending=[True, False]).row(0)
    return Evidence(f"most often: {name}, {count:,} times, {duration(ns)}", name=name)


def below_roofline(facts: Facts) -> Iterator[Found]:
    """Kernels that reach neither ceiling, and those whose ceiling is not known."""
    known = [op for op in facts.operators if op.recoverable_ns and op.efficiency is not None]
    slow = sorted(known, key=lambda op: -op.recoverable_ns)
    rows = [
        Evidence(f"{_reached(op)}; {duration(op.recoverable_ns)} above the roofline", name=op.op)
        for op in slow[:3]
    ]
    title = "Kernels run below their roofline"
    without = sum(op.time_ns - op.recompute_ns for op in facts.operators if op.efficiency is None)
    if without:
        least = "at least " if len(facts.operators) == MOST else ""
        rows.insert(
            0,
            Evidence(
                f"{least}{duration(without)} of kernel time in it has no known roofline: all of it counts"
            ),
        )
    if without * 2 > facts.of("kernel_inefficiency"):
        title = "Kernels run below their roofline, or have none that is known"
    yield _program(facts, "kernel_inefficiency", title, slow, tuple(rows))


def memory_bound(facts: Facts) -> Iterator[Found]:
    """Computing limited by bandwidth before arithmetic: most of it in those whose roofline takes longest."""
    limited = (op for op in facts.operators if op.bound == "memory" and op.efficiency is not None)
    bound = sorted(limited, key=lambda op: -(op.efficiency or 0) * op.time_ns)
    rows = tuple(Evidence(_reached(op), name=op.op) for op in bound[:3])
    yield _program(facts, "memory_bound", "Computing is limited by memory bandwidth", bound, rows)


def recomputation(facts: Facts) -> Iterator[Found]:
    """Activation checkpointing."""
    again = sorted((op for op in facts.operators if op.recompute_ns), key=lambda op: -op.recompute_ns)
    rows = tuple(
        Evidence(f"{op.op}: {duration(op.recompute_ns)} of {duration(op.time_ns)} are run again", name=op.op)
        for op in again[:3]
    )
    yield _program(facts, "recompute", "Forward operators are computed twice", again, rows)


def padding(facts: Facts) -> Iterator[Found]:
    """FLOPs on tokens that only fill the batch."""
    yield _program(facts, "padding", "Padding takes a share of the useful arithmetic", [], ())


def _program(facts: Facts, cause: str, title: str, ops: list[Op], rows: tuple[Evidence, ...]) -> Found:
    """A finding that is one row of the program layer."""
    total = facts.of(cause)
    first = text.amount(facts, total, "in the ledger")
    return Found(cause, cause, title, total, ops[0].op if ops else "", (first, *rows))


def _reached(op: Op) -> str:
    """An operator with its time and the rates it reached."""
    dims = f" {op.dims}" if len(op.dims) <= MOST_DIMS else f" {op.dims[: MOST_DIMS - 1]}…"
    parts = [f"{op.op}{dims.rstrip()}: {text.plural(op.count, 'call')}, {duration(op.time_ns)}"]
    parts += [] if op.efficiency is None else [f"{percent(op.efficiency)} of its roofline"]
    parts += [f"{op.tflops:,.1f} TFLOP/s"] if op.tflops else []
    parts += [] if op.gbps is None else [f"{op.gbps:,.0f} GB/s"]
    return ", ".join(parts)


def unfilled(facts: Facts) -> Iterator[Found]:
    """Kernels with fewer blocks than SMs: the idle SMs' share of computing time."""
    small = _computing(facts).filter(col("blocks_per_sm") < 1)
    if small.is_empty():
        return
    idle = unfilled_ns(facts.ops.filter(col("kind") == "kernel"))
    rows = (
        text.amount(facts, idle, "computing time x share of SMs without a block, by the launch grids"),
        Evidence(
            f"{text.plural(small.height, 'kernel')} with less than one block per SM, "
            f"{duration(int(small['dur_ns'].sum()))} in all"
        ),
        *_longest(facts, small),
    )
    title = "Kernels leave SMs without work"
    yield Found("unfilled_sms", "kernel_inefficiency", title, idle, rows[-1].name, rows, FILL)


def graph_rows(facts: Facts) -> Iterator[Found]:
    """Whole graphs recorded as one row: nobody can say what ran."""
    total = facts.of("unclassified_busy")
    rows = (text.amount(facts, total, "busy with what the file does not name"),)
    title = "The recording does not say what the chips were busy with"
    yield Found("unclassified_busy", "unclassified_busy", title, total, "", rows, GRAPH_ROWS, bounded=False)
