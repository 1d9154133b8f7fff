"""Communicators, by hand. Times are milliseconds in the tables."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import collectives
from tests.mpg_cli.datasets import Row, comm, op
from tests.mpg_cli.goodput.collectives.ranks import (
    MS,
    SEND_RECV,
    busy_of,
    load,
    plain,
    reduce,
    spans_of,
    windows_of,
)

BROADCAST = "ncclDevKernel_Broadcast_RING_LL"


def groups(
    *ranks: list[Row],
    window: tuple[float, float] | None = None,
    nodes: list[str | None] | None = None,
    world: int | None = None,
    names: list[int | None] | None = None,
) -> list[dict[str, Any]]:
    loaded = load(*ranks, names=names)
    more = [pl.lit(world, pl.Int64).alias("world_size")]
    if nodes is not None:
        more.append(pl.Series("node", nodes, dtype=pl.String))  # type: ignore[arg-type]
    loaded = type(loaded)(loaded.ops, loaded.subjects, loaded.sources.with_columns(more))
    matched, _ = collectives.match(loaded)
    windows = windows_of(loaded)
    spans = spans_of(loaded, windows)
    if window is not None:
        low, high = (int(edge * MS) for edge in window)
        spans = spans.with_columns(start_ns=pl.lit(low, pl.Int64), end_ns=pl.lit(high, pl.Int64))
    busy = busy_of(loaded)
    summary = collectives.summarise(loaded, matched, busy, windows)
    return collectives.communicators(loaded, matched, summary, busy, spans).to_dicts()


def one(*ranks: list[Row], **about: Any) -> dict[str, Any]:
    (found,) = groups(*ranks, **about)
    return found


def test_two_ranks() -> None:
    """Collective 1 is [10, 15) and [13, 15), collective 2 [20, 21) and [18, 21); rank 0 computes in [12, 14)."""
    about = {"in_elements": 250_000, "element_type": "Float", "group_size": 2, "group_ranks": "[0, 1]"}
    first = [reduce(10, 5, 1, **about), reduce(20, 1, 2, **about), op(12 * MS, 2 * MS)]
    found = one(first, [reduce(13, 2, 1, **about), reduce(18, 3, 2, **about)])
    assert found == {
        "name": "allreduce", "group": "0", "size": 2, "ranks": [0, 1], "count": 2, "time_ns": 11 * MS,
        "hidden_ns": 2 * MS, "exposed_ns": 9 * MS, "transfer_ns": 6 * MS, "wait_ns": 5 * MS, "bytes": 2_000_000,
        "last_ranks": [0, 1], "last_counts": [1, 1], "bus_gbps": pytest.approx(2 / 3), "scope": "unknown",
        "reason": None,
    }  # fmt: skip


def test_only_what_lies_in_the_window_counts() -> None:
    found = one([reduce(10, 5, 1), reduce(20, 1, 2)], [reduce(13, 2, 1), reduce(18, 3, 2)], window=(12, 14))
    assert (found["count"], found["time_ns"], found["transfer_ns"]) == (1, 3 * MS, 2 * MS)
    assert (found["wait_ns"], found["last_ranks"], found["last_counts"]) == (MS, [1], [1])


@pytest.mark.parametrize(("elements", "total"), [((5, 5), 20), ((5, 6), None), ((5, None), None)])
def test_bytes_are_null_where_devices_differ(elements: tuple[int | None, ...], total: int | None) -> None:
    found = one(*([reduce(0, 4, 1, in_elements=n, element_type="Float")] for n in elements))
    assert found["bytes"] == total


def test_one_rank_alone_has_a_lower_bound() -> None:
    """8 MB in the shortest of [4, 2] ms, 1 MB in 1 ms, times 2 x 3/4: at least 6 GB/s."""
    about: Row = {"element_type": "Float", "group_size": 4}
    sizes = [(0, 4, 2_000_000), (10, 2, 2_000_000), (20, 1, 250_000)]
    found = one([reduce(at, dur, in_elements=n, **about) for at, dur, n in sizes])
    assert (found["transfer_ns"], found["wait_ns"], found["bus_gbps"], found["bytes"]) == (
        None,
        None,
        6.0,
        17_000_000,
    )
    assert (found["last_ranks"], found["ranks"]) == (None, [0])
    assert found["reason"].startswith("one rank alone")


def test_a_file_that_names_no_rank() -> None:
    found = one([reduce(0, 4)], names=[None])
    assert (found["ranks"], found["count"]) == ([], 1)
    assert found["reason"].startswith("one rank alone")


@pytest.mark.parametrize("name", [BROADCAST, SEND_RECV])
def test_where_nobody_waits_for_all(name: str) -> None:
    found = one([plain(0, 4, name)], [plain(1, 3, name)])
    assert (found["transfer_ns"], found["time_ns"]) == (None, 7 * MS)
    assert found["reason"].startswith("not every rank waits")


def test_unmatched() -> None:
    found = one([plain(0, 4), plain(9, 1)], [plain(1, 3)])
    assert (found["transfer_ns"], found["bytes"], found["count"]) == (None, None, 2)
    assert found["reason"].startswith("its kernels could not be matched")


def test_matched_in_part() -> None:
    found = one([reduce(0, 4, 1), reduce(9, 1, 2)], [reduce(1, 3, 1)])
    assert (found["transfer_ns"], found["wait_ns"], found["time_ns"]) == (6 * MS, MS, 8 * MS)
    assert found["reason"].startswith("transfer and wait are those of 2 of 3 kernels")


def test_kinds_and_groups_apart_most_time_first() -> None:
    rank = [reduce(0, 1, 1, group="a"), reduce(5, 2, 1, group="b"), plain(10, 4, BROADCAST)]
    rank += [reduce(20, 3, 1, group="a", group_ranks="[0, 1]")]
    found = groups(rank, rank)
    assert [(row["name"], row["group"], row["time_ns"] // MS) for row in found] == [
        (BROADCAST, None, 8), ("allreduce", "a", 6), ("allreduce", "b", 4), ("allreduce", "a", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "listed", "size", "world", "scope"),
    [
        (["a", "a"], "[0, 1]", 2, None, "intra-node"),
        (["a", "b"], "[0, 1]", 2, None, "inter-node"),
        (["a", None], "[0, 1]", 2, None, "unknown"),
        (["a", "a"], "[0, 1, 2]", 3, None, "unknown"),
        (["a", "b"], "[0, 1, 2]", 3, None, "inter-node"),
        (["a", "a"], "[0, 1, ...", 40, None, "unknown"),
        (["a", "a"], None, None, 2, "intra-node"),
        (["a", "a"], None, None, 4, "unknown"),
        (["a", "a"], None, None, None, "unknown"),
        (["a", "a"], "7", 2, None, "intra-node"),
        (["a", "a"], "[" * 100_000, 2, None, "intra-node"),
        (None, "[0, 1]", 2, None, "unknown"),
    ],
)
def test_scope(nodes: Any, listed: str | None, size: int | None, world: int | None, scope: str) -> None:
    about = {"group_ranks": listed, "group_size": size}
    ranks = [reduce(0, 4, 1, **about)], [reduce(1, 3, 1, **about)]
    assert one(*ranks, nodes=nodes, world=world)["scope"] == scope


def test_nothing_communicates() -> None:
    assert groups([op(0, 5)], [op(0, 5)]) == []


records = st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(0, 2))
rank = st.lists(records, max_size=3, unique_by=lambda record: record[2])


@settings(max_examples=15, deadline=None)
@given(st.tuples(rank, rank), st.integers(0, 10), st.integers(1, 15))
def test_parts_add_up_to_the_time_in_the_window(
    ranks: tuple[list[tuple[int, int, int]], ...], low: int, length: int
) -> None:
    def row(start: int, dur: int, seq: int) -> Row:
        return comm(start, dur, collective="allreduce", group="0", seq=seq)

    files = [[op(3, 4), *(row(*record) for record in rows)] for rows in ranks]
    window = range(low, low + length)
    pieces = [
        (t, s, r) for r, rows in enumerate(ranks) for a, d, s in rows for t in range(a, a + d) if t in window
    ]
    found = groups(*files, window=(low / MS, (low + length) / MS))
    assert sum(row["time_ns"] for row in found) == len(pieces)
    assert sum(row["hidden_ns"] for row in found) == sum(3 <= t < 7 for t, _, _ in pieces)
    both = {s for _, _, s in ranks[0]} & {s for _, _, s in ranks[1]}
    shortest = {s: min(d for rows in ranks for _, d, q in rows if q == s) for s in both}
    ends = {(s, r): a + d for r, rows in enumerate(ranks) for a, d, s in rows}
    moving = sum(s in both and t >= ends[s, r] - shortest[s] for t, s, r in pieces)
    assert sum(row["transfer_ns"] or 0 for row in found) == moving
    assert sum(row["wait_ns"] or 0 for row in found) == sum(s in both for _, s, _ in pieces) - moving
