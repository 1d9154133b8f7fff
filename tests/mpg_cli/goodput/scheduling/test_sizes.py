from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.sizes import ClassGoodput, Sizes, healthy_pattern, parse_sizes
from mpg_parsers.errors import UsageError


@pytest.mark.parametrize(
    ("chips", "size"),
    [
        (1, "S"),
        (8, "S"),
        (9, "M"),
        (64, "M"),
        (65, "L"),
        (512, "L"),
        (513, "XL"),
        (10**6, "XL"),
        (0, None),
        (-1, None),
    ],
)
def test_the_default(chips: int, size: str | None) -> None:
    assert Sizes().of(chips) == size


@given(chips=st.lists(st.none() | st.integers(-2, 40), max_size=20))
def test_a_column_is_classed_like_its_numbers(chips: list[int | None]) -> None:
    sizes = Sizes((4, 8, 16))
    found = pl.DataFrame({"n": chips}, schema={"n": pl.Int64}).select(sizes.expression("n")).to_series()
    assert found.dtype == pl.String
    assert found.to_list() == [None if n is None else sizes.of(n) for n in chips]


def test_in_words() -> None:
    assert Sizes().describe() == {
        "S": "1–8 chips",
        "M": "9–64 chips",
        "L": "65–512 chips",
        "XL": "more than 512 chips",
    }
    assert list(Sizes((1, 2, 8)).describe().values()) == [
        "1 chip",
        "2 chips",
        "3–8 chips",
        "more than 8 chips",
    ]


@pytest.mark.parametrize(
    ("text", "bounds"), [("8,64,512", (8, 64, 512)), (" 4, 32 ,256 ", (4, 32, 256)), ("1,2,3", (1, 2, 3))]
)
def test_the_setting(text: str, bounds: tuple[int, int, int]) -> None:
    assert parse_sizes(text) == Sizes(bounds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8",
        "8,64",
        "8,64,512,4096",
        "8,8,64",
        "64,8,512",
        "0,8,64",
        "a,b,c",
        "8.5,64,512",
        "-8,64,512",
        "8,,9",
        "٨,٩,٩٩",
    ],
)
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(UsageError, match="8,64,512") as error:
        parse_sizes(text)
    assert error.value.hint


def goodputs(jobs: int = 100, **percent: float) -> dict[str, ClassGoodput]:
    return {name: ClassGoodput(jobs, round(value * 10), 1000) for name, value in percent.items()}


@pytest.mark.parametrize(
    ("percent", "holds", "why"),
    [
        (
            {"S": 97, "M": 80, "L": 91.5, "XL": 95},
            True,
            "S 97.0 % and XL 95.0 %: near 95 %; what gives way is M 80.0 % and L 91.5 %",
        ),
        (
            {"S": 97, "M": 96, "L": 95, "XL": 93},
            True,
            "S 97.0 % and XL 93.0 %: near 95 %, and so is what lies between",
        ),
        ({"S": 97, "M": 80, "XL": 99}, True, "S 97.0 % and XL 99.0 %: near 95 %; what gives way is M 80.0 %"),
        (
            {"S": 97, "M": 96, "L": 60, "XL": 70},
            False,
            "XL 70.0 %: is to be near 95 %, while M 96.0 %",
        ),
        ({"S": 50, "M": 40, "L": 60, "XL": 92.9}, False, "S 50.0 % and XL 92.9 %: are to be near 95 %"),
    ],
)
def test_the_pattern(percent: dict[str, float], holds: bool, why: str) -> None:
    found = healthy_pattern(goodputs(**percent))
    assert (found.holds, found.why) == (holds, why)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"XL": None}, "XL has no jobs: fewer than 10"),
        ({"M": ClassGoodput(1, 1, 1)}, "M has 1 job: fewer than 10"),
        ({"S": ClassGoodput(9, 1, 1)}, "S has 9 jobs: fewer than 10"),
        ({"S": ClassGoodput(10, 0, 0)}, "S has no chip-time"),
    ],
)
def test_too_little_is_known(changed: dict[str, ClassGoodput | None], why: str) -> None:
    known = {name: value for name, value in (goodputs(S=97, M=80, L=80, XL=97) | changed).items() if value}
    found = healthy_pattern(known)
    assert (found.holds, found.why) == (None, why)


def test_few_large_jobs_are_left_out() -> None:
    known = goodputs(S=97, M=80, XL=97) | {"L": ClassGoodput(3, 1, 2)}
    assert healthy_pattern(known).why.endswith("what gives way is M 80.0 %")
    assert healthy_pattern(known, least_jobs=3).why.endswith("M 80.0 % and L 50.0 %")
