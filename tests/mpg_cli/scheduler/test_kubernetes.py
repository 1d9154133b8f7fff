"""Dumps and watches of Kubernetes into attempts: the cases with known figures, and small ones on paper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.kubernetes import make
from fixtures.kubernetes.make import TRUTH, at, condition, event, ns, pod, workload
from mpg_cli.scheduler.kubernetes import ADDED, gang_ready, stitch
from mpg_parsers.kubernetes_objects import KUBERNETES
from mpg_parsers.scheduler_tables import ATTEMPTS, SCHEDULER_EVENTS
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import read, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from mpg_parsers.errors import Notice

CASES = ROOT.parent / "shared/corpus/hard_inputs"
needs_corpus = pytest.mark.skipif(not CASES.is_dir(), reason=f"the corpus of hard cases is not at {CASES}")
SECOND = 10**9
Stitched = tuple[pl.DataFrame, list["Notice"]]


def joined(parts: list[dict[str, pl.DataFrame]], as_of: int | None = None) -> Stitched:
    """The attempts of several files."""
    tables = [
        pl.concat([part[table.name].with_columns(source=pl.lit(n, pl.Int32)) for n, part in enumerate(parts)])
        for table in (ATTEMPTS, SCHEDULER_EVENTS)
    ]
    known = {n: part["sources"]["as_of_ns"][0] for n, part in enumerate(parts)}
    return stitch(*tables, known if as_of is None else as_of)


def files(folder: Path, *dumps: list[Any], as_of: float | None = None) -> Stitched:
    parts = [read_text(KUBERNETES, folder, "\n".join(map(json.dumps, dump))) for dump in dumps]
    return joined(parts, None if as_of is None else ns(as_of))


def seconds(rows: pl.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """The columns, lengths of time in seconds and times in seconds after the start of the fixture."""
    lengths = {*ADDED, "run_ns"}
    bases = {name: 0 if name in lengths else ns(0) for name in names if name.endswith("_ns")}
    return [
        tuple(
            (cell - bases[name]) / SECOND if name in bases and cell is not None else cell
            for name, cell in zip(names, row, strict=True)
        )
        for row in rows.select(names).rows()
    ]


def fixture() -> Stitched:
    folder = ROOT / "fixtures/kubernetes"
    return joined([read(KUBERNETES, folder / name) for name in ("watch.jsonl", "dump.json")])


def test_two_admissions_of_one_workload() -> None:
    rows, notices = fixture()
    found = rows.filter(kind="workload")
    wanted = [
        (
            n,
            float(a["submit"]),
            float(a["start"]),
            float(a["end"]),
            a["chips"],
            a["ended_by"],
            json.dumps(a["nodes"]),
        )
        for n, a in enumerate(TRUTH["a"], 1)
    ]
    names = ("attempt", "submit_ns", "start_ns", "end_ns", "chips", "ended_by", "nodes")
    assert [(*row[:-1], json.dumps(json.loads(row[-1]))) for row in seconds(found, *names)] == wanted
    waits = seconds(found, "queue_wait_ns", "schedule_to_start_ns", "held_ns", "state")
    assert waits == [(100.0, 60.0, 930.0, "PREEMPTED"), (470.0, 20.0, 1000.0, "COMPLETED")]
    assert found["counted"].to_list() == [True, True]
    assert notices == []


def test_chips_count_once() -> None:
    rows, _ = fixture()
    pods = rows.filter(kind="pod").sort("job")
    assert pods.select("job", "counted", "group").rows() == [
        *((f"a-{n}", False, "JobSet/ml/a") for n in range(4)),
        ("c-0", True, "Job/ml/c"), ("c-1", True, "Job/ml/c"), ("d", True, None),
    ]  # fmt: skip


def test_pods_without_a_workload() -> None:
    rows, _ = fixture()
    names = ("queue_wait_ns", "run_ns", "schedule_to_start_ns", "failed_scheduling", "chips", "open")
    found = seconds(rows.filter(pl.col("job").is_in(["c-0", "c-1", "d"])).sort("job"), *names)
    assert found == [
        (10.0, 1390.0, 10.0, 0, 4, False),
        (400.0, 1010.0, 10.0, 19, 4, False),
        (2700.000001, 0.0, None, 12, 16, True),
    ]


def test_a_gang_is_ready_while_all_its_pods_run() -> None:
    rows, _ = fixture()
    found = gang_ready(rows)
    assert seconds(found, "group", "start_ns", "end_ns", "chips", "pods") == [
        ("Job/ml/c", 410.0, 1410.0, 8, 2),
        ("JobSet/ml/a", 150.0, 1025.0, 16, 2),
        ("JobSet/ml/a", 1515.0, 2490.0, 16, 2),
    ]


def test_a_gang_with_a_pod_that_waits_is_not_ready(tmp_path: Path) -> None:
    labels = {"batch.kubernetes.io/job-name": "j"}
    rows, _ = files(
        tmp_path, [pod("j-0", node="n", scheduled=5, run=(6, 90), labels=labels), pod("j-1", labels=labels)]
    )
    assert gang_ready(rows).is_empty()


def test_pods_of_a_deployment_are_no_gang(tmp_path: Path) -> None:
    value = pod("web", node="n", scheduled=5, run=(6, None))
    value["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    rows, _ = files(tmp_path, [value])
    assert rows.select("owner", "group").row(0) == ("ReplicaSet/ml/web", None)
    assert gang_ready(rows).columns == ["cluster", "group", "start_ns", "end_ns", "chips", "pods"]


def test_a_clock_that_is_behind(tmp_path: Path) -> None:
    value = pod("p", node="n", run=(515, 4115))
    rows, (notice,) = files(tmp_path, [value, event(value, "Scheduled", 600)])
    names = ("queue_wait_ns", "schedule_to_start_ns", "start_ns", "end_ns", "run_ns")
    assert seconds(rows, *names) == [(600.0, 0.0, 600.0, 4200.0, 3600.0)]
    assert notice.kind == "clock_skew"
    assert "at least 85 s" in notice.message


@pytest.mark.parametrize(("started", "count"), [(600, 0), (599, 1)])
def test_whole_seconds_are_no_skew(started: int, count: int, tmp_path: Path) -> None:
    value = pod("p", node="n", run=(started, 900))
    told = event(value, "Scheduled", 600)
    told |= {"eventTime": at(600.25), "firstTimestamp": None, "lastTimestamp": None}
    _, notices = files(tmp_path, [value, told])
    assert len(notices) == count


def test_no_scheduled_event(tmp_path: Path) -> None:
    value = pod("p", node="n", run=(930, 4530))
    told = [
        event(value, "FailedScheduling", 5, last=600, count=9),
        event(value, "Pulling", 905, component="kubelet"),
    ]
    rows, (notice,) = files(tmp_path, [value, *told])
    names = ("queue_wait_ns", "queue_wait_min_ns", "queue_wait_max_ns", "run_ns", "failed_scheduling")
    assert seconds(rows, *names) == [(None, 600.0, 905.0, 3600.0, 9)]
    assert notice.kind == "missing_event"
    assert "Scheduled" in notice.message


def test_the_condition_stands_in_for_the_event(tmp_path: Path) -> None:
    rows, notices = files(tmp_path, [pod("p", node="n", scheduled=600, run=(610, 900))])
    assert notices == []
    assert seconds(rows, "queue_wait_ns") == [(600.0,)]


def test_an_event_that_grows_counts_once(tmp_path: Path) -> None:
    value = pod("p")
    seen = [event(value, "FailedScheduling", 2, last=2 + n, count=n) for n in (1, 5, 37)]
    rows, _ = files(tmp_path, [value, *seen], [seen[1]])
    assert rows["failed_scheduling"].to_list() == [37]


def test_a_pod_that_only_got_a_node_holds_its_chips(tmp_path: Path) -> None:
    rows, _ = files(tmp_path, [pod("p", node="n", scheduled=100), pod("z", created=400)])
    names = ("start_ns", "end_ns", "held_ns", "chips", "open", "schedule_to_start_ns")
    assert seconds(rows.filter(job="p"), *names) == [(100.0, 400.0, 300.0, 8, True, None)]


def test_cancelled_while_it_waited(tmp_path: Path) -> None:
    value = pod("p")
    value["metadata"]["deletionTimestamp"] = at(50)
    rows, _ = files(tmp_path, [{"type": "DELETED", "object": value}, pod("z", created=400)])
    names = ("queue_wait_ns", "chips", "open", "state")
    assert seconds(rows.filter(job="p"), *names) == [(50.0, 8, False, "CANCELLED")]


def test_the_last_of_several_dumps_holds(tmp_path: Path) -> None:
    early, late = (
        pod("p", node="n", scheduled=5, run=(6, None)),
        pod("p", node="n", scheduled=5, run=(6, 700)),
    )
    for dumps in ([early, pod("z", created=50)], [late]), ([late], [early, pod("z", created=50)]):
        rows, _ = files(tmp_path, *dumps)
        assert seconds(rows.filter(job="p"), "end_ns", "state", "open") == [(700.0, "COMPLETED", False)]


def test_a_pod_that_is_gone_counts_until_it_was_seen(tmp_path: Path) -> None:
    first = [pod("p", node="n", scheduled=5, run=(6, None)), pod("y", created=300)]
    rows, notices = files(tmp_path, first, [pod("z", created=9000)])
    assert seconds(rows.filter(job="p"), "end_ns", "run_ns") == [(300.0, 294.0)]
    assert [n.kind for n in notices] == ["missing_event"]


def test_as_of_that_is_given(tmp_path: Path) -> None:
    rows, _ = files(tmp_path, [pod("p", node="n", scheduled=5, run=(6, None)), pod("w")], as_of=1006)
    assert seconds(rows.sort("job"), "run_ns", "queue_wait_ns") == [(1000.0, 5.0), (0.0, 1006.0)]


def admitted(since: float, **more: Any) -> Any:
    return workload("w", conditions=[condition("Admitted", since)], assignment=make.hosts("n1", "n2"), **more)


def test_admitted_again_without_a_word_between(tmp_path: Path) -> None:
    """Two dumps: the first admission is known to have lasted until the first dump."""
    rows, _ = files(tmp_path, [admitted(100), pod("z", created=400)], [admitted(700), pod("z", created=900)])
    found = rows.filter(kind="workload")
    names = ("start_ns", "end_ns", "queue_wait_ns", "open")
    assert seconds(found, *names) == [(100.0, 400.0, 100.0, False), (700.0, 900.0, 300.0, True)]


def test_counted_evictions_that_no_file_has(tmp_path: Path) -> None:
    stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 3}]}
    value = admitted(700, schedulingStats=stats, accumulatedPastExecutionTimeSeconds=250)
    _, (notice,) = files(tmp_path, [value])
    assert (notice.kind, notice.count) == ("missing_event", 3)
    assert "250 s" in notice.message


def test_back_off_is_not_yet_eligible(tmp_path: Path) -> None:
    gone = [condition("Evicted", 300, reason="PodsReadyTimeout"), condition("QuotaReserved", 310, status="False"),
            condition("Requeued", 370, reason="BackoffFinished")]  # fmt: skip
    rows, _ = files(tmp_path, [admitted(100)], [workload("w", conditions=gone)], [admitted(400)])
    names = ("submit_ns", "eligible_ns", "start_ns", "queue_wait_ns", "ended_by")
    assert seconds(rows, *names) == [
        (0.0, 0.0, 100.0, 100.0, "PodsReadyTimeout"),
        (310.0, 370.0, 400.0, 90.0, None),
    ]


@pytest.mark.parametrize(
    ("told", "ends", "eligible"),
    [
        ([("Requeued", 300), ("Stopped", 330)], 330.0, 330.0),
        ([("Stopped", 330), ("Requeued", 350)], 330.0, 350.0),
        ([("Requeued", 340)], 340.0, 340.0),
        ([], 300.0, 300.0),
    ],
)
def test_when_an_evicted_workload_gives_its_chips_back(
    told: list[tuple[str, float]], ends: float, eligible: float, tmp_path: Path
) -> None:
    value = workload("w")
    happened = [
        ("Admitted", 100),
        ("EvictedDueToPreempted", 300),
        *told,
        ("Admitted", 700),
        ("FinishedWorkload", 900),
    ]
    rows, _ = files(tmp_path, [value, *(event(value, reason, when) for reason, when in happened)])
    assert seconds(rows, "end_ns", "eligible_ns") == [(ends, 0.0), (900.0, eligible)]
    assert seconds(rows, "queue_wait_ns") == [(100.0,), (700.0 - ends,)]


def test_deactivated_is_not_waiting(tmp_path: Path) -> None:
    gone = [condition("Evicted", 300, reason="Deactivated"), condition("QuotaReserved", 310, status="False")]
    rows, _ = files(tmp_path, [admitted(100)], [workload("w", conditions=gone), pod("z", created=900)])
    assert seconds(rows.filter(kind="workload"), "end_ns", "ended_by", "state") == [
        (310.0, "Deactivated", "EVICTED")
    ]


def test_the_pods_tell_when_they_stopped(tmp_path: Path) -> None:
    """Evicted, without an event of the requeue: the workload holds its chips until its last pod has ended."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "s"}
    pods = [
        pod(f"s-{n}", created=100, node="n1", scheduled=100, run=(110, end), labels=labels)
        for n, end in enumerate((320, 345))
    ]
    again = admitted(700, owner="s")
    rows, _ = files(
        tmp_path, [admitted(100, owner="s"), *pods, event(again, "EvictedDueToPreempted", 300)], [again]
    )
    found = rows.filter(kind="workload")
    assert seconds(found, "start_ns", "end_ns", "ended_by") == [
        (100.0, 345.0, "Preempted"),
        (700.0, 700.0, None),
    ]


