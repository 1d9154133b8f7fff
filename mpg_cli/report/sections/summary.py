"""The first lines: what was read, and which stretch of it is accounted for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Line, Section
from mpg_cli.report.sections.common import brief, fleet_only, ranks
from mpg_cli.report.sections.scheduling.common import chip_time
from mpg_cli.report.sections.scheduling.known import fleet_window, of_fleet
from mpg_cli.report.text import cut, plural, ranges
from mpg_cli.report.units import duration, scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_cli.report.model import Report, Scheduling, Window


def header(report: Report, *, detail: bool) -> Section:
    """What was read and which stretch of it is accounted for."""
    del detail
    title = f"mpg {report.mpg_version}".strip()
    read = " · ".join((title, _files(report), *_setting(report)))
    window = " · ".join(window_facts(report))
    fleet = (
        []
        if report.scheduling is None or fleet_only(report)
        else [Line(f"fleet: {' · '.join(_fleet(report))}")]
    )
    return Section("", (Line(read, "strong"), Line(f"window: {window}"), *fleet))


def _files(report: Report) -> str:
    paths = [source.path for source in report.sources]
    if len(paths) <= 1:
        return brief(paths[0]) if paths else "no file"
    common = _folder(paths)
    return f"{plural(len(paths), 'file')} in {brief(common)}" if common else plural(len(paths), "file")


def _folder(paths: list[str]) -> str:
    first, last = min(paths), max(paths)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[: first.rfind("/", 0, same) + 1]


def _setting(report: Report) -> Iterator[str]:
    made_by = {source.framework or source.format for source in report.sources}
    yield from sorted(cut(name, 40) for name in made_by if name)[:4]
    if text := _ranks(report):
        yield text
    if not fleet_only(report):
        yield _devices(report)
    elif report.scheduling is not None:
        yield from of_fleet(report.scheduling)


def _ranks(report: Report) -> str:
    seen = ranks(report)
    world = max((source.world_size or 0 for source in report.sources), default=0)
    if not seen:
        return ""
    word = "rank" if len(seen) == 1 else "ranks"
    return f"{word} {ranges(seen)} of {world}" if world > len(seen) else f"{word} {ranges(seen)}"


def _devices(report: Report) -> str:
    names = Counter(device.name or "unnamed device" for device in report.devices)
    shown = [f"{count} × {cut(name, 40)}" for name, count in names.most_common(3)]
    more = [f"{len(names) - 3} more models"] if len(names) > 3 else []
    return ", ".join(shown + more) or "no device activity"


def window_facts(report: Report) -> list[str]:
    """Which steps or stretch, how long per chip, and how much chip-time that is."""
    windows = report.quality.windows
    if fleet_only(report) and report.scheduling is not None:
        return [*fleet_window(report.scheduling), _fleet_total(report, report.scheduling)]
    if not windows:
        return ["none: there is no chip-time to account for"]
    total = report.totals.capacity_ns
    return [_stretch(report, windows), f"{_length(windows)} per chip", _capacity(total)]


def _fleet(report: Report) -> Iterator[str]:
    """The fleet beside which the traces were read."""
    if report.scheduling is not None:
        yield from (*of_fleet(report.scheduling), *fleet_window(report.scheduling))
        yield "the account is that of the traces"


def _fleet_total(report: Report, found: Scheduling) -> str:
    if report.totals.capacity_ns:
        return _capacity(report.totals.capacity_ns)
    return f"capacity not known; {chip_time(found.claimed_ns)} held by jobs"


def _capacity(chip_ns: int) -> str:
    fit = scale([chip_ns])
    return f"{fit.cell(chip_ns)} chip-{fit.unit} in all"


def _stretch(report: Report, windows: tuple[Window, ...]) -> str:
    bases = Counter(window.basis for window in windows)
    stretch = f"{_basis(windows[0].basis)}{_why_no_steps(report)}"
    first = step_range(report) if "steps" in bases else stretch
    return f"{first}, not the same in all files" if len(bases) > 1 else first


def _basis(basis: str) -> str:
    return cut(basis, 60) or "all recorded device activity"


def _why_no_steps(report: Report) -> str:
    reason = report.goodput.reasons.get("window", "")
    if reason:
        return f" ({cut(reason, 200)})"
    return " (no steps in the trace)" if any(w.kind == "no_steps" for w in report.warnings) else ""


def step_range(report: Report) -> str:
    """`steps 12–17 (6)`."""
    steps = {step.step for step in report.steps}
    numbers = [step for step in steps if isinstance(step, int)]
    if not numbers or len(numbers) < len(steps):
        return plural(max(len(steps), report.totals.steps), "step")
    word = "step" if len(numbers) == 1 else "steps"
    return f"{word} {ranges(numbers)}" + (f" ({len(numbers)})" if len(numbers) > 1 else "")


def _length(windows: Iterable[Window]) -> str:
    lengths = [window.end_ns - window.start_ns for window in windows]
    low, high = duration(min(lengths)), duration(max(lengths))
    return low if low == high else f"{low} to {high}"
