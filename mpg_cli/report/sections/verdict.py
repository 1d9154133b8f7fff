"""How good it is, what costs most, and how far to trust it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Section
from mpg_cli.report.sections.account import account, amounts
from mpg_cli.report.sections.common import fleet_only
from mpg_cli.report.sections.dashboard import dashboard_of
from mpg_cli.report.sections.operators import operator, recoverable
from mpg_cli.report.sections.scheduling import figures
from mpg_cli.report.sections.scheduling.common import plain
from mpg_cli.report.sections.trust import SHOWN_FIRST
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import decimal, duration, percent, ratio, scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import Goodput, Ratio, Report
    from mpg_cli.report.sections.account import Account

_MEANING = {"mpg": "useful arithmetic at peak", "sg": "allocated", "rg": "computed", "pg": "computing"}
_IN_THE_PROGRAM = {"rg": "in the program", "pg": "in the program"}
_AS_ASKED = {"sg": "allocated as asked"}
_UNKNOWN_ORDER = ("rg", "pg", "sg", "mpg")
_NO_REASON = "not computed"
_MUCH = 0.1


def section(report: Report, *, detail: bool) -> Section:
    """The ratios with their meaning or the reason they are missing; the largest loss; the grade."""
    del detail
    books = account(report)
    fleet = fleet_only(report)
    facts = [*_known(report, books), *_utilisation(report.goodput, books), *_unknown(report)]
    rest = [
        *([("largest loss", text)] if (text := fleet_loss(books) if fleet else _largest_loss(books)) else []),
        *_top_operator(report),
        *([] if fleet else [_dashboard(report)]),
        *figures.facts(report),
        ("trust", _trust(report)),
    ]
    return Section("", (Facts((*facts, *rest)),))


def _known(report: Report, books: Account) -> Iterator[tuple[str, str]]:
    goodput = report.goodput
    asked = {} if report.scheduling is None else _AS_ASKED
    for key, meaning in (_MEANING if goodput.view == "default" else _MEANING | _IN_THE_PROGRAM).items():
        found: Ratio | None = getattr(goodput, key)
        if found is not None:
            share, terms = amounts(found, books)
            yield f"{key.upper()} {share}", _explained(key, found, f"{terms} {asked.get(key, meaning)}")


def _explained(key: str, found: Ratio, terms: str) -> str:
    """The terms and over what; of PG first what it is a share of. How much of it is modelled is said elsewhere."""
    basis = cut(found.basis, 80)
    if key == "pg":
        return " · ".join(part for part in (f"of {basis}" if basis else "", terms) if part)
    observed = f"{percent(found.coverage)} observed" if found.coverage < 0.9995 else ""
    return " · ".join(part for part in (terms, basis, observed) if part)


def _utilisation(goodput: Goodput, books: Account) -> Iterator[tuple[str, str]]:
    """MFU and HFU in one line, with as many decimals as it takes to tell them apart."""
    meaning = {"MFU": ("useful FLOPs", goodput.mfu), "HFU": ("all FLOPs", goodput.hfu)}
    known = {name: found for name, (_, found) in meaning.items() if found}
    if not known:
        return
    values = {name: amounts(found, books)[0] for name, found in known.items()}
    if len({found.value for found in known.values()}) > len(set(values.values())):
        values = {name: f"{100 * found.value:.2f} %" for name, found in known.items()}
    first, *rest = (f"{name} {value}" for name, value in values.items())
    what = " / ".join(meaning[name][0] for name in known)
    step = "" if goodput.mfu_step is None else f"; MFU {percent(goodput.mfu_step)} in a step of median length"
    yield first, " — ".join([*rest, f"{what} over the window{step}"])


def _unknown(report: Report) -> Iterator[tuple[str, str]]:
    goodput = report.goodput
    by_reason: dict[str, list[str]] = {}
    for key in _UNKNOWN_ORDER:
        if getattr(goodput, key) is None:
            by_reason.setdefault(_reason(goodput, key), []).append(key.upper())
    for reason, keys in by_reason.items():
        yield f"{', '.join(keys)} {NONE}", reason if report.scheduling is None else plain(reason)


def _reason(goodput: Goodput, key: str) -> str:
    """Why a ratio is null, after its bounds; MPG is null for what SG is null for."""
    known_by = "sg" if key == "mpg" and goodput.sg is None and goodput.reasons.get("sg") else key
    reason = cut(goodput.reasons.get(known_by) or _NO_REASON, 400)
    bounds = _bounds(goodput, key)
    return f"{bounds}: {reason}" if bounds else reason


def _bounds(goodput: Goodput, key: str) -> str:
    low: float | None = getattr(goodput, f"{key}_min", None)
    high: float | None = getattr(goodput, f"{key}_max", None)
    if low is None and high is None:
        return ""
    return f"between {percent(low or 0.0)} and {percent(1.0 if high is None else high)}"


def _largest_loss(books: Account) -> str:
    losses = books.losses()
    if books.total.chip_ns <= 0:
        return "none: the account is empty"
    if not losses or max(figure.chip_ns for _, figure in losses) <= 0:
        return "none: all chip-time was spent computing"
    row, figure = max(losses, key=lambda loss: loss[1].chip_ns)
    label = cut(row.label or row.cause, 60)
    unknown = books.unmodelled()
    more = f"; {decimal(unknown.tenths, 1)} % has no model" if unknown.chip_ns > figure.chip_ns else ""
    return f"{label}: {books.amount(figure)} {books.unit}, {decimal(figure.tenths, 1)} %{more}"


def fleet_loss(books: Account) -> str:
    """The two largest causes of chips not allocated as asked; none without an account."""
    losses = [
        (row, figure) for row, figure in books.losses() if row.layer == "scheduling" and figure.chip_ns > 0
    ]
    if books.total.chip_ns <= 0:
        return ""
    if not losses:
        return "none: all chips were allocated as asked"
    ordered = sorted(losses, key=lambda loss: -loss[1].chip_ns)[:2]
    amounts = (
        f"{cut(row.label or row.cause, 60)}: {books.amount(figure)} {books.unit}, {decimal(figure.tenths, 1)} %"
        for row, figure in ordered
    )
    return "; then ".join(amounts)


def _top_operator(report: Report) -> Iterator[tuple[str, str]]:
    """The operator to look at first: one without a model if that is much of computing, else by recoverable time."""
    top = max(report.ops, key=recoverable, default=None)
    missing = max(report.unmodelled, key=lambda found: found.time_ns, default=None)
    if missing and missing.share > _MUCH:
        if "::" in missing.op:  # else it is no operator, but kernels that belong to none
            what = f"{duration(missing.time_ns)}, {percent(missing.share)} of computing, has no model"
            yield "top operator", f"{cut(missing.op, 80)}: {what}"
    elif top and recoverable(top) > 0:
        fit = scale([top.time_ns])
        times = f"{fit.cell(top.recoverable_ns)} of {fit.cell(top.time_ns)} {fit.unit} above its roofline"
        yield "top operator", f"{cut(operator(top), 80)}: {times}"


def _dashboard(report: Report) -> tuple[str, str]:
    """What one would see without this report: GPU-Util if it is known, else all busy time."""
    seen = report.dashboard
    if seen is None or percent(seen.gpu_util) == NONE:
        return "device busy", _busy(report)
    waiting = f"; for {percent(seen.waiting)} of the window only collectives ran" if seen.waiting > 0 else ""
    label, who = dashboard_of(report)
    return "dashboard", f"{who} would show {percent(seen.gpu_util)} {label}{waiting}"


def _busy(report: Report) -> str:
    share = percent(ratio(report.totals.device_busy_ns, report.totals.capacity_ns))
    if share == NONE:
        return f"{NONE} the account is empty"
    return f"{share} on a utilisation dashboard: waiting and copying count"


def _trust(report: Report) -> str:
    covered = report.quality.shape_coverage
    models = [] if covered is None else [f"models cover {percent(covered)} of computing"]
    reasons = [cut(reason, 150) for reason in report.quality.grade_reasons[:SHOWN_FIRST]]
    caveats = plural(len(report.warnings), "warning")
    listed = f"{caveats}, listed last" if report.warnings else "no warnings"
    return " · ".join((report.quality.grade or NONE, *models, *reasons, listed))
