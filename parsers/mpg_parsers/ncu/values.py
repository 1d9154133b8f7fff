"""Numbers and units as Nsight Compute prints them.

parse_value("1,234.56", "Kbyte/second") → Value(1234560.0, "byte/s", 5.0)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIXES = {
    letter: Fraction(10) ** power
    for letter, power in zip("numKMGTP", (-9, -6, -3, 3, 6, 9, 12, 15), strict=True)
}
# what a unit is called: `--csv` writes seconds in full, the Python interface and ncu since 2024.3 in short
NAMES = {
    "second": "s",
    "s": "s",
    "sec": "s",
    "hz": "cycle/s",
    "Hz": "cycle/s",
    "byte": "byte",
    "B": "byte",
    "cycle": "cycle",
    "inst": "inst",
    "warp": "warp",
    "block": "block",
    "thread": "thread",
    "FLOP": "FLOP",
    "ops": "op",
    "op": "op",
}
NUMBER = re.compile(r"-?(?:\d{1,30}|\d{1,3}(?:,\d{3}){1,10})(?:\.(\d{1,20}))?(?:[eE][+-]?\d{1,2})?")
INSTANCES = re.compile(r"\s*[({].*", re.DOTALL)  # of --print-metric-instances, after the value
# dots between thousands, or a decimal comma: another locale's way of writing
FOREIGN = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,(?:\d{1,2}|\d{4,}))")


class ForeignNumberError(ValueError):
    """A number written by another locale's rules: 117.344 may be a hundred and seventeen thousand."""


@dataclass(frozen=True, slots=True)
class Value:
    """A metric in base units (s, byte, cycle, inst; % as a fraction): `error` is half its last printed digit.

    A number printed without decimals is exact.
    """

    amount: float
    unit: str
    error: float = 0.0


def parse_value(text: str, unit: str) -> Value | None:
    """The value of a cell; None for "n/a", "nan", words and empty cells. Raises ForeignNumberError."""
    text = INSTANCES.sub("", text.strip())
    if FOREIGN.fullmatch(text):
        raise ForeignNumberError(text[:40])
    match = NUMBER.fullmatch(text)
    if match is None:
        return None
    factor, base = base_unit(unit)
    error = Fraction(1, 2 * 10 ** len(match[1])) if match[1] else Fraction(0)
    return Value(float(Fraction(text.replace(",", "")) * factor), base, float(error * factor))


def exact_value(amount: float, unit: str) -> Value:
    """A value that was not printed."""
    factor, base = base_unit(unit)
    return Value(float(Fraction(amount) * factor), base)


@cache
def base_unit(unit: str) -> tuple[Fraction, str]:
    """What to multiply by, and the unit then: ("Gbyte/second") → (1e9, "byte/s"), ("cycle/nsecond") → (1e9, "cycle/s").

    A unit that is not known stays as it is, with factor 1.
    """
    if unit == "%":
        return Fraction(1, 100), ""
    above, _, below = unit.partition("/")
    numerator, denominator = _scaled(above), _scaled(below) if below else (Fraction(1), "")
    base = f"{numerator[1]}/{denominator[1]}" if below else numerator[1]
    return numerator[0] / denominator[0], base


def _scaled(unit: str) -> tuple[Fraction, str]:
    if unit in NAMES:
        return Fraction(1), NAMES[unit]
    if unit[:1] in PREFIXES and unit[1:] in NAMES:
        return PREFIXES[unit[0]], NAMES[unit[1:]]
    return Fraction(1), unit


def product(*values: Value) -> Value:
    """The product, without a unit; relative errors add up."""
    amount = math.prod(value.amount for value in values)
    error = sum(
        value.error * math.prod(other.amount for other in values if other is not value) for value in values
    )
    return Value(amount, "", abs(error))


def weighted_sum(weights: Sequence[float], values: Sequence[Value]) -> Value:
    """The sum of weight × value, without a unit; errors add up."""
    pairs = list(zip(weights, values, strict=True))
    amount = sum(weight * value.amount for weight, value in pairs)
    return Value(amount, "", sum(abs(weight) * value.error for weight, value in pairs))
