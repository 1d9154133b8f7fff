"""Numbers and units as Nsight Compute prints them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.ncu.values import (
    ForeignNumberError,
    Value,
    exact_value,
    parse_value,
    product,
    weighted_sum,
)

UNITS = {  # unit: (power of ten, base)
    "": (0, ""),
    "%": (-2, ""),
    "nsecond": (-9, "s"),
    "usecond": (-6, "s"),
    "msecond": (-3, "s"),
    "second": (0, "s"),
    "ns": (-9, "s"),
    "us": (-6, "s"),
    "ms": (-3, "s"),
    "s": (0, "s"),
    "byte": (0, "byte"),
    "Kbyte": (3, "byte"),
    "Mbyte": (6, "byte"),
    "Gbyte": (9, "byte"),
    "byte/second": (0, "byte/s"),
    "Tbyte/second": (12, "byte/s"),
    "Gbyte/s": (9, "byte/s"),
    "Kbyte/block": (3, "byte/block"),
    "Kbyte/cycle": (3, "byte/cycle"),
    "cycle": (0, "cycle"),
    "cycle/second": (0, "cycle/s"),
    "cycle/usecond": (6, "cycle/s"),
    "cycle/nsecond": (9, "cycle/s"),
    "hz": (0, "cycle/s"),
    "Mhz": (6, "cycle/s"),
    "Ghz": (9, "cycle/s"),
    "inst": (0, "inst"),
    "Kinst": (3, "inst"),
    "inst/cycle": (0, "inst/cycle"),
    "register/thread": (0, "register/thread"),
    "sector": (0, "sector"),
    "request": (0, "request"),
    "pass": (0, "pass"),
    "msomething": (0, "msomething"),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "text", ["0", "7", "1.60", "1.600000", "5,160.25", "1,215,000,000.00", "-12.5", "2e3"]
)
def test_base_units(unit: str, text: str) -> None:
    power, base = UNITS[unit]
    plain = Decimal(text.replace(",", ""))
    half = Decimal(0 if plain.as_tuple().exponent >= 0 else 5).scaleb(plain.as_tuple().exponent - 1)  # type: ignore[operator]
    assert parse_value(text, unit) == Value(float(plain.scaleb(power)), base, float(half.scaleb(power)))


@pytest.mark.parametrize(
    "text", ["", "n/a", "nan", "-nan", "inf", "CachePreferNone", "1.2.3", "12 KB", "0x10", "1e999"]
)
def test_no_number(text: str) -> None:
    assert parse_value(text, "byte") is None


@pytest.mark.parametrize("text", ["117.344", "27.595.520", "1.215.000,5", "2,15", "2,1", "1234,5678"])
def test_numbers_of_another_locale(text: str) -> None:
    with pytest.raises(ForeignNumberError, match=text):
        parse_value(text, "byte")


def test_instances_behind_a_value() -> None:
    assert parse_value("24 (10; 14)", "inst") == Value(24, "inst")
    assert parse_value(" 3.5 {1: 3.5}", "inst") == Value(3.5, "inst", 0.05)


def test_exact() -> None:
    assert exact_value(1472.0, "ns") == Value(1.472e-06, "s")
    assert exact_value(0.03344289863935178, "%").unit == ""


amounts = st.floats(0.001, 1000)


@given(st.lists(st.tuples(amounts, st.floats(0, 0.01)), min_size=1, max_size=4), st.data())
def test_errors_bound_what_rounding_hides(pairs: list[tuple[float, float]], data: st.DataObject) -> None:
    """Of values anywhere within their errors, product and sum are within theirs (to first order)."""
    printed = [Value(amount, "", amount * error) for amount, error in pairs]
    true = [v.amount + v.error * data.draw(st.sampled_from([-1.0, 0.0, 1.0])) for v in printed]
    weights = [1.0, 2.0, 1.0, 3.0][: len(printed)]
    total = weighted_sum(weights, printed)
    assert (
        abs(sum(w * t for w, t in zip(weights, true, strict=True)) - total.amount)
        <= total.error * 1.0001 + 1e-9
    )
    found, product_of_true = product(*printed), 1.0
    for t in true:
        product_of_true *= t
    assert abs(product_of_true - found.amount) <= found.error * 1.05 + 1e-9 * found.amount
