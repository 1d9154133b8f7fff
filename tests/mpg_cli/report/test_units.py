from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.report import units


@pytest.mark.parametrize(
    ("values", "total", "expected"),
    [
        ([], 10, ()),
        ([0, 0], 10, (0, 0)),
        ([1, 1, 1], 1000, (334, 333, 333)),
        ([1, 2], 100, (33, 67)),
        ([2, 1], 1000, (667, 333)),
        ([999_999, 1], 1000, (1000, 0)),
        ([-1, 3], 10, (-5, 15)),
        ([-1], 10, (0,)),
    ],
)
def test_apportion(values: list[int], total: int, expected: tuple[int, ...]) -> None:
    assert units.apportion(values, total) == expected


@given(st.lists(st.integers(0, 10**18), min_size=1), st.integers(0, 10**6))
def test_apportion_adds_up_and_is_off_by_less_than_one(values: list[int], total: int) -> None:
    parts = units.apportion(values, total)
    whole = sum(values)
    assert sum(parts) == (total if whole else 0)
    assert all(
        abs(part * whole - value * total) < whole for part, value in zip(parts, values, strict=True) if whole
    )


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (512, "512 ns"),
        (12_400, "12.40 µs"),
        (999_999, "1,000.0 µs"),
        (183_254_000, "183.3 ms"),
        (1_062_000_000, "1.062 s"),
        (5_400 * 10**9, "5,400 s"),
        (36_000 * 10**9, "10.00 h"),
        (-1_500, "-1.500 µs"),
    ],
)
def test_duration(ns: int, expected: str) -> None:
    assert units.duration(ns) == expected


@pytest.mark.parametrize(
    ("values", "typical", "unit", "cells"),
    [
        ([948_375, 3_019], None, "µs", ["948.4", "3.0"]),
        ([12_621_000, 3_019], 3_019, "µs", ["12,621.0", "3.0"]),
        ([12_621_000, 3_019], None, "ms", ["12.62", "0.00"]),
        ([80], 80, "ns", ["80"]),
        ([], None, "ns", []),
    ],
)
def test_scale(values: list[int], typical: int | None, unit: str, cells: list[str]) -> None:
    fit = units.scale(values, typical)
    assert fit.unit == unit
    assert [fit.cell(value) for value in values] == cells


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "—"),
        (float("nan"), "—"),
        (float("inf"), "—"),
        (0.0, "0.0 %"),
        (0.0003, "under 0.1 %"),
        (0.614, "61.4 %"),
        (1.25, "125.0 %"),
    ],
)
def test_percent(value: float | None, expected: str) -> None:
    assert units.percent(value) == expected


@pytest.mark.parametrize(("values", "expected"), [([3], 3), ([1, 4], 2), ([9, 1, 5], 5)])
def test_median(values: list[int], expected: int) -> None:
    assert units.median(values) == expected


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (1_365_627_862_757_064_000, "1365627862757064"),
        (1_365_627_862_757_064_125, "1365627862757064.125"),
        (1_365_627_862_757_064_120, "1365627862757064.120"),
        (0, "0"),
        (7, "0.007"),
        (-1_500, "-1.500"),
    ],
)
def test_stamp(ns: int, shown: str) -> None:
    assert units.stamp(ns) == shown
    assert Decimal(shown) * 1000 == ns


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.284, "1.28 ×"), (1.0142, "1.014 ×"), (12.0, "12.00 ×"), (None, "—"), (float("inf"), "—")],
)
def test_times(value: float | None, shown: str) -> None:
    assert units.times(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2262.4, "2,262"),
        (97.024, "97.02"),
        (0.05, "0.05"),
        (0.0, "0.00"),
        (0.001312, "0.00131"),
        (8.2e-5, "0.000082"),
        (float("nan"), "—"),
    ],
)
def test_money(value: float, shown: str) -> None:
    assert units.money(value) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (4.52, "4.5 s"),
        (38.7, "39 s"),
        (59.5, "1 min"),
        (125, "2 min 5 s"),
        (3_599.9, "1 h"),
        (3_660, "1 h 1 min"),
        (86_400, "1 d"),
        (187_200, "2 d 4 h"),
        (365 * 86_400, "365 d"),
        (1_000 * 86_400 + 3_600, "1,000 d 1 h"),
        (None, "—"),
        (float("nan"), "—"),
        (-1, "—"),
    ],
)
def test_elapsed(seconds: float | None, text: str) -> None:
    assert units.elapsed(seconds) == text
