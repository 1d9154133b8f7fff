"""Rules on collectives, on facts small enough to check on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.findings.rules import communication
from tests.mpg_cli.findings.made import collective, communicator, facts, hotspot, moving, step, strip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpg_cli.findings.facts import Facts, Found
    from mpg_cli.report.model import Hotspot


def one(rule: Callable[[Facts], Iterable[Found]], made: Facts) -> Found:
    (found,) = rule(made)
    return found


def texts(found: Found) -> list[str]:
    return [row.text for row in found.evidence]


def late_host(**more: Any) -> Facts:
    """Two rounds of 100 ns on three ranks: rank 1 sleeps for 40 ns in each before a collective of 10."""
    prompt = (("productive", 50), ("communication_wait", 40), ("communication", 10))
    sleepy = (("productive", 50), ("host_code", 40), ("communication", 10))
    records = [
        moving(rank, start + (90 if rank == 1 else 50), start + 100, index, 10)
        for index, start in enumerate((0, 100))
        for rank in range(3)
    ]
    late = [collective(index, last=1, reason="host", late=40) for index in (0, 1)]
    segments = strip(0, *prompt, *prompt) + strip(1, *sleepy, *sleepy) + strip(2, *prompt, *prompt)
    return facts(segments, **{"communication": records, "collectives": tuple(late)} | more)


def alone(*spots: Hotspot) -> Callable[[int], tuple[Hotspot, ...]]:
    return lambda rank: tuple(spot for spot in spots if spot.rank == rank)


def test_straggler() -> None:
    """160 ns of waiting and 80 of sleep in 600: without them every rank would take 120 instead of 200 ns."""
    spots = (hotspot("host_code", "sleep", 80, rank=1), hotspot("host_code", "loss", 90, rank=0))
    shared = (hotspot("host_code", "loss", 120, rank=1),)
    made = late_host(hotspots=shared, rank_hotspots=alone(*spots), steps=[step(0, 5, 0, 100)])
    found = one(communication.straggler, made)
    assert (found.id, found.cause, found.chip_ns, found.where) == (
        "straggler",
        "communication_wait",
        240,
        "rank 1",
    )
    assert found.title == "Rank 1 keeps the others waiting: its host is late"
    assert texts(found) == [
        (
            "last in 2 of 2 collectives: the others waited 160 ns of chip-time there (communication_wait in the "
            "ledger)"
        ),
        (
            "the rank before it comes 40 ns earlier: fixing it alone saves the others at most 160 ns of that, and "
            "itself 80 ns of its lateness (no more than that margin, nor than the ledger has)"
        ),
        "what it spent more time on than the median of the others: host in 2 (80 ns)",
        "longest wait: 40 ns (all of it exposed) on rank 0 in collective 0 in ProfilerStep#5",
        "sleep: 80 ns in 1 piece of idle time on rank 1",
    ]
    wait = found.evidence[3]
    assert (wait.source, wait.name, wait.start_ns, wait.dur_ns) == (
        "rank0.json", "ncclDevKernel_AllReduce", 50, 50,
    )  # fmt: skip
    assert found.fix[0].startswith("Move logging")


def next_to_last() -> Facts:
    """Rank 1 comes 40 ns after rank 0 and 7 after rank 2, which computes for 2 ns of its last 7 of waiting."""
    return facts(
        strip(0, ("productive", 50), ("communication_wait", 40), ("communication", 10))
        + strip(1, ("productive", 50), ("host_code", 40), ("communication", 10))
        + strip(
            2, ("productive", 83), ("communication_wait", 3), ("productive", 2), ("communication_wait", 2)
        )
        + strip(2, ("communication", 10), at=90),
        communication=[moving(0, 50, 100, 0, 10), moving(1, 90, 100, 0, 10), moving(2, 83, 100, 0, 10)],
        collectives=(collective(0, last=1, late=38, margin=7),),
    )


def test_fixing_one_rank_saves_no_more_than_the_rank_before_it_allows() -> None:
    """The last 7 ns of each wait, where exposed: 7 + 5 of the 40 + 5; of the lateness of 38 ns, 7."""
    found = one(communication.straggler, next_to_last())
    assert found.chip_ns == 7 + 5 + 7
    assert texts(found)[:2] == [
        "last in 1 of 1 collective: the others waited 45 ns of chip-time there (communication_wait in the ledger)",
        (
            "the rank before it comes 7 ns earlier: fixing it alone saves the others at most 12 ns of that, and "
            "itself 7 ns of its lateness (no more than that margin, nor than the ledger has)"
        ),
    ]


def test_what_one_rank_cannot_save_is_left_to_all() -> None:
    rest = one(communication.waiting, next_to_last())
    assert rest.chip_ns == 33  # rank 0, until rank 2 has come
    assert texts(rest) == [
        "waiting in collectives that no single rank alone could end: 33 ns of chip-time (11.0 %)",
        "33 ns of it where one rank was clearly last, but before the next-to-last came",
        "1 collective in all; near ties of the last two ranks: 0; at the start of the recording: 0",
    ]


def test_margins_differ() -> None:
    late = (collective(0, last=1, late=40, margin=3), collective(1, last=1, late=20, margin=30))
    found = one(communication.straggler, late_host(collectives=late))
    assert found.chip_ns == 2 * (3 + 30) + 3 + 20
    assert texts(found)[1].startswith("the rank before it comes 3 ns to 30 ns earlier: ")


def test_the_longest_wait_is_all_of_one_rank_in_one_collective() -> None:
    """Rank 0 waits 60 ns, of which 25 + 15 are exposed; rank 2 waits for 30 at a stretch."""
    made = facts(
        strip(
            0, ("productive", 30), ("communication_wait", 25), ("productive", 20), ("communication_wait", 15)
        )
        + strip(0, ("communication", 10), at=90)
        + strip(1, ("productive", 30), ("host_code", 60), ("communication", 10))
        + strip(2, ("productive", 60), ("communication_wait", 30), ("communication", 10)),
        communication=[moving(0, 30, 100, 4, 10), moving(1, 90, 100, 4, 10), moving(2, 60, 100, 4, 10)],
        collectives=(collective(4, last=1, late=60, wait=60, margin=30),),
    )
    wait = one(communication.straggler, made).evidence[3]
    assert wait.text == "longest wait: 60 ns (40 ns of it exposed) on rank 0 in collective 4"
    assert (wait.source, wait.start_ns, wait.dur_ns) == ("rank0.json", 30, 70)


def test_a_rank_with_several_records_of_a_collective() -> None:
    """All have come at 55, between two records of rank 0, which waits in those before; the last but one at 43."""
    records = [
        moving(0, 10, 30, 0) | {"cut_ns": 30, "met_ns": 55},
        moving(0, 40, 50, 0) | {"cut_ns": 50, "met_ns": 55},
        moving(0, 60, 90, 0) | {"cut_ns": 60, "met_ns": 55},
        moving(1, 55, 90, 0, 35),
    ]
    made = facts(
        strip(
            0, ("productive", 10), ("communication_wait", 20), ("host_code", 10), ("communication_wait", 10)
        )
        + strip(0, ("host_code", 10), ("communication", 30), at=50)
        + strip(1, ("host_code", 55), ("communication", 35)),
        communication=records,
        collectives=(collective(0, last=1, late=4, wait=45, margin=12),),
    )
    assert one(communication.straggler, made).chip_ns == 7 + 4  # of [43, 55) rank 0 waits until 50


def test_only_collectives_with_a_clear_order_are_counted() -> None:
    late = (
        collective(0, last=1, late=40),
        collective(1, last=1, late=40, reason="input"),
        collective(2, last=1, near_tie=True),
        collective(3, last=0, transient=True),
    )
    assert texts(one(communication.straggler, late_host(collectives=late)))[0].startswith(
        "last in 1 of the 2 collectives with a clear order (4 in all), not counting 1 for want of input: the others "
    )


@pytest.mark.parametrize("doubt", ["near_tie", "transient"])
def test_doubtful_collectives_have_no_straggler(doubt: str) -> None:
    late = (collective(0, last=1, late=40, **{doubt: True}), collective(1, last=1, late=40))
    made = late_host(collectives=late)
    assert one(communication.straggler, made).chip_ns == 80 + 40
    rest = one(communication.waiting, made)
    assert (rest.chip_ns, rest.where) == (80, "")
    counts = (1, 0) if doubt == "near_tie" else (0, 1)
    assert texts(rest)[2] == (
        f"2 collectives in all; near ties of the last two ranks: {counts[0]}; at the start of the recording: "
        f"{counts[1]}"
    )


def test_all_waiting_has_an_origin() -> None:
    assert one(communication.waiting, late_host()).chip_ns == 0


def test_no_more_lateness_than_the_rank_has_time_of_that_kind() -> None:
    late = (collective(0, last=1, late=1000, wait=900), collective(1, last=1, late=7, reason="compute"))
    assert one(communication.straggler, late_host(collectives=late)).chip_ns == 160 + 80 + 7


@pytest.mark.parametrize(
    ("reasons", "why"),
    [
        (("host", "host"), "its host is late"),
        (("compute", "compute"), "it computes longer"),
        (("communication", "communication"), "it is held up in other communication"),
        (("other", "other"), "it is held up by other work"),
        (("unknown", "unknown"), "the recording does not say why"),
        (("host", "compute"), "for several reasons"),
        (("unknown", "compute"), "it computes longer"),
        (("input", "compute"), "it computes longer"),
    ],
)
def test_why_a_straggler_is_late(reasons: tuple[str, str], why: str) -> None:
    late = tuple(
        collective(index, last=1, reason=reason, late=0 if reason == "unknown" else 40)
        for index, reason in enumerate(reasons)
    )
    found = one(communication.straggler, late_host(collectives=late))
    assert found.title == f"Rank 1 keeps the others waiting: {why}"


def test_the_reason_with_most_lateness_is_named() -> None:
    """Not the one with most exposed waiting: 40 ns in each collective, with 5 in the first hidden on each device."""
    pieces = (("productive", 55), ("communication_wait", 35), ("communication", 10), ("productive", 50),
              ("communication_wait", 40), ("communication", 10))  # fmt: skip
    late = (collective(0, last=1, reason="copy", late=31), collective(1, last=1, reason="compute", late=30))
    made = late_host(collectives=late)
    hidden = facts(
        strip(0, *pieces) + strip(1, ("productive", 180), ("memory_copy", 20)) + strip(2, *pieces),
        communication=made.communication.to_dicts(),
        collectives=late,
    )
    found = one(communication.straggler, hidden)
    assert found.title == "Rank 1 keeps the others waiting: it copies memory longer"
    assert found.chip_ns == 150 + 20 + 30  # of the copies the ledger has 20


def test_most_waits_without_a_reason() -> None:
    late = (collective(0, last=1, reason="host", late=5), collective(1, last=1, reason="unknown"))
    waits = late_host(collectives=late).communication.filter(
        ~((pl.col("index") == 0) & (pl.col("subject") == 2))
    )
    found = one(communication.straggler, late_host(collectives=late, communication=waits.to_dicts()))
    assert found.title == "Rank 1 keeps the others waiting: the recording does not say why"


def test_several_stragglers() -> None:
    late = (collective(0, last=1, late=40), collective(1, last=2, reason="compute", late=0))
    found = list(communication.straggler(late_host(collectives=late)))
    assert [(each.where, each.chip_ns) for each in found] == [("rank 1", 120), ("rank 2", 80)]


def test_nobody_waits() -> None:
    assert list(communication.straggler(facts(strip(0, ("productive", 10))))) == []


def busy(*computing: int, wait: int = 100, **more: Any) -> Facts:
    rows = [
        row
        for rank, ns in enumerate(computing)
        for row in strip(rank, ("productive", ns), ("communication_wait", wait), ("productive", 0))
    ]
    return facts(rows, **more)


def test_imbalance() -> None:
    found = one(communication.imbalance, busy(60, 40, 50, 50))
    assert (found.id, found.chip_ns, found.where) == ("load_imbalance", 40, "rank 0")  # 0 + 20 + 10 + 10
    assert texts(found) == [
        "rank 0 computes 60 ns, rank 1 40 ns, the mean rank 50 ns",
        "40 ns of chip-time below the busiest rank, against 400 ns of waiting in collectives (communication_wait)",
    ]


def test_imbalance_costs_no_more_than_the_waiting() -> None:
    assert one(communication.imbalance, busy(60, 40, wait=3)).chip_ns == 6


@pytest.mark.parametrize(
    "steps", [[step(0, 1, 0, 10)], [step(0, 1, 0, 10), step(1, 1, 0, 10), step(1, 2, 10, 20)]]
)
def test_ranks_with_different_numbers_of_steps_are_not_compared(steps: list[dict[str, Any]]) -> None:
    assert list(communication.imbalance(busy(60, 40, steps=steps))) == []


def test_one_rank_has_no_imbalance() -> None:
    assert list(communication.imbalance(busy(60))) == []


def exposed() -> Facts:
    """A reduce-scatter of 30 ns (20 of it exposed), an all-gather of 10, whose last 4 are its transfer."""
    return facts(
        strip(0, ("productive", 50), ("communication", 20), ("communication_wait", 6), ("communication", 4)),
        communication=[
            moving(0, 40, 70, name="reduce_scatter", group=None, kernel="rs"),
            moving(0, 70, 80, 3, 4, name="all_gather", kernel="ag"),
        ],
        communicators=(
            communicator(name="reduce_scatter", group=None, time_ns=30, hidden_ns=10, exposed_ns=20, count=1,
                         bytes=2_000_000, bus_gbps=12.34, scope="inter-node", reason="one rank alone"),
        ),
    )  # fmt: skip


def test_exposed_by_communicator() -> None:
    first, second = communication.exposed(exposed())
    assert (first.id, first.chip_ns, first.where) == ("exposed_communication", 20, "reduce_scatter")
    assert first.title == "reduce_scatter: 66.7 % of its time is not hidden behind computing"
    assert texts(first) == [
        "transfers with nothing computed beside them: 20 ns of chip-time (25.0 %)",
        "1 kernel, 10 ns of 30 ns hidden, waiting included, 2.0 MB, at least 12.3 GB/s bus bandwidth (inter-node)",
        "one rank alone",
        "longest: 30 ns",
    ]
    assert (first.evidence[-1].name, first.evidence[-1].start_ns, first.evidence[-1].dur_ns) == ("rs", 40, 30)
    assert first.fix[0].startswith("Reduce each bucket or layer as soon as its gradients are ready")
    assert (second.chip_ns, second.where) == (4, "all_gather in group 0")
    assert second.title == "all_gather is not hidden behind computing"
    assert texts(second)[-1] == "longest: 4 ns"
    assert second.fix[0].startswith("Prefetch the parameters of the next layer")


def test_exposed_over_ranks_and_kernels_at_once() -> None:
    """Two kernels of one communicator at once use one chip; two ranks use two."""
    segments = strip(0, ("communication", 40)) + strip(1, ("productive", 10), ("communication", 30))
    records = [moving(0, 0, 30), moving(0, 10, 40), moving(1, 0, 40)]
    assert one(communication.exposed, facts(segments, communication=records)).chip_ns == 70


def test_exposed_without_records() -> None:
    found = one(communication.exposed, facts(strip(0, ("productive", 10), ("communication", 40))))
    assert (found.chip_ns, found.where) == (40, "")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("_reduce_scatter_base", "Reduce each"),
        ("AllGather", "Prefetch"),
        ("all_reduce", "Reduce gradients in buckets"),
        ("alltoall", "Split the batch"),
        ("send", "Move less"),
    ],
)
def test_fixes_fit_the_collective(name: str, start: str) -> None:
    made = facts(strip(0, ("communication", 40)), communication=[moving(0, 0, 40, name=name)])
    assert one(communication.exposed, made).fix[0].startswith(start)
