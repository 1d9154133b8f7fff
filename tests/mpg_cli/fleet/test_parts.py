"""What is told of the records, of the scheduler's own figures and of parts of a fleet: each case and its opposite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.fleet.next_time import command
from mpg_cli.goodput.scheduling.inventory import Window
from tests.mpg_cli.fleet.clusters import (
    S,
    event,
    file,
    job,
    node,
    registered,
    report,
    rollup,
    scheduling,
)

if TYPE_CHECKING:
    from mpg_cli.report.model import Integrity, Reconciled, ScheduleSegment

TWO = [node("n1", 8), node("n2", 8)]
ALL = [registered(16, 0)]
WHOLE = {"start": 0, "end": 100}


def found(*files: Any, **options: Any) -> dict[str, Integrity]:
    return {one.kind: one for one in scheduling(*files, **options).integrity}


# ------------------------------------------------------------------------------------------ integrity


def test_nothing_to_say() -> None:
    assert found(file([job(1, 0, 10, 60)], nodes=TWO, capacity=ALL), **WHOLE) == {}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        # the number of restarts tells of more attempts than there are
        ([job(1, 0, 10, 60, restarts=1)], 1),
        ([job(1, 0, 10, 30, state="PREEMPTED"), job(1, 30, 40, 60, restarts=1)], 0),
        ([job(1, 0, 10, 60, restarts=0)], 0),
        # job 5 was submitted before job 4, whose submission must have been reset
        ([job(3, 0, 5, 20), job(4, 40, 50, 60), job(5, 10, 20, 30)], 1),
        ([job(3, 0, 5, 20), job(4, 10, 12, 40, state="REQUEUED"), job(4, 40, 50, 60), job(5, 10, 20, 30)], 0),
        ([job(3, 0, 5, 20), job(4, 11, 50, 60), job(5, 10, 20, 30)], 0),  # numbers are given within a moment
        # the numbers began anew
        ([job(900, 0, 5, 20), job(901, 5, 5, 20), job(1, 30, 30, 40), job(2, 40, 40, 50)], 0),
        # its earlier attempt ended before anything in the records did: another period
        ([job(3, 0, 50, 70), job(4, 40, 50, 60), job(5, 10, 20, 80)], 0),
        # tasks of an array get their numbers late
        ([job(3, 0, 5, 20), job(4, 40, 50, 60, job="4_1", array="4"), job(5, 10, 20, 30)], 0),
        ([job(3, 0, 5, 20), job(4, 40, 50, 60), job(5, 10, 20, 30, job="4_1", array="4")], 0),
        ([job("x4", 40, 50, 60), job("x5", 10, 20, 30)], 0),
    ],
)
def test_without_duplicates(rows: list[Any], count: int) -> None:
    told = found(file(rows, nodes=TWO, capacity=ALL), **WHOLE).get("no_duplicates")
    assert (told.count if told else 0) == count
    if told:
        assert "Ask sacct with -D" in told.message


def test_resized_twice() -> None:
    rows = [job(1, 0, 10, 30, chips=8, state="RESIZING"), job(1, 30, 10, 50, chips=4)]
    told = found(file(rows, nodes=TWO, capacity=ALL), **WHOLE)["resized_twice"]
    assert (told.count, told.chip_ns) == (1, 4 * 20 * S)
    assert found(file(rows, nodes=TWO, capacity=ALL), start=20, end=100)["resized_twice"].chip_ns == 40 * S
    newer = [rows[0], job(1, 30, 30, 50, chips=4)]  # as Slurm 24.11 writes it
    assert "resized_twice" not in found(file(newer, nodes=TWO, capacity=ALL), **WHOLE)


def test_jobs_absent() -> None:
    records = file([job(1, 0, 10, 60)], nodes=TWO, capacity=ALL)
    told = found(records, file(events=[event(5, "submit", 1), event(6, "submit", 7)]), **WHOLE)
    assert (told["jobs_absent"].count, "(such as 7)" in told["jobs_absent"].message) == (1, True)
    said = [{"raw_id": raw, "start_ns": S, "reason": "Priority", "count": 1} for raw in ("1", "8")]
    queue = file(pending=said, form="slurm-squeue")
    assert "(such as 8)" in found(records, queue, **WHOLE)["jobs_absent"].message
    assert "jobs_absent" not in found(records, file(events=[event(5, "submit", 1)]), **WHOLE)
    # the log of another cluster or year: nothing is known of any
    assert "jobs_absent" not in found(records, file(events=[event(5, "submit", 7)]), **WHOLE)


def test_numbers_used_again() -> None:
    rows = [job(1, 0, 10, 30), job(1, 40, 50, 60, name="other")]
    assert found(file(rows, nodes=TWO, capacity=ALL), **WHOLE)["job_id_reused"].count == 1
    rows[0]["state"], rows[1]["name"] = "PREEMPTED", rows[0]["name"]
    assert "job_id_reused" not in found(file(rows, nodes=TWO, capacity=ALL), **WHOLE)


def test_clipped_by_the_window() -> None:
    records = file([job(1, 0, 10, 60), job(2, 0, 20, 30)], nodes=TWO, capacity=ALL)
    told = found(records, start=15, end=40)["window_clipping"]
    assert (told.count, told.chip_ns) == (1, 4 * (5 + 20) * S)
    assert "window_clipping" not in found(records, start=10, end=60)


@pytest.mark.parametrize(
    ("more", "options", "kinds"),
    [
        ({"capacity": ALL}, {}, set()),
        ({}, {}, {"capacity_assumed"}),
        ({"capacity": ALL}, {"capacity": {"": 16}}, {"capacity_assumed"}),
        ({"nodes": []}, {}, {"capacity_unknown"}),
        ({"capacity": [registered(16, 30)]}, {}, {"outside_capacity"}),
        ({"nodes": [node("n1", 3)], "capacity": [registered(3, 0)]}, {}, {"oversubscribed"}),
        ({"nodes": [node("n2", 8)], "capacity": [registered(8, 0)]}, {}, {"outside_capacity"}),
        ({"capacity": [registered(17, 0)]}, {}, {"capacity_differs"}),
    ],
)
def test_capacity(more: dict[str, Any], options: dict[str, Any], kinds: set[str]) -> None:
    records = file([job(1, 0, 10, 60)], **({"nodes": TWO} | more))
    assert set(found(records, **WHOLE, **options)) == kinds


def test_chips_unknown() -> None:
    rows = [job(1, 0, 10, 60), job(2, 0, 10, 60) | {"chips": None, "chips_requested": None}]
    assert found(file(rows, nodes=TWO, capacity=ALL), **WHOLE)["chips_unknown"].count == 1


def test_times_that_contradict_each_other() -> None:
    rows = [job(1, 0, 10, 60, run=40), job(2, 0, 10, 60, run=49), job(3, 0, 10, 60, run=30, suspended=20)]
    told = found(file(rows, nodes=TWO, capacity=ALL), **WHOLE)["inconsistent_times"]
    assert (told.count, "of job 1 " in told.message) == (1, True)


# ------------------------------------------------------------------------------------------ beside sreport


def beside(rows: list[Any], *figures: Any, down: Any = (), files: Any = ()) -> tuple[Reconciled, ...]:
    records = file(rows, nodes=TWO, capacity=[*ALL, *down])
    return scheduling(records, file(rollups=figures, form="slurm-sreport"), *files, **WHOLE).reconciled


def told(rows: list[Any], *figures: Any, **more: Any) -> list[tuple[int, float, str]]:
    return [(row.theirs_s, row.ours_s, row.explanation) for row in beside(rows, *figures, **more)]


PLAIN = job(1, 0, 10, 60, account="lab", chip_type="h100")
TWICE = [job(1, 0, 10, 30, chips=8, state="RESIZING"), job(1, 30, 10, 50, chips=4)]


@pytest.mark.parametrize(
    ("rows", "theirs", "wanted"),
    [
        ([PLAIN], 200, (200, "equal")),
        ([PLAIN], 201, (200, "rounding")),
        ([PLAIN], 203, (200, "+3 not explained")),
        ([PLAIN], 190, (200, "-10 not explained")),
        (TWICE, 320, (240, "+80 counted twice at a resize")),
        (TWICE, 340, (240, "+80 counted twice at a resize; +20 not explained")),
        (TWICE, 240, (240, "equal")),
        ([job(1, 0, 10, 60, suspended=10)], 200, (160, "+40 suspended, which they count as running")),
    ],
)
def test_beside_sreport(rows: list[Any], theirs: int, wanted: tuple[float, str]) -> None:
    assert told(rows, rollup("allocated", theirs, 0, 100)) == [(theirs, *wanted)]


def test_beside_sreport_what_was_lost() -> None:
    events = [event(5, "allocate", 1), event(20, "requeue", 1), event(40, "allocate", 1), event(60, "end", 1)]
    log = file(events=events, form="slurm-controller-log")
    figures = rollup("allocated", 80, 0, 100), rollup("allocated", 40, 50, 100)
    assert told([job(1, 0, 40, 60)], *figures, files=[log]) == [
        (80, 140, "-60 lost by the accounting"),
        (40, 40, "equal"),
    ]


def test_beside_sreport_by_whom_and_what() -> None:
    rows = [
        PLAIN,
        job(2, 0, 0, 100, "n2", 2, user="bob", account="lab", chip_type="a100"),
        job(3, 0, 0, 100, "n2", 1, user="eve", account="other", chip_type="a100"),
    ]
    figures = [
        rollup("used", 500, 0, 100, account="root"),
        rollup("used", 400, 0, 100, account="lab"),
        rollup("used", 200, 0, 100, account="lab", user="bob"),
        rollup("used", 300, 0, 100, "gres/gpu:a100"),
        rollup("used", 120, 20, 60, "gres/gpu:a100"),
        rollup("used", 999, 0, 100, "cpu"),
        rollup("idle", 999, 0, 100),
    ]
    assert [row[1:] for row in told(rows, *figures)] == [(n, "equal") for n in (500, 400, 200, 300, 120)]


def test_beside_sreport_the_ledger() -> None:
    down = {"node": "n2", "state": "down", "start_ns": 20 * S, "end_ns": 40 * S}
    drained = {"node": "n2", "state": "draining", "start_ns": 50 * S, "end_ns": 60 * S}
    figures = [
        rollup("down", 160, 0, 100),
        rollup("down", 80, 30, 100),
        rollup("planned_down", 80, 0, 100),
        rollup("reported", 1600, 0, 100),
        rollup("reported", 800, 0, 50),
        rollup("reported", 999, 0, 100, "gres/gpu:h100"),
    ]
    ours = [row[1:] for row in told([PLAIN], *figures, down=[down, drained])]
    assert ours == [(n, "equal") for n in (160, 80, 80, 1600, 800)]
    assert told([PLAIN], figures[0], figures[0]) == [(160, 0, "+160 not explained")]


def test_beside_sreport_of_one_of_two_clusters() -> None:
    rows = [PLAIN | {"cluster": "c"}, job(1, 0, 0, 100, "m1", 2, cluster="d")]
    nodes = [node("n1", 8, cluster="c"), node("m1", 4, cluster="d")]
    figures = [
        rollup("allocated", 200, 0, 100, cluster="c"),
        rollup("allocated", 200, 0, 100, cluster="d"),
        rollup("reported", 800, 0, 100, cluster="c"),
        rollup("reported", 400, 0, 100, cluster="d"),
    ]
    told = scheduling(file(rows, nodes=nodes, rollups=figures), **WHOLE).reconciled
    assert [row.explanation for row in told] == ["equal"] * 4


# ------------------------------------------------------------------------------------------ parts


def parts(*files: Any, by: str, **options: Any) -> dict[str, ScheduleSegment]:
    return {part.key: part for part in scheduling(*files, **options).segments if part.by == by}


def test_parts_of_the_jobs() -> None:
    """Chips times the time from submission to end: what was held, and what was waited for."""
    rows = [
        job(1, 0, 10, 60, account="lab", labels='{"team": "nlp"}'),
        job(2, 0, 20, 30, "n1,n2", 16, user="bob", account="lab", node_count=2, suspended=5),
        job(3, 50, 50, 90, chips=2, user="bob", account="other", labels='{"team": "nlp"}'),
    ]
    records = file(rows, nodes=[*TWO, node("n3", 8)], capacity=[registered(24, 0)])
    users = parts(records, by="user", **WHOLE)
    assert (users["ann"].jobs, users["ann"].allocated_ns, users["ann"].capacity_ns) == (1, 200 * S, 240 * S)
    assert users["ann"].causes == {"latency": 40 * S}
    assert (users["bob"].jobs, users["bob"].allocated_ns) == (2, (16 * 5 + 2 * 40) * S)
    assert users["bob"].capacity_ns == (16 * 30 + 2 * 40) * S
    assert users["bob"].causes["suspended"] == 16 * 5 * S
    for by in ("size", "user", "account"):
        told = parts(records, by=by, **WHOLE).values()
        assert all(part.allocated_ns + sum(part.causes.values()) == part.capacity_ns for part in told)
        assert sum(part.capacity_ns for part in told) == (240 + 480 + 80) * S
    assert "partition" not in {part.by for part in scheduling(records, **WHOLE).segments}


def test_parts_by_label() -> None:
    rows = [
        job(1, 0, 10, 60, labels='{"team": "nlp", "odd name\'s": "x"}'),
        job(2, 0, 10, 60, labels='{"team": "vision"}'),
        job(3, 0, 10, 60),
    ]
    told = scheduling(file(rows, nodes=TWO, capacity=ALL), by=("label:team",)).segments
    sums = {part.key: part.capacity_ns for part in told if part.by == "label:team"}
    assert sums == {"nlp": 240 * S, "vision": 240 * S, "(none)": 240 * S}


def test_parts_of_the_fleet() -> None:
    """By cluster and type of chips: against capacity, and adding up to it."""
    nodes = [node("n1", 8, "h100", cluster="c"), node("n2", 4, "a100", cluster="d")]
    rows = [job(1, 0, 10, 60, "n1", cluster="c"), job(1, 0, 0, 100, "n2", 2, cluster="d")]
    told = [part for part in scheduling(file(rows, nodes=nodes), **WHOLE).segments if part.basis == "fleet"]
    assert [(part.by, part.key, part.allocated_ns, part.capacity_ns) for part in told] == [
        ("cluster", "c", 200 * S, 800 * S),
        ("cluster", "d", 200 * S, 400 * S),
        ("chip_type", "a100", 200 * S, 400 * S),
        ("chip_type", "h100", 200 * S, 800 * S),
    ]
    assert all(part.jobs == 0 and part.sg == part.allocated_ns / part.capacity_ns for part in told)


def test_halves_add_up_to_the_whole() -> None:
    rows = [job(1, 0, 10, 60), job(2, 0, 60, 90, "n1,n2", 16), job(3, 30, 30, 71, "n2", 3, suspended=7)]
    records = file(rows, nodes=TWO, capacity=ALL)
    whole, first, second = (
        parts(records, by="size", start=start, end=end) for start, end in ((0, 100), (0, 50), (50, 100))
    )
    for key, part in whole.items():
        halves = [half[key] for half in (first, second) if key in half]
        assert part.allocated_ns == sum(half.allocated_ns for half in halves)
        assert part.capacity_ns == sum(half.capacity_ns for half in halves)
        for cause, ns in part.causes.items():
            assert ns == sum(half.causes.get(cause, 0) for half in halves)


def test_simpsons_paradox() -> None:
    """Each user does better in the second half, all together worse: there most of it is bob's, whose jobs wait."""

    def of(raw: int, user: str, begin: int, waited: int, ran: int, chips: int) -> Any:
        start = begin + waited
        return job(raw, begin, start, start + ran, "", chips, user=user, chip_type="h100")

    rows = [
        of(1, "ann", 0, 4, 36, 100),  # 90 %
        of(2, "bob", 0, 30, 10, 10),  # 25 %
        of(3, "ann", 50, 2, 38, 10),  # 95 %
        of(4, "bob", 50, 28, 12, 100),  # 30 %
    ]
    told = scheduling(file(rows), capacity={"": 200}, **WHOLE).remarks
    (said,) = [remark for remark in told if remark.startswith("Simpson's paradox")]
    before, after = (100 * 36 + 10 * 10) / (110 * 40), (10 * 38 + 100 * 12) / (110 * 40)
    assert f"from {100 * before:.1f} % in the first half to {100 * after:.1f} % in the second" in said
    assert "no part by user moved with it" in said
    rows[3] = of(4, "bob", 50, 28, 12, 10)
    rows[2] = of(3, "ann", 50, 2, 38, 100)
    again = scheduling(file(rows), capacity={"": 200}, **WHOLE).remarks
    assert not [remark for remark in again if remark.startswith("Simpson's paradox")]


