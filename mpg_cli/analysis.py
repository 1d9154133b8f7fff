"""A dataset of traces into the report: every figure of the report is computed from here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli import __version__, diagnosis, findings, hardware
from mpg_cli.checks import check_sums
from mpg_cli.goodput import activity as activities
from mpg_cli.goodput import (
    attribution,
    breakdown,
    collectives,
    dashboard,
    inference,
    intervals,
    judging,
    kernels,
    ledger,
    quality,
    runtime,
    steps,
    witness,
    xla,
)
from mpg_cli.goodput.idle import IdleRules
from mpg_cli.goodput.models import Models
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.goodput.windows import Windows, find_steps, find_windows, missing_steps
from mpg_cli.ratios import goodput, mfu_of_a_step
from mpg_cli.report import model
from mpg_cli.rows import account as account_rows
from mpg_cli.rows import communication as communication_rows
from mpg_cli.rows import idle as idle_rows
from mpg_cli.rows import operators as operator_rows
from mpg_cli.rows import program as program_rows
from mpg_cli.rows import steps as step_rows
from mpg_cli.rows import xla as xla_rows
from mpg_cli.rows.account import share
from mpg_cli.scheduler import records
from mpg_cli.silent import as_notice, no_activity
from mpg_cli.sources import load_sources
from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

INSIDE_COLUMNS = (
    "subject", "source", "start_ns", "end_ns", "kind", "name", "activity", "family", "rule",
    "correlation", "external_id", "graph_node", "bytes", "blocks_per_sm",
)  # fmt: skip


@dataclass(frozen=True)
class AnalysisOptions:
    """window: steps, device or all; view: of the taxonomy; step_regex: names steps; rules: on kernels; program:
    how computing time is judged, None for the shipped catalogue and models; idle_rules: on host events; price: of
    chip-time in findings; per_step: the account of every step; by: breakdowns of device time.
    """

    window: str = "steps"
    view: str = "default"
    step_regex: str | None = None
    rules: NameRules | None = None
    program: judging.ProgramOptions | None = None
    idle_rules: IdleRules | None = None
    price: model.Price | None = None
    per_step: bool = False
    by: tuple[str, ...] = ()


def analyze(dataset: Dataset, options: AnalysisOptions) -> model.Report:
    """The report on a dataset.

    Raises InputError: duplicate_rank, no_device_activity, device_records_lost; UsageError for a bad pattern.
    """
    sources, notices = load_sources(dataset)
    sources = sources.filter(~pl.col("format").str.contains(records.PATTERN))
    calls = quality.launches(dataset)
    loaded = activities.load(dataset, sources, options.rules or NameRules.load())
    without = _without_activity(loaded, calls, dataset)
    if loaded.ops.is_empty():
        raise without[0]
    found = find_steps(dataset, options.step_regex)
    windows = find_windows(loaded, found, options.window)
    profiles = dataset.scan("kernel_counters").select("source").unique().collect()
    # profiles of kernels have no timeline of their own
    timeless = set(sources.join(profiles, on="source", how="semi")["path"])
    notices = [*dataset.notices, *notices, *(as_notice(e) for e in without if e.path not in timeless)]
    return _Analysis(dataset, loaded, windows, calls, options, notices).report()


def _without_activity(loaded: Activity, calls: pl.DataFrame, dataset: Dataset) -> list[InputError]:
    """What to say of each source without any device activity: an error if that is all of them."""
    silent = loaded.sources.join(loaded.ops, on="source", how="anti").sort("source")
    steps = dict(dataset.scan("steps").group_by("source").len().collect().iter_rows())
    launched = dict(calls.group_by("source").len().iter_rows())
    return [
        no_activity(path, form, launched.get(source, 0), steps.get(source, 0))
        for source, path, form in silent.select("source", "path", "format").iter_rows()
    ]


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
        self.dataset, self.windows, self.calls = dataset, windows, calls
        self.loaded = collectives.with_callers(loaded, dataset)
        self.options, self.notices = options, notices
        self.busy = runtime.busy_intervals(loaded.ops)
        self.spans = windows.of(loaded.subjects)
        self.inside = _inside(self.loaded.ops, self.spans)
        self.paths = dict(loaded.sources.select("source", "path").iter_rows())
        self.ranks = dict(loaded.sources.select("source", "rank").iter_rows())
        check_sums(loaded.ops, self.spans, self.paths)

    def report(self) -> model.Report:
        matched = self._match()
        account = self._attribute(matched)
        capacity = _capacity(self.spans)
        judged = self._judge()
        rows = _with_program(account.rows, judged, capacity)
        rolled = ledger.roll(rows, load_taxonomy(), self.options.view)
        names = kernels.by_name(self.inside)
        listed = self._listed_steps()
        by_step = steps.by_cause(account.segments, listed, self.loaded.subjects)
        summary = collectives.summarise(self.loaded, matched, self.busy, self.windows, account.segments)
        figures = runtime.step_figures(self.loaded, self.busy, listed)
        spread = step_rows.step_spread(by_step)
        ratios = goodput(rolled, self._basis(), self.options.view, judged)
        of_step = mfu_of_a_step(ratios, spread, int(self.spans["steps"].sum()))
        ratios = replace(ratios, mfu_step=of_step)
        counted = witness.measure(self.dataset, self.loaded, self.spans, self.busy)
        report = model.Report(
            sources=account_rows.source_rows(self.loaded),
            devices=account_rows.device_rows(self.loaded, self.busy, self.paths, self.ranks),
            steps=step_rows.step_rows(figures, self.loaded.subjects, self.paths, self.ranks),
            collectives=communication_rows.collective_rows(summary),
            communicators=self._communicators(matched, summary),
            goodput=ratios,
            ledger=account_rows.ledger_rows(rolled),
            hotspots=self._hotspots(account, capacity),
            kernels=account_rows.kernel_rows(names.head(kernels.TOP)),
            name_rules=account_rows.name_rule_rows(self.inside),
            totals=self._totals(capacity),
            quality=self._quality(names, judged),
            ops=operator_rows.operator_rows(judged.ops),
            unmodelled=operator_rows.unmodelled_rows(judged.unmodelled),
            rooflines=tuple(model.Roofline(*ceiling) for ceiling in judged.ceilings),
            profiled=program_rows.profiled_rows(judged.profiled),
            witness=program_rows.witness_row(counted, ratios, judged, self.paths, self.ranks),
            dashboard=step_rows.dashboard(dashboard.measure(self.dataset, self.loaded, self.spans)),
            step_spread=spread,
            outliers=step_rows.step_outliers(by_step, self.paths, self.ranks),
            per_step=step_rows.step_ledgers(by_step, self.paths, self.ranks) if self.options.per_step else (),
            inference=self._inference(),
            breakdown=self._breakdowns(),
            segments=self._segments(rows),
            xla=xla_rows.xla(xla.measure(self.dataset, self.loaded)),
            price=self.options.price,
            warnings=(),
            mpg_version=__version__,
        )
        found = self._findings(report, account, matched)
        warnings = tuple(model.Warning(n.kind, n.message, n.count, n.source) for n in self.notices)
        return replace(report, findings=found, warnings=warnings)

    def _match(self) -> pl.DataFrame:
        """The collectives that could be matched over the ranks."""
        matched, notices = collectives.match(self.loaded)
        self.notices += notices
        self.notices += collectives.transient_notices(self.loaded)
        return matched

    def _attribute(self, matched: pl.DataFrame) -> attribution.Attribution:
        claims = runtime.claims(self.busy, collectives.claims(self.loaded, matched))
        rules = self.options.idle_rules or IdleRules.load()
        return attribution.attribute(self.dataset, self.loaded, claims, self.spans, self.windows.steps, rules)

    def _judge(self) -> judging.Judged:
        options = self.options.program or judging.ProgramOptions(hardware.load(), Models.load())
        judged = judging.judge(self.dataset, self.loaded, self.spans, options)
        self.notices += judged.notices
        return judged

    def _communicators(self, matched: pl.DataFrame, summary: pl.DataFrame) -> tuple[model.Communicator, ...]:
        table = collectives.communicators(self.loaded, matched, summary, self.busy, self.spans)
        return communication_rows.communicator_rows(table)

    def _hotspots(self, account: attribution.Attribution, capacity: int) -> tuple[model.Hotspot, ...]:
        owners = self.loaded.subjects.select("subject", "source")
        idle = account.idle.join(owners, on="subject", maintain_order="left")
        return idle_rows.hotspot_rows(idle, account.evidence, capacity, self.paths, self.ranks)

    def _inference(self) -> tuple[model.InferenceStep, ...]:
        return step_rows.inference_steps(inference.steps(self.dataset, self.loaded), self.paths, self.ranks)

    def _breakdowns(self) -> tuple[model.Breakdown, ...]:
        wanted = (by for by in self.options.by if by in breakdown.BREAKDOWNS)
        return tuple(
            row
            for by in wanted
            for row in step_rows.breakdown_rows(
                by, breakdown.break_down(by, self.dataset, self.loaded, self.spans)
            )
        )

    def _segments(self, rows: pl.DataFrame) -> tuple[model.Segment, ...]:
        if "rank" not in self.options.by:
            return ()
        return step_rows.rank_segments(
            breakdown.by_rank(rows, self.loaded, load_taxonomy(), self.options.view)
        )

    def _findings(
        self, report: model.Report, account: attribution.Attribution, matched: pl.DataFrame
    ) -> tuple[model.Finding, ...]:
        facts = diagnosis.gather(report, self.loaded, account, matched, self.inside, self.windows.steps)
        return findings.find(facts, self.options.price)

    def _listed_steps(self) -> pl.DataFrame:
        listed = runtime.listed_steps(self.windows.steps, self.loaded.subjects)
        self._notice_steps(listed.height)
        return listed

    def _notice_steps(self, listed: int) -> None:
        if self.options.window == "steps":
            pattern = self.options.step_regex
            self.notices += missing_steps(self.dataset, self.windows, self.loaded.sources, pattern)
        counts = runtime.idle_steps(self.loaded, self.busy, self.windows.steps)
        for source, total, idle in counts.filter(pl.col("idle") > 0).iter_rows():
            message = f"{idle} of {total} steps have no device activity at all"
            self.notices.append(Notice("steps_without_device_work", message, idle, self.paths[source]))
        left = sum(counts["total"]) - listed
        if left:
            message = f"only the first {listed} steps are listed, not {left} more: too many devices and steps"
            self.notices.append(Notice("steps_not_listed", message, left))

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
        carried = share(linking.carry_over_ns, linking.total_ns)
        unlinked = None if linking.unlinked_ns is None else share(linking.unlinked_ns, linking.total_ns)
        unknown_share = float(sum(unknown["share"]))
        letter, reasons = quality.grade(self.notices, unlinked, carried, unknown_share)
        return model.Quality(
            grade=letter,
            grade_reasons=tuple(reasons),
            windows=account_rows.window_rows(self.spans, outside, self.paths),
            outside_window_ns=sum(outside["before_ns"]) + sum(outside["after_ns"]),
            carry_over_ns=linking.carry_over_ns,
            carry_over_share=carried,
            unlinked_share=unlinked,
            graph_share=share(linking.graph_ns, linking.total_ns),
            unknown_name_share=unknown_share,
            unknown_names=account_rows.kernel_rows(unknown.filter(pl.col("share") > kernels.NOTABLE)),
            profiler_overhead_ns=quality.overhead_ns(self.dataset, self.windows.by_source),
            shape_coverage=judged.modelled,
            linked_coverage=judged.linked_coverage,
        )

    def _notice_lost(self, linked: pl.DataFrame) -> None:
        for source, lost in quality.lost_records(linked, self.calls).items():
            message = f"{lost} launch calls have no device record, although later ones do"
            self.notices.append(Notice("device_records_lost", message, lost, self.paths[source]))

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


def _with_program(rows: pl.DataFrame, judged: judging.Judged, capacity: int) -> pl.DataFrame:
    """The rows of the ledger with computing time split, as far as it could be judged; they sum to `capacity`."""
    ledger.check_closed(rows, capacity)
    if judged.rows is None:
        return rows
    refined = ledger.refine(rows, "productive", judged.rows)
    ledger.check_closed(refined.faults.rename({"excess_ns": "chip_ns"}), 0)
    ledger.check_closed(refined.rows, capacity)
    return refined.rows


def _inside(ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The records that lie in their source's window, cut to it."""
    clipped = intervals.clip(
        ops.select(*INSIDE_COLUMNS, *(name for name in ("part",) if name in ops.columns)),
        spans.select("subject", "start_ns", "end_ns"),
        ["subject"],
    )
    return clipped.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns"))


def _capacity(spans: pl.DataFrame) -> int:
    return sum(spans["end_ns"] - spans["start_ns"])  # in Python's integers: many devices exceed 64 bits


def _busy_in(busy: pl.DataFrame, spans: pl.DataFrame) -> int:
    inside = intervals.clip(busy, spans.select("subject", "start_ns", "end_ns"), ["subject"])
    return int(intervals.total(inside, ["subject"])["length_ns"].sum())