def test_the_jobs_own_events_tell_of_the_workload(tmp_path: Path) -> None:
    again = admitted(700, owner="s")
    job = {"kind": "JobSet", "metadata": {"name": "s", "uid": "uid-s"}}
    told = [event(again, "EvictedDueToPreempted", 300), event(job, "Stopped", 333)]
    rows, _ = files(tmp_path, [admitted(100, owner="s"), *told, again])
    assert seconds(rows, "start_ns", "end_ns") == [(100.0, 333.0), (700.0, 700.0)]


def test_pods_of_what_the_job_has_made(tmp_path: Path) -> None:
    """A RayJob has the workload, its RayCluster the pods."""
    value = admitted(100)
    value["metadata"]["ownerReferences"] = [
        {"kind": "RayJob", "name": "r", "uid": "uid-r", "controller": True}
    ]
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": make.meta("r-x", "uid-x", 100)}
    cluster["metadata"]["ownerReferences"] = [
        {"kind": "RayJob", "name": "r", "uid": "uid-r", "controller": True}
    ]
    worker = pod("r-x-0", node="n1", scheduled=105, run=(110, None))
    worker["metadata"]["ownerReferences"] = [{"kind": "RayCluster", "name": "r-x", "controller": True}]
    rows, _ = files(tmp_path, [value, cluster, worker])
    assert rows.sort("kind").select("kind", "counted").rows() == [("pod", False), ("workload", True)]


