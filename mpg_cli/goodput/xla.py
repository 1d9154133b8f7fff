"""What the operations of XLA programs took over the whole profile, as XLA's own tools define it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

DEVICE = ("source", "process", "device")
PROGRAM = ("program_id", "program")
ABOUT = (
    "source", "hlo", *PROGRAM, "name", "category", "framework_op", "location", "flops", "all_flops", "dtype",
    "bytes", "flops_source", "opaque", "recompute",
)  # fmt: skip
OPERATION = ABOUT[2:]  # what makes two operations one row: the same program on several devices and hosts
RAN = (
    "source", "subject", "hlo", "name", "kind", "activity", "part", "asynchronous", "start_ns", "end_ns", "dur_ns",
)  # fmt: skip
OUTFEED = r"\boutfeed\b"
ENDS = r"(start|update|done)$"  # the ends of something that runs beside the operations
NO_TPU = "the operations are not those of a TPU: kernels of several streams can run at once"
NOT_STATED = "a profile does not state when it began and ended"
OUTLAST = "the times of the operations and of the profile do not fit each other"
LATEST = 1 << 62  # no sum of times may be larger: files can state anything


@dataclass(frozen=True, slots=True)
class Idle:
    """numerator_ns idle of denominator_ns, summed over the cores."""

    numerator_ns: int
    denominator_ns: int


@dataclass(frozen=True)
class Xla:
    """Frames, most time first; time_ns is self time: what ran inside an operation is not in it.

    operations: OPERATION, activity, count (executions), time_ns, tflops, gbps
    categories: category, count, time_ns
    asynchronous: PROGRAM, name, category, count, time_ns, hidden_ns, exposed_ns
    opaque: name (the framework's operator, else the operation), count, time_ns
    programs: PROGRAM, runs, time_ns (of the runs), gap_ns (of it without an operation), operations_ns; the first three
    are null where the file has no runs
    time_ns, infeed_ns, outfeed_ns, recompute_ns: sums over all operations
    idle_between, idle_in_profile: None with a reason in `reasons`
    """

    operations: pl.DataFrame
    categories: pl.DataFrame
    asynchronous: pl.DataFrame
    opaque: pl.DataFrame
    programs: pl.DataFrame
    time_ns: int
    infeed_ns: int
    outfeed_ns: int
    recompute_ns: int
    idle_between: Idle | None
    idle_in_profile: Idle | None
    reasons: dict[str, str] = field(default_factory=dict)


def measure(dataset: Dataset, loaded: Activity) -> Xla | None:
    """The operations of all programs, nothing cut to a window; None where the dataset has none.

    Sums are those of xprof's hlo_stats and op_profile (self time of every event of the lines of operations; on a GPU of
    every kernel with an operation), executions its occurrences. Asynchronous operations run beside the others and are
    in none of the sums.
    """
    about = dataset.scan("hlo_ops").select(ABOUT).collect()
    if about.is_empty():
        return None
    runs = _runs(dataset, loaded)
    ran = _in_runs(loaded.ops.filter(col.hlo.is_not_null()).select(RAN), runs)
    beside = col.asynchronous.fill_null(value=False)
    alone, under_way = ran.filter(~beside), ran.filter(beside)
    operations = _operations(alone, about)
    between, in_profile, reasons = _idle(alone, loaded)
    return Xla(
        operations=operations.drop("kind"),
        categories=_summed(operations, ["category"]),
        asynchronous=_asynchronous(under_way, alone, about),
        opaque=_opaque(operations),
        programs=_programs(operations, alone, runs),
        time_ns=_time(operations),
        infeed_ns=_time(operations.filter(col.kind == "infeed")),
        outfeed_ns=_time(operations.filter(_names_outfeed())),
        recompute_ns=_time(operations.filter("recompute")),
        idle_between=between,
        idle_in_profile=in_profile,
        reasons=reasons,
    )


def _time(rows: pl.DataFrame) -> int:
    return int(rows["time_ns"].sum())


def _names_outfeed() -> pl.Expr:
    return col.category.str.contains(OUTFEED) | col.name.str.contains(OUTFEED)


def _largest(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Most time first; the keys decide among equals."""
    return rows.sort("time_ns", *keys, descending=[True, *(False for _ in keys)], nulls_last=True)


