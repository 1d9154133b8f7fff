"""Steps by cause against a count of nanoseconds; spread and outliers on cases for paper."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import steps

CAUSES = ("productive", "input", "host_code")
SUBJECTS = pl.DataFrame(
    {"subject": [0, 1, 2], "source": [0, 0, 1], "process": [None] * 3, "device": [0, 1, 0]},
    schema_overrides={"process": pl.Int64},
)
SEGMENTS = {"subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.String}
STEPS = {"source": pl.Int64, "step": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}


def frame(rows: list[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def of_file(ranges: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Steps in files that do not tell processes apart."""
    return frame(ranges, STEPS).with_columns(process=pl.lit(None, pl.Int64))


def partition(subject: int, start: int, parts: list[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Segments one after another, as (length, cause)."""
    rows = []
    for length, cause in parts:
        rows.append((subject, start, start + length, cause))
        start += length
    return rows


parts = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(CAUSES)), max_size=8)
segments = st.tuples(*(st.tuples(st.integers(0, 10), parts) for _ in range(3)))
spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 50), st.integers(0, 30)), max_size=5)


@settings(max_examples=20, deadline=None)
@given(segments, spans)
def test_a_step_is_the_sum_of_its_nanoseconds(given_parts: Any, given_spans: Any) -> None:
    """Steps overlap, nest, repeat, and lie outside the segments."""
    rows = [row for s, (start, some) in enumerate(given_parts) for row in partition(s, start, some)]
    ranges = [(source, n, f"s{n}", a, a + length) for n, (source, a, length) in enumerate(given_spans)]
    found = steps.by_cause(frame(rows, SEGMENTS), of_file(ranges), SUBJECTS)
    expected: Counter[tuple[int, int, str]] = Counter()
    for source, number, _, start, end in ranges:
        for subject in (0, 1) if source == 0 else (2,):
            for at in range(start, end):
                inside = [cause for s, a, b, cause in rows if s == subject and a <= at < b]
                expected[number, subject, *(inside or [steps.OUTSIDE])] += 1
    got = {(r["row"], r["subject"], r["cause"]): r["chip_ns"] for r in found.rows(named=True)}
    assert {key: ns for key, ns in got.items() if ns} == dict(expected)
    sums = found.group_by("row", "subject").agg(pl.col("chip_ns").sum(), pl.col("wall_ns").first())
    assert sums["chip_ns"].equals(sums["wall_ns"])
    assert sums.height == sum(2 if source == 0 else 1 for source, *_ in ranges)


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
def test_spread(walls: list[int]) -> None:
    found = steps.spread(walls)
    assert found is not None
    middle = int(median(walls))
    assert (found.count, found.median_ns, found.min_ns, found.max_ns) == (
        len(walls), middle, min(walls), max(walls),
    )  # fmt: skip
    assert found.mad_ns == int(median(abs(wall - middle) for wall in walls))
    not_above = [wall for wall in walls if sum(w <= wall for w in walls) * 100 >= 95 * len(walls)]
    assert found.p95_ns == min(not_above)


def test_steps_of_a_process_are_those_of_its_devices() -> None:
    devices = pl.DataFrame({"subject": [0, 1, 2], "source": 0, "process": [41, 41, 42], "device": [0, 1, 0]})
    rows = [(0, 0, 10, "productive"), (1, 0, 10, "productive"), (2, 0, 10, "input")]
    ranges = frame([(0, 1, "a", 0, 4), (0, 1, "b", 1, 7)], STEPS).with_columns(process=pl.Series([41, 42]))
    found = steps.by_cause(frame(rows, SEGMENTS), ranges, devices).filter(pl.col("chip_ns") > 0)
    assert found.select("name", "subject", "cause", "chip_ns").rows() == [
        ("a", 0, "productive", 4), ("a", 1, "productive", 4), ("b", 2, "input", 6),
    ]  # fmt: skip


def test_no_steps_do_not_spread() -> None:
    assert steps.spread([]) is None


def outliers(*walls: int, **causes: list[int]) -> list[tuple[Any, ...]]:
    """What stands out among the steps of one device, each with `causes` and the rest productive."""
    rows, ranges, at = [], [], 0
    for n, wall in enumerate(walls):
        named = [(some[n], cause) for cause, some in causes.items()]
        rows += partition(0, at, [*named, (wall - sum(length for length, _ in named), "productive")])
        ranges.append((0, n, f"s{n}", at, at + wall))
        at += wall
    only = SUBJECTS.filter(pl.col("subject") == 0)
    found = steps.outliers(steps.by_cause(frame(rows, SEGMENTS), of_file(ranges), only))
    return found.select("step", "wall_ns", "excess_ns", "cause", "cause_excess_ns").rows()


@pytest.mark.parametrize(
    ("walls", "expected"),
    [
        pytest.param((100, 100, 900), [], id="three steps are too few"),
        pytest.param((100, 100, 100, 900), [(3, 900, 800, "productive", 800)], id="four are enough"),
        pytest.param((100, 100, 100, 105), [], id="5 % above the median is within it"),
        pytest.param((100, 100, 100, 106), [(3, 106, 6, "productive", 6)], id="just above"),
        # deviations from 100: 10 10 0 10 10 44 0, so the MAD is 10 and the limit 44.478
        pytest.param((90, 110, 100, 90, 110, 144, 100), [], id="within three robust deviations"),
        pytest.param((90, 110, 100, 90, 110, 145, 100), [(5, 145, 45, "productive", 45)], id="beyond them"),
        pytest.param((100, 100, 100, 50), [], id="a short step is none"),
    ],
)
def test_outliers(walls: tuple[int, ...], expected: list[tuple[Any, ...]]) -> None:
    assert outliers(*walls) == expected


def test_the_cause_that_grew_most() -> None:
    """Productive time is larger, but it is as large in every step."""
    found = outliers(100, 100, 100, 140, input=[10, 10, 12, 45], host_code=[5, 5, 5, 10])
    assert found == [(3, 140, 40, "input", 34)]


def test_devices_are_judged_apart() -> None:
    """What stands out on one device is usual on another."""
    walls = {0: [100, 100, 100, 100, 150], 1: [150, 150, 150, 150, 150]}
    ranges = [
        (source, n, f"s{n}", 1000 * n, 1000 * n + wall)
        for source, some in walls.items()
        for n, wall in enumerate(some)
    ]
    rows = [row for subject in range(3) for row in partition(subject, 0, [(9000, "productive")])]
    found = steps.outliers(steps.by_cause(frame(rows, SEGMENTS), of_file(ranges), SUBJECTS))
    assert found.select("source", "step", "device").rows() == [(0, 4, 0), (0, 4, 1)]