def test_a_pod_may_be_its_own_job(tmp_path: Path) -> None:
    value = admitted(100)
    value["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]
    rows, _ = files(tmp_path, [value, pod("p", node="n1", scheduled=105, run=(110, None))])
    assert rows.sort("kind").select("kind", "counted").rows() == [("pod", False), ("workload", True)]


def test_an_event_tells_of_the_preemption(tmp_path: Path) -> None:
    value = pod("p", node="n", scheduled=5, run=(6, 90), phase="Failed", code=143)
    rows, _ = files(
        tmp_path, [value, event(value, "Preempted", 60, message="Preempted by pod x-1 on node n")]
    )
    assert rows.select("state", "ended_by").row(0) == ("PREEMPTED", "Preempted")


def test_events_without_a_uid(tmp_path: Path) -> None:
    value = pod("p", node="n", run=(30, 90))
    told = event(value, "Scheduled", 20)
    del told["involvedObject"]["uid"]
    rows, _ = files(tmp_path, [value, told])
    assert seconds(rows, "queue_wait_ns") == [(20.0,)]


def test_a_workload_that_was_never_admitted(tmp_path: Path) -> None:
    rows, _ = files(tmp_path, [workload("w"), pod("z", created=600)])
    names = ("queue_wait_ns", "chips", "chips_requested", "open", "state", "start_ns")
    assert seconds(rows.filter(kind="workload"), *names) == [(600.0, 16, 16, True, "PENDING", None)]


def test_nothing() -> None:
    rows, notices = stitch(ATTEMPTS.conform(pl.DataFrame()), SCHEDULER_EVENTS.conform(pl.DataFrame()), {})
    assert rows.is_empty()
    assert rows.columns == [*ATTEMPTS.column_names, *ADDED]
    assert notices == []


REASONS = ("QuotaReserved", "Admitted", "Preempted", "EvictedDueToPreempted", "Stopped", "Pending", "Requeued",
           "FinishedWorkload", "Started")  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(REASONS)), max_size=25))
