from __future__ import annotations

import json
import time
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.fragmentation import (
    SCALE,
    JobClass,
    Node,
    TaskClass,
    chip_index,
    classes,
    fragment,
    index,
    mean_index,
    over_time,
    unusable,
    unusable_chips,
)
from tests.mpg_cli.running import ROOT

CASES = json.loads((ROOT / "fixtures/scheduling/fragmentation_cases.json").read_text())
CORPUS = ROOT.parent / "shared/corpus/fragmentation_cases.json"
HALF = Fraction(1, 2)
Rows = list[tuple[str, int, int, int]]


def task(cpu: int, milli: int, gpus: int, share: str, *types: str) -> TaskClass:
    return TaskClass(cpu, milli, gpus, Fraction(share), types)


def node_of(case: dict[str, Any]) -> Node:
    return Node(case["cpu_milli"], tuple(case["gpu_free_milli"]), case["gpu_type"])


def free_frame(rows: Rows) -> pl.DataFrame:
    schema = {"node": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64, "free": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize("case", CASES["nodes"], ids=lambda case: case["name"])
def test_the_nodes_of_the_authors_own_tests(case: dict[str, Any]) -> None:
    tasks = [task(*row) for row in CASES["workloads"][case["workload"]]]
    assert fragment(node_of(case), tasks) == Fraction(case["fragment_gpu_milli"])


def test_the_nodes_of_the_corpus() -> None:
    if not CORPUS.exists():
        pytest.skip(f"the corpus is not at {CORPUS}")
    # shares were printed as floats there; none has more than four decimals
    known = json.loads(CORPUS.read_text(), parse_float=lambda text: Fraction(text).limit_denominator(10_000))
    workloads = {
        name: [
            TaskClass(c["cpu_milli"], c["gpu_milli"], c["gpus"], c["share"], tuple(c["gpu_types"]))
            for c in rows
        ]
        for name, rows in known["workloads"].items()
    }
    assert len(known["nodes"]) == 6
    for case in known["nodes"]:
        found = fragment(node_of(case["node"]), workloads[case["workload"]])
        assert found == case["expected_fragment_gpu_milli"], case["name"]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (task(1000, 500, 1, "1"), 200),  # only the GPU with 200 is too full
        (task(1000, 500, 2, "1"), 200),
        (task(1000, 500, 3, "1"), 200),
        (task(1000, 500, 4, "1"), 2700),  # three GPUs would do, four do not
        (task(1000, 600, 1, "1"), 700),
        (task(1001, 100, 1, "1"), 2700),  # CPU
        (task(1000, 100, 1, "1", "T4"), 2700),  # type
        (task(1000, 100, 1, "1", "T4", "1080"), 0),
        (task(1000, 0, 0, "1"), 2700),  # takes no GPU
    ],
)
def test_one_class_on_one_node(request_: TaskClass, expected: int) -> None:
    assert unusable(Node(1000, (200, 1000, 1000, 500), "1080"), request_) == expected


def test_the_index_is_of_sums() -> None:
    tasks = [task(0, 1000, 2, "1/2"), task(0, 500, 1, "1/2")]
    # half of the tasks want two GPUs: the first node has one and a half free, the second is of use to all
    nodes = [Node(0, (1000, 500)), Node(0, (1000, 1000))]
    assert index(nodes, tasks) == Fraction(750, 3500)
    assert index([Node(0, (0, 0))], tasks) is None
    assert index([], tasks) is None


@pytest.mark.parametrize(("free", "chips", "expected"), [(0, 8, 0), (7, 8, 7), (8, 8, 0), (15, 8, 0)])
def test_whole_chips(free: int, chips: int, expected: int) -> None:
    """The seven that two jobs of eight would leave of fifteen do not count: the next job finds its eight."""
    assert unusable_chips(free, JobClass(chips, 4, Fraction(1))) == expected


def test_the_index_of_whole_chips() -> None:
    jobs = [JobClass(8, 1, HALF), JobClass(1, 1, HALF)]
    assert chip_index([8, 4, 4], jobs) == Fraction(4, 16)
    assert chip_index([0], jobs) is None


def test_whole_chips_are_the_case_of_whole_gpus() -> None:
    for free in range(9):
        for chips in range(1, 9):
            node = Node(0, (1000,) * free + (0,) * (8 - free))
            want = 1000 * unusable_chips(free, JobClass(chips, 1, Fraction(1)))
            assert unusable(node, task(0, 1000, chips, "1")) == want


