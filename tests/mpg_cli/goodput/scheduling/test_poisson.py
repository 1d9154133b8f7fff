from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.poisson import chi_square_quantile, gamma_p, rate_interval

# to 15 or more digits, from arbitrary-precision arithmetic (mpmath, 40 digits)
QUANTILES = [
    (0.005, 1, 3.9270422220515902e-5),
    (0.005, 10, 2.155856481304639),
    (0.025, 1, 0.00098206911717525591),
    (0.025, 2, 0.050635615968579751),
    (0.025, 3, 0.21579528262389787),
    (0.025, 10, 3.2469727802368411),
    (0.025, 20, 9.5907773922648673),
    (0.025, 100, 74.221927474923726),
    (0.025, 1000, 914.25715379925893),
    (0.025, 20000, 19609.904934520366),
    (0.05, 1, 0.0039321400000195227),
    (0.5, 1, 0.45493642311957275),
    (0.5, 100, 99.334129235988456),
    (0.95, 1, 3.841458820694126),
    (0.95, 10, 18.307038053275147),
    (0.975, 1, 5.023886187314889),
    (0.975, 2, 7.3777589082278726),
    (0.975, 10, 20.483177350807397),
    (0.975, 20, 34.169606902838341),
    (0.975, 100, 129.56119718583659),
    (0.975, 20000, 20393.883649999766),
    (0.995, 1000, 1118.9480663231917),
]


@pytest.mark.parametrize(("probability", "degrees", "expected"), QUANTILES)
def test_quantiles_of_tables(probability: float, degrees: int, expected: float) -> None:
    assert chi_square_quantile(probability, degrees) == pytest.approx(expected, rel=1e-11)


@given(probability=st.floats(1e-6, 1 - 1e-6))
def test_two_degrees_have_a_closed_form(probability: float) -> None:
    assert chi_square_quantile(probability, 2) == pytest.approx(-2 * math.log1p(-probability), rel=1e-9)


@given(k=st.integers(1, 200), x=st.floats(0.01, 400))
def test_the_gamma_function_counts_poisson_events(k: int, x: float) -> None:
    """P(k, x) is the probability of at least k events where x are expected."""
    fewer = math.fsum(math.exp(n * math.log(x) - x - math.lgamma(n + 1)) for n in range(k))
    assert gamma_p(k, x) == pytest.approx(1 - fewer, abs=1e-11)


def test_the_gamma_function_at_its_ends() -> None:
    assert (gamma_p(3, 0), gamma_p(3, 1e4)) == (0.0, 1.0)
    # P(½, x) = erf(√x)
    assert gamma_p(0.5, 1.7) == pytest.approx(math.erf(math.sqrt(1.7)), rel=1e-14)


@pytest.mark.parametrize(
    # Garwood's table
    ("events", "low", "high"),
    [
        (1, 0.0253, 5.5716),
        (2, 0.2422, 7.2247),
        (5, 1.6235, 11.6683),
        (10, 4.7954, 18.3904),
        (50, 37.1110, 65.9188),
    ],
)
def test_the_exact_interval(events: int, low: float, high: float) -> None:
    found = rate_interval(events, 1.0)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert rate_interval(events, 4.0) == (found.low / 4, found.high / 4)


def test_no_events_is_the_rule_of_three() -> None:
    found = rate_interval(0, 1000.0)
    assert found.low == 0
    assert found.high == pytest.approx(2.995732 / 1000, rel=1e-6)


@pytest.mark.parametrize("arguments", [(-1, 1.0), (1, 0.0), (1, math.nan), (1, 1.0, 1.0), (1, 1.0, 0.0)])
def test_what_is_no_rate(arguments: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="no rate"):
        rate_interval(*arguments)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 1), (1.0, 1), (0.5, 0), (math.nan, 1)])
def test_what_is_no_quantile(probability: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="no χ² quantile"):
        chi_square_quantile(probability, degrees)
