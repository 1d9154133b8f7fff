"""A dataset of traces into the report: every figure of the report is computed from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli import __version__, hardware
from mpg_cli.checks import check_sums
from mpg_cli.goodput import activity as activities
from mpg_cli.goodput import collectives, intervals, judging, kernels, ledger, quality, runtime
from mpg_cli.goodput.models import Models
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.goodput.windows import Windows, find_steps, find_windows, repeated_ranges
from mpg_cli.operator_rows import operator_rows, unmodelled_rows
from mpg_cli.ratios import goodput
from mpg_cli.report import model
from mpg_cli.sources import load_sources
from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

INSIDE_COLUMNS = (
    "subject", "source", "start_ns", "end_ns", "kind", "name", "activity", "family", "rule",
    "correlation", "external_id", "graph_node",
)  # fmt: skip


@dataclass(frozen=True)
class AnalysisOptions:
    """window: steps, device or all; view: of the taxonomy; step_regex: names steps; rules: on kernels; program:
    how computing time is judged, None for the shipped catalogue and models.
    """

    window: str = "steps"
    view: str = "default"
    step_regex: str | None = None
    rules: NameRules | None = None
    program: judging.ProgramOptions | None = None


def analyze(dataset: Dataset, options: AnalysisOptions) -> model.Report:
    """The report on a dataset.

    Raises InputError: duplicate_rank, no_device_activity, device_records_lost; UsageError for a bad pattern.
    """
    sources, notices = load_sources(dataset)
    calls = quality.launches(dataset)
    loaded = activities.load(dataset, sources, options.rules or NameRules.load())
    without = _without_activity(loaded, calls, dataset)
    if loaded.ops.is_empty():
        raise without[0]
    steps = find_steps(dataset, options.step_regex)
    windows = find_windows(loaded, steps, options.window)
    notices = [*dataset.notices, *notices, *map(_as_notice, without)]
    return _Analysis(dataset, loaded, windows, calls, options, notices).report()


def _without_activity(loaded: Activity, calls: pl.DataFrame, dataset: Dataset) -> list[InputError]:
    """What to say of each source without any device activity: an error if that is all of them."""
    silent = loaded.sources.join(loaded.ops, on="source", how="anti").sort("source")
    steps = dict(dataset.scan("steps").group_by("source").len().collect().iter_rows())
    launched = dict(calls.group_by("source").len().iter_rows())
    return [
        _no_activity(path, launched.get(source, 0), steps.get(source, 0))
        for source, path in silent.select("source", "path").iter_rows()
    ]


def _no_activity(path: str, launches: int, steps: int) -> InputError:
    if launches:
        message = f"the host made {launches} launch calls, but every device record of them is missing"
        hint = "the profiler dropped them (buffer overflow, wrong times): record fewer steps, upgrade Kineto"
        return InputError("device_records_lost", path, message, hint=hint)
    message = f"no device activity in the trace (host events only, {steps} steps)"
    hint = "profile with ProfilerActivity.CUDA (or XPU) on the machine with the accelerator"
    return InputError("no_device_activity", path, message, hint=hint)


def _as_notice(error: InputError) -> Notice:
    message = error.message.removeprefix(f"{error.path}: ")
    return Notice(error.kind, f"{message}; this file is in no figure", 1, error.path)


class _Analysis:
    """The parts of one report; each method computes one of them."""

    def __init__(
        self,
        dataset: Dataset,
        loaded: Activity,
        windows: Windows,
        calls: pl.DataFrame,
        options: AnalysisOptions,
        notices: list[Notice],
    ) -> None:
        self.dataset, self.loaded, self.windows, self.calls = dataset, loaded, windows, calls
        self.options, self.notices = options, notices
        self.busy = runtime.busy_intervals(loaded.ops)
        subjects = loaded.subjects.select("subject", "source")
        self.spans = subjects.join(windows.by_source, on="source").sort("subject")
        self.inside = _inside(loaded.ops, self.spans)
        self.paths = dict(loaded.sources.select("source", "path").iter_rows())
        self.ranks = dict(loaded.sources.select("source", "rank").iter_rows())
        check_sums(loaded.ops, self.spans, self.paths)

    def report(self) -> model.Report:
        resolution = runtime.resolve_windows(self.loaded, self.busy, self.windows.by_source)
        rows, capacity = resolution.rows, _capacity(self.spans)
        ledger.check_closed(rows, capacity)
        judged = self._judge()
        if judged.rows is not None:
            refined = ledger.refine(rows, "productive", judged.rows)
            ledger.check_closed(refined.faults.rename({"excess_ns": "chip_ns"}), 0)
            ledger.check_closed(rows := refined.rows, capacity)
        rolled = ledger.roll(rows, load_taxonomy(), self.options.view)
        steps = self._steps()
        found = self._collectives()
        names = kernels.by_name(self.inside)
        trust = self._quality(names, judged)
        return model.Report(
            sources=self._sources(),
            warnings=tuple(model.Warning(n.kind, n.message, n.count, n.source) for n in self.notices),
            devices=self._devices(),
            steps=steps,
            collectives=found,
            goodput=goodput(rolled, self._basis(), self.options.view, judged),
            ledger=_ledger_rows(rolled),
            kernels=_kernels(names.head(kernels.TOP)),
            name_rules=self._name_rules(),
            totals=self._totals(capacity),
            quality=trust,
            ops=operator_rows(judged.ops),
            unmodelled=unmodelled_rows(judged.unmodelled),
            rooflines=tuple(model.Roofline(*ceiling) for ceiling in judged.ceilings),
            mpg_version=__version__,
        )

    def _judge(self) -> judging.Judged:
        options = self.options.program or judging.ProgramOptions(hardware.load(), Models.load())
        judged = judging.judge(self.dataset, self.loaded, self.spans, options)
        self.notices += judged.notices
        return judged

    def _sources(self) -> tuple[model.Source, ...]:
        columns = ("path", "format", "sha256", "size", "rank", "world_size", "framework", "host", "events")
        return tuple(model.Source(**row) for row in self.loaded.sources.select(columns).iter_rows(named=True))

    def _devices(self) -> tuple[model.Device, ...]:
        figures = runtime.device_figures(self.loaded.ops, self.busy)
        rows = self.loaded.subjects.join(figures, on="subject").sort("subject")
        names = [f for f in model.Device.__dataclass_fields__ if f not in ("source", "rank")]
        return tuple(
            model.Device(
                source=self.paths[row["source"]],
                rank=self.ranks[row["source"]],
                **{name: row[name] for name in names},
            )
            for row in rows.iter_rows(named=True)
        )

    def _steps(self) -> tuple[model.Step, ...]:
        listed = runtime.listed_steps(self.windows.steps, self.loaded.subjects)
        figures = runtime.step_figures(self.loaded, self.busy, listed)
        self._notice_steps(listed.height)
        rows = figures.join(self.loaded.subjects.select("subject", "device"), on="subject")
        names = ("device", "wall_ns", "busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns")
        return tuple(
            model.Step(
                source=self.paths[row["source"]],
                rank=self.ranks[row["source"]],
                step=row["name"] if row["step"] is None else row["step"],
                **{name: row[name] for name in names},
            )
            for row in rows.sort("_step", "subject").iter_rows(named=True)
        )

    def _notice_steps(self, listed: int) -> None:
        if self.options.window == "steps":
            self._notice_no_steps(self.windows.by_source.filter(pl.col("steps") == 0))
        counts = runtime.idle_steps(self.loaded, self.busy, self.windows.steps)
        for source, total, idle in counts.filter(pl.col("idle") > 0).iter_rows():
            message = f"{idle} of {total} steps have no device activity at all"
            self.notices.append(Notice("steps_without_device_work", message, idle, self.paths[source]))
        left = sum(counts["total"]) - listed
        if left:
            message = f"only the first {listed} steps are listed, not {left} more: too many devices and steps"
            self.notices.append(Notice("steps_not_listed", message, left))

    def _notice_no_steps(self, stepless: pl.DataFrame) -> None:
        pattern = self.options.step_regex
        missing = f"no host range matches {pattern!r}" if pattern else "no ProfilerStep ranges"
        message = f"{missing}: the window is the hull of the device activity"
        hints = repeated_ranges(self.dataset, stepless) if stepless.height else {}
        for source in stepless["source"]:
            found = hints.get(source)
            hint = f"; a range that repeats could serve: --step-regex '{found}'" if found else ""
            self.notices.append(Notice("no_steps", message + hint, 1, self.paths[source]))

    def _collectives(self) -> tuple[model.Collective, ...]:
        matched, notices = collectives.match(self.loaded)
        self.notices += notices
        self.notices += collectives.transient_notices(self.loaded)
        return tuple(_collective(group) for group in matched.partition_by("index", maintain_order=True))

    def _name_rules(self) -> tuple[model.NameRule, ...]:
        table = kernels.by_rule(self.inside).select("rule", "activity", "count", "time_ns", "share")
        return tuple(model.NameRule(*row) for row in table.iter_rows())

    def _totals(self, capacity: int) -> model.Totals:
        return model.Totals(
            chips=self.spans.height,
            capacity_ns=capacity,
            device_busy_ns=_busy_in(self.busy, self.spans),
            chip_seconds=capacity / 1e9,
            steps=int(self.windows.by_source["steps"].sum()),
        )

    def _quality(self, names: pl.DataFrame, judged: judging.Judged) -> model.Quality:
        linking = quality.measure_linking(quality.link(self.inside, self.calls), self.calls)
        self._notice_lost(quality.link(self.loaded.ops, self.calls))
        unknown = kernels.unknown(names)
        outside = quality.outside_ns(self.busy, self.spans.select("subject", "source", "start_ns", "end_ns"))
        carried = _share(linking.carry_over_ns, linking.total_ns)
        unlinked = None if linking.unlinked_ns is None else _share(linking.unlinked_ns, linking.total_ns)
        unknown_share = float(sum(unknown["share"]))
        letter, reasons = quality.grade(self.notices, unlinked, carried, unknown_share)
        return model.Quality(
            grade=letter,
            grade_reasons=tuple(reasons),
            windows=self._windows(outside),
            outside_window_ns=sum(outside["before_ns"]) + sum(outside["after_ns"]),
            carry_over_ns=linking.carry_over_ns,
            carry_over_share=carried,
            unlinked_share=unlinked,
            graph_share=_share(linking.graph_ns, linking.total_ns),
            unknown_name_share=unknown_share,
            unknown_names=_kernels(unknown.filter(pl.col("share") > kernels.NOTABLE)),
            profiler_overhead_ns=quality.overhead_ns(self.dataset, self.windows.by_source),
            shape_coverage=judged.modelled,
            linked_coverage=judged.linked_coverage,
        )

    def _notice_lost(self, linked: pl.DataFrame) -> None:
        for source, lost in quality.lost_records(linked, self.calls).items():
            message = f"{lost} launch calls have no device record, although later ones do"
            self.notices.append(Notice("device_records_lost", message, lost, self.paths[source]))

    def _windows(self, outside: pl.DataFrame) -> tuple[model.Window, ...]:
        chips = self.spans.group_by("source").agg(chips=pl.len())
        rows = self.windows.by_source.join(chips, on="source").join(outside, on="source").sort("source")
        names = ("basis", "start_ns", "end_ns", "chips", "steps", "before_ns", "after_ns")
        return tuple(
            model.Window(source=self.paths[row["source"]], **{name: row[name] for name in names})
            for row in rows.iter_rows(named=True)
        )

    def _basis(self) -> str:
        bases = sorted(set(self.windows.by_source["basis"]))
        used = self.loaded.sources.join(self.windows.by_source, on="source", how="semi")
        ranks = used["rank"].count()
        world = used["world_size"].max()
        of = f" of {world}" if isinstance(world, int) and world > ranks else ""
        what = ("rank" if ranks else "file") + ("s" if of or used.height != 1 else "")
        return (
            f"profiled window ({' and '.join(bases)}) of {ranks or used.height}{of if ranks else ''} {what}"
        )


def _inside(ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The records that lie in their source's window, cut to it."""
    clipped = intervals.clip(
        ops.select(INSIDE_COLUMNS), spans.select("subject", "start_ns", "end_ns"), ["subject"]
    )
    return clipped.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns"))