def test_attempts_follow_one_another(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[int, str]]
) -> None:
    """Whatever the order of events, attempts of one workload never overlap and no length is negative."""
    value = workload("w")
    items = [value, *(event(value, reason, 20 * when) for when, reason in told)]
    rows, _ = files(tmp_path_factory.mktemp("k"), items)
    assert rows["attempt"].to_list() == list(range(1, rows.height + 1))
    ends = 0
    for row in rows.iter_rows(named=True):
        start = row["end_ns"] if row["start_ns"] is None else row["start_ns"]
        assert ends <= row["submit_ns"] <= start <= row["end_ns"]
        assert row["queue_wait_ns"] == start - row["submit_ns"]
        assert row["held_ns"] == row["run_ns"] == (row["end_ns"] - start)
        ends = row["end_ns"]


@needs_corpus
@pytest.mark.parametrize(
    "name",
    ["k8s-clock-skew", "k8s-compacted-events", "k8s-never-scheduled", "k8s-scheduled-event-missing",
     "kueue-preempted-and-requeued"],
)  # fmt: skip
def test_hard_cases(name: str) -> None:
    wanted = json.loads((CASES / name / "expected.json").read_text())["expected"]
    rows, notices = joined([read(KUBERNETES, CASES / name / "events.json")])
    told = [(n.kind, n.message) for n in notices]
    for warning in wanted.get("warnings", []):
        assert any(
            kind == warning["kind"] and all(w in text for w in warning["must_mention"]) for kind, text in told
        )
    assert len(told) == len(wanted.get("warnings", []))
    if "workloads" in wanted:
        _check_workload(wanted["workloads"][0], rows)
    else:
        _check_pod(wanted["pods"][0], rows.row(0, named=True))


