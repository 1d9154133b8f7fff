"""Nesting of operators and launch calls, and what recomputes, against definitions in plain Python."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import operators
from tests.mpg_cli.datasets import dataset, host, source
from tests.mpg_cli.goodput.judged import launch, operator

if TYPE_CHECKING:
    from tests.mpg_cli.datasets import Row

EVALUATE = operators.EVALUATE + ": MmBackward0"
ACCUMULATE = operators.EVALUATE + ": torch::autograd::AccumulateGrad"
FORWARD = {"sequence": 5, "forward_thread": 0}


def numbered(events: list[Row]) -> list[Row]:
    """Operators with external ids 1, 2, …, launches with correlations 1, 2, …"""
    ops = (event for event in events if event["kind"] == "op")
    launches = (event for event in events if event["kind"] == "runtime")
    named = [event | {"external_id": i} for i, event in enumerate(ops, 1)]
    return named + [event | {"correlation": i} for i, event in enumerate(launches, 1)]


def nest(*events: Row) -> tuple[dict[int, int | None], dict[int, int | None], set[int]]:
    """Parents by external id, operators by correlation, and the operators that recompute."""
    return nested(dataset(source(events=numbered(list(events)))))


def nested(made: Any) -> tuple[dict[int, int | None], dict[int, int | None], set[int]]:
    found = operators.load(made)
    ids = dict(found.ops.select("row", "external_id").iter_rows())
    parents = {ids[row]: ids.get(up) for row, up in found.ops.select("row", "parent").iter_rows()}
    launches = {c: ids.get(row) for c, row in found.launches.select("correlation", "op").iter_rows()}
    return parents, launches, set(found.ops.filter("recompute")["external_id"])


def op(start: int, end: int, name: str = "aten::mm", **more: Any) -> Row:
    return operator(start, end - start, name, **more)


@pytest.mark.parametrize(
    ("events", "parents", "launches"),
    [
        pytest.param([op(0, 10), op(2, 8), launch(4, 1)], {1: None, 2: 1}, {1: 2}, id="nested"),
        pytest.param([op(0, 10), op(10, 20), launch(10, 1)], {1: None, 2: None}, {1: 2}, id="touching"),
        pytest.param([op(0, 10), launch(0, 1), launch(9, 2), launch(10, 3)], {1: None}, {1: 1, 2: 1, 3: None},
                     id="launches at the edges"),
        pytest.param([op(0, 10), op(0, 4), launch(5, 1)], {1: None, 2: 1}, {1: 1}, id="same start"),
        pytest.param([op(0, 10, "aten::linear"), op(0, 10), op(0, 10, "aten::addmm"), launch(5, 1)],
                     {1: None, 2: 1, 3: 2}, {1: 3}, id="the lower id is around"),
        pytest.param([op(0, 10), op(3, 3), launch(3, 1)], {1: None, 2: 1}, {1: 1}, id="no time holds nothing"),
        pytest.param([op(3, 3), op(3, 5)], {1: 2, 2: None}, {}, id="nothing is inside what starts with it"),
        pytest.param([op(0, 10), op(4, 11), launch(10, 1)], {1: None, 2: 1}, {1: 2}, id="ends cross by rounding"),
        pytest.param([op(0, 10), op(4, 12), op(11, 14), launch(13, 1), launch(14, 2)],
                     {1: None, 2: 1, 3: 2}, {1: 3, 2: None}, id="each crosses the next"),
        pytest.param([op(0, 10), op(4, 12), op(11, 12), op(12, 14)], {1: None, 2: 1, 3: 2, 4: None}, {},
                     id="inside the part that crosses"),
        pytest.param([op(0, 10), op(4, 40), op(0, 9, thread=2), op(1, 2, thread=2)],
                     {1: None, 2: 1, 3: None, 4: 3}, {}, id="what crosses ends with its thread"),
        pytest.param([op(5, 9), op(0, 3), launch(1, 1), launch(7, 2)], {1: None, 2: None}, {1: 2, 2: 1},
                     id="not in order"),
        pytest.param([op(0, 10), op(1, 9, thread=2), launch(5, 1), launch(5, 2, thread=2)],
                     {1: None, 2: None}, {1: 1, 2: 2}, id="two threads"),
        pytest.param([op(0, 10), op(1, 9, process=2), launch(5, 1), launch(5, 2, process=2)],
                     {1: None, 2: None}, {1: 1, 2: 2}, id="two processes"),
        pytest.param([op(0, 10), op(1, 9), launch(5, 1, thread=2)], {1: None, 2: None}, {1: None},
                     id="threads that launch nothing are not nested"),
        pytest.param([op(0, 10), op(1, 9)], {1: None, 2: 1}, {}, id="no launch is recorded at all"),
        pytest.param([op(0, 10, thread=None), launch(5, 1, thread=None)], {1: None}, {1: 1}, id="no thread"),
        pytest.param([launch(5, 1)], {}, {1: None}, id="no operators"),
        pytest.param([], {}, {}, id="nothing"),
    ],
)  # fmt: skip
def test_nesting(events: list[Row], parents: dict[int, int | None], launches: dict[int, int | None]) -> None:
    assert nest(*events)[:2] == (parents, launches)


def test_only_operators_and_launch_calls_count() -> None:
    others = [
        host(0, 20, "ProfilerStep#1"),
        host(0, 20, "forward", "python"),
        host(4, 1, "cudaStreamSynchronize", "runtime", correlation=9),
    ]
    parents, launches, _ = nested(dataset(source(events=[*numbered([op(1, 9), launch(5, 1)]), *others])))
    assert (parents, launches) == ({1: None}, {1: 1})


def test_an_operator_that_is_still_open_is_left_out() -> None:
    assert nest(op(0, 10) | {"dur_ns": None}, launch(5, 1)) == ({}, {1: None}, set())


def test_sources_are_apart() -> None:
    files = [source(events=numbered([op(0, 10), launch(2, 1)])) for _ in range(2)]
    found = operators.load(dataset(*files))
    rows = dict(found.ops.select("row", "source").iter_rows())
    assert [(s, rows[row]) for s, row in found.launches.select("source", "op").iter_rows()] == [
        (0, 0),
        (1, 1),
    ]


def test_equal_calls_are_one() -> None:
    found = operators.load(dataset(source(events=numbered([op(0, 1), op(1, 2), op(2, 3, "aten::add")]))))
    assert found.calls["name"].to_list() == ["aten::add", "aten::mm"]
    assert found.ops.sort("start_ns")["call"].to_list() == [1, 1, 0]
    assert (found.rows, list(found.column("call")), list(found.column("parent"))) == (
        3,
        [1, 1, 0],
        [-1, -1, -1],
    )


# ------------------------------------------------------------------------------------------ recomputation


@pytest.mark.parametrize(
    ("events", "recomputes"),
    [
        pytest.param([op(0, 9, EVALUATE), op(1, 8, **FORWARD), op(2, 3)], {2, 3}, id="without reentry"),
        pytest.param([op(0, 9, EVALUATE), op(1, 8, "MmBackward0", sequence=5, forward_thread=1), op(2, 3)], set(),
                     id="a backward operator"),
        pytest.param([op(0, 9, EVALUATE), op(1, 8, "MmBackward0", **FORWARD), op(2, 3)], set(), id="by name"),
        pytest.param([op(0, 9, EVALUATE), op(1, 8, sequence=5)], {2}, id="no forward thread recorded"),
        pytest.param([op(0, 9, EVALUATE), op(1, 8)], set(), id="no sequence number"),
        pytest.param([op(0, 9, "forward"), op(1, 8, **FORWARD)], set(), id="the forward pass"),
        pytest.param([op(0, 9, operators.REENTRANT), op(1, 8), op(2, 3)], {1, 2, 3}, id="reentrant"),
        pytest.param([op(0, 9, EVALUATE), op(1, 4, **FORWARD), op(5, 8)], {2}, id="only what is inside"),
        pytest.param([op(0, 9, EVALUATE, **FORWARD)], set(), id="the node itself"),
        pytest.param([op(0, 9, ACCUMULATE, **FORWARD)], set(), id="a node not named Backward"),
        pytest.param([op(0, 9, EVALUATE, thread=2), op(1, 8, operators.REENTRANT, thread=2),
                      op(2, 7, **FORWARD, thread=2)], {2}, id="a thread that launches nothing"),
        pytest.param([op(0, 9, EVALUATE), op(0, 9, **FORWARD), op(0, 9)], {2, 3}, id="at the same times"),
        pytest.param([op(0, 9), op(0, 9, operators.REENTRANT)], {2}, id="not what is around it"),
        pytest.param([op(0, 9, EVALUATE), op(9, 12, **FORWARD)], set(), id="after the node"),
        pytest.param([op(0, 9, EVALUATE), op(3, 3, **FORWARD), op(3, 4)], {2}, id="without length"),
        pytest.param([op(3, 3, EVALUATE), op(3, 4, **FORWARD)], set(), id="a node without length"),
        pytest.param([op(0, 9, EVALUATE), op(4, 15), op(11, 13, **FORWARD)], {3}, id="the node ends too early"),
        pytest.param([op(0, 9, EVALUATE), op(2, 8, EVALUATE), op(4, 6, **FORWARD)], {3}, id="nodes nest"),
        pytest.param([op(0, 9, EVALUATE), op(1, 8, **FORWARD, thread=2), launch(3, 1, thread=2)], set(),
                     id="another thread"),
    ],
)  # fmt: skip
def test_recomputation(events: list[Row], recomputes: set[int]) -> None:
    assert nest(*events, launch(9, 1))[2] == recomputes


# --------------------------------------------------------------------------------------------- the oracle


def ancestors(events: list[Row], index: int) -> list[int]:
    """The operators around an event, innermost first: of those before it on its thread, the last still open."""
    chain, start, limit = [], events[index]["start_ns"], index
    for at in reversed(range(limit)):
        other = events[at]
        same = all(other[key] == events[index][key] for key in ("process", "thread"))
        if same and other["kind"] == "op" and other["start_ns"] + other["dur_ns"] > start:
            chain.append(at)
            start = other["start_ns"]
    return chain


def recomputing(events: list[Row], index: int) -> bool:
    names = [events[at]["name"] for at in (index, *ancestors(events, index))]
    if any(name.startswith(operators.REENTRANT) for name in names):
        return True
    for at in (index, *ancestors(events, index)):
        one = events[at]
        forward = one.get("sequence") is not None and not one.get("forward_thread")
        if forward and "Backward" not in one["name"]:
            around = (events[up]["name"] for up in ancestors(events, at))
            if any(name.startswith(operators.EVALUATE) for name in around):
                return True
    return False


NAMES = ("aten::mm", EVALUATE, ACCUMULATE, "MmBackward0", operators.REENTRANT)
one_event = st.builds(
    lambda kind, start, dur, thread, name, sequence, forward: (
        launch(start, 0, thread=thread)
        if kind == "launch"
        else op(start, start + dur, name, thread=thread, sequence=sequence, forward_thread=forward)
    ),
    st.sampled_from(["launch", "op", "op"]),
    st.integers(0, 12),
    st.integers(0, 8),
    st.integers(1, 2),
    st.sampled_from(NAMES),
    st.none() | st.just(3),
    st.none() | st.integers(0, 1),
)


def in_order(events: list[Row]) -> list[Row]:
    """In order of start, the longest first, operators before launches; numbered."""
    for _ in range(2):  # the second time after numbering, which puts launches last
        events = sorted(numbered(events), key=lambda e: (e["start_ns"], e["kind"] == "runtime", -e["dur_ns"]))
    return events


@settings(max_examples=40, deadline=None)
@given(st.lists(one_event, max_size=12))
def test_against_the_definition(drawn: list[Row]) -> None:
    drawn += [launch(30, 0, thread=thread) for thread in (1, 2)]  # so that both threads launch something
    events = in_order(drawn)
    parents, launches, recompute = nested(dataset(source(events=events)))
    for index, event in enumerate(events):
        around = ancestors(events, index)
        innermost = events[around[0]]["external_id"] if around else None
        if event["kind"] == "op":
            assert parents[event["external_id"]] == innermost
            assert (event["external_id"] in recompute) == recomputing(events, index)
        else:
            assert launches[event["correlation"]] == innermost


def walked(events: list[Row]) -> tuple[dict[int, int | None], dict[int, int | None], set[int]]:
    """What `nested` gives, of events in order: each thread's are walked with a stack of the operators still open."""
    parents, launches, recomputing = {}, {}, set()
    open_on: dict[Any, list[tuple[int, int, bool, bool]]] = {}  # end, id, in a node, recomputes
    for event in events:
        stack = open_on.setdefault((event["process"], event["thread"]), [])
        while stack and stack[-1][0] <= event["start_ns"]:
            stack.pop()
        _, around, in_node, recomputes = stack[-1] if stack else (0, None, False, False)
        if event["kind"] == "runtime":
            launches[event["correlation"]] = around
            continue
        name, id_ = event["name"], event["external_id"]
        forward = event["sequence"] is not None and not event["forward_thread"] and "Backward" not in name
        recomputes |= name == operators.REENTRANT or (forward and in_node)
        parents[id_] = around
        recomputing |= {id_} if recomputes else set()
        stack.append(
            (event["start_ns"] + event["dur_ns"], id_, in_node or name in (EVALUATE, ACCUMULATE), recomputes)
        )
    return parents, launches, recomputing


