"""The projected trace: NVTX ranges with the time from the first to the last GPU operation launched inside of each.

XLA names its ranges (xla/tsl profiler annotations): XlaModule is a run of a program, Thunk one operation of it.
Modules and thunks may be nested; NVIDIA's loader keeps the deepest of each (nsys_jax/data_loaders.py), as is done here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import InputError
from mpg_parsers.nsight.columns import LATEST, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

# of Nsight Systems up to 2024.4 and from 2025.1 (in ns), and of 2024.5 and 2024.6
COLUMNS = {
    "name": ("Name", "Text"), "start_ns": ("Projected Start", "Start"), "dur_ns": ("Projected Duration",),
    "end_ns": ("End",), "host_start_ns": ("Orig Start",), "host_dur_ns": ("Orig Duration",), "process": ("PID",),
    "thread": ("TID",), "gpu_ops": ("NumGPUOps",), "id": ("RangeId", "Range ID"), "parent": ("ParentId", "Parent ID"),
}  # fmt: skip
NEEDED = ("name", "start_ns", "id", "parent")
MODULE = r"^(?:TSL:)?XlaModule:"
THUNK = r"^(?:TSL:)?Thunk:#"
PROGRAM = (
    r"^(?:TSL:)?XlaModule:#(?:.*,)?hlo_module=(?P<program>[^,#]*)(?:,program_id=(?P<program_id>\d{1,18}))?#$"
)
OPERATION = r"^(?:TSL:)?Thunk:#(?:.*,)?hlo_op=(?P<op>[^,#]*)#$"
FRAMEWORK = r"^(?:TSL:)?Thunk:#name=(.*),hlo_op=[^,#]*#$"
DEEPEST = 64
EXACT_FLOAT = 1 << 53


@dataclass
class Trace:
    """ranges: one row per range: name, start_ns, dur_ns, host_start_ns, host_dur_ns, process, thread, gpu_ops (null
    where the version of Nsight Systems does not count them), id, parent, is_module, is_thunk, run (id of the innermost
    module range around it, or its own) and leaf: whether it stands for its GPU operations.

    lost: rows by what was wrong with them; unranged: GPU operations of threads that made no range; repeated: ranges
    whose id came before.
    """

    ranges: pl.DataFrame
    lost: dict[str, int] = field(default_factory=dict)
    unranged: int = 0
    repeated: int = 0


def read(table: pl.DataFrame, path: str) -> Trace:
    """The ranges of trace.parquet. Raises InputError: unsupported_format (other columns)."""
    typed = _typed(table, path)
    bare = typed.filter(col.id.is_null())
    named = typed.filter(col.id.is_not_null() & col.name.is_not_null())
    in_time = col.start_ns.is_between(-LATEST, LATEST) & col.dur_ns.is_between(0, LATEST)
    good = named.filter(in_time.fill_null(value=False) & (col.start_ns + col.dur_ns <= LATEST))
    lost = {"ranges without a usable start or duration": named.height - good.height}
    repeated = good.height - good["id"].n_unique()
    unranged = int(bare["gpu_ops"].fill_null(0).sum())
    return Trace(_nested(good.sort("start_ns", "id")), lost, unranged, repeated)


def _typed(table: pl.DataFrame, path: str) -> pl.DataFrame:
    there = {
        ours: next((name for name in theirs if name in table.columns), None)
        for ours, theirs in COLUMNS.items()
    }
    missing = [COLUMNS[name][0] for name in NEEDED if there[name] is None]
    if missing or not (there["dur_ns"] or there["end_ns"]):
        message = f"trace.parquet has no column {', '.join(missing) or COLUMNS['dur_ns'][0]}"
        hint = "only what the recipe nvtx_gpu_proj_trace of Nsight Systems writes is read"
        raise InputError("unsupported_format", path, message, hint=hint)
    return typed(table, there)


def typed(table: pl.DataFrame, there: Mapping[str, str | None]) -> pl.DataFrame:
    """The columns of `there` (ours: theirs, None where there is none): name as text, all others as integers.

    In place of end_ns, dur_ns reaches to it where it is not given.
    """
    columns = [
        (text(table[theirs]) if ours == "name" else integer(table[theirs])).alias(ours)
        for ours, theirs in there.items()
        if theirs is not None
    ]
    absent = [
        pl.lit(None, pl.String if ours == "name" else pl.Int64).alias(ours)
        for ours, theirs in there.items()
        if theirs is None
    ]
    full = pl.DataFrame(columns).with_columns(absent)
    return full.with_columns(dur_ns=pl.coalesce("dur_ns", col.end_ns - col.start_ns)).drop("end_ns")


def integer(values: pl.Series) -> pl.Series:
    """Int64; what is no whole number is null. Columns with nulls went through a floating-point type."""
    if values.dtype.is_float():
        whole = (values == values.floor()) & (values.abs() <= EXACT_FLOAT)
        values = values.set(~whole.fill_null(value=False), None)
    elif values.dtype == pl.String:
        return values.str.strip_chars().cast(pl.Int64, strict=False)
    elif not values.dtype.is_integer():
        return pl.Series(values.name, [None], pl.Int64).new_from_index(0, values.len())
    return values.cast(pl.Int64, strict=False)


def text(values: pl.Series) -> pl.Series:
    """String, cut at MAX_TEXT characters; what is no text is null."""
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(pl.String)
    if values.dtype != pl.String:
        return pl.Series(values.name, [None], pl.String).new_from_index(0, values.len())
    return values.str.slice(0, MAX_TEXT)


def _nested(ranges: pl.DataFrame) -> pl.DataFrame:
    """`ranges` with is_module, is_thunk, run and leaf.

    A range stands for its GPU operations if it is a thunk with no thunk inside, or has no thunk around it and no range
    inside: parents repeat what their children have.
    """
    marked = ranges.with_columns(
        is_module=col.name.str.contains(MODULE), is_thunk=col.name.str.contains(THUNK)
    )
    around = _around(marked)
    known = marked.join(around, on="id", how="left", maintain_order="left")
    outer_thunks = known.filter(col.is_thunk)["thunk"].drop_nulls().unique()
    parents = known["parent"].drop_nulls().unique()
    thunk = col.is_thunk & ~col.id.is_in(outer_thunks.implode())
    other = ~col.is_thunk & col.thunk.is_null() & ~col.id.is_in(parents.implode())
    own = pl.when(col.is_module).then("id").otherwise("module")
    return known.with_columns(run=own, leaf=thunk | other).drop("module", "thunk")


def _around(marked: pl.DataFrame) -> pl.DataFrame:
    """By id: module and thunk, the ids of the innermost ranges of these kinds around it, or null."""
    by_id = marked.unique("id", keep="first", maintain_order=True)
    above = by_id.select(at="id", up="parent", is_module="is_module", is_thunk="is_thunk")
    none = pl.lit(None, pl.Int64)
    found = by_id.select("id", at="parent").with_columns(module=none, thunk=none)
    climbing, done = found, []
    for _ in range(DEEPEST):
        done.append(climbing.filter(col.at.is_null()))
        climbing = climbing.filter(col.at.is_not_null())
        if climbing.is_empty():
            break
        climbing = climbing.join(above, on="at", how="left", maintain_order="left").select(
            "id",
            at="up",
            module=pl.coalesce("module", pl.when("is_module").then("at")),
            thunk=pl.coalesce("thunk", pl.when("is_thunk").then("at")),
        )
    return pl.concat([*done, climbing]).select("id", "module", "thunk")


def runs(trace: Trace) -> pl.DataFrame:
    """Runs of programs by start: run, program_id (String), program, start_ns, end_ns, process, thread, gpu_ops, cut.

    A module range without a program_id is a kernel that the autotuner tries out, and no program. cut: the last run
    of its program, with fewer GPU operations than any before: the profiler stopped in the middle.
    """
    modules = trace.ranges.filter(col.is_module)
    parts = col.name.str.extract_groups(PROGRAM).struct
    named = modules.with_columns(program=parts.field("program"), program_id=parts.field("program_id"))
    rows = named.filter(col.program_id.is_not_null()).select(
        "program_id", "program", "start_ns", "process", "thread", "gpu_ops", run="id",
        end_ns=col.start_ns + col.dur_ns,
    ).sort("start_ns", "run")  # fmt: skip
    key = ["process", "thread", "program_id", "program"]
    fewest_before = col.gpu_ops.cum_min().shift(1).over(key)
    last = pl.int_range(pl.len()).over(key) == pl.len().over(key) - 1
    return rows.with_columns(cut=(last & (col.gpu_ops < fewest_before)).fill_null(value=False))


def operations(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """Ranges that stand for GPU operations, by start: id, run, program_id, program, op (null of one that is no thunk),
    framework_op, range (its name), start_ns, dur_ns, process, thread, gpu_ops. `found`: of `runs`.
    """
    leaves = trace.ranges.filter(col.leaf)
    named = leaves.with_columns(
        op=col.name.str.extract_groups(OPERATION).struct.field("op"),
        framework_op=col.name.str.extract(FRAMEWORK),
    )
    first = found.select("run", "program_id", "program").unique("run", keep="first", maintain_order=True)
    joined = named.join(first, on="run", how="left", maintain_order="left")
    return joined.select(
        "id", "run", "program_id", "program", "op", "framework_op", "start_ns", "dur_ns", "process", "thread",
        "gpu_ops", range="name",
    )  # fmt: skip


def uncovered(trace: Trace) -> tuple[int, int]:
    """GPU operations in no range that stands for them, and all that ranges were made around; 0 where none are counted.

    Those of a range without a parent include those of all ranges inside of it.
    """
    tops = trace.ranges.filter(col.parent.is_null())
    total = int(tops["gpu_ops"].fill_null(0).sum()) + trace.unranged
    covered = int(trace.ranges.filter(col.leaf)["gpu_ops"].fill_null(0).sum())
    return max(0, total - covered), total
