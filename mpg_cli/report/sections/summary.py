"""The first lines: what was read, how good it is, what costs most, and how far to trust it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Line, Section
from mpg_cli.report.sections.account import account
from mpg_cli.report.sections.common import brief, ranks
from mpg_cli.report.text import NONE, cut, plural, ranges
from mpg_cli.report.units import decimal, duration, percent, ratio, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_cli.report.model import Ratio, Report, Window
    from mpg_cli.report.sections.account import Account, Figure

_MEANING = {
    "mpg": "useful arithmetic at peak",
    "sg": "allocated",
    "rg": "computed",
    "pg": "useful arithmetic at peak",
}
_MEANING |= {"mfu": "useful arithmetic at peak", "hfu": "arithmetic at peak, recomputation included"}
_UNKNOWN_ORDER = ("rg", "pg", "sg", "mpg")
_NO_REASON = "not computed"


def header(report: Report, *, detail: bool) -> Section:
    """What was read and which stretch of it is accounted for."""
    del detail
    title = f"mpg {report.mpg_version}".strip()
    read = " · ".join((title, _files(report), *_setting(report)))
    window = " · ".join(window_facts(report))
    return Section("", (Line(read, "strong"), Line(f"window: {window}")))


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
    yield _devices(report)


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
    if not windows:
        return ["none: there is no chip-time to account for"]
    total = report.totals.capacity_ns
    return [_stretch(report, windows), f"{_length(windows)} per chip", _capacity(total)]


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


def verdict(report: Report, *, detail: bool) -> Section:
    """The ratios with their meaning or the reason they are missing; the largest loss; the grade."""
    del detail
    books = account(report)
    facts = [*_known(report, books), *_unknown(report)]
    rest = [("largest loss", _largest_loss(books)), ("device busy", _busy(report)), ("trust", _trust(report))]
    return Section("", (Facts((*facts, *rest)),))


def _known(report: Report, books: Account) -> Iterator[tuple[str, str]]:
    for key, meaning in _MEANING.items():
        found: Ratio | None = getattr(report.goodput, key)
        if found is not None:
            share, amounts = _amounts(key, found, books)
            yield f"{key.upper()} {share}", f"{amounts} {meaning}{_basis_note(found)}"
        elif key == "rg" and _bounds(report):
            yield f"RG {_bounds(report)}", _reason(report, "rg")


def _amounts(key: str, found: Ratio, books: Account) -> tuple[str, str]:
    """A ratio and its terms; RG as the ledger below shows it, where it is the ledger's computing time."""
    fit = scale([found.denominator_ns])
    share, part = percent(found.value), fit.cell(found.numerator_ns)
    computing = next((group.figure for group in books.groups if group.hue == "computing"), None)
    if key == "rg" and computing and _same(found, computing, books.total):
        share, part = f"{decimal(computing.tenths, 1)} %", books.amount(computing)
    return share, f"{part} of {fit.cell(found.denominator_ns)} chip-{fit.unit}"


def _same(found: Ratio, computing: Figure, total: Figure) -> bool:
    ours = (computing.chip_ns, total.chip_ns)
    return ours == (found.numerator_ns, found.denominator_ns) and total.chip_ns > 0


def _basis_note(found: Ratio) -> str:
    coverage = f"{percent(found.coverage)} observed" if found.coverage < 0.9995 else ""
    return "".join(f" · {note}" for note in (cut(found.basis, 60), coverage) if note)


def _bounds(report: Report) -> str:
    low, high = report.goodput.rg_min, report.goodput.rg_max
    if low is None and high is None:
        return ""
    return f"{tenths(0.0 if low is None else low)} to {tenths(1.0 if high is None else high)} %"


def _unknown(report: Report) -> Iterator[tuple[str, str]]:
    by_reason: dict[str, list[str]] = {}
    for key in _UNKNOWN_ORDER:
        if getattr(report.goodput, key) is None and not (key == "rg" and _bounds(report)):
            by_reason.setdefault(_reason(report, key), []).append(key.upper())
    for reason, keys in by_reason.items():
        yield f"{', '.join(keys)} {NONE}", reason


def _reason(report: Report, key: str) -> str:
    return cut(report.goodput.reasons.get(key) or _NO_REASON, 200)


def _largest_loss(books: Account) -> str:
    losses = books.losses()
    if books.total.chip_ns <= 0:
        return "none: the account is empty"
    if not losses or max(figure.chip_ns for _, figure in losses) <= 0:
        return "none: all chip-time was spent computing"
    row, figure = max(losses, key=lambda loss: loss[1].chip_ns)
    label = cut(row.label or row.cause, 60)
    return f"{label}: {books.amount(figure)} {books.unit}, {decimal(figure.tenths, 1)} %"


def _busy(report: Report) -> str:
    share = percent(ratio(report.totals.device_busy_ns, report.totals.capacity_ns))
    if share == NONE:
        return f"{NONE} the account is empty"
    return f"{share} is what a utilisation dashboard shows; busy is not useful: waiting and copying count"


def _trust(report: Report) -> str:
    caveats = plural(len(report.warnings), "warning")
    reasons = [cut(reason, 150) for reason in report.quality.grade_reasons[:2]]
    listed = f"{caveats}, listed last" if report.warnings else "no warnings"
    return " · ".join((report.quality.grade or NONE, *reasons, listed))