def test_classes_by_popularity() -> None:
    attempts = pl.DataFrame(
        {
            "job": ["a", "a", "b", "c", "d", "e", "f"],
            "chips": [8, 8, 8, 12, 64, None, 0],
            "node_count": [1, 1, 1, 5, 8, 1, 1],
        }
    )
    # a counts once; 12 on 5 nodes is at most 3 a node; without chips there is no class
    assert classes(attempts) == (
        JobClass(8, 1, HALF),
        JobClass(8, 8, Fraction(1, 4)),
        JobClass(3, 5, Fraction(1, 4)),
    )
    assert classes(attempts, most=2) == (JobClass(8, 1, Fraction(2, 3)), JobClass(8, 8, Fraction(1, 3)))
    assert classes(attempts.drop("job"))[0] == JobClass(8, 1, Fraction(3, 5))
    assert classes(attempts.clear()) == ()


def test_over_time_on_paper() -> None:
    #       0   10   20   30   40
    # n1    8    8    4    .    8
    # n2    .    2    2    .    .
    rows = [("n1", 0, 20, 8), ("n2", 10, 30, 2), ("n1", 20, 30, 4), ("n1", 40, 50, 8), ("n1", 30, 30, 8)]
    steps = over_time(free_frame(rows), [JobClass(8, 1, HALF), JobClass(4, 1, HALF)])
    assert steps.rows() == [
        (0, 10, 8, 0.0),
        (10, 20, 10, 2.0),
        (20, 30, 6, 4.0),
        (30, 40, 0, 0.0),
        (40, 50, 8, 0.0),
    ]
    assert mean_index(steps) == 60 / (80 + 100 + 60 + 80)


def test_over_time_of_nothing() -> None:
    jobs = [JobClass(8, 1, Fraction(1))]
    for rows in ([], [("n", 0, 10, 0)], [("n", 10, 10, 8)]):
        steps = over_time(free_frame(rows), jobs)
        assert steps.is_empty()
        assert steps.columns == ["start_ns", "end_ns", "free", "fragmented"]
        assert mean_index(steps) is None
    assert over_time(free_frame([("n", 0, 10, 4)]), []).rows() == [(0, 10, 4, 0.0)]


def test_equal_neighbours_are_one_step() -> None:
    rows = [("n1", 0, 10, 4), ("n1", 10, 20, 4), ("n2", 20, 30, 4)]
    assert over_time(free_frame(rows), [JobClass(8, 1, Fraction(1))]).rows() == [(0, 30, 4, 4.0)]


def test_shares_without_a_common_denominator() -> None:
    shares = [Fraction(1, 3), Fraction(1, 1_000_003), Fraction(1, 999_983)]
    jobs = [JobClass(8, 1, share) for share in shares]
    [(_, _, _, fragmented)] = over_time(free_frame([("n", 0, 1, 7)]), jobs).rows()
    assert fragmented == pytest.approx(7 * float(sum(shares)), abs=7 * 3 / SCALE)


stretches = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(1, 5), st.integers(0, 9)), max_size=12
)
workloads = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), max_size=4)


def apart(drawn: list[tuple[str, int, int, int]]) -> Rows:
    """Stretches that follow each other on every node."""
    ends: dict[str, int] = {}
    rows = []
    for node, gap, length, free in drawn:
        start = ends.get(node, 0) + gap
        ends[node] = start + length
        rows.append((node, start, start + length, free))
    return rows


@given(drawn=stretches, asked=workloads)
def test_over_time_is_the_index_at_every_instant(
    drawn: list[tuple[str, int, int, int]], asked: list[tuple[int, int]]
) -> None:
    rows, whole = apart(drawn), sum(weight for _, weight in asked)
    jobs = [JobClass(chips, 1, Fraction(weight, whole)) for chips, weight in asked]
    steps = over_time(free_frame(rows), jobs)
    held = [row for row in rows if row[3]]
    assert steps.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0) == (
        (min(row[1] for row in held), max(row[2] for row in held)) if held else (None, None)
    )
    assert steps["start_ns"][1:].to_list() == steps["end_ns"][:-1].to_list()
    for start, end, free, fragmented in steps.iter_rows():
        for instant in range(start, end):
            now = [row[3] for row in rows if row[1] <= instant < row[2]]
            lost = sum((job.share * unusable_chips(chips, job) for job in jobs for chips in now), Fraction())
            assert (free, fragmented) == (sum(now), pytest.approx(float(lost)))


@pytest.mark.slow
def test_a_million_rows() -> None:
    rows = pl.DataFrame({"at": range(1_000_000)}).select(
        node=pl.col("at") % 2000,
        start_ns=(pl.col("at") // 2000) * 10**9 + (pl.col("at") % 997) * 10**5,
        end_ns=(pl.col("at") // 2000 + 1) * 10**9 + (pl.col("at") % 997) * 10**5,
        free=pl.col("at") % 9,
    )
    jobs = [JobClass(chips, 1, Fraction(1, 32)) for chips in range(1, 33)]
    start = time.perf_counter()
    steps = over_time(rows, jobs)
    assert time.perf_counter() - start < 5
    assert steps.height > 100_000
