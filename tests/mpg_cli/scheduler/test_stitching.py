"""Records into attempts: tiny cases that can be checked on paper. Times are seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mpg_parsers.errors import InputError
from tests.mpg_cli.fleet.clusters import (
    S,
    attempts,
    causes,
    computed,
    event,
    file,
    job,
    node,
    report,
    scheduling,
    waits,
)

if TYPE_CHECKING:
    from tests.mpg_cli.fleet.clusters import File, Row

ONE = [node("n1", 8)]
TURNS = ("job", "attempt", "submit_ns", "start_ns", "end_ns", "chips")
HOUR = 3600


def turns(*files: File, **options: Any) -> list[tuple[Any, ...]]:
    return attempts(computed(*files, **options), *TURNS)


# ------------------------------------------------------------------------------------------ attempts


def test_requeued() -> None:
    """Submission is reset at a requeue; the scheduler then lets it wait until it is eligible again."""
    found = computed(
        file(
            [job(1, 0, 10, 30, state="PREEMPTED"), job(1, 30, 60, 80, eligible=50)],
            nodes=ONE,
        )
    )
    assert attempts(found, *TURNS) == [("1", 1, 0, 10, 30, 4), ("1", 2, 30, 60, 80, 4)]
    assert waits(found) == {"1": {"latency": 20, "requeue_delay": 20}}
    assert causes(found) == {"unobserved": 160, "policy": 8 * 20, "no_demand": 8 * 100 - 160 - 160}


def test_resized() -> None:
    """The second record of a resized job repeats the first start: from the resize on it counts."""
    rows = [
        job(1, 0, 10, 30, chips=8, state="RESIZING"),
        job(1, 30, 10, 50, chips=4, run=40),
    ]
    found = computed(file(rows, nodes=ONE))
    assert attempts(found, *TURNS, "recorded_start_ns") == [
        ("1", 1, 0, 10, 30, 8, 10), ("1", 2, 30, 30, 50, 4, 10),
    ]  # fmt: skip
    assert causes(found)["unobserved"] == 20 * 8 + 20 * 4
    assert attempts(found, "run_ns", "ran_ns", "queue_wait_ns") == [(20, 20, 10), (20, 20, 0)]


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("PREEMPTED", 1),
        ("NODE_FAIL", 1),
        ("REQUEUED", 1),
        ("BOOT_FAIL", 1),
        ("COMPLETED", 2),
        ("CANCELLED", 2),
    ],
)
def test_a_number_again(state: str, count: int) -> None:
    """What follows an attempt that may go on is the same job; what follows one that is over has its number only."""
    found = computed(file([job(1, 0, 10, 30, state=state), job(1, 40, 60, 80)], nodes=ONE))
    assert found.attempts["job_id"].n_unique() == count


@pytest.mark.parametrize("other", [{"user": "bob"}, {"name": "evaluation"}])
def test_a_number_of_another(other: Row) -> None:
    rows = [job(1, 0, 10, 30, state="PREEMPTED"), job(1, 30, 60, 80) | other]
    found = computed(file(rows, nodes=ONE))
    assert attempts(found, "job", "attempt") == [("1", 1), ("1", 1)]
    assert found.attempts["job_id"].n_unique() == 2


def test_parts_of_one_job() -> None:
    """What one component holds before and after the others is partial."""
    rows = [job(3, 0, 10, 40, "n1", 2), job(4, 0, 20, 50, "n1", 4) | {"job": "3"}]
    found = computed(file(rows, nodes=ONE))
    assert causes(found)["partial"] == 2 * 10 + 4 * 10
    assert causes(found)["unobserved"] == (2 + 4) * 20
    (one,) = report(file(rows, nodes=ONE)).jobs
    assert (one.chips, one.chips_requested, len(one.attempts)) == (6, 6, 1)
    assert one.sg == pytest.approx(20 / 50)


def test_a_part_that_never_came() -> None:
    rows = [job(3, 0, 10, 40, "n1", 2), job(4, 0, None, 50, chips=4, state="CANCELLED") | {"job": "3"}]
    found = causes(computed(file(rows, nodes=ONE)))
    assert (found["partial"], found.get("unobserved")) == (60, None)


def test_arrays() -> None:
    """The last task keeps the number of the array; each is a job."""
    rows = [
        job(2, 0, 20, 30, job="2_2", array="2"),
        job(5, 0, 10, 20, job="2_1", array="2"),
    ]
    found = computed(file(rows, nodes=ONE))
    assert attempts(found, "job", "attempt", "raw_id") == [("2_2", 1, "2"), ("2_1", 1, "5")]
    assert found.attempts["job_id"].n_unique() == 2


def test_never_started() -> None:
    """A controller writes the end of what was cancelled while it waited as its start, too."""
    rows = [
        job(1, 0, None, 40, state="CANCELLED"),
        job(2, 0, 40, 40, state="CANCELLED", chips=0, chips_requested=4),
    ]
    found = computed(file(rows, nodes=ONE))
    assert attempts(found, *TURNS) == [("1", 1, 0, None, 40, 0), ("2", 1, 0, None, 40, 0)]
    assert attempts(found, "queue_wait_ns", "run_ns") == [(40, 0), (40, 0)]


def test_not_over() -> None:
    """It has run as long as its record says, or until what counts as now."""
    rows = [
        job(1, 0, 10),
        job(2, 0, 10, run=60),
        job(3, 70),
        job(4, 0, 90, state="PENDING"),  # when a controller expects to start it
    ]
    names = ("job", "start_ns", "end_ns", "open", "queue_wait_ns")
    assert attempts(computed(file(rows, nodes=ONE, as_of=80)), *names) == [
        ("1", 10, 80, True, 10),
        ("2", 10, 70, True, 10),
        ("3", None, 80, True, 10),
        ("4", None, 80, True, 80),
    ]
    later = attempts(computed(file(rows[:3], nodes=ONE, as_of=80), as_of=100), "end_ns", "open")
    assert later == [(100, True)] * 3
    earlier = computed(file(rows[:2], nodes=ONE, as_of=80), as_of=5)
    assert attempts(earlier, "ran_ns") == [(0,), (0,)]
    assert [one.start_to_end_s for one in report(file(rows[:2], as_of=80), as_of=5).jobs] == [0, 0]


def test_suspended() -> None:
    """How long it was suspended is known, not when: the end of it."""
    found = computed(file([job(1, 0, 10, 50, suspended=15)], nodes=ONE))
    assert (causes(found)["suspended"], causes(found)["unobserved"]) == (4 * 15, 4 * 25)
    assert attempts(found, "run_ns", "ran_ns") == [(25, 25)]


# ------------------------------------------------------------------------------------------ what only a log has

LOGGED = [
    event(5.2, "allocate", 1, nodes='["n2"]'),
    event(20.9, "requeue", 1),
    event(40.2, "allocate", 1, nodes='["n1"]'),
    event(60.1, "end", 1),
]


def log(*events: Row, **about: Any) -> File:
    return file(events=events, form="slurm-controller-log", **about)


@pytest.mark.parametrize("cluster", [None, "c"])
def test_lost_by_the_accounting(cluster: str | None) -> None:
    """One record, with the first submission and the second start."""
    records = file(
        [job(1, 0, 40, 60, cluster=cluster)],
        nodes=[node("n1", 8, cluster=cluster), node("n2", 8, cluster=cluster)],
    )
    found = computed(records, log(*LOGGED))
    assert attempts(found, *TURNS, "lost", "nodes", "state") == [
        ("1", 1, 0, 5, 20, 4, True, '["n2"]', "NODE_FAIL"),
        ("1", 2, 20, 40, 60, 4, False, '["n1"]', "COMPLETED"),
    ]
    assert causes(found)["unobserved"] == 4 * (15 + 20)
    assert waits(found)["1"] == {"latency": 5 + 20}
    (told,) = [one for one in scheduling(records, log(*LOGGED)).integrity if one.kind == "lost_attempts"]
    assert (told.count, told.chip_ns, "(job 1)" in told.message) == (1, 60 * S, True)


def test_a_log_in_two_copies() -> None:
    found = turns(file([job(1, 0, 40, 60)], nodes=ONE), log(*LOGGED), log(*LOGGED))
    assert [row[3] for row in found] == [5, 40]


def test_nothing_is_lost_where_the_end_is_not_known() -> None:
    records = file([job(1, 0, 40, 60)], nodes=ONE)
    for events in (
        LOGGED[:1],
        [LOGGED[0], *LOGGED[2:]],
        LOGGED[2:],
        [event(5, "allocate", 9), event(7, "end", 9)],
    ):
        assert turns(records, log(*events)) == [("1", 1, 0, 40, 60, 4)]


def test_a_start_that_a_log_has_otherwise() -> None:
    """Chips are given when the nodes begin to boot, and the record has when they were up."""
    late = [event(30.5, "allocate", 1), event(60.1, "end", 1)]
    assert turns(file([job(1, 0, 40, 60)], nodes=ONE), log(*late)) == [("1", 1, 0, 40, 60, 4)]


@pytest.mark.parametrize("cluster", [None, "c"])
def test_preempted_by(cluster: str | None) -> None:
    rows = [job(1, 0, 10, 30, state="PREEMPTED", cluster=cluster), job(2, 20, 30, 50, cluster=cluster)]
    told = log(event(30.1, "preempt", 1, other="2", reason="requeued"))
    found = computed(file(rows, nodes=[node("n1", cluster=cluster)]), told)
    assert attempts(found, "job", "preempted_by", "ended_by") == [("1", "2", "Preempted"), ("2", None, None)]


# ------------------------------------------------------------------------------------------ several exports


def test_exports_count_once() -> None:
    """The final record counts, then the accounting's, then the latest; what it lacks the others have."""
    early = file([job(1, 0, 10, partition="p")], nodes=ONE, as_of=20)
    late = file([job(1, 0, 10, 50, qos="high")], as_of=60)
    queue = file([job(1, 0, 10, reason="Resources", qos="low")], form="slurm-squeue-json", as_of=80)
    for files in ((early, late, queue), (queue, late, early)):
        found = computed(*files)
        names = (*TURNS, "state", "partition", "qos", "reason")
        assert attempts(found, *names) == [("1", 1, 0, 10, 50, 4, "COMPLETED", "p", "high", "Resources")]


