"""What a dashboard shows, on cases for paper."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput import activity, dashboard
from mpg_cli.goodput.names import NameRules
from tests.mpg_cli.datasets import call, comm, copy, dataset, graph, op, source

RULES = NameRules.load()


def measure(
    *ops: Any, window: tuple[int, int] = (0, 100), sm_count: int | None = None, events: tuple[Any, ...] = ()
) -> dashboard.Dashboard:
    rows = source(ops, events=events)
    rows["devices"] = [row | {"sm_count": sm_count} for row in rows["devices"]]
    made = dataset(rows)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    start, end = window
    spans = loaded.subjects.select("subject", start_ns=pl.lit(start, pl.Int64), end_ns=pl.lit(end, pl.Int64))
    return dashboard.measure(made, loaded, spans)


@pytest.mark.parametrize(
    ("ops", "gpu_util", "waiting"),
    [
        pytest.param([op(0, 30)], 0.3, 0, id="a kernel"),
        pytest.param([op(0, 30), op(20, 30, stream=8)], 0.5, 0, id="two at once count once"),
        pytest.param([copy(0, 30)], 0, 0, id="copies are not kernels"),
        pytest.param([graph(0, 30)], 0.3, 0, id="a graph of kernels"),
        pytest.param([op(0, 30), comm(10, 40)], 0.5, 0.2, id="communication alone from 30 to 50"),
        pytest.param([comm(10, 40), copy(10, 40)], 0.4, 0.4, id="a copy beside it does not use the SMs"),
        pytest.param([op(-20, 30), op(90, 30)], 0.2, 0, id="cut to the window"),
        pytest.param([op(200, 30)], 0, 0, id="outside the window"),
    ],
)
def test_residency(ops: list[Any], gpu_util: float, waiting: float) -> None:
    found = measure(*ops)
    assert (found.gpu_util, found.waiting) == pytest.approx((gpu_util, waiting))


def test_two_devices_are_one_share() -> None:
    found = measure(op(0, 30), op(0, 90, device=1), comm(30, 10))
    assert found.gpu_util == pytest.approx((40 + 90) / 200)
    assert found.waiting == pytest.approx(10 / 200)


def test_activity_and_occupancy() -> None:
    """0.5 x 40 + 1 x 20 of 100; (20 x 40 + 80 x 20) / 60 %."""
    half = op(0, 40, blocks_per_sm=0.5, occupancy=20.0)
    full = op(50, 20, blocks_per_sm=3.0, occupancy=80.0)
    found = measure(half, full)
    assert found.sm_activity == pytest.approx(0.4)
    assert found.occupancy == pytest.approx(0.4)
    assert (found.known, found.occupancy_known, found.reasons) == (1, 1, {})


def test_what_the_window_cuts_counts_for_what_is_inside() -> None:
    found = measure(op(-10, 20, blocks_per_sm=0.5, occupancy=50.0), op(90, 40, blocks_per_sm=2, occupancy=20))
    assert found.sm_activity == pytest.approx((0.5 * 10 + 10) / 100)
    assert found.occupancy == pytest.approx((0.5 * 10 + 0.2 * 10) / 20)


def test_kernels_at_once_use_no_more_than_the_time_they_run() -> None:
    kernels = [op(0, 40, stream=stream, blocks_per_sm=0.7, occupancy=10.0) for stream in (7, 8)]
    assert measure(*kernels).sm_activity == measure(*kernels).gpu_util == 0.4


@pytest.mark.parametrize(
    ("name", "grid", "block", "expected"),
    [
        pytest.param("cudaLaunchKernel", "[2, 3, 1]", "[256, 1, 1]", 6 / 12, id="blocks over SMs"),
        pytest.param("hipLaunchKernel", "[40, 1, 1]", "[64, 1, 1]", 1, id="more than there are SMs"),
        pytest.param("hipExtModuleLaunchKernel", "[768, 1, 1]", "[256, 1, 1]", 3 / 12, id="work items"),
    ],
)
def test_blocks_from_the_grid(name: str, grid: str, block: str, expected: float) -> None:
    kernel = op(0, 50, grid=grid, block=block, correlation=5)
    found = measure(kernel, sm_count=12, events=(call(5, name),))
    assert found.sm_activity == pytest.approx(expected / 2)
    assert found.known == 1


@pytest.mark.parametrize(
    ("more", "sm_count"),
    [
        pytest.param({"grid": "[2, 3, 1]"}, None, id="no number of SMs"),
        pytest.param({"grid": "[2, 3, 1]"}, 0, id="no SMs"),
        pytest.param({"grid": "[2, 3"}, 12, id="a damaged grid"),
        pytest.param({"grid": "[0, 0, 0]"}, 12, id="an empty grid"),
        pytest.param({}, 12, id="no grid"),
    ],
)
def test_unknown_blocks(more: dict[str, Any], sm_count: int | None) -> None:
    found = measure(op(0, 20, **more), op(20, 80, blocks_per_sm=1.0, occupancy=9.0), sm_count=sm_count)
    assert (found.known, found.occupancy_known) == pytest.approx((0.8, 0.8))
    assert (found.sm_activity, found.occupancy) == (None, None)
    assert found.reasons == {
        "sm_activity": "the blocks per SM are known for 80.0 % of kernel time only",
        "occupancy": "a possible occupancy is recorded for 80.0 % of kernel time only",
    }


@pytest.mark.parametrize(("blocks", "expected"), [(1.0, None), (0.0125, 0.0)])
def test_an_occupancy_of_nothing_needs_few_blocks(blocks: float, expected: float | None) -> None:
    """A block on every SM is at least one warp of 64 there: 1.6 %, which is not rounded to 0."""
    assert measure(op(0, 50, blocks_per_sm=blocks, occupancy=0.0)).occupancy == expected


def test_an_impossible_occupancy_counts_as_not_known() -> None:
    """Of 20 kernel nanoseconds one states 0 % with two blocks on every SM; the mean is of the 19 others."""
    found = measure(op(0, 19, blocks_per_sm=1.0, occupancy=40.0), op(30, 1, blocks_per_sm=2.0, occupancy=0.0))
    assert (found.known, found.occupancy_known) == (1, 0.95)
    assert (found.sm_activity, found.occupancy) == pytest.approx((0.2, 0.4))


def test_no_kernel() -> None:
    found = measure(copy(0, 30))
    assert (found.sm_activity, found.occupancy, found.known, found.occupancy_known) == (0, None, 1, 1)
    assert found.reasons == {"occupancy": "no kernel ran in the windows"}