def _summed(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return _largest(rows.group_by(by).agg(col.count.sum(), col.time_ns.sum()), *by)


# ------------------------------------------------------------------------------------------ runs of programs


def _runs(dataset: Dataset, loaded: Activity) -> pl.DataFrame:
    """subject, run_program_id, run_program, start_ns, end_ns of every run of a program, by time."""
    rows = dataset.scan("program_runs").select(
        *DEVICE, "start_ns", "end_ns", run_program_id="program_id", run_program="name"
    )
    subjects = loaded.subjects.select("subject", *DEVICE)
    return rows.collect().join(subjects, on=DEVICE, nulls_equal=True).drop(DEVICE).sort("start_ns", "end_ns")


def _in_runs(rows: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`rows`, by time, with the program of the run in which each begins, null where it begins in none."""
    spans = runs.rename({"end_ns": "_until"})
    ordered = rows.sort("start_ns", maintain_order=True)
    met = ordered.join_asof(spans, on="start_ns", by="subject", check_sortedness=False)
    inside = col.start_ns < col("_until")
    return met.with_columns(
        pl.when(inside).then(name).alias(name) for name in ("run_program_id", "run_program")
    ).drop("_until")


def _programs(operations: pl.DataFrame, alone: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The programs that ran, or of which operations did."""
    own = operations.group_by(PROGRAM).agg(operations_ns=col.time_ns.sum())
    spans = runs.rename({f"run_{name}": name for name in PROGRAM})
    gaps = spans.with_columns(ns=col.end_ns - col.start_ns, busy=_covered(spans, alone))
    ran = gaps.group_by(PROGRAM).agg(
        runs=pl.len().cast(pl.Int64), time_ns=_possible(col.ns), gap_ns=_possible(col.ns - col.busy)
    )
    both = own.join(ran, on=PROGRAM, how="full", coalesce=True, nulls_equal=True)
    known = both.with_columns(col.operations_ns.fill_null(0))
    return known.sort(
        "operations_ns", "time_ns", *PROGRAM, descending=[True, True, False, False], nulls_last=True
    )


def _possible(lengths: pl.Expr) -> pl.Expr:
    """The sum of lengths, null where it is no time."""
    total = lengths.cast(pl.Int128).sum()
    return pl.when(total <= LATEST).then(total).cast(pl.Int64)


def _covered(spans: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    """How much of each of `spans` (subject, start_ns, end_ns) the union of `rows` on the same subject covers, in ns."""
    union = intervals.union(rows.select("subject", "start_ns", "end_ns"), ["subject"])
    length = col.end_ns - col.start_ns
    before = union.with_columns(_before=length.cum_sum().over("subject") - length)
    edges = before.select("subject", "_before", "end_ns", at="start_ns", _from="start_ns").sort("at")
    return _length_before(spans, edges, "end_ns") - _length_before(spans, edges, "start_ns")


def _length_before(spans: pl.DataFrame, edges: pl.DataFrame, instant: str) -> pl.Series:
    """The length of the union (edges: subject, at, _from, end_ns, _before) before an instant of each span."""
    asked = spans.select("subject", at=instant).with_row_index("_row").sort("at")
    met = asked.join_asof(edges, on="at", by="subject", check_sortedness=False)
    inside = pl.min_horizontal("at", "end_ns") - col("_from")
    return met.sort("_row").select((col("_before") + inside).fill_null(0)).to_series()


# ------------------------------------------------------------------------------------------------ operations


def _operations(alone: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """One row per operation: OPERATION, kind, activity, count, time_ns, tflops, gbps."""
    described = _described(_by_subject(alone), about)
    rows = described.group_by(OPERATION, maintain_order=True).agg(
        col.kind.first(),
        col.activity.first(),
        col.count.sum(),
        col.time_ns.sum(),
        executions=pl.when(col.executions.is_not_null().all()).then(col.executions.sum()),
    )
    rates = {"tflops": ("flops", 1e3), "gbps": ("bytes", 1.0)}  # per nanosecond is 10^9 per second
    timed = (col.time_ns > 0) & ~col.category.str.contains(ENDS)
    each = col.executions.cast(pl.Float64) / pl.when(timed).then("time_ns")
    rows = rows.with_columns(
        (col(what).cast(pl.Float64) * each / scale).alias(name) for name, (what, scale) in rates.items()
    )
    return _largest(rows.drop("executions"), *PROGRAM, "name", "category")


def _by_subject(alone: pl.DataFrame) -> pl.DataFrame:
    """Sums of each operation on each device, with `executions` to which the figures of one execution apply.

    An operation may launch several kernels, each counted: where each was launched as often, that often it ran; else
    that is not known. Nor is a rate known where other operations ran inside of it: its figures are with theirs, its
    time is without.
    """
    keys = ["source", "subject", "hlo", "run_program_id", "run_program"]
    by_name = alone.group_by(*keys, "name", maintain_order=True).agg(
        col.kind.cast(pl.String).first(),
        col.activity.cast(pl.String).first(),
        count=(col.part.fill_null(0) == 0).sum().cast(pl.Int64),
        time_ns=col.dur_ns.sum(),
        whole=col.part.is_null().all(),
    )
    longest = by_name.sort("time_ns", descending=True, maintain_order=True)
    known = (col.count.n_unique() == 1) & col.whole.all()
    return longest.group_by(keys, maintain_order=True).agg(
        col.kind.first(),
        col.activity.first(),
        col.count.sum(),
        col.time_ns.sum(),
        executions=pl.when(known).then(col.count.first()),
    )


def _described(rows: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """`rows` (source, hlo, run_program_id, run_program, …) with the columns of `about`.

    A run names the program of its operations where their own description does not, or by another name.
    """
    met = rows.join(about, on=["source", "hlo"], maintain_order="left")
    same = col.program_id.is_null() | (col.program_id == col.run_program_id)
    return met.with_columns(
        program_id=pl.coalesce("program_id", "run_program_id"),
        program=pl.coalesce(pl.when(same).then("run_program"), "program"),
    ).drop("run_program_id", "run_program")


def _opaque(operations: pl.DataFrame) -> pl.DataFrame:
    """The custom calls that XLA cannot look into, by what the framework calls them."""
    hidden = operations.filter("opaque").with_columns(name=pl.coalesce("framework_op", "name"))
    return _summed(hidden, ["name"])


def _asynchronous(under_way: pl.DataFrame, alone: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """Copies and collectives that ran beside the operations, each as long as it was under way."""
    computing = alone.filter(col.activity.cast(pl.String) == "compute")
    rows = under_way.with_columns(hidden_ns=_covered(under_way, computing)).drop("name")
    keys = ["source", "hlo", "run_program_id", "run_program"]
    sums = rows.group_by(keys).agg(
        col.hidden_ns.sum(), count=pl.len().cast(pl.Int64), time_ns=col.dur_ns.sum()
    )
    by = [*PROGRAM, "name", "category"]
    found = _described(sums, about).group_by(by).agg(col("count", "time_ns", "hidden_ns").sum())
    return _largest(found, *by).with_columns(exposed_ns=col.time_ns - col.hidden_ns)


# ------------------------------------------------------------------------------------------------------ idle


def _idle(alone: pl.DataFrame, loaded: Activity) -> tuple[Idle | None, Idle | None, dict[str, str]]:
    """Idle time of the cores of TPUs, between their operations and in the profile, and why one is not known."""
    cores = (
        alone.filter(col.asynchronous.is_not_null())
        .group_by("source", "subject")
        .agg(busy=col.dur_ns.sum(), span=col.end_ns.max() - col.start_ns.min())
    )
    if cores.is_empty():
        return None, None, dict.fromkeys(("idle_between", "idle_in_profile"), NO_TPU)
    ends = col("profile_start_ns", "profile_end_ns")
    length = pl.when(pl.all_horizontal(ends.is_between(-LATEST, LATEST)))
    profiles = loaded.sources.select("source", profile=length.then(col.profile_end_ns - col.profile_start_ns))
    lengths = cores.join(profiles, on="source", how="left")["profile"].to_list()
    busy = sum(cores["busy"])
    between = _rest(busy, cores["span"])
    unknown = None in lengths
    in_profile = None if unknown else _rest(busy, lengths)
    reasons = {} if between else {"idle_between": OUTLAST}
    if in_profile is None:
        reasons["idle_in_profile"] = NOT_STATED if unknown else OUTLAST
    return between, in_profile, reasons


def _rest(busy: int, lengths: Iterable[int]) -> Idle | None:
    """What is left of `lengths`; None where that is no time, or there is nothing to divide by."""
    whole = sum(lengths)  # in Python's integers: many cores exceed 64 bits
    return Idle(whole - busy, whole) if 0 < whole <= LATEST and whole >= busy else None
