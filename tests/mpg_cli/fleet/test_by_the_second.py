"""The account and the waits of random clusters, held against brute force over every second and chip."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars import col

from mpg_cli.goodput.scheduling import account, waits
from tests.mpg_cli.fleet.by_the_second import AWAY, LIMIT, Attempt, Cluster, Node
from tests.mpg_cli.fleet.clusters import S, away, computed, file, node, switch

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from mpg_cli.fleet.compute import Computed
    from tests.mpg_cli.fleet.clusters import File

END = 30
PARTS = [("p",), ("q",), ("p", "q")]
REASONS = [None, None, LIMIT, "Dependency", "BeginTime", "JobHeldUser"]


class Space:
    """Which chips are taken when, so that no random job gets what another has."""

    def __init__(self, nodes: list[Node]) -> None:
        self.left = {node.name: [node.chips] * END for node in nodes}

    def take(self, chips: dict[str, int], start: int, end: int) -> bool:
        if any(self.left[name][t] < n for name, n in chips.items() for t in range(start, end)):
            return False
        for name, n in chips.items():
            for second in range(start, end):
                self.left[name][second] -= n
        return True


@st.composite
def nodes_of(draw: DrawFn) -> list[Node]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        leaf = draw(st.sampled_from(["s1", "s2", None]))
        kind, parts = draw(st.sampled_from(["h100", "a100"])), draw(st.sampled_from(PARTS))
        one = Node(f"n{number}", draw(st.integers(1, 8)), kind, parts, leaf)
        if draw(st.integers(0, 3)) == 0:
            one.in_use = draw(st.integers(0, one.chips))
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            start, state = draw(st.integers(0, END - 1)), draw(st.sampled_from(list(AWAY)))
            if start not in {known for known, _, _ in one.away}:  # of one start and cause only one counts
                one.away.append((start, draw(st.integers(start + 1, END)), state))
        found.append(one)
    return found


def spread(need: int, names: list[str]) -> dict[str, int]:
    """Chips over nodes, as even as can be, the first ones taking the rest."""
    return {name: need // len(names) + (i < need % len(names)) for i, name in enumerate(names)}


def begin(draw: DrawFn, one: Attempt, space: Space, nodes: list[Node]) -> None:
    """Let an attempt run, where there is space; else it waits until the end or until it is cancelled."""
    names = draw(st.permutations([node.name for node in nodes]))[: one.count]
    start = draw(st.integers(min(max(one.eligible or 0, one.submit), END), END))
    end = draw(st.integers(start, END))
    chips = spread(one.need, names)
    if one.eligible is not None and start < end and len(names) == one.count and space.take(chips, start, end):
        one.start, one.end, one.chips = start, end, chips
        states = ["COMPLETED", "PREEMPTED", *(["RUNNING"] if end == END else [])]
        one.state = draw(st.sampled_from(states))
        if one.state != "RUNNING" and draw(st.integers(0, 4)) == 0:
            one.suspended = draw(st.integers(1, 4))
            one.suspended = min(one.suspended, end - start)
        return
    one.end = draw(st.integers(one.submit, END))
    one.state = "PENDING" if one.end == END else "CANCELLED"


@st.composite
def clusters(draw: DrawFn) -> Cluster:
    nodes = draw(nodes_of())
    space, attempts = Space(nodes), list[Attempt]()
    raw = 0
    while raw < draw(st.integers(1, 12)):
        raw += 1
        submit = draw(st.integers(0, END - 1))
        count = draw(st.sampled_from([1, 1, 2]))
        eligible = draw(st.sampled_from([submit, submit, submit + 3, None]))
        about: dict[str, Any] = {
            "need": draw(st.integers(count, 6)),
            "count": count,
            "kind": draw(st.sampled_from([None, "h100", "a100"])),
            "partition": draw(st.sampled_from([None, "p", "q", "p,q"])),
            "switches": draw(st.sampled_from([None, None, 1, 2])),
            "patience": draw(st.sampled_from([300, 4, 9])),
            "priority": draw(st.sampled_from([None, 1, 2])),
            "reason": draw(st.sampled_from(REASONS)),
        }
        one = Attempt(raw, str(raw), 1, submit, eligible, None, END, chips={}, state="PENDING", **about)
        begin(draw, one, space, nodes)
        attempts.append(one)
        if one.state == "PREEMPTED" and one.end < END:
            again = Attempt(
                raw, str(raw), 2, one.end, min(one.end + 2, END), None, END, chips={}, state="", **about
            )
            begin(draw, again, space, nodes)
            attempts.append(again)
        elif draw(st.integers(0, 4)) == 0:  # a component of the same job
            raw += 1
            other = Attempt(raw, one.job, 1, submit, eligible, None, END, chips={}, state="PENDING", **about)
            begin(draw, other, space, nodes)
            attempts.append(other)
            one.partners = other.partners = [one, other]
    return Cluster(nodes, attempts, END)


def seconds(value: int | None) -> int | None:
    return None if value is None else value * S


def record(one: Attempt) -> dict[str, Any]:
    is_over = one.state not in {"PENDING", "RUNNING"}
    return {
        "kind": "job", "raw_id": str(one.raw), "job": one.job, "state": one.state, "submit_ns": one.submit * S,
        "eligible_ns": seconds(one.eligible), "start_ns": seconds(one.start),
        "end_ns": one.end * S if is_over else None, "suspended_ns": one.suspended * S,
        "chips": sum(one.chips.values()), "chips_requested": one.need,
        "nodes": json.dumps(list(one.chips)) if one.chips else None, "node_count": one.count, "chip_type": one.kind,
        "partition": one.partition, "switches": one.switches, "priority": one.priority, "reason": one.reason,
        "switches_wait_ns": None if one.patience == 300 else one.patience * S,
    }  # fmt: skip


def files(cluster: Cluster) -> File:
    leaves = sorted({one.leaf for one in cluster.nodes if one.leaf})
    return file(
        [record(one) for one in cluster.attempts],
        nodes=[
            node(one.name, one.chips, one.kind, *one.parts, chips_allocated=one.in_use, at_ns=END * S)
            for one in cluster.nodes
        ],
        capacity=[away(one.name, *span) for one in cluster.nodes for span in one.away],
        topology=[
            switch(leaf, ",".join(one.name for one in cluster.nodes if one.leaf == leaf)) for leaf in leaves
        ],
        as_of=END,
    )


def told_waits(found: Computed, rows: pl.DataFrame, value: pl.Expr) -> Counter[tuple[int, int, str]]:
    keys = found.attempts.select("id", raw=col.raw_id.cast(pl.Int64), number="attempt")
    met = rows.join(keys, on="id").group_by("raw", "number", "cause").agg(value.sum().alias("ns"))
    return Counter({(raw, number, cause): ns / S for raw, number, cause, ns in met.iter_rows()})


def told_account(found: Computed) -> Counter[tuple[str, tuple[str, ...], str]]:
    assert found.closed is not None
    pools = found.stock.nodes.unique("pool").select("pool", "chip_type", "partitions")
    rows = found.closed.rows.join(pools, on="pool")
    told: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    for kind, parts, cause, ns in rows.select("chip_type", "partitions", "cause", "chip_ns").iter_rows():
        told[kind, tuple(sorted(parts)), cause] += ns / S
    return +told


@settings(max_examples=30, deadline=None)
@given(clusters(), st.integers(0, END - 1), st.integers(1, END))
def test_every_second(cluster: Cluster, begin: int, length: int) -> None:
    end = min(begin + length, END)
    found = computed(files(cluster), start=begin, end=end)
    ids = {(int(raw), n): row for row, raw, n in found.attempts.select("id", "raw_id", "attempt").iter_rows()}
    for one in cluster.attempts:
        one.id = ids[one.raw, one.number]
        one.partners = one.partners or [one]
    if all(one.eligible is None for one in cluster.attempts):  # then the file does not tell
        for one in cluster.attempts:
            one.eligible = one.submit
    assert told_account(found) == cluster.account(begin, end)
    wanted = cluster.waits(0, END)
    length_of = col.end_ns - col.start_ns
    assert told_waits(found, found.waited, col.wait_ns) == wanted
    pieces = waits.pieces(found.waiting, found.segments, found.first)
    assert told_waits(found, pieces, length_of) == wanted
    assert pieces.select((length_of > 0).all()).item()
    joined = pieces.group_by("id").agg(col.start_ns.min(), col.end_ns.max(), ns=length_of.sum())
    both = found.waiting.select("id", "submit_ns", "until_ns").join(joined, on="id", how="full")
    same = (col.submit_ns == col.start_ns) & (col.until_ns == col.end_ns) & (length_of == col.ns)
    assert both.select(same.all()).item()
    inside = waits.within(found.waiting, found.window)
    cut = waits.decompose(inside, found.segments, account.clipped(found.first, found.window))
    assert told_waits(found, cut, col.wait_ns) == cluster.waits(begin, end)
