"""Frames of steps, breakdowns and ranks as rows of the report."""

from __future__ import annotations

from typing import Any

import polars as pl

from mpg_cli.goodput import breakdown, steps
from mpg_cli.goodput.dashboard import Dashboard
from mpg_cli.goodput.ledger import CauseTotal, Rolled
from mpg_cli.report import model
from mpg_cli.rows import steps as step_rows

PATHS, RANKS = {0: "a.json", 1: "b.json"}, {0: 4, 1: None}
ROWS = {
    "row": pl.UInt32, "subject": pl.Int64, "source": pl.Int32, "device": pl.Int64, "step": pl.Int64,
    "name": pl.String, "wall_ns": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64,
}  # fmt: skip


def by_cause(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=ROWS, orient="row")


STEPS = by_cause(
    (1, 0, 1, 0, None, "train", 30, "productive", 30),
    (1, 0, 1, 0, None, "train", 30, "input", 0),
    (0, 0, 0, 2, 7, "ProfilerStep#7", 100, "productive", 40),
    (0, 0, 0, 2, 7, "ProfilerStep#7", 100, "input", 60),
)


def test_ledgers() -> None:
    """By step; most time first; causes that took nothing are left out, and a name serves where there is no number."""
    assert step_rows.step_ledgers(STEPS, PATHS, RANKS) == (
        model.StepLedger("a.json", 4, 2, 7, 100, {"input": 60, "productive": 40}),
        model.StepLedger("b.json", None, 0, "train", 30, {"productive": 30}),
    )
    assert list(step_rows.step_ledgers(STEPS, PATHS, RANKS)[0].causes) == ["input", "productive"]
    assert step_rows.step_ledgers(STEPS.clear(), PATHS, RANKS) == ()


def test_a_step_of_no_length() -> None:
    empty = by_cause((0, 0, 0, 2, 7, "", 0, "input", 0))
    assert step_rows.step_ledgers(empty, PATHS, RANKS) == (model.StepLedger("a.json", 4, 2, 7, 0, {}),)


def test_spread_counts_a_step_once() -> None:
    assert step_rows.step_spread(STEPS) == model.StepSpread(2, 65, 35, 30, 100, 100)
    assert step_rows.step_spread(STEPS.clear()) is None


def test_outliers() -> None:
    walls = (10, 10, 10, 30, 50)
    rows = [(n, 0, 0, 2, n, "", wall, "input", wall) for n, wall in enumerate(walls)]
    assert step_rows.step_outliers(by_cause(*rows), PATHS, RANKS) == (
        model.StepOutlier("a.json", 4, 2, 4, 50, 40, "input", 40),
        model.StepOutlier("a.json", 4, 2, 3, 30, 20, "input", 20),
    )
    assert steps.outliers(by_cause(*rows[:3])).is_empty()


def test_inference() -> None:
    row = {
        "source": 1, "subject": 3, "device": 2, "name": "step[DECODE bs=4]", "phase": "decode", "requests": 4,
        "tokens": None, "start_ns": 5, "host_ns": 10, "device_ns": 9, "busy_ns": 8, "compute_ns": 7,
    }  # fmt: skip
    assert step_rows.inference_steps(pl.DataFrame([row]), PATHS, RANKS) == (
        model.InferenceStep("b.json", None, 2, "step[DECODE bs=4]", "decode", 4, None, 10, 9, 8, 7),
    )


def test_dashboard() -> None:
    reasons = {"sm_activity": "why"}
    found = Dashboard(0.5, 0.1, None, 0.25, 0.9, 0.8, reasons)
    assert step_rows.dashboard(found) == model.Dashboard(0.5, 0.1, None, 0.25, 0.9, 0.8, reasons)


def test_breakdown_lists_the_largest() -> None:
    row = dict.fromkeys(breakdown.SCHEMA, 0) | {"key": "k", "parent": None, "share": 0.5}
    rows = pl.DataFrame([row] * (step_rows.MOST + 1), schema=breakdown.SCHEMA)
    found = step_rows.breakdown_rows("kernel", rows)
    assert len(found) == step_rows.MOST
    assert (found[0].by, found[0].key, found[0].share) == ("kernel", "k", 0.5)


def test_segments_sum_a_cause_of_several_origins() -> None:
    totals = (CauseTotal("runtime", "input", "observed", 3), CauseTotal("runtime", "input", "inferred", 4))
    assert step_rows.rank_segments({"4": Rolled(9, 8, 1, None, totals)}) == (
        model.Segment("rank", "4", 9, 8, 1, None, {"input": 7}),
    )
