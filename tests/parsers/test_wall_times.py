"""Times as schedulers write them, each form once."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_parsers import wall_times
from mpg_parsers.errors import UsageError

S = 10**9
NOON = 1_767_614_400 * S  # 2026-01-05 12:00:00 UTC
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


@pytest.mark.parametrize(
    ("text", "tz", "ns", "naive"),
    [
        ("1767614400", "", NOON, False),
        ("1767614400.25", BERLIN, NOON + S // 4, False),
        ("2026-01-05T12:00:00", "", NOON, True),
        (" 2026-01-05 12:00:00 ", "UTC", NOON, True),
        ("2026-01-05T12:00", "", NOON, True),
        ("2026-01-05T12:00:00,5", "", NOON + S // 2, True),
        ("2026-01-05T13:00:00", BERLIN, NOON, True),
        ("2026-01-05T07:00:00", NEW_YORK, NOON, True),
        ("2026-01-05T12:00:00Z", BERLIN, NOON, False),
        ("2026-01-05T13:30:00+0130", "", NOON, False),
        ("2026-01-05T07:00:00-05:00", BERLIN, NOON, False),
        ("Unknown", "", None, False),
        ("None", "", None, False),
        ("", "", None, False),
        ("0", "", None, False),
        ("4294967294", "", None, False),
        ("4294967295", "", None, False),
    ],
)
def test_forms(text: str, tz: str, ns: int | None, naive: bool) -> None:
    assert wall_times.one(text, tz) == (ns, naive)
    times = wall_times.parse(pl.Series([text]), tz)
    assert (times.bad[0], times.unsure[0]) == (False, False)


@pytest.mark.parametrize("text", ["soon", "12:00:00", "2026-13-05T12:00:00", "1816-01-05T12:00:00", "99"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wall_times.one(text)


def test_changes_of_clocks() -> None:
    """In Berlin 02:30 came twice on 25 October 2026, and never on 29 March."""
    texts = pl.Series(["2026-10-25T02:30:00", "2026-03-29T02:30:00", "2026-10-25T03:30:00"])
    times = wall_times.parse(texts, BERLIN)
    assert times.unsure.to_list() == [True, True, False]
    assert times.bad.to_list() == [False, False, False]
    assert times.ns.to_list() == [1_792_888_200 * S, None, 1_792_895_400 * S]  # the earlier of the two
    assert wall_times.parse(texts).unsure.to_list() == [False, False, False]


def test_zones() -> None:
    wall_times.check_zone("Europe/Berlin")
    for name in ("Europe/Nowhere", "", "../etc/passwd"):
        with pytest.raises(UsageError, match="no time zone"):
            wall_times.check_zone(name)