def _capacity(spans: pl.DataFrame) -> int:
    return sum(spans["end_ns"] - spans["start_ns"])  # in Python's integers: many devices exceed 64 bits


def _busy_in(busy: pl.DataFrame, spans: pl.DataFrame) -> int:
    inside = intervals.clip(busy, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    return int(intervals.total(inside, ["subject"])["length_ns"].sum())


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _ledger_rows(rolled: ledger.Rolled) -> tuple[model.LedgerRow, ...]:
    taxonomy = load_taxonomy()
    return tuple(
        model.LedgerRow(
            layer=total.layer,
            cause=total.cause,
            label=taxonomy.cause(total.cause).label,
            chip_ns=total.chip_ns,
            share=_share(total.chip_ns, rolled.capacity_ns),
            origin=total.origin,
        )
        for total in rolled.by_cause
    )


def _kernels(table: pl.DataFrame) -> tuple[model.Kernel, ...]:
    columns = ("name", "kind", "family", "count", "time_ns", "mean_ns", "max_ns", "share")
    return tuple(model.Kernel(**row) for row in table.select(columns).iter_rows(named=True))


def _collective(group: pl.DataFrame) -> model.Collective:
    waits = dict(group.select("rank", "wait_ns").iter_rows())
    by_arrival = sorted(waits, key=lambda rank: (waits[rank], rank))
    first = group.row(0, named=True)
    return model.Collective(
        index=first["index"],
        name=first["short"],
        group=first["group"],
        seq=first["seq"],
        matched_by=first["matched_by"],
        transfer_ns=first["transfer_ns"],
        wait_ns={str(rank): wait for rank, wait in waits.items()},
        last_rank=by_arrival[0],
        margin_ns=waits[by_arrival[1]],
        bytes=first["bytes"],
    )