def thread_of_events(random: Random, thread: int, crossing: bool) -> list[Row]:
    """Operators that nest, save that some end a little beyond their parent if `crossing`, and launch calls."""
    events = [launch(random.randint(0, 40), 0, thread=thread) for _ in range(random.randint(1, 6))]

    def fill(low: int, high: int, depth: int) -> None:
        while low < high and random.random() < 0.8:
            start = random.choice([low, random.randint(low, high)])
            end = random.choice([start, high, random.randint(start, high)])
            late = random.choice([0, 0, 1, 4]) if crossing else 0
            about = {"sequence": random.choice([None, 3]), "forward_thread": random.choice([None, 0, 1])}
            weights = (6, 2, 1, 2, 1)
            name = random.choices(NAMES, weights)[0]
            events.append(op(start, end + late, name, thread=thread, **about))
            if depth < 5:
                fill(start, end, depth + 1)
            low = max(end, low + 1)

    fill(0, 40, 0)
    return events


@pytest.mark.parametrize("slice_rows", [3, 50_000])
@pytest.mark.parametrize("crossing", [False, True])
def test_against_the_walk(slice_rows: int, crossing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "SLICE_ROWS", slice_rows)
    random = Random(slice_rows)
    events = in_order([e for thread in range(40) for e in thread_of_events(random, thread, crossing)])
    assert nested(dataset(source(events=events))) == walked(events)


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_against_the_walk_of_a_few_threads(random: Random, crossing: bool) -> None:
    events = in_order([e for thread in range(2) for e in thread_of_events(random, thread, crossing)])
    assert nested(dataset(source(events=events))) == walked(events)
