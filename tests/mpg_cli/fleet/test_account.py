"""A fleet's account on clusters small enough for paper: chips of two or three nodes over a hundred seconds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mpg_cli.report.json import render as render_json
from mpg_parsers.errors import UsageError
from tests.mpg_cli.fleet.clusters import (
    S,
    away,
    capacity,
    causes,
    computed,
    event,
    file,
    job,
    node,
    registered,
    report,
    scheduling,
    switch,
    waits,
)

TWO = [node("n1", 8), node("n2", 8)]
WHOLE = {"start": 0, "end": 100}


# ------------------------------------------------------------------------------------------ capacity


def test_one_job() -> None:
    """4 of 16 chips for 50 s; while it waited, first in line and with room, the scheduler had left all of them idle."""
    found = computed(file([job(1, 0, 10, 60)], nodes=TWO), **WHOLE)
    assert causes(found) == {"unobserved": 200, "policy": 160, "no_demand": 1600 - 360}
    sg = report(file([job(1, 0, 10, 60)], nodes=TWO), **WHOLE).goodput.sg
    assert sg is not None
    assert (sg.numerator_ns, sg.denominator_ns, sg.value) == (200 * S, 1600 * S, 0.125)


@pytest.mark.parametrize(
    ("rows", "by_cause"),
    [
        ([], {}),
        ([away("n1", 20, 40)], {"down": 160}),
        ([away("n1", 20, 40, "drained")], {"down": 160}),
        ([away("n1", 20, 40, "draining")], {"drained": 160}),
        ([away("n1", 20, 40, "maintenance")], {"drained": 160}),
        ([away("n1", 20, 40, "reserved")], {"drained": 160}),
        ([away("n1", 20, 40, "up")], {}),
        ([away("n1", 90)], {"down": 80}),
        ([away("n1", -50, 10)], {"down": 80}),
        ([away("n1", 20, 40), away("n1", 30, 50)], {"down": 240}),
        ([away("n1", 20, 40), away("n1", 30, 50, "draining")], {"down": 160, "drained": 80}),
        (
            [away("n2", 0, 100)],
            {"down": 100 * 4},
        ),  # what runs there holds its chips, whatever the node's state
        ([away("n9", 20, 40)], {}),
    ],
)
def test_nodes_away(rows: list[Any], by_cause: dict[str, int]) -> None:
    found = causes(computed(file([job(1, 0, 0, 100, "n2")], nodes=TWO, capacity=rows), **WHOLE))
    assert found == {"unobserved": 400, **by_cause, "no_demand": 1600 - 400 - sum(by_cause.values())}


def test_node_events_of_two_exports() -> None:
    """The older one does not know the end yet; whichever comes first."""
    rows = [job(1, 0, 0, 100, "n2")]
    old = file(rows, nodes=TWO, capacity=[away("n1", 20)], as_of=30)
    new = file(rows, capacity=[away("n1", 20, 40), away("n1", 60, 70)])
    for files in ((old, new), (new, old)):
        assert causes(computed(*files, **WHOLE))["down"] == 160 + 80


def test_registrations_of_two_exports() -> None:
    """A cluster registers anew when its controller starts again."""
    rows = [job(1, 0, 0, 100, "n2")]
    old = file(rows, nodes=TWO, capacity=[registered(16, 0)], as_of=30)
    new = file(rows, capacity=[registered(16, 0, 40), registered(16, 40)])
    for files in ((old, new), (new, old)):
        assert capacity(computed(*files, **WHOLE)) == 1600 * S


def test_registered_for_a_part_of_the_window() -> None:
    """Nobody knows what there was before; what ran there then is said to be outside."""
    found = computed(file([job(1, 0, 0, 50, "n2")], nodes=TWO, capacity=[registered(16, 20, 90)]), **WHOLE)
    assert causes(found) == {"unobserved": 4 * 30, "no_demand": 16 * 70 - 120}
    assert found.closed is not None
    assert found.closed.outside_ns == 4 * 20 * S


def test_a_cluster_that_is_not_registered_is_there_all_the_time() -> None:
    rows = [job(1, 0, 0, 50, "n1", cluster="c"), job(1, 0, 0, 50, "m1", cluster="d")]
    nodes = [node("n1", 4, cluster="c"), node("m1", 4, cluster="d")]
    found = computed(file(rows, nodes=nodes, capacity=[registered(4, 50) | {"cluster": "c"}]), **WHOLE)
    assert capacity(found) == (4 * 50 + 4 * 100) * S


def test_chips_registered_but_no_nodes() -> None:
    """One node stands for each type; whether a job would have fitted on real ones is not known."""
    rows = [job(1, 0, 10, 60, "", 4, chip_type="h100"), job(2, 0, 0, 50, "", 2, chip_type="a100")]
    found = computed(file(rows, capacity=[registered(24, 0, h100=16, a100=8)]), **WHOLE)
    assert (found.stock.placed, found.stock.nodes["chip_type"].to_list()) == (False, ["a100", "h100"])
    assert causes(found) == {"unobserved": 300, "idle_unexplained": 160, "no_demand": 2400 - 460}
    assert waits(found) == {"1": {"unplaced": 10}}
    assert found.stock.basis == "the chips registered with the accounting"


def test_what_is_registered_changes() -> None:
    rows = [job(1, 0, 0, 60, "", 4, chip_type="h100")]
    known = [registered(8, 0, 50, h100=4, a100=4), registered(20, 50, h100=16, a100=4)]
    found = computed(file(rows, capacity=known), **WHOLE)
    assert capacity(found) == (8 * 50 + 20 * 50) * S
    assert causes(found)["unobserved"] == 240
    untyped = computed(
        file(rows, capacity=[registered(8, 0, 50), registered(20, 50, h100=16, a100=4)]), **WHOLE
    )
    assert (capacity(untyped), untyped.stock.nodes.height) == (1400 * S, 1)
    assert causes(untyped)["unobserved"] == 240


def test_registered_otherwise_than_listed() -> None:
    found = computed(file([job(1, 0, 0, 50)], nodes=TWO, capacity=[registered(20, 0)]), **WHOLE)
    assert capacity(found) == 2000 * S
    (notice,) = found.stock.notices
    assert (notice.kind, notice.message) == (
        "capacity_differs",
        "20 chips are registered with the accounting, but 16 are on the nodes listed: placement is not judged",
    )


@pytest.mark.parametrize("more", [[], [registered(16, 0)]])
def test_attempts_without_their_nodes(more: list[Any]) -> None:
    """Then the chips of the nodes listed count, but where what ran is not known."""
    capacity = [*more, away("n1", 60, 70)]
    found = computed(file([job(1, 0, 0, 50, "")], nodes=TWO, capacity=capacity), **WHOLE)
    assert [notice.kind for notice in found.stock.notices] == ["nodes_unknown"]
    assert not found.stock.placed
    assert causes(found) == {"unobserved": 200, "down": 80, "no_demand": 1600 - 280}


@pytest.mark.parametrize(
    ("given", "by_cause"),
    [
        ({"": 10}, {"unobserved": 300, "no_demand": 700}),
        ({"h100": 8, "a100": 2}, {"unobserved": 300, "no_demand": 700}),
        ({"h100": 8}, {"unobserved": 200, "no_demand": 600}),  # of the others no capacity is known
        ({"h100": 3, "a100": 2}, {"unobserved": 3 * 50 + 2 * 50, "no_demand": 250}),
    ],
)
def test_capacity_given(given: dict[str, int], by_cause: dict[str, int]) -> None:
    """It comes before what files say."""
    rows = [job(1, 0, 0, 50, chip_type="h100"), job(2, 0, 0, 50, chips=2, chip_type="a100")]
    found = computed(file(rows, nodes=TWO, capacity=[registered(16, 0)]), capacity=given, **WHOLE)
    assert causes(found) == by_cause
    assert found.closed is not None
    told = {"outside_ns": found.closed.outside_ns, "excess_ns": found.closed.excess_ns}
    assert sum(told.values()) == (300 - by_cause["unobserved"]) * S
    assert found.closed.claimed_ns == 300 * S


def test_nodes_down_where_one_stands_for_all() -> None:
    rows = [job(1, 0, 0, 50, "", chip_type="h100")]
    down = away("x7", 60, 70, chips=8, chips_by_type='{"h100": 8}')
    found = computed(file(rows, capacity=[registered(24, 0, h100=16, a100=8), down]), **WHOLE)
    assert causes(found) == {"unobserved": 200, "down": 80, "no_demand": 2400 - 280}
    parts = scheduling(file(rows, capacity=[registered(24, 0, h100=16, a100=8), down]), **WHOLE).segments
    by_type = {row.key: row.causes for row in parts if (row.by, row.basis) == ("chip_type", "fleet")}
    assert by_type == {"a100": {"no_demand": 800 * S}, "h100": {"down": 80 * S, "no_demand": 1320 * S}}


def test_unknown_capacity() -> None:
    made = report(file([job(1, 0, 10, 60)]), **WHOLE)
    assert made.goodput.sg is None
    assert made.goodput.reasons["sg"].startswith("the capacity is not known: give")
    assert made.ledger == ()
    assert made.scheduling is not None
    assert (made.scheduling.chips, made.totals.chip_seconds) == (None, 200)


def test_ten_thousand_chips_for_a_year() -> None:
    """3.2e20 chip-ns are beyond 64 bits: the account is cut into stretches, and closes to the nanosecond."""
    year = 365 * 86_400
    rows = [job(1, 0, 0, year // 2, "", 9_999), job(2, 0, 0, year, "", 1)]
    found = computed(file(rows, as_of=year), capacity={"": 10_000}, start=0, end=year)
    assert found.closed is not None
    sums = dict.fromkeys(("unobserved", "no_demand"), 0)
    for cause, ns in found.closed.rows.select("cause", "chip_ns").iter_rows():
        sums[cause] += ns
    assert sums["unobserved"] == (9_999 * (year // 2) + year) * S
    assert sum(sums.values()) == 10_000 * year * S > 2**63
    made = report(file(rows, as_of=year), capacity={"": 10_000}, start=0, end=year)
    assert made.goodput.sg is not None
    assert made.goodput.sg.denominator_ns == 10_000 * year * S
    assert made.totals.chip_seconds == 9_999 * (year // 2) + year
    written = json.loads(render_json(made))
    assert (
        sum(row["chip_ns"] for row in written["ledger"])
        == written["totals"]["capacity_ns"]
        == 10_000 * year * S
    )
    assert found.closed.claimed_ns == sums["unobserved"]


# ------------------------------------------------------------------------------------------ idle chips


def idle(*rows: Any, **more: Any) -> dict[str, float]:
    """Idle chips by cause while job 9 waits from 0 to 100; n1 and n2 have 4 chips each."""
    nodes = [node("n1", 4, "h100", "p"), node("n2", 4, "h100", "p")]
    topology = [switch("s1", "n1"), switch("s2", "n2")]
    found = causes(computed(file(list(rows), nodes=nodes, topology=topology, **more), **WHOLE))
    return {cause: chips / 100 for cause, chips in found.items() if cause != "unobserved"}


WAITS = {"node_count": 1}


@pytest.mark.parametrize(
    ("running", "waiting", "cause"),
    [
        ([], [], {"no_demand": 8}),
        ([], [job(9, 0, chips=4, **WAITS)], {"policy": 8}),
        ([], [job(9, 0, chips=9)], {"shortage": 8}),
        ([job(1, 0, 0, 100, "n1", 1), job(2, 0, 0, 100, "n2", 1)], [job(9, 0, chips=4, **WAITS)], {"fragmentation": 6}),
        ([], [job(9, 0, chips=8, node_count=2, switches=1)], {"topology": 8}),
        ([], [job(9, 0, chips=8, node_count=2, switches=2)], {"policy": 8}),
        ([], [job(9, 0, chips=4, reason="QOSMaxGRESPerUser", **WAITS)], {"policy": 8}),
        # a limit holds the one with the highest priority: the next in line counts
        ([], [job(8, 0, chips=1, priority=9, reason="AssocGrpGRES"), job(9, 0, chips=9)], {"shortage": 8}),
        ([], [job(8, 0, chips=9, priority=2), job(9, 0, chips=4, priority=1, **WAITS)], {"shortage": 8}),
        ([], [job(8, 0, chips=9, priority=1), job(9, 0, chips=4, priority=2, **WAITS)], {"policy": 8}),
        # what may run elsewhere only is not in this line
        ([], [job(9, 0, chips=4, chip_type="a100")], {"no_demand": 8}),
        # a partition that no node is in says nothing
        ([], [job(9, 0, chips=4, partition="q")], {"policy": 8}),
        ([], [job(9, 0, chips=0)], {"no_demand": 8}),
        ([], [job(9, 0, chips=4, eligible=200)], {"no_demand": 8}),
    ],
)  # fmt: skip
def test_idle_goes_to_the_first_in_line(
    running: list[Any], waiting: list[Any], cause: dict[str, int]
) -> None:
    # that the file tells when jobs were eligible is seen of a job long over
    assert idle(job(77, -9, -9, -8, "n1", 1), *running, *waiting) == cause


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"reason": "JobHeldUser"}, "hold"),
        ({"reason": "JobHeldAdmin"}, "hold"),
        ({"reason": "job requeued in held state"}, "hold"),
        ({"state": "REQUEUE_HOLD"}, "hold"),
        ({"state": "SPECIAL_EXIT", "reason": "None"}, "hold"),
        ({"reason": "JobArrayTaskLimit", "array": "9"}, "array_limit"),
        ({"reason": "Dependency"}, "latency"),  # met by the time it was eligible
        ({"reason": "Dependency", "eligible": None}, "dependency"),
        ({"reason": "BeginTime", "eligible": 200}, "begin_time"),
    ],
)
def test_kept_back_to_the_end(more: dict[str, Any], cause: str) -> None:
    """A held job is recorded as eligible, but is in no line: idle chips are not idle for it."""
    row = job(9, 0, chips=4, node_count=1, **more)
    found = computed(file([job(77, -9, -9, -8, "n1", 1), row], nodes=TWO), **WHOLE)
    assert waits(found) == {"9": {cause: 100}}
    assert causes(found) == {"policy" if cause == "latency" else "no_demand": 1600}


def test_requeued_and_held() -> None:
    rows = [
        job(1, 0, 10, 30, state="REQUEUED"),
        job(1, 30, state="PENDING", eligible=50, reason="JobHeldUser"),
    ]
    assert waits(computed(file(rows, nodes=TWO), **WHOLE)) == {"1": {"latency": 10, "hold": 70}}
    rows[1] = job(1, 30, 70, 80, eligible=50, reason="JobHeldUser")  # released in the end
    assert waits(computed(file(rows, nodes=TWO), **WHOLE)) == {"1": {"latency": 30, "requeue_delay": 20}}


def test_down_chips_would_have_done() -> None:
    """The idle ones are short all the same; why is told of the wait."""
    row = job(9, 0, chips=8, node_count=2)
    assert idle(row, capacity=[away("n2", 0, 100)]) == {"down": 4, "shortage": 4}
    nodes = [node("n1"), node("n2")]
    found = computed(file([row], nodes=nodes, capacity=[away("n2", 0, 60)]), **WHOLE)
    assert waits(found) == {"9": {"unavailable": 60, "latency": 40}}


def test_leaked() -> None:
    """4 chips count as in use on n2, from when job 1 gave them back."""
    nodes = [node("n1", 8, at_ns=90 * S), node("n2", 8, chips_allocated=6, at_ns=90 * S)]
    rows = [job(1, 0, 0, 30, "n2"), job(2, 0, 0, None, "n2", 2)]
    found = computed(file(rows, nodes=nodes), **WHOLE)
    assert causes(found)["leaked"] == 4 * 60
    told = [
        (row.kind, row.count, row.chip_ns) for row in scheduling(file(rows, nodes=nodes), **WHOLE).integrity
    ]
    assert ("phantom_allocation", 1, 240 * S) in told
    busy = [node("n1", 8), node("n2", 8, chips_allocated=6, at_ns=90 * S, last_busy_ns=50 * S)]
    assert causes(computed(file(rows, nodes=busy), **WHOLE))["leaked"] == 4 * 40
    used = [node("n1", 8), node("n2", 8, chips_allocated=2, at_ns=90 * S)]
    assert "leaked" not in causes(computed(file(rows, nodes=used), **WHOLE))


def test_topology_violated() -> None:
    """Two nodes under two switches, where one was asked for."""
    topology = [switch("s1", "n1"), switch("s2", "n2"), switch("top", "n1,n2", 1)]
    rows = [job(1, 0, 0, 50, "n1,n2", 8, switches=1), job(2, 50, 50, 100, "n1,n2", 8, switches=2)]
    found = computed(file(rows, nodes=TWO, topology=topology), **WHOLE)
    assert causes(found) == {"topology_violated": 400, "unobserved": 400, "no_demand": 800}
    assert [one.sg for one in report(file(rows, nodes=TWO, topology=topology), **WHOLE).jobs] == [0, 1]


def test_more_than_a_node_has() -> None:
    """Two jobs on the same chips: the account has them once, and says how much is too much."""
    rows = [job(1, 0, 0, 50, "n1", 8), job(2, 0, 0, 50, "n1", 4)]
    found = computed(file(rows, nodes=TWO), **WHOLE)
    assert causes(found)["unobserved"] == 400
    assert found.closed is not None
    assert (found.closed.excess_ns, found.closed.outside_ns, found.closed.claimed_ns) == (200 * S, 0, 600 * S)


# ------------------------------------------------------------------------------------------ the window


@pytest.mark.parametrize(
    ("window", "wanted"),
    [((0, 100), 200), ((20, 40), 80), ((50, 100), 40), ((0, 15), 20), ((60, 100), 0), ((-50, 100), 200)],
)
def test_the_window(window: tuple[int, int], wanted: int) -> None:
    found = computed(file([job(1, 0, 10, 60)], nodes=TWO), start=window[0], end=window[1])
    assert causes(found).get("unobserved", 0) == wanted
    assert capacity(found) == 16 * (window[1] - window[0]) * S


def test_the_window_ends_where_knowledge_does() -> None:
    found = computed(file([job(1, 0, 10, 60)], nodes=TWO, as_of=100), start=0, end=10_000)
    assert (found.window.start_ns, found.window.end_ns) == (0, 100 * S)
    whole = computed(file([job(1, 5, 10, 60)], nodes=TWO, as_of=100))
    assert (whole.window.start_ns, whole.window.end_ns) == (5 * S, 100 * S)
    as_of = computed(file([job(1, 5, 10)], nodes=TWO, as_of=100), as_of=300)
    assert (as_of.window.end_ns, causes(as_of)["unobserved"]) == (300 * S, 4 * 290)


def test_a_window_outside_of_what_is_known() -> None:
    with pytest.raises(UsageError, match="the window is empty"):
        computed(file([job(1, 0, 10, 60)], nodes=TWO, as_of=100), start=200, end=300)
    with pytest.raises(UsageError, match="the window is empty"):
        computed(file([job(1, 0, 10, 60)], nodes=TWO, as_of=100), start=50, end=50)


def test_waits_are_cut_to_the_window_too() -> None:
    rows = [job(1, 0, 0, 60, "n1", 16 - 8), job(2, 0, 60, 80, "n1,n2", 16)]
    told = scheduling(file(rows, nodes=TWO), start=50, end=100)
    assert [(row.cause, row.wait_ns, row.chip_ns) for row in told.waits] == [("shortage", 10 * S, 160 * S)]
    assert [row.wait_ns for row in scheduling(file(rows, nodes=TWO)).waits] == [60 * S]


def test_what_asks_for_no_chips_waits_for_none() -> None:
    rows = [job(1, 0, 10, 60), job(2, 0, 40, 60, chips=0)]
    told = scheduling(file(rows, nodes=TWO))
    assert [(row.cause, row.attempts) for row in told.waits] == [("latency", 1)]


def test_what_the_log_adds_is_in_the_account() -> None:
    events = [event(5, "allocate", 1, nodes='["n2"]'), event(20, "node_failure", 1), event(40, "allocate", 1)]
    records = file([job(1, 0, 40, 60)], nodes=TWO)
    found = computed(records, file(events=events, form="slurm-controller-log"), **WHOLE)
    assert causes(found)["unobserved"] == 4 * 15 + 4 * 20