def test_of_two_that_are_not_over_the_latest_counts() -> None:
    first, last = file([job(1, 0)], nodes=ONE, as_of=20), file([job(1, 0, 30)], as_of=60)
    assert attempts(computed(first, last), "state", "start_ns", "end_ns") == [("RUNNING", 30, 60)]
    accounting = file([job(1, 0, 30)], as_of=50)
    controller = file([job(1, 0)], form="slurm-squeue", as_of=60)
    assert attempts(computed(controller, accounting), "state") == [("RUNNING",)]


def test_who_cancelled() -> None:
    """JSON does not tell, text does."""
    told = file([job(1, 0, None, 40, state="CANCELLED", cancelled_by="1001")], nodes=ONE)
    silent = file([job(1, 0, None, 40, state="CANCELLED")], form="slurm-sacct-json")
    for files in ((told, silent), (silent, told)):
        assert attempts(computed(*files), "cancelled_by") == [("1001",)]


def test_printed_numbers() -> None:
    """An export without raw ids has 2_1 and 3+1, of which another file has the raw ids."""
    raw = file(
        [
            job(5, 0, 10, 20, job="2_1", array="2"),
            job(3, 0, 10, 20),
            job(4, 0, 10, 20) | {"job": "3"},
        ],
        nodes=ONE,
    )
    printed = file(
        [
            job("2_1", 0, 10, 20, array="2"),
            job("3+0", 0, 10, 20) | {"job": "3"},
            job("3+1", 0, 10, 20) | {"job": "3"},
        ]
    )
    for files in ((raw, printed), (printed, raw)):
        found = attempts(computed(*files), "job", "raw_id")
        assert sorted(found) == [("2_1", "5"), ("3", "3"), ("3", "4")]


