"""A dataset of traces into the report: every figure of the report is computed from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mpg_cli import __version__
from mpg_cli.goodput import activity as activities
from mpg_cli.goodput import collectives, intervals, kernels, ledger, quality, runtime
from mpg_cli.goodput.activity import Activity
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.goodput.windows import Windows, find_steps, find_windows
from mpg_cli.ingest import rank_from_name, source_notices
from mpg_cli.report import model
from mpg_cli.store import Dataset
from mpg_parsers.errors import InputError, Notice

GRAPH_ROW_LIMIT = 0.01  # share of the window above which graph-level rows make RG unknowable


@dataclass(frozen=True)
class AnalysisOptions:
    """window: steps, device or all; view: of the taxonomy; step_regex: names the steps; rules: on kernel names."""

    window: str = "steps"
    view: str = "default"
    step_regex: str | None = None
    rules: NameRules | None = None


def analyze(dataset: Dataset, options: AnalysisOptions, notices: Sequence[Notice] = ()) -> model.Report:
    """The report on a dataset. Raises InputError: duplicate_rank, no_device_activity, device_records_lost."""
    noticed = list(notices)
    sources = _sources(dataset, noticed)
    calls = quality.launches(dataset)
    loaded = activities.load(dataset, sources, options.rules or NameRules.load())
    _refuse_no_activity(loaded, calls, dataset)
    steps = find_steps(dataset, options.step_regex)
    windows = find_windows(loaded, steps, options.window)
    return _Analysis(dataset, loaded, windows, calls, options, noticed).report()


def _sources(dataset: Dataset, notices: list[Notice]) -> pl.DataFrame:
    """The sources table, ranks filled in from file names."""
    sources = dataset.scan("sources").collect().sort("source")
    notices += source_notices(sources)
    ranks = []
    for path, stated in sources.select("path", "rank").iter_rows():
        rank = rank_from_name(path) if stated is None else stated
        if stated is None and rank is not None:
            message = f"no distributedInfo in the file: rank{rank} is taken from the file's name"
            notices.append(Notice("rank_from_name", message, 1, path))
        ranks.append(rank)
    sources = sources.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
    _check_ranks(sources, notices)
    return sources


def _check_ranks(sources: pl.DataFrame, notices: list[Notice]) -> None:
    ranked = sources.filter(pl.col("rank").is_not_null())
    twice = ranked.filter(pl.len().over("rank") > 1).sort("rank", "path")
    if twice.height:
        rank = twice["rank"][0]
        paths = twice.filter(pl.col("rank") == rank)["path"].to_list()
        hint = "give each rank once, or analyse the files one at a time"
        raise InputError("duplicate_rank", paths[0], f"rank {rank} is also in {', '.join(paths[1:4])}", hint=hint)
    world = ranked["world_size"].max()
    have = set(ranked["rank"])
    if isinstance(world, int) and 0 < len(have) < world:
        missing = [str(rank) for rank in range(min(world, 100_000)) if rank not in have]
        listed = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        message = f"{world - len(have)} of {world} ranks are not among the files: {listed}"
        notices.append(Notice("missing_rank", message, world - len(have)))


def _refuse_no_activity(loaded: Activity, calls: pl.DataFrame, dataset: Dataset) -> None:
    if loaded.ops.height:
        return
    path = loaded.sources["path"][0]
    if calls.height:
        message = f"the host made {calls.height} launch calls, but every device record of them is missing"
        hint = "the profiler dropped them (buffer overflow, wrong time range): record fewer steps, or upgrade Kineto"
        raise InputError("device_records_lost", path, message, hint=hint)
    ranges = dataset.scan("steps").select(pl.len()).collect().item()
    message = f"no device activity in the trace (host events only, {ranges} steps)"
    hint = "profile with ProfilerActivity.CUDA (or XPU) on the machine with the accelerator"
    raise InputError("no_device_activity", path, message, hint=hint)


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
        self.spans = loaded.subjects.select("subject", "source").join(windows.by_source, on="source").sort("subject")
        self.inside = _inside(loaded.ops, self.spans)
        self.paths = dict(loaded.sources.select("source", "path").iter_rows())
        self.ranks = dict(loaded.sources.select("source", "rank").iter_rows())

    def report(self) -> model.Report:
        resolution = runtime.resolve_windows(self.loaded, self.busy, self.windows.by_source)
        rows, capacity = resolution.rows, _capacity(self.spans)
        ledger.check_closed(rows, capacity)
        rolled = ledger.roll(rows, load_taxonomy(), self.options.view)
        steps = self._steps()
        found = self._collectives()
        self._notice_steps(steps)
        names = kernels.by_name(self.inside)
        trust = self._quality(names)
        return model.Report(
            sources=self._sources(),
            warnings=tuple(model.Warning(n.kind, n.message, n.count, n.source) for n in self.notices),
            devices=self._devices(),
            steps=steps,
            collectives=found,
            goodput=self._goodput(rolled),
            ledger=_ledger_rows(rolled),
            kernels=_kernels(names.head(kernels.TOP)),
            name_rules=self._name_rules(),
            totals=self._totals(capacity),
            quality=trust,
            mpg_version=__version__,
        )

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
        figures = runtime.step_figures(self.loaded, self.busy, self.windows.steps)
        rows = figures.join(self.loaded.subjects.select("subject", "device"), on="subject").sort("_step", "subject")
        names = ("device", "wall_ns", "busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns")
        return tuple(
            model.Step(
                source=self.paths[row["source"]],
                rank=self.ranks[row["source"]],
                step=row["name"] if row["step"] is None else row["step"],
                **{name: row[name] for name in names},
            )
            for row in rows.iter_rows(named=True)
        )

    def _notice_steps(self, steps: Sequence[model.Step]) -> None:
        without = sorted(
            {self.paths[s] for s, n in self.windows.by_source.select("source", "steps").iter_rows() if n == 0}
        )
        for path in without:
            message = "no ProfilerStep ranges: the window is the hull of the device activity"
            hint = self._step_hint()
            self.notices.append(Notice("no_steps", message + hint, 1, path))
        by_step: dict[tuple[str, int | str], int] = {}
        for step in steps:
            key = step.source, step.step
            by_step[key] = by_step.get(key, 0) + step.busy_ns
        empty = sum(busy == 0 for busy in by_step.values())
        if empty:
            message = f"{empty} of {len(by_step)} steps have no device activity at all"
            self.notices.append(Notice("steps_without_device_work", message, empty))

    def _step_hint(self) -> str:
        name = _repeated_range(self.dataset)
        return f"; {name!r} repeats and could serve: --step-regex" if name else ""

    def _collectives(self) -> tuple[model.Collective, ...]:
        matched, notices = collectives.match(self.loaded)
        self.notices += notices
        self.notices += collectives.transient_notices(self.loaded)
        groups = matched.partition_by("index", maintain_order=True)
        return tuple(_collective(group) for group in groups)

    def _name_rules(self) -> tuple[model.NameRule, ...]:
        table = kernels.by_rule(self.inside)
        return tuple(
            model.NameRule(rule, kind, count, time, share)
            for rule, kind, count, time, share in table.select(
                "rule", "activity", "count", "time_ns", "share"
            ).iter_rows()
        )

    def _totals(self, capacity: int) -> model.Totals:
        return model.Totals(
            chips=self.spans.height,
            capacity_ns=capacity,
            device_busy_ns=_busy_in(self.busy, self.spans),
            chip_seconds=capacity / 1e9,
            steps=len({(s, n) for s, n in self.windows.steps.select("source", "start_ns").iter_rows()}),
        )

    def _quality(self, names: pl.DataFrame) -> model.Quality:
        linked = quality.link(self.inside, self.calls)
        linking = quality.measure_linking(linked, self.calls)
        self._notice_lost(quality.link(self.loaded.ops, self.calls))
        unknown = kernels.unknown(names)
        outside = quality.outside_ns(self.busy, self.spans.select("subject", "source", "start_ns", "end_ns"))
        shares = [_share(ns, linking.total_ns) for ns in (linking.carry_over_ns, linking.graph_ns)]
        unlinked = None if linking.unlinked_ns is None else _share(linking.unlinked_ns, linking.total_ns)
        unknown_share = float(unknown["share"].sum())
        letter, reasons = quality.grade(self.notices, unlinked, shares[0], unknown_share)
        return model.Quality(
            grade=letter,
            grade_reasons=tuple(reasons),
            windows=self._windows(outside),
            outside_window_ns=int(outside["before_ns"].sum() + outside["after_ns"].sum()),
            carry_over_ns=linking.carry_over_ns,
            carry_over_share=shares[0],
            unlinked_share=unlinked,
            graph_share=shares[1],
            unknown_name_share=unknown_share,
            unknown_names=_kernels(unknown.filter(pl.col("share") > kernels.NOTABLE)),
            profiler_overhead_ns=quality.overhead_ns(self.dataset, self.windows.by_source),
            shape_coverage=None,
        )

    def _notice_lost(self, linked: pl.DataFrame) -> None:
        if lost := quality.lost_records(linked, self.calls):
            message = f"{lost} launch calls have no device record, although later ones do"
            self.notices.append(Notice("device_records_lost", message, lost))

    def _windows(self, outside: pl.DataFrame) -> tuple[model.Window, ...]:
        chips = self.spans.group_by("source").agg(chips=pl.len())
        rows = self.windows.by_source.join(chips, on="source").join(outside, on="source", how="left").sort("source")
        names = ("basis", "start_ns", "end_ns", "chips", "steps", "before_ns", "after_ns")
        return tuple(
            model.Window(source=self.paths[row["source"]], **{name: row[name] for name in names})
            for row in rows.iter_rows(named=True)
        )

    def _goodput(self, rolled: ledger.Rolled) -> model.Goodput:
        reasons = {
            "sg": "needs a scheduler log; only traces were given",
            "pg": "needs the FLOPs of the operators, which this version does not model",
            "mpg": "needs SG and PG",
            "mfu": "needs the FLOPs of the operators",
            "hfu": "needs the FLOPs of the operators",
        }
        total = rolled.allocated_ns
        other = sum(t.chip_ns for t in rolled.by_cause if t.cause == "unclassified_busy")
        if not total:
            reasons["rg"] = "the window is empty"
            return model.Goodput(None, None, None, None, view=self.options.view, reasons=reasons)
        if other > GRAPH_ROW_LIMIT * total:
            reasons["rg"] = f"{100 * other / total:.1f} % of the window is graph-level rows: what ran is not recorded"
            low, high = rolled.productive_ns / total, (rolled.productive_ns + other) / total
            return model.Goodput(
                None, None, None, None, rg_min=low, rg_max=high, view=self.options.view, reasons=reasons
            )
        rg = model.Ratio(rolled.productive_ns / total, rolled.productive_ns, total, self._basis(), 1.0)
        return model.Goodput(None, rg, None, None, view=self.options.view, reasons=reasons)

    def _basis(self) -> str:
        bases = sorted(set(self.windows.by_source["basis"]))
        ranks = sum(rank is not None for rank in self.ranks.values())
        world = self.loaded.sources["world_size"].max()
        of = f" of {world}" if isinstance(world, int) and world > ranks > 0 else ""
        files = f"{ranks}{of} ranks" if ranks else f"{len(self.ranks)} files"
        return f"profiled window ({' and '.join(bases)}) of {files}"


def _inside(ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The records that lie in their source's window, cut to it."""
    clipped = intervals.clip(ops, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    return clipped.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns"))


def _capacity(spans: pl.DataFrame) -> int:
    return int((spans["end_ns"] - spans["start_ns"]).sum())


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
    waits = {str(rank): wait for rank, wait in group.select("rank", "wait_ns").iter_rows()}
    ordered = sorted((wait, rank) for rank, wait in group.select("rank", "wait_ns").iter_rows())
    first = group.row(0, named=True)
    return model.Collective(
        index=first["index"],
        name=first["short"],
        group=first["group"],
        seq=first["seq"],
        matched_by=first["matched_by"],
        transfer_ns=first["transfer_ns"],
        wait_ns=waits,
        last_rank=ordered[0][1],
        margin_ns=ordered[1][0],
    )


def _repeated_range(dataset: Dataset) -> str | None:
    """The host range that covers most time among those that repeat: a hint for --step-regex."""
    ranges = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "annotation") | pl.col("name").str.starts_with("nn.Module: "))
        .group_by("name")
        .agg(n=pl.len(), total=pl.col("dur_ns").sum())
        .filter((pl.col("n") > 1) & ~pl.col("name").str.contains("dataloader|optimizer|(?i)profilerstep"))
        .sort("total", "name", descending=[True, False])
        .head(1)
        .collect()
    )
    return str(ranges["name"][0])[:80] if ranges.height else None
