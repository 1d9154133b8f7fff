"""PG, MFU and HFU of judged windows, and why they may be null."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import judging, ledger
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.ratios import goodput
from tests.mpg_cli.datasets import graph, step
from tests.mpg_cli.goodput.judged import (
    MM,
    causes,
    file,
    judge,
    kernel,
    launch,
    operator,
    product,
    products,
    with_opaque,
)

if TYPE_CHECKING:
    from mpg_cli.goodput.judging import Judged
    from mpg_cli.report.model import Goodput


STEPS = [step(1, 0, 100), step(2, 100, 200)]


def ratios(judged: Judged, productive: int, *others: tuple[str, int], view: str = "default") -> Goodput:
    """The ratios of a window in which `productive` is judged."""
    rows = pl.DataFrame(
        [(0, cause, ns, "observed", None) for cause, ns in (("productive", productive), *others) if ns],
        ledger.ROW_SCHEMA, orient="row",
    )  # fmt: skip
    if judged.rows is not None:
        rows = ledger.refine(rows, "productive", judged.rows.with_columns(subject=pl.lit(0, pl.Int64))).rows
    return goodput(ledger.roll(rows, load_taxonomy(), view), "a window", view, judged)


def test_mfu_is_rg_times_pg() -> None:
    found = ratios(judge(products(10, 30)), 40, ("unknown", 60))
    assert found.rg and found.pg and found.mfu and found.hfu  # noqa: PT018
    assert (found.rg.value, found.pg.value, found.mfu.value) == (0.4, 0.1, 0.04)
    assert (found.mfu.numerator_ns, found.mfu.denominator_ns) == (4, 100)
    assert (found.pg.basis, found.pg.coverage) == ("bf16 peak of Tiny", 1)
    assert "pg" not in found.reasons


def test_the_view_of_the_fleet_paper_moves_pg_and_not_mfu() -> None:
    judged = judge(products(10, 30))
    here, there = (
        ratios(judged, 40, ("communication", 60), view=view) for view in ("default", "fleet-paper")
    )
    assert here.pg and there.pg and here.mfu and there.mfu  # noqa: PT018
    assert (here.pg.denominator_ns, there.pg.denominator_ns) == (40, 100)
    assert here.pg.numerator_ns == there.pg.numerator_ns
    assert here.mfu == there.mfu


def test_hfu_counts_recomputation() -> None:
    node = operator(0, 40, "autograd::engine::evaluate_function: CheckpointBackward", external_id=8)
    again = operator(2, 20, "aten::mm", *MM, external_id=9, sequence=3)
    event, ran = product(100, 10, 1)
    judged = judge(file([ran, kernel(200, 30, 9)], [event, node, again, launch(39, 99)]))
    assert causes(judged) == {"ideal": 2, "memory_bound": 4, "kernel_inefficiency": 4, "recompute": 30}
    found = ratios(judged, 40)
    assert found.mfu and found.hfu  # noqa: PT018
    assert (found.mfu.numerator_ns, found.hfu.numerator_ns) == (2, 4)


def test_bounds_where_too_little_is_covered() -> None:
    found = ratios(judge(with_opaque(10, 90)), 100, ("unknown", 100))
    assert (found.pg, found.mfu, found.hfu) == (None, None, None)
    assert (found.pg_min, found.pg_max) == (0.02, 0.92)
    assert set(found.reasons) == {"sg", "mpg", "pg", "mfu", "hfu"}
    assert "acme::moe" in found.reasons["mfu"]


def test_declared_flops_give_no_hfu() -> None:
    found = ratios(judge(products(40, 60, steps=STEPS), flops_per_step=20_000), 100)
    assert (found.mfu is not None, found.hfu) == (True, None)
    assert "recomputation" in found.reasons["hfu"]


def test_graph_level_rows_make_pg_unknowable_too() -> None:
    event, ran = product(0, 10)
    judged = judge(file([ran, graph(200, 30)], [event]))
    found = ratios(judged, 10, ("unclassified_busy", 30), ("unknown", 60))
    assert (found.rg, found.pg, found.mfu) == (None, None, None)
    assert (found.rg_min, found.rg_max) == (0.1, 0.4)
    assert (found.pg_min, found.pg_max) == (2 / 40, 32 / 40)
    assert found.reasons["pg"] == found.reasons["rg"]


def test_nothing_ran() -> None:
    found = ratios(judging._nothing("no computing in the window"), 0, ("unknown", 60))
    assert (found.pg, found.pg_min, found.reasons["pg"]) == (None, None, "no computing in the window")


def test_a_window_without_computing_is_not_empty() -> None:
    judged = dataclasses.replace(judging._nothing(""), rows=None)
    assert ratios(judged, 0, ("unknown", 60)).reasons["pg"] == "no computing in the window"
    assert ratios(judged, 0).reasons["pg"] == "the window is empty"