def test_the_pattern_by_size() -> None:
    small = [job(n, 0, 0, 95, "", 1) for n in range(10)]
    huge = [job(n, 0, 0, 95, "", 1000) for n in range(10, 20)]
    medium = [job(n, 0, 40, 95, "", 50) for n in range(20, 30)]
    (said,) = scheduling(file([*small, *huge, *medium]), capacity={"": 20_000}, **WHOLE).remarks
    assert said.startswith("the healthy pattern by size (small and extra-large near 95 %) holds")
    late = [job(n, 0, 50, 95, "", 1000) for n in range(10, 20)]
    (said,) = scheduling(file([*small, *late, *medium]), capacity={"": 20_000}, **WHOLE).remarks
    assert "does not hold" in said
    (said,) = scheduling(file(small), capacity={"": 20_000}, **WHOLE).remarks
    assert "cannot be judged" in said


def test_jobs_of_the_report() -> None:
    """One job that was preempted: SG is what it ran of its whole life."""
    rows = [job(1, 0, 10, 30, state="PREEMPTED"), job(1, 30, 60, 80, eligible=50)]
    (one,) = report(file(rows, nodes=TWO, capacity=ALL), **WHOLE).jobs
    assert one.sg == pytest.approx(40 / 80)
    assert (one.queue_wait_s, one.run_s, one.chip_seconds) == (10 + 30, 40, 160)
    assert (one.run_s_in_failed_attempts, one.run_s_in_last_attempt, one.start_to_end_s) == (20, 20, 40)
    first, second = one.attempts
    assert (first.waits, second.waits) == ({"latency": 10}, {"requeue_delay": 20, "latency": 10})
    assert second.wait_pieces is not None
    told = [(piece.cause, piece.start_ns, piece.end_ns) for piece in second.wait_pieces]
    assert told == [("requeue_delay", 30 * S, 50 * S), ("latency", 50 * S, 60 * S)]
    (part,) = report(file(rows, nodes=TWO, capacity=ALL), start=20, end=70).jobs
    assert part.chip_seconds == 4 * (10 + 10)


# ------------------------------------------------------------------------------------------ next time


@pytest.mark.parametrize(
    ("versions", "restarts"),
    [
        (["22.05.8"], False),
        (["24.11.5"], True),
        (["Slurm 24.11.0"], True),
        (["24.05.9"], False),
        (["25.05"], True),
        (["22.05.8", "24.11.5"], True),
        ([None], False),
        (["odd"], False),
    ],
)
def test_next_time(versions: list[str | None], restarts: bool) -> None:
    sources = pl.DataFrame(
        {"format": ["slurm-sacct"] * len(versions), "format_version": versions},
        schema={"format": pl.String, "format_version": pl.String},
    )
    window = Window(1_796_000_400 * S, 1_796_004_000 * S)
    told = command(sources, window, naive=False)
    start = "TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -X -P -S 2026-11-30T01:00:00 -E 2026-11-30T02:00:00 -o Cluster,"
    assert told.startswith(start)
    assert (",Restarts," in told) == restarts
    assert told.endswith(",JobName > sacct.psv")
    assert command(sources, window, naive=True).startswith("SLURM_TIME_FORMAT=%s sacct")
    assert command(sources.with_columns(format=pl.lit("kubernetes-pods")), window, naive=False) == ""
