"""How far the figures can be trusted, and what was odd about the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Facts, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, brief, fleet_only, table
from mpg_cli.report.sections.kernels import kernel_table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import duration, number, percent, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_cli.report.model import NameRule, Report, Warning, Window  # noqa: A004 - the model's own word

SHOWN_FIRST = 2  # reasons of the grade in the verdict
_MOST_WINDOWS = 4
_MOST_NAMES = 5
_MOST_RULES = 8
_MOST_WARNINGS = 20


def section(report: Report, *, detail: bool) -> Section:
    """The grade with its reasons and the figures behind it."""
    if fleet_only(report):  # the figures below are of devices; the first reasons are in the verdict
        more_reasons = detail or len(report.quality.grade_reasons) > SHOWN_FIRST
        return Section("How far to trust this", (Facts(tuple(_grade(report))),)) if more_reasons else EMPTY
    blocks: list[Block] = [Facts((*_grade(report), *_windows(report, detail=detail), *_shares(report)))]
    if report.name_rules:
        blocks += _rules(report.name_rules, detail=detail)
    if names := report.quality.unknown_names:
        blocks.append(Line("Kernels that no rule recognises:"))
        blocks.append(kernel_table(names if detail else names[:_MOST_NAMES]))
        blocks += _more(len(names), _MOST_NAMES, "name", detail=detail)
    return Section("How far to trust this", tuple(blocks))


def _grade(report: Report) -> list[tuple[str, str]]:
    reasons = " · ".join(cut(reason, 200) for reason in report.quality.grade_reasons[:8])
    return [("grade", " · ".join(part for part in (report.quality.grade or NONE, reasons) if part))]


def _windows(report: Report, *, detail: bool) -> Iterator[tuple[str, str]]:
    windows = report.quality.windows
    shown = windows if detail or len(windows) <= _MOST_WINDOWS else ()
    for window in shown:
        yield "window", _window(window)
    if len(windows) > len(shown):
        yield "window", f"{plural(len(windows), 'window')}; each is in the JSON report"


def _window(window: Window) -> str:
    what = plural(window.steps, "step") if window.basis == "steps" else cut(window.basis, 60) or NONE
    length = f"{duration(window.end_ns - window.start_ns)} × {plural(window.chips, 'chip')}"
    text = f"{brief(window.source, 40)}: {what}, {length}"
    if not window.before_ns and not window.after_ns:
        return text
    left_out = f"{duration(window.before_ns)} before and {duration(window.after_ns)} after it"
    return f"{text}; device activity left out: {left_out}"


def _shares(report: Report) -> Iterator[tuple[str, str]]:
    quality = report.quality
    yield "left out", f"{duration(quality.outside_window_ns)} of device activity lies outside the windows"
    carried = f"{duration(quality.carry_over_ns)}, {percent(quality.carry_over_share)} of device time"
    yield "carried in", f"{carried}, is work from before the window"
    yield (
        "unlinked",
        _of_time(quality.unlinked_share, "has no launch call", "the trace records no launch calls"),
    )
    yield "graphs", f"{percent(quality.graph_share)} of device time was launched by a graph replay"
    yield (
        "unknown",
        f"{percent(quality.unknown_name_share)} of device time has a name that no rule recognises",
    )
    yield "profiler", f"{duration(quality.profiler_overhead_ns)} of profiler overhead inside the windows"
    yield "models", _models(report)


def _models(report: Report) -> str:
    """How much of computing PG is told from, and how its kernels were matched with operators."""
    covered, linked = report.quality.shape_coverage, report.quality.linked_coverage
    if covered is None:
        reasons = report.goodput.reasons
        whole = "FLOPs are known of the whole, not by operator"
        basis = report.goodput.pg.basis if report.goodput.pg else ""
        known = whole if "FLOPs" in basis else "operand shapes were not looked at"
        return f"{NONE} {cut(reasons.get('pg') or known, 200)}"
    counted = sum(op.share for op in report.ops if op.flops_source == "measured")
    if counted:
        return f"FLOPs are known for {percent(covered)} of computing time, for {percent(counted)} by Nsight Compute"
    text = f"FLOP models cover {percent(covered)} of computing time"
    if linked is None or report.xla is not None:
        return text
    if covered - linked < 0.0005:
        return f"{text}, all by a launch in the file"
    return f"{text} ({percent(linked)} by a launch in the file, the rest matched by neighbouring kernels)"


def _of_time(share: float | None, text: str, reason: str) -> str:
    return f"{NONE} {reason}" if share is None else f"{percent(share)} of device time {text}"


def _rules(rules: Sequence[NameRule], *, detail: bool) -> list[Block]:
    ordered = sorted(rules, key=lambda rule: -rule.time_ns)
    time = scale(rule.time_ns for rule in ordered)
    shown: Table = table(
        (
            (Column(f"time\n({time.unit})"), lambda rule: time.cell(rule.time_ns)),
            (Column("share\n%"), lambda rule: tenths(rule.share)),
            (Column("count"), lambda rule: number(rule.count)),
            (Column("kind", "left", least=8), lambda rule: rule.kind or NONE),
            (Column("recognised by", "left", code=True, least=16), lambda rule: rule.rule or NONE),
        ),
        ordered if detail else ordered[:_MOST_RULES],
    )
    return [shown, *_more(len(ordered), _MOST_RULES, "rule", detail=detail)]


def _more(count: int, most: int, noun: str, *, detail: bool) -> list[Block]:
    return [] if detail or count <= most else [Line(f"{plural(count - most, f'more {noun}')}.", "dim")]


def warnings(report: Report, *, detail: bool) -> Section:
    """Every kind of warning once per message, with how often and where."""
    told = _told(report)
    grouped: dict[tuple[str, str], list[Warning]] = {}
    for warning in report.warnings:
        if (warning.kind, warning.message) not in told:
            grouped.setdefault((warning.kind, warning.message), []).append(warning)
    if not grouped:
        return EMPTY
    items = [(kind.strip() or NONE, _warning(message, found)) for (kind, message), found in grouped.items()]
    most = len(items) if detail else _MOST_WARNINGS
    more = _more(len(items), most, "warning", detail=detail)
    return Section("Warnings", (Facts(tuple(items[:most])), *more))


def _told(report: Report) -> set[tuple[str, str]]:
    """What is said of a fleet's records already, and lost attempts, which are counted there."""
    if report.scheduling is None:
        return set()
    return {(one.kind, one.message) for one in report.scheduling.integrity}


def _warning(message: str, found: Sequence[Warning]) -> str:
    count = sum(warning.count for warning in found)
    sources = sorted({warning.source for warning in found if warning.source})
    where = brief(sources[0]) if len(sources) == 1 else plural(len(sources), "file")
    times = f" (×{count:,})" if count != 1 else ""
    return f"{cut(message, 350)}{times}" + (f" [{where}]" if sources else "")
