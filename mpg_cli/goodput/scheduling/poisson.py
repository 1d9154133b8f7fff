"""Exact confidence intervals for a rate of events, with the chi-square quantiles that they need.

The quantiles are found by bisection of the regularised incomplete gamma function, which is computed as in Numerical
Recipes (Press et al., section 6.2): a series below x = a + 1, a continued fraction above, both to the last digits.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

_TINY = sys.float_info.min / sys.float_info.epsilon


class Interval(NamedTuple):
    """Bounds of a rate, in events per unit of exposure."""

    low: float
    high: float


def rate_interval(events: int, exposure: float, level: float = 0.95) -> Interval:
    """The exact interval for a Poisson rate (Garwood, Biometrika 28, 1936): χ² quantiles with 2k and 2k + 2 degrees.

    events: k ≥ 0; exposure: > 0, in any unit. Without events there is only an upper bound, and all of 1 − level lies
    above it: at 95 % it is 3.0 ÷ exposure, the "rule of three". Raises ValueError for other arguments.
    """
    if events < 0 or not exposure > 0 or not 0 < level < 1:
        raise ValueError(f"no rate of {events} events in {exposure} at level {level}")
    if not events:
        return Interval(0.0, -math.log(1 - level) / exposure)
    tail = (1 - level) / 2
    low = chi_square_quantile(tail, 2 * events) / 2
    high = chi_square_quantile(1 - tail, 2 * events + 2) / 2
    return Interval(low / exposure, high / exposure)


def chi_square_quantile(probability: float, degrees: float) -> float:
    """The value below which a χ² variable of so many degrees of freedom lies with that probability.

    To about 1e-12 relative, for up to a million degrees. Raises ValueError outside of 0 < probability < 1, degrees > 0.
    """
    if not 0 < probability < 1 or not degrees > 0:
        raise ValueError(f"no χ² quantile of {probability} with {degrees} degrees of freedom")
    shape = degrees / 2
    low, high = 0.0, max(shape, 1.0)
    while gamma_p(shape, high) < probability:
        low, high = high, 2 * high
    while True:
        # geometric once the scale is known, so that tiny quantiles get as many digits as large ones
        middle = math.sqrt(low * high) if low else high / 16
        if middle in (low, high) or (high - low) <= sys.float_info.epsilon * high:
            return 2 * high
        if gamma_p(shape, middle) < probability:
            low = middle
        else:
            high = middle


def gamma_p(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(a, x), for a > 0 and x ≥ 0."""
    if x <= 0:
        return 0.0
    return _series(a, x) if x < a + 1 else 1 - _fraction(a, x)


def _front(a: float, x: float) -> float:
    """x^a · e^−x ÷ Γ(a)."""
    return math.exp(a * math.log(x) - x - math.lgamma(a))


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    n = a
    while term > total * sys.float_info.epsilon / 4:
        n += 1
        term *= x / n
        total += term
    return total * _front(a, x)


def _fraction(a: float, x: float) -> float:
    """Q(a, x) = 1 − P(a, x), by Lentz's method."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    step, i = 0.0, 0
    while abs(step - 1) > sys.float_info.epsilon:
        i += 1
        factor = -i * (i - a)
        b += 2
        d = 1 / (_away(factor * d + b))
        c = _away(b + factor / c)
        step = c * d
        value *= step
    return value * _front(a, x)


def _away(value: float) -> float:
    """`value`, or something tiny in its stead if it is 0, by which one may divide."""
    return value if abs(value) > _TINY else _TINY
