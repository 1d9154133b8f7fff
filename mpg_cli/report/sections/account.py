"""The ledger as displayed figures that add up: within a layer, over the layers, and to exactly 100.0 %."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import hue
from mpg_cli.report.units import Scale, apportion, decimal, percent, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.blocks import Hue
    from mpg_cli.report.model import LedgerRow, Ratio, Report

_LAYERS: dict[Hue, str] = {
    "computing": "computing",
    "runtime": "not computing",
    "scheduling": "not allocated",
    "other": "other",
}
_NO_LOSS = ("productive", "ideal", "unmodelled")


@dataclass(frozen=True, slots=True)
class Figure:
    """An amount as it is displayed: `units` of the account's last decimal, and tenths of a percent."""

    chip_ns: int
    units: int
    tenths: int


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one layer with their displayed figures; `figure` is exactly their sum.

    The largest row comes first, but for `ideal`: what it leaves of its layer is the losses below it.
    `within`: tenths of a percent of the layer for each row, which sum to 100 %.
    """

    hue: Hue
    title: str
    figure: Figure
    rows: tuple[tuple[LedgerRow, Figure], ...]
    within: tuple[int, ...]

    def ideal(self) -> tuple[Figure, int] | None:
        """The figure of the ideal row and its part of the layer, which is PG, if there is such a row."""
        rows = zip(self.rows, self.within, strict=True)
        return next(((figure, within) for (row, figure), within in rows if row.cause == "ideal"), None)


@dataclass(frozen=True, slots=True)
class Account:
    """The displayed ledger."""

    scale: Scale
    total: Figure
    groups: tuple[Group, ...]

    def losses(self) -> list[tuple[LedgerRow, Figure]]:
        """What is known to have been lost; of computing time without a model nothing is known."""
        rows = (pair for group in self.groups for pair in group.rows)
        return [(row, figure) for row, figure in rows if row.cause not in _NO_LOSS]

    def computing(self) -> Group | None:
        """The group of the program layer."""
        return next((group for group in self.groups if group.hue == "computing"), None)

    def unmodelled(self) -> Figure:
        """Computing time without a model."""
        rows = (pair for group in self.groups for pair in group.rows)
        return next((figure for row, figure in rows if row.cause == "unmodelled"), Figure(0, 0, 0))

    @property
    def unit(self) -> str:
        """The unit of every figure, such as chip-s."""
        return f"chip-{self.scale.unit}"

    def amount(self, figure: Figure) -> str:
        """A figure's chip-time without the unit."""
        return decimal(figure.units, self.scale.decimals)


def account(report: Report) -> Account:
    """Round twice by the largest remainder, first the layers and then the causes within each.

    So with two layers the share of computing is RG rounded in the ordinary way, and everything still adds up.
    """
    found = [(kind, _sorted(report, kind)) for kind in _LAYERS]
    layers = [(kind, rows) for kind, rows in found if rows]
    sums = [sum(row.chip_ns for row in rows) for _, rows in layers]
    total = sum(sums)
    fit = scale([total])
    whole = Figure(total, fit.count(total), 1000 if total > 0 else 0)
    figures = _split(sums, whole) if sums else []
    titles = _LAYERS if report.goodput.view == "default" else _LAYERS | {"computing": "in the program"}
    groups = (
        _group(kind, titles[kind], rows, figure) for (kind, rows), figure in zip(layers, figures, strict=True)
    )
    return Account(fit, whole, tuple(groups))


def _sorted(report: Report, kind: Hue) -> list[LedgerRow]:
    rows = _merged([row for row in report.ledger if hue(row.layer) == kind])
    return sorted(rows, key=lambda row: (row.cause != "ideal", -row.chip_ns))


def _merged(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """One row per cause: the ledger has one for each origin of it."""
    by_cause: dict[str, LedgerRow] = {}
    for row in rows:
        if before := by_cause.get(row.cause):
            origin = ", ".join(dict.fromkeys((*before.origin.split(", "), row.origin)))
            row = replace(  # noqa: PLW2901
                before, chip_ns=before.chip_ns + row.chip_ns, share=before.share + row.share, origin=origin
            )
        by_cause[row.cause] = row
    return list(by_cause.values())


def _split(values: Sequence[int], whole: Figure) -> list[Figure]:
    return [
        Figure(*column)
        for column in zip(values, _parts(values, whole.units), _parts(values, whole.tenths), strict=True)
    ]


def _group(kind: Hue, title: str, rows: list[LedgerRow], figure: Figure) -> Group:
    amounts = [row.chip_ns for row in rows]
    figures = _split(amounts, figure)
    return Group(kind, title, figure, tuple(zip(rows, figures, strict=True)), _parts(amounts, 1000))


def _parts(values: Sequence[int], total: int) -> tuple[int, ...]:
    """`total` in proportion: the first value is rounded in the ordinary way, the others share what it leaves."""
    first, rest = apportion((values[0], sum(values[1:])), total)
    return (first, *apportion(values[1:], rest))


def amounts(found: Ratio, books: Account) -> tuple[str, str]:
    """A ratio and its terms, as the ledger below shows them where they are amounts of it."""
    fit = scale([found.denominator_ns])
    terms = f"{fit.cell(found.numerator_ns)} of {fit.cell(found.denominator_ns)} chip-{fit.unit}"
    key = (found.numerator_ns, found.denominator_ns)
    return _shown(books).get(key, (percent(found.value), terms))


def _shown(books: Account) -> dict[tuple[int, int], tuple[str, str]]:
    """Share and terms by (numerator, denominator): what is allocated of all (SG), computing of all (RG), ideal of all
    (MFU) and of computing (PG)."""
    computing, total = books.computing(), books.total
    if total.chip_ns <= 0:
        return {}
    found = _allocated(books)
    if computing is not None:
        figure, ideal = computing.figure, computing.ideal()
        found.append((figure, total, figure.tenths))
        if ideal is not None:
            found += [(ideal[0], total, ideal[0].tenths), (ideal[0], figure, ideal[1])]
    return {
        (part.chip_ns, whole.chip_ns): (
            f"{decimal(tenths, 1)} %",
            f"{books.amount(part)} of {books.amount(whole)} {books.unit}",
        )
        for part, whole, tenths in found
    }


def _allocated(books: Account) -> list[tuple[Figure, Figure, int]]:
    """All but the scheduling layer, if that is there."""
    rest = [group.figure for group in books.groups if group.hue != "scheduling"]
    if len(rest) == len(books.groups):
        return []
    tenths = sum(figure.tenths for figure in rest)
    chip_ns, units = sum(figure.chip_ns for figure in rest), sum(figure.units for figure in rest)
    return [(Figure(chip_ns, units, tenths), books.total, tenths)]
