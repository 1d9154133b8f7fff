"""The ledger as displayed figures that add up: within a layer, over the layers, and to exactly 100.0 %."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import hue
from mpg_cli.report.units import Scale, apportion, decimal, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.blocks import Hue
    from mpg_cli.report.model import LedgerRow, Report

_LAYERS: dict[Hue, str] = {
    "computing": "computing",
    "runtime": "not computing",
    "scheduling": "not allocated",
    "other": "other",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """An amount as it is displayed: `units` of the account's last decimal, and tenths of a percent."""

    chip_ns: int
    units: int
    tenths: int


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one layer, largest first, with their displayed figures; `figure` is exactly their sum."""

    hue: Hue
    title: str
    figure: Figure
    rows: tuple[tuple[LedgerRow, Figure], ...]


@dataclass(frozen=True, slots=True)
class Account:
    """The displayed ledger."""

    scale: Scale
    total: Figure
    groups: tuple[Group, ...]

    def losses(self) -> list[tuple[LedgerRow, Figure]]:
        """What was not spent computing; communication is a loss even in a view that calls it program."""
        rows = [(group.hue, row, figure) for group in self.groups for row, figure in group.rows]
        return [(r, f) for h, r, f in rows if h != "computing" or r.cause.startswith("communication")]

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
    figures = _split(sums, whole)
    titles = _LAYERS if report.goodput.view == "default" else _LAYERS | {"computing": "in the program"}
    groups = (
        _group(kind, titles[kind], rows, figure) for (kind, rows), figure in zip(layers, figures, strict=True)
    )
    return Account(fit, whole, tuple(groups))


def _sorted(report: Report, kind: Hue) -> list[LedgerRow]:
    return sorted((row for row in report.ledger if hue(row.layer) == kind), key=lambda row: -row.chip_ns)


def _split(values: Sequence[int], whole: Figure) -> list[Figure]:
    columns = zip(values, apportion(values, whole.units), apportion(values, whole.tenths), strict=True)
    return [Figure(*column) for column in columns]


def _group(kind: Hue, title: str, rows: list[LedgerRow], figure: Figure) -> Group:
    figures = _split([row.chip_ns for row in rows], figure)
    return Group(kind, title, figure, tuple(zip(rows, figures, strict=True)))
