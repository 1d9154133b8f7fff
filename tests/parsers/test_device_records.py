"""Which device records are wrong, and what is made of them; above all, which are right."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_parsers.device_records import DAY, MINUTE, clean
from mpg_parsers.tables import DEVICE_OPS

NOW = 1_712_195_495_000_000_000
Row = dict[str, Any]


def op(start: int | None, dur: int | None, name: str = "k", **fields: Any) -> Row:
    """One record, in nanoseconds."""
    return {
        "device": 0,
        "stream": 7,
        "start_ns": start,
        "dur_ns": dur,
        "kind": "kernel",
        "name": name,
    } | fields


def us(start: int, end: int, name: str = "k", **fields: Any) -> Row:
    """One record from `start` to `end`, in microseconds."""
    return op(start * 1000, (end - start) * 1000, name, **fields)


def cleaned(rows: list[Row], host: tuple[int, int] | None = None) -> tuple[list[Row], list[tuple[str, int]]]:
    frame = DEVICE_OPS.conform(pl.DataFrame(rows, infer_schema_length=None))
    found, notices = clean(frame, host)
    return found.rows(named=True), [(notice.kind, notice.count) for notice in notices]


def test_nothing() -> None:
    assert cleaned([]) == ([], [])


@pytest.mark.parametrize(("start", "dur"), [(None, 1), (1, None), (1, -1), (1, DAY + 1)])
def test_records_without_a_usable_time(start: int | None, dur: int | None) -> None:
    found, notices = cleaned([op(0, 5), op(start, dur, "bad")])
    assert [row["name"] for row in found] == ["k"]
    assert notices == [("dropped_events", 1)]


# -- far off ---------------------------------------------------------------------------------------------------------

HOST = (NOW, NOW + 10 * MINUTE)
FAR: dict[str, tuple[list[int], tuple[int, int] | None, list[int]]] = {
    "zero among absolute times": ([0, NOW, NOW + 5], HOST, [NOW, NOW + 5]),
    "zero, no host": ([0, NOW, NOW + 5], None, [NOW, NOW + 5]),
    "year 2100": ([NOW, NOW + 5, 4_102_444_800_000_000_000], HOST, [NOW, NOW + 5]),
    "year 2100, no host": ([NOW, NOW + 5, 4_102_444_800_000_000_000], None, [NOW, NOW + 5]),
    "negative": ([-5, NOW, NOW + 5], HOST, [NOW, NOW + 5]),
    "ten minutes before the host": ([NOW - 10 * MINUTE, NOW, NOW + 5], HOST, [NOW, NOW + 5]),
    "small relative times": ([0, 1, 2], (0, 100), [0, 1, 2]),
    "small relative times, no host": ([0, 1, 2], None, [0, 1, 2]),
    "negative relative times": ([-2000, 0, 100], (-1000, 1000), [-2000, 0, 100]),
    "carry-over just before the host": ([NOW - MINUTE, NOW], HOST, [NOW - MINUTE, NOW]),
    "the device goes on after the host": (
        [NOW + i * MINUTE for i in range(20)], (NOW, NOW + 1), [NOW + i * MINUTE for i in range(20)],
    ),
    "the device began before the host": (
        [NOW - i * MINUTE for i in range(20)], (NOW, NOW + 1), [NOW - i * MINUTE for i in range(20)],
    ),
    "the device's clock is another one": ([5, 6, 7], HOST, [5, 6, 7]),
    "another clock, and one outlier": ([5, 6, 7, NOW], HOST, [5, 6, 7]),
    "hours apart without a host": ([NOW, NOW + 120 * MINUTE], None, [NOW, NOW + 120 * MINUTE]),
    "only one record": ([0], HOST, [0]),
}  # fmt: skip


@pytest.mark.parametrize(("starts", "host", "expected"), FAR.values(), ids=FAR)
def test_far_off(starts: list[int], host: tuple[int, int] | None, expected: list[int]) -> None:
    found, notices = cleaned([op(start, 1, str(start)) for start in starts], host)
    assert [row["start_ns"] for row in found] == expected
    lost = len(starts) - len(expected)
    assert notices == ([("dropped_events", lost)] if lost else [])


# -- duplicates --------------------------------------------------------------------------------------------------------


def test_exact_duplicates_count_once() -> None:
    rows = [us(0, 5), us(5, 9, correlation=3), us(0, 5), us(5, 9, correlation=3), us(0, 5)]
    found, notices = cleaned(rows)
    assert [(row["start_ns"], row["correlation"]) for row in found] == [(0, None), (5000, 3)]
    assert notices == [("duplicate_events", 3)]


@pytest.mark.parametrize(
    "other",
    [
        {"stream": 8},
        {"device": 1},
        {"correlation": 2},
        {"graph_node": 2},
        {"bytes": 2},
        {"name": "x"},
        {"kind": "memset"},
    ],
)
def test_whatever_differs_is_another_record(other: Row) -> None:
    row = us(0, 5, correlation=1, graph_node=1, bytes=1)
    assert cleaned([row, row | other])[1] == []


# -- durations that run over -------------------------------------------------------------------------------------------

CHAIN = [us(100, 200, "b"), us(200, 300, "c"), us(300, 400, "d"), us(400, 500, "e")]
OVER: dict[str, tuple[list[Row], dict[str, int]]] = {
    "over four kernels": ([us(0, 1600, "a"), *CHAIN], {"a": 100}),
    "over two kernels": ([us(0, 350, "a"), *CHAIN], {"a": 100}),
    "over one kernel and a half": ([us(0, 250, "a"), *CHAIN], {}),
    "as long as the second": ([us(0, 300, "a"), *CHAIN], {}),
    "two in a row": ([us(0, 1600, "a"), us(50, 1700, "x"), *CHAIN], {"a": 50, "x": 50}),
    "one inside another": ([us(0, 1600, "a"), us(50, 900, "x"), *CHAIN], {"a": 50, "x": 50}),
    "a collective": (
        [us(0, 5000, "ncclDevKernel", stream=20), *(row | {"stream": 20} for row in CHAIN)], {"ncclDevKernel": 100},
    ),
    "a collective on its own stream": ([us(0, 5000, "ncclDevKernel", stream=20), *CHAIN], {}),
    "on another device": ([us(0, 5000, "a", device=1), *CHAIN], {}),
    "streams unknown": ([us(0, 5000, "a", stream=None), *(row | {"stream": None} for row in CHAIN)], {}),
    "a copy": ([us(0, 5000, "a", kind="memcpy"), *CHAIN], {}),
    "programmatic dependent launch": ([us(0, 102, "a"), us(100, 203, "b"), us(200, 300, "c")], {}),
    "tens of microseconds": ([us(0, 90, "a"), us(10, 20, "b"), us(20, 30, "c"), us(30, 40, "d")], {}),
    "branches of a graph": (
        [us(0, 900, "a", correlation=9), *(row | {"correlation": 9} for row in CHAIN)], {},
    ),
    "branches of a graph, and the next launch": (
        [
            us(0, 450, "a", correlation=9), *(row | {"correlation": 9} for row in CHAIN),
            us(500, 600, "z", correlation=10),
        ],
        {},
    ),
    "a graph's kernel over two other launches": (
        [
            us(0, 5000, "a", correlation=9), us(10, 20, "b", correlation=9),
            us(100, 200, "y", correlation=10), us(200, 300, "z", correlation=11),
        ],
        {"a": 100},
    ),
    "same start": ([us(0, 1600, "a"), us(0, 50, "x"), *CHAIN], {"a": 100}),
    "same start, both over": ([us(0, 1600, "a"), us(0, 1700, "x"), *CHAIN], {"a": 100, "x": 100}),
    "same start and length": ([us(0, 900, "a"), us(0, 900, "x"), us(900, 950, "y"), us(950, 990, "z")], {}),
    "at the end, nothing to tell by": ([*CHAIN, us(500, 9000, "a")], {}),
    "no length inside": ([us(0, 100, "a"), us(50, 50, "b"), us(60, 60, "c")], {}),
}  # fmt: skip


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
@pytest.mark.parametrize(("rows", "clipped"), OVER.values(), ids=OVER)
def test_overflows(rows: list[Row], clipped: dict[str, int], backwards: bool) -> None:
    given = rows[::-1] if backwards else rows
    found, notices = cleaned(given)
    expected = {row["name"]: clipped.get(row["name"], row["dur_ns"] // 1000) for row in given}
    assert {row["name"]: row["dur_ns"] // 1000 for row in found} == expected
    assert [row["name"] for row in found] == [row["name"] for row in given]
    assert notices == ([("duration_overflow", len(clipped))] if clipped else [])


def test_the_notice_names_the_worst() -> None:
    frame = DEVICE_OPS.conform(
        pl.DataFrame(
            [us(0, 1600, "a"), *CHAIN, us(500, 99_000, "w"), *(us(600 + i, 601 + i, "x") for i in range(3))]
        )
    )
    (notice,) = clean(frame, None)[1]
    assert notice.message.startswith("2 kernels end after two later kernels")
    assert "worst: w, by 98.400 ms" in notice.message
