"""Figures as text: one unit per column, and rounding by which a column still adds up."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.text import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UNITS = (("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
_HOURS_FROM = 10
_TENTHS_S = 10
_MINUTE_S = 59.5  # from here up it is a minute, rounded
_ELAPSED = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


def apportion(values: Sequence[int], total: int) -> tuple[int, ...]:
    """Integers in proportion to `values` that sum to exactly `total` (method of the largest remainder).

    On a tie the earlier value gets the unit. All zeros if the values sum to zero or less.
    """
    whole = sum(values)
    if whole <= 0:
        return (0,) * len(values)
    parts = [value * total // whole for value in values]
    remainders = [value * total % whole for value in values]
    most = sorted(range(len(values)), key=lambda i: -remainders[i])
    for i in most[: total - sum(parts)]:
        parts[i] += 1
    return tuple(parts)


def decimal(units: int, decimals: int) -> str:
    """`units` counted in 10**-decimals, as text: decimal(614, 1) is 61.4."""
    sign = "-" if units < 0 else ""
    whole, rest = divmod(abs(units), 10**decimals)
    return f"{sign}{whole:,}.{rest:0{decimals}d}" if decimals else f"{sign}{whole:,}"


@dataclass(frozen=True, slots=True)
class Scale:
    """A time unit with a number of decimals; figures of one column share one scale."""

    unit: str
    unit_ns: int
    decimals: int

    def count(self, ns: int) -> int:
        """`ns` in units of the last decimal, rounded half up."""
        quantum: int = self.unit_ns // 10**self.decimals
        return (ns + quantum // 2) // quantum

    def cell(self, ns: int) -> str:
        """`ns` as a number without its unit."""
        return decimal(self.count(ns), self.decimals)


def scale(values: Iterable[int], typical: int | None = None) -> Scale:
    """The scale that gives the largest of `values` (ns) four significant digits; hours from ten hours up.

    With `typical` the unit is the one that suits it, and there is at least one decimal: for columns in which
    the largest value dwarfs the others.
    """
    most = max((abs(value) for value in values), default=0)
    unit, unit_ns = _unit(most if typical is None else typical)
    decimals = min(3, max(0 if typical is None else 1, 4 - len(str(most // unit_ns))))
    return Scale(unit, unit_ns, decimals if unit_ns > 1 else 0)


def _unit(ns: int) -> tuple[str, int]:
    unit, unit_ns = next((unit for unit in _UNITS if ns >= unit[1]), _UNITS[-1])
    return _UNITS[1] if unit == "h" and ns < _HOURS_FROM * unit_ns else (unit, unit_ns)


def duration(ns: int) -> str:
    """One length of time with its unit: `1.062 s`, `12.40 µs`."""
    fitting = scale([ns])
    return f"{fitting.cell(ns)} {fitting.unit}"


def elapsed(seconds: float | None) -> str:
    """A length of time as people say it: `45 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`; a dash if it is not known."""
    if seconds is None or not isfinite(seconds) or seconds < 0:
        return NONE
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s" if seconds % 1 and seconds < _TENTHS_S else f"{seconds:.0f} s"
    whole = round(seconds)
    unit, size, smaller, part = next(row for row in _ELAPSED if whole >= row[1])
    count, rest = divmod(whole, size)
    return f"{count:,} {unit} {rest // part} {smaller}" if rest // part else f"{count:,} {unit}"


def stamp(ns: int) -> str:
    """An instant as the `ts` of a trace: microseconds, to be searched for in the file or the viewer's query.

    Without separators; three decimals, as the profiler writes them, unless they are zero: then the text is also
    the start of what profilers write that always have decimals.
    """
    return str(ns // 1000) if ns % 1000 == 0 else decimal(ns, 3).replace(",", "")


def times(value: float | None) -> str:
    """A factor as `1.28 ×`, three decimals where it is close to one; a dash if it is missing or not finite."""
    if value is None or not isfinite(value):
        return NONE
    return f"{value:.3f} ×" if value < 1.1 else f"{value:,.2f} ×"


def money(value: float) -> str:
    """An amount of money: two decimals, three significant digits below one hundredth, none from a hundred up."""
    if not isfinite(value):
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.01 or not value else f"{Decimal(f'{value:.3g}'):f}"


def number(value: int | None) -> str:
    """A count with thousands separators, or a dash."""
    return NONE if value is None else f"{value:,}"


def tenths(value: float | None) -> str:
    """A share as a percentage with one decimal, without the sign; a dash if it is missing or not finite."""
    return NONE if value is None or not isfinite(value) else f"{100 * value:.1f}"


def percent(value: float | None) -> str:
    """A share as `61.4 %`; `under 0.1 %` where rounding would hide that there is something."""
    if value is not None and 0 < value < 0.0005:
        return "under 0.1 %"
    return NONE if (text := tenths(value)) == NONE else f"{text} %"


def ratio(numerator: int, denominator: int) -> float | None:
    """numerator / denominator, or None over zero."""
    return numerator / denominator if denominator else None


def median(values: Iterable[int]) -> int:
    """The median of at least one whole number; the mean of the two middle ones, rounded down."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