def test_requeued_between_two_exports_without_duplicates() -> None:
    """The earlier one has what the later one hides; a requeue resets the submission, so that it ended then."""
    early = file([job(1, 0, 10, run=5)], nodes=ONE, as_of=15)
    late = file([job(1, 30, 40, 60)])
    found = computed(early, late)
    assert attempts(found, *TURNS, "open") == [("1", 1, 0, 10, 30, 4, False), ("1", 2, 30, 40, 60, 4, False)]


# ------------------------------------------------------------------------------------------ time zones


def jobs(shift: int = 0, count: int = 4) -> list[Row]:
    return [
        job(n, 1000 * n + shift, 1000 * n + 10 + shift, 1000 * n + 50 + n + shift)
        for n in range(1, count + 1)
    ]


def test_a_copy_in_new_york_is_moved() -> None:
    copy = file(jobs(-5 * HOUR), naive=True, as_of=5000 - 5 * HOUR, path="ny.psv")
    found = computed(file(jobs(), nodes=ONE, as_of=5000), copy)
    assert attempts(found, "start_ns") == [(1010,), (2010,), (3010,), (4010,)]
    assert not found.naive
    (notice,) = [one for one in found.gathered.notices if one.kind == "naive_time"]
    assert (notice.source, "5 h behind" in notice.message) == ("ny.psv", True)


def test_the_zone_of_most_is_taken() -> None:
    """Of three naive exports two agree. Their zone is still not known."""
    files = [
        file(jobs(shift), naive=True, as_of=5000 + shift, path=str(n))
        for n, shift in enumerate((-5 * HOUR, 0, 0))
    ]
    found = computed(*files)
    assert attempts(found, "start_ns") == [(1010,), (2010,), (3010,), (4010,)]
    assert found.naive


def test_one_naive_export_is_fine() -> None:
    found = computed(file(jobs(), nodes=ONE, naive=True, as_of=5000))
    assert found.naive
    assert report(file(jobs(), naive=True, as_of=5000)).jobs[0].submit == "1970-01-01T00:16:40"
    assert not computed(file(jobs(), nodes=ONE, naive=True, as_of=5000), tz="UTC").naive


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ([file(jobs(), naive=True, as_of=5000)], {"start": 1000}),
        ([file(jobs(), naive=True, as_of=5000)], {"as_of": 4000}),
        ([file(jobs(), naive=True, as_of=5000), log(*LOGGED, as_of=5000)], {}),
        ([file(jobs(), naive=True, as_of=5000), log(*LOGGED, naive=True)], {}),
        ([file(jobs(), as_of=5000), file(jobs(-1234), naive=True, as_of=5000)], {}),
    ],
    ids=["cut", "as of", "beside absolute times", "beside another naive file", "no whole quarter of an hour"],
)
def test_naive_times_are_refused(files: list[File], options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="name no zone") as caught:
        computed(*files, **options)
    assert caught.value.kind == "naive_time"
    assert "--tz" in caught.value.hint
