"""One row per collective, by hand. Times are milliseconds in the tables where nothing else is said."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput import collectives
from tests.mpg_cli.datasets import Row, comm, op
from tests.mpg_cli.goodput.collectives.ranks import GATHER, MS, busy_of, load, plain, reduce, windows_of

US = 1000


def summarise(*ranks: list[Row], world: int | None = None) -> list[dict[str, Any]]:
    loaded = load(*ranks)
    sources = loaded.sources.with_columns(world_size=pl.lit(world, pl.Int64))
    loaded = type(loaded)(loaded.ops, loaded.subjects, sources)
    matched, _ = collectives.match(loaded)
    return collectives.summarise(loaded, matched, busy_of(loaded), windows_of(loaded)).to_dicts()


def one(*ranks: list[Row], world: int | None = None) -> dict[str, Any]:
    (found,) = summarise(*ranks, world=world)
    return found


def test_who_came_last() -> None:
    found = one([reduce(10, 5, 1)], [reduce(13, 2, 1)], [reduce(11.5, 3.5, 1)])
    names = (
        "index",
        "name",
        "group",
        "seq",
        "matched_by",
        "last_rank",
        "ranks",
        "reason",
        "late_ns",
        "transient",
    )
    expected = (0, "allreduce", "0", 1, "sequence", 1, [0, 1, 2], "unknown", 0, False)
    assert tuple(found[name] for name in names) == expected
    assert (found["transfer_ns"], found["margin_ns"], found["waits"]) == (
        2 * MS,
        1.5 * MS,
        [3 * MS, 0, 1.5 * MS],
    )


@pytest.mark.parametrize(
    ("transfer", "margin", "near"),
    [
        (86 * US, 9 * US, True),
        (69 * US, 10 * US, True),
        (20 * US, 50 * US, False),
        (10 * US, 51 * US, False),
        (7 * US, 124 * US, False),
        (4 * US, 5 * US, True),
        (4 * US, 6 * US, False),
        (1000 * US, 254 * US, True),
        (1000 * US, 255 * US, False),
        (50 * US, 0, True),
    ],
)
def test_near_ties_at_whole_microseconds(transfer: int, margin: int, *, near: bool) -> None:
    end = 2000 * US
    ranks = [[comm(end - dur, dur)] for dur in (transfer, transfer + margin, end)]
    assert one(*ranks)["near_tie"] == near


@pytest.mark.parametrize(("margin", "near"), [(1004, True), (1005, False)])
def test_near_ties_where_times_are_finer(margin: int, *, near: bool) -> None:
    assert one([comm(1, 4001)], [comm(2, 4001 + margin)])["near_tie"] == near


def test_hidden_is_the_time_beside_computing() -> None:
    """Rank 0 computes in [12, 14) and [13, 16) of [10, 15), rank 1 nothing in [13, 15)."""
    computing = [op(12 * MS, 2 * MS), op(13 * MS, 3 * MS, stream=8)]
    found = one([reduce(10, 5, 1), *computing], [reduce(13, 2, 1), op(0, MS)])
    assert (found["hidden_ns"], found["exposed_ns"]) == (3 * MS, 4 * MS)


def test_bandwidth_of_an_all_reduce() -> None:
    """8 MB over 4 ranks in 2 ms: 4 GB/s, times 2 x 3/4."""
    about = {"in_elements": 2_000_000, "element_type": "Float", "group_size": 4}
    found = one([reduce(10, 5, 1, **about)], [reduce(13, 2, 1, **about)])
    assert (found["bytes"], found["algo_gbps"], found["bus_gbps"]) == (8_000_000, 4.0, 6.0)


def test_bandwidth_of_an_all_gather_counts_what_comes_out() -> None:
    """Each of 4 ranks puts in 2 MB: 8 MB in 2 ms are 4 GB/s, times 3/4."""
    about = {
        "in_elements": 500_000,
        "element_type": "Float",
        "group_size": 4,
        "collective": "_allgather_base",
    }
    found = one([reduce(10, 5, 1, **about)], [reduce(13, 2, 1, **about)])
    assert (found["bytes"], found["algo_gbps"], found["bus_gbps"]) == (8_000_000, 4.0, 3.0)


@pytest.mark.parametrize(("world", "bus"), [(2, 4.0), (3, None), (None, None)])
def test_without_a_recorded_size_the_group_must_be_the_whole_job(
    world: int | None, bus: float | None
) -> None:
    about: Row = {"in_elements": 2_000_000, "element_type": "Float"}
    found = one([plain(10, 5, **about)], [plain(13, 2, **about)], world=world)
    assert (found["algo_gbps"], found["bus_gbps"]) == (4.0, bus)


@pytest.mark.parametrize("sizes", [(5, 6), (5, None), (None, None)])
def test_no_bandwidth_where_ranks_move_different_amounts(sizes: tuple[int | None, ...]) -> None:
    ranks = ([reduce(10, 5, 1, in_elements=n, element_type="Float", group_size=2)] for n in sizes)
    found = one(*ranks)
    assert (found["bytes"], found["algo_gbps"], found["bus_gbps"]) == (None, None, None)


def test_several_collectives_by_index() -> None:
    rank = [reduce(10, 5, 1), plain(20, 2, GATHER), reduce(30, 1, 2)]
    found = summarise(rank, rank)
    assert [(row["index"], row["name"]) for row in found] == [
        (0, "allreduce"), (1, "ncclDevKernel_AllGather_RING_LL"), (2, "allreduce"),
    ]  # fmt: skip


def test_nothing_matched() -> None:
    assert summarise([reduce(10, 5, 1)]) == []
