"""Which findings are given, in which order, and what they cost."""

from __future__ import annotations

import pytest

from mpg_cli.findings import RULES, amdahl, cost, find
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report.model import Price
from tests.mpg_cli.findings.made import facts, goodput, strip

HOUR = 3_600_000_000_000
MIXED = strip(
    0, ("productive", 500), ("host_code", 200), ("input", 100), ("communication", 150), ("checkpoint", 50)
)


def test_nothing_is_worth_fixing_here() -> None:
    assert find(facts(strip(0, ("productive", 995), ("input", 5)))) == ()


def test_nothing_at_all() -> None:
    assert find(facts([])) == ()


@pytest.mark.parametrize(("input_ns", "ids"), [(0, []), (9, []), (10, ["input"]), (11, ["input"])])
def test_threshold(input_ns: int, ids: list[str]) -> None:
    made = facts(strip(0, ("productive", 1000 - input_ns), ("input", input_ns)))
    assert [finding.id for finding in find(made)] == ids
    assert find(made, threshold=0.5) == ()


def test_nothing_is_found_of_nothing_whatever_the_threshold() -> None:
    assert find(facts(strip(0, ("productive", 10))), threshold=0.0) == ()


def test_by_gain() -> None:
    found = find(facts(MIXED, goodput=goodput(0.5, 1.0)))
    assert [each.id for each in found] == ["host_code", "exposed_communication", "input", "checkpoint"]
    assert [each.chip_ns for each in found] == [200, 150, 100, 50]
    assert [each.gain for each in found] == [1000 / 800, 1000 / 850, 1000 / 900, 1000 / 950]
    assert [each.severity for each in found] == ["high", "high", "high", "medium"]


LATER = ["exposed_communication", "input", "host_code", "checkpoint"]


@pytest.mark.parametrize(
    ("ratios", "first"),
    [
        (goodput(0.49), "exposed_communication"),
        (goodput(0.5), "host_code"),
        (goodput(0.9, 0.5), "exposed_communication"),
        (goodput(0.9, 0.9), "host_code"),
        (goodput(), "host_code"),
        (goodput(rg_max=0.4), "exposed_communication"),
        (goodput(rg_max=0.6), "host_code"),
    ],
)
def test_communication_and_input_come_first_where_goodput_is_low(ratios: object, first: str) -> None:
    ids = [each.id for each in find(facts(MIXED, goodput=ratios))]
    assert ids[0] == first
    assert first == "host_code" or ids == LATER


def test_what_is_not_bounded_comes_last() -> None:
    made = facts(strip(0, ("productive", 300), ("unknown", 600), ("checkpoint", 100)))
    assert [(each.id, each.gain) for each in find(made)] == [("checkpoint", 1000 / 900), ("unknown", None)]


@pytest.mark.parametrize(
    ("part", "whole", "gain"), [(0, 10, 1.0), (5, 10, 2.0), (9, 10, 10.0), (10, 10, None), (1, 3, 1.5)]
)
def test_amdahl(part: int, whole: int, gain: float | None) -> None:
    assert amdahl(part, whole) == gain


@pytest.mark.parametrize(
    ("chip_ns", "chips", "price", "money"),
    [
        (HOUR, 1, Price(2.5, None), 2.5),
        (HOUR // 2, 8, Price(2.0, None), 1.0),
        (HOUR, 8, Price(2.0, 1024), 256.0),
        (HOUR, 8, Price(2.0, 4), 1.0),
        (HOUR, 8, Price(0.0, 1024), 0.0),
    ],
)
def test_cost(chip_ns: int, chips: int, price: Price, money: float) -> None:
    assert cost(chip_ns, chips, price) == money


def test_findings_are_priced_on_demand() -> None:
    made = facts(strip(0, ("productive", 3 * HOUR), ("input", HOUR)) + strip(1, ("productive", 4 * HOUR)))
    (free,), (priced,) = find(made), find(made, Price(2.0, 10))
    assert free.cost is None
    assert (priced.chip_ns, priced.share, priced.cost) == (
        HOUR,
        0.125,
        10.0,
    )  # 1 chip-hour of 2 chips, 10 in the job


def test_every_finding_rests_on_something_and_says_what_helps() -> None:
    causes = [cause for cause in load_taxonomy().causes.values() if cause.layer == "runtime"]
    programs = {"kernel_inefficiency": 9, "memory_bound": 8, "recompute": 7, "padding": 6}
    found = find(facts(strip(0, *((cause.id, 10) for cause in causes)), causes=programs))
    assert {each.cause for each in found} >= set(programs)
    for each in found:
        assert each.title
        assert each.fix
        assert 1 <= len(each.evidence) <= 5
        assert each.killer == load_taxonomy().cause(each.cause).killer
        assert each.share == each.chip_ns / (10 * len(causes))


def test_causes_of_idle_time_without_a_rule() -> None:
    """Those that traces are charged with all have one."""
    idle = (
        "input", "checkpoint", "restore", "compile", "allocator", "synchronisation", "launch_bound", "host_code",
        "dependency", "kernel_gap", "profiler_overhead", "transient", "unknown", "communication", "memory_copy",
        "communication_wait", "unclassified_busy",
    )  # fmt: skip
    for cause in idle:
        found = find(facts(strip(0, ("productive", 50), (cause, 50))))
        assert [(each.cause, each.chip_ns) for each in found] == [(cause, 50)], cause


def test_rules_are_listed_once() -> None:
    assert len(set(RULES)) == len(RULES)