def _check_workload(wanted: dict[str, Any], rows: pl.DataFrame) -> None:
    found = seconds(rows, "queue_wait_ns", "held_ns", "ended_by")
    assert found == [(a["queue_wait_s"], a["held_s"], a["ended_by"]) for a in wanted["attempts"]]
    chip_ns = rows["chips"] * rows["held_ns"]
    assert (chip_ns.sum(), chip_ns[-1]) == (
        wanted["gpu_seconds"] * SECOND,
        wanted["gpu_seconds_finished_attempt"] * SECOND,
    )


def _check_pod(wanted: dict[str, Any], row: dict[str, Any]) -> None:
    wait = wanted["queue_wait_s"]
    assert row["queue_wait_ns"] == (None if wait is None else wait * SECOND)
    assert row["run_ns"] == wanted["run_s"] * SECOND
    assert row["chips"] * row["held_ns"] == wanted["gpu_seconds"] * SECOND
    assert row["chips_requested"] == wanted["gpus"]
    assert row["open"] == wanted.get("open", False)
    if "failed_scheduling_count" in wanted:
        assert row["failed_scheduling"] == wanted["failed_scheduling_count"]
        assert row["schedule_to_start_ns"] == wanted["schedule_to_start_s"] * SECOND
    if "queue_wait_bounds_s" in wanted:
        bounds = [row["queue_wait_min_ns"], row["queue_wait_max_ns"]]
        assert bounds == [s * SECOND for s in wanted["queue_wait_bounds_s"]]
