"""What to do first, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Facts, Line, Section
from mpg_cli.report.sections.account import account
from mpg_cli.report.sections.common import EMPTY, brief, fleet_only
from mpg_cli.report.sections.ledger import CAUSE
from mpg_cli.report.text import cut, plural
from mpg_cli.report.units import duration, money, percent, stamp, times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_cli.report.model import Evidence, Finding, Report
    from mpg_cli.report.sections.account import Account

_MOST, _MOST_IN_DETAIL = 3, 20
_MOST_EVIDENCE, _MOST_FIXES = 2, 2
_NOTABLE = 0.01
_UNJUDGED = {
    "unknown": "of the chip-time is idle that nothing in the files explains",
    "unmodelled": "is computing without a model",
    "productive": "is computing that could not be judged",
}


def section(report: Report, *, detail: bool) -> Section:
    """The first findings, each with its gain, its evidence and what usually helps; or that there are none."""
    if not report.ledger or (fleet_only(report) and not report.findings):
        return EMPTY
    if not report.findings:
        return Section("Do this first", (Line(_nothing(report)),))
    books = account(report)
    blocks: list[Block] = []
    shown = _shown(report.findings, _MOST_IN_DETAIL if detail else _MOST)
    for number, finding in shown:
        title = cut(finding.title or finding.id, 200)
        blocks.append(Line(f"{number}  {title}", "strong"))
        blocks.append(Facts(tuple(_facts(report, books, finding, detail=detail))))
    note = _largest(shown) + _note(len(report.findings) - len(shown), detail=detail)
    return Section("Do this first", (*blocks, Line(note, "dim")))


def _shown(findings: Sequence[Finding], most: int) -> list[tuple[int, Finding]]:
    """The first `most` with their numbers, and the largest of all, which need not be among them."""
    numbered = list(enumerate(findings, 1))
    largest = max(numbered, key=lambda one: (one[1].gain or 0.0, -one[0]))
    return numbered[:most] + ([largest] if largest[0] > most else [])


def _nothing(report: Report) -> str:
    """One sentence; what could not be judged is named, for nothing was looked for in it."""
    unjudged = [
        f"{percent(row.share)} {_UNJUDGED[row.cause]}"
        for row in report.ledger
        if row.cause in _UNJUDGED and row.share >= _NOTABLE
    ]
    if not unjudged:
        return "Nothing worth fixing here: no finding is large enough."
    return f"Nothing worth fixing was found, but {', '.join(unjudged)}."


def _facts(report: Report, books: Account, finding: Finding, *, detail: bool) -> Iterator[tuple[str, str]]:
    yield "gain", _gain(report, books, finding)
    if finding.where:
        yield "where", cut(finding.where, 200)
    for evidence in finding.evidence[: None if detail else _MOST_EVIDENCE]:
        yield "evidence", _evidence(report, evidence)
    fixes = finding.fix if detail else finding.fix[:_MOST_FIXES]
    if fixes:
        yield "usual", "; ".join(cut(fix, 120) for fix in fixes[:4])
    if CAUSE.fullmatch(finding.cause):
        yield "more", f"mpg explain {finding.cause}"


def _gain(report: Report, books: Account, finding: Finding) -> str:
    """`at most 1.28 ×, takes 1.88 of 8.50 chip-s, 22.1 %`, and what that costs."""
    most = times(finding.gain)
    bound = f"at most {most}" if most[0].isdigit() else "no upper bound known"
    amount, total = books.scale.cell(finding.chip_ns), books.amount(books.total)
    takes = f"takes {amount} of {total} {books.unit}, {percent(finding.share)}"
    return " · ".join(text for text in (bound, takes, _cost(report, finding)) if text)


def _cost(report: Report, finding: Finding) -> str:
    """The cost over the windows, and what that is per hour of the whole job: share x chips x price."""
    price = report.price
    if price is None or finding.cost is None:
        return ""
    chips = price.chips or report.totals.chips
    hourly = money(finding.share * chips * price.per_chip_hour)
    return f"costs {money(finding.cost)} in the window, {hourly} per hour on {plural(chips, 'chip')}"


def _evidence(report: Report, evidence: Evidence) -> str:
    """The sentence, and where it is a single event how to find it in the trace; its name once."""
    found = [cut(evidence.name, 80)] if evidence.name and evidence.name not in evidence.text else []
    found += [f"ts {stamp(evidence.start_ns)}"] if evidence.start_ns is not None else []
    found += [duration(evidence.dur_ns)] if evidence.dur_ns is not None else []
    found += [f"thread {evidence.thread}"] if evidence.thread is not None else []
    if evidence.source and len(report.sources) > 1:
        found.append(brief(evidence.source, 40))
    return cut(evidence.text, 240) + (f" [{' · '.join(found)}]" if found else "")


def _largest(shown: Sequence[tuple[int, Finding]]) -> str:
    """Why the last one shown does not follow the one before it, if so."""
    numbers = [number for number, _ in shown]
    return "" if len(shown) == numbers[-1] else f"Number {numbers[-1]} is shown for its gain, the largest. "


def _note(rest: int, *, detail: bool) -> str:
    bound = "Each gain is an upper bound by Amdahl's law, as if only that were fixed; findings can overlap."
    if not rest:
        return bound
    hint = "" if detail else ", with --detail"
    return f"{plural(rest, 'more finding')}{hint}. {bound}"
