"""Runs of programs of which the profiler lost the records."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_parsers.xla.losses import lost_runs

RUN = "jit_f:XLA GPU module"
SCHEMA = {
    "thread": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64, "kind": pl.String, "name": pl.String,
    "correlation": pl.Int64,
}  # fmt: skip
Row = tuple[int, int, int, str, str, int | None]


def run(start: int, name: str = RUN, thread: int = 1) -> Row:
    return (thread, start, 10, "annotation", name, None)


def call(start: int, thread: int = 1, correlation: int | None = 5) -> Row:
    return (thread, start, 1, "runtime", "cuLaunchKernel", correlation)


@pytest.mark.parametrize(
    ("rows", "lost"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([call(3)], 0, id="no runs"),
        pytest.param([run(0), call(3), run(20), call(29)], 0, id="all launched"),
        pytest.param(
            [run(0), call(3), run(20), call(30), run(40)], 2, id="a launch after the end is of no run"
        ),
        pytest.param([run(0), call(3), run(20), call(23, thread=2)], 1, id="nor is another thread's"),
        pytest.param(
            [run(0), call(3), run(20), call(23, correlation=None)], 1, id="nor what led to no record"
        ),
        pytest.param([run(0), run(20)], 0, id="a program that never launches"),
        pytest.param([run(0), call(3), run(20, "jit_g:XLA GPU module")], 0, id="the same of two programs"),
        pytest.param([run(0, "jit_f"), call(3), run(20, "jit_f")], 0, id="no run of a GPU"),
    ],
)
def test_lost_runs(rows: list[Row], lost: int) -> None:
    found = list(lost_runs(pl.DataFrame(rows, SCHEMA, orient="row")))
    assert [(notice.kind, notice.count) for notice in found] == (
        [("device_records_lost", lost)] if lost else []
    )
    assert all("(jit_f)" in notice.message for notice in found)
