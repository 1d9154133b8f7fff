"""Program Goodput on its way into the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from mpg_cli import analysis
from mpg_cli.goodput import judging, ledger
from mpg_cli.rows.operators import MOST, operator_rows, unmodelled_rows
from tests.mpg_cli.datasets import dataset, op, source
from tests.mpg_cli.goodput.judged import file, judge, kernel, operator, product


def test_operators_as_rows() -> None:
    found = judge(file([product(0, 10)[1]], [product(0, 10)[0]]))
    (row,) = operator_rows(found.ops)
    assert (row.op, row.dims, row.dtypes) == (
        "aten::mm",
        "[[10, 10], [10, 10]]",
        '["c10::BFloat16", "c10::BFloat16"]',
    )
    assert (row.count, row.kernels, row.time_ns, row.flops, row.bytes) == (1, 1, 10, 2000, 600)
    assert (row.bound, row.flops_source, row.recoverable_ns, row.recompute_ns) == ("memory", "shapes", 4, 0)


def test_what_has_no_model_as_rows() -> None:
    events = [operator(0, 1, "acme::x", external_id=1), product(0, 1, 2)[0]]
    (row,) = unmodelled_rows(judge(file([kernel(0, 30, 1)], events)).unmodelled)
    assert (row.op, row.count, row.time_ns, row.share) == ("acme::x", 1, 30, 1.0)


def test_nothing_known_gives_no_rows() -> None:
    assert operator_rows(pl.DataFrame()) == unmodelled_rows(pl.DataFrame()) == ()


def test_a_report_lists_only_so_many() -> None:
    table = pl.DataFrame({"op": ["x"] * (MOST + 1), "count": 1, "time_ns": 1, "share": 0.1})
    assert len(unmodelled_rows(table)) == MOST


@pytest.mark.parametrize("excess", [0, 1])
def test_program_rows_that_do_not_fit_are_a_bug(excess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program layer larger than the computing time is never put into the ledger."""
    rows = pl.DataFrame([(0, "ideal", 10 + excess, "inferred", None)], ledger.ROW_SCHEMA, orient="row")
    judged = replace(judging._nothing(""), rows=rows, ideal_ns=10, hfu_ns=10)

    def fixed(*_: Any) -> judging.Judged:
        return judged

    monkeypatch.setattr(judging, "judge", fixed)
    made = dataset(source([op(0, 10), op(20, 5, name="Memcpy", kind="memcpy")]))
    if excess:
        with pytest.raises(ledger.LedgerNotClosed):
            analysis.analyze(made, analysis.AnalysisOptions())
    else:
        pg = analysis.analyze(made, analysis.AnalysisOptions()).goodput.pg
        assert pg is not None
        assert (pg.numerator_ns, pg.denominator_ns) == (10, 10)
