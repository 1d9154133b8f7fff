"""Findings as `mpg analyze` gives them, on the two ranks of the fixture."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mpg_cli.running import ROOT, mpg

NS_PER_HOUR = 3_600_000_000_000
TRAIN = ROOT / "fixtures/train_2rank"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return mpg("analyze", TRAIN, "-f", "json", "-q", "--price", "2.50/chip-hour", "--chips", "64").report


def test_gains_and_costs_follow_from_the_amounts(report: dict[str, Any]) -> None:
    capacity = report["totals"]["capacity_ns"]
    assert report["findings"]
    for finding in report["findings"]:
        amount = finding["chip_ns"]
        assert 0.01 * capacity <= amount <= capacity
        assert finding["share"] == amount / capacity
        assert finding["gain"] == pytest.approx(1 / (1 - amount / capacity), rel=1e-12)
        assert finding["cost"] == pytest.approx(amount / NS_PER_HOUR * 2.5 * 32, rel=1e-12)  # 64 chips for 2


def test_rows_of_the_ledger_are_found_as_they_are(report: dict[str, Any]) -> None:
    causes = {row["cause"]: row["chip_ns"] for row in report["ledger"]}
    found = {finding["id"]: finding["chip_ns"] for finding in report["findings"]}
    same = ("checkpoint", "kernel_inefficiency", "memory_bound")
    assert {each: found[each] for each in same} == {each: causes[each] for each in same}
    assert found["pageable_copies"] < causes["memory_copy"]
    assert found["exposed_communication"] == causes["communication"]  # there is one communicator


def test_communication_and_input_are_first_in_a_job_below_one_half(report: dict[str, Any]) -> None:
    assert report["goodput"]["mfu"]["value"] < 0.5
    first = [f["killer"] in ("communication_wait", "data_starvation") for f in report["findings"]]
    assert first == sorted(first, reverse=True)
    assert True in first
    assert False in first


def test_events_can_be_found_in_the_trace(report: dict[str, Any]) -> None:
    spans = {
        window["source"]: (window["start_ns"], window["end_ns"]) for window in report["quality"]["windows"]
    }
    events = [each for f in report["findings"] for each in f["evidence"] if each["start_ns"] is not None]
    assert events
    for event in events:
        start, end = spans[event["source"]]
        assert event["name"]
        assert event["start_ns"] < end
        assert event["start_ns"] + event["dur_ns"] > start


def test_without_a_price_there_is_no_cost() -> None:
    findings = mpg("analyze", TRAIN, "-f", "json", "-q").report["findings"]
    assert {finding["cost"] for finding in findings} == {None}
