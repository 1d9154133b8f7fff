"""Events of core/v1 and events.k8s.io/v1: which, when, how often and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.kubernetes import make
from fixtures.kubernetes.make import at, ns
from mpg_parsers.kube.events import why_unschedulable
from mpg_parsers.kubernetes_objects import KUBERNETES
from tests.parsers.reading import read_text

if TYPE_CHECKING:
    from pathlib import Path

POD, NODE, WORKLOAD = make.pod("p"), make.node("n1"), make.workload("w")


def events(folder: Path, *items: Any) -> list[dict[str, Any]]:
    found = read_text(KUBERNETES, folder, "\n".join(map(json.dumps, items)))
    rows: list[dict[str, Any]] = found["scheduler_events"].drop_nulls("reason").to_dicts()
    return rows


@pytest.mark.parametrize(
    ("about", "reason", "event"),
    [
        (POD, "Scheduled", "allocate"), (POD, "Pulling", "pull"), (POD, "Started", "start"),
        (POD, "Preempted", "preempt"),
        (POD, "TaintManagerEviction", "evict"), (POD, "BackOff", None), (POD, "Killing", None),
        (NODE, "NodeNotReady", "node_down"), (NODE, "NodeReady", "node_up"), (NODE, "NodeNotSchedulable", "node_drain"),
        (NODE, "Scheduled", None), (WORKLOAD, "QuotaReserved", "quota_reserved"), (WORKLOAD, "Admitted", "admit"),
        (WORKLOAD, "EvictedDueToPodsReadyTimeout", "evict"), (WORKLOAD, "Stopped", "end"),
        (WORKLOAD, "Pending", "pending"),
        ({"kind": "ReplicaSet", "metadata": {"name": "r", "uid": "r"}}, "Scheduled", None),
    ],
)  # fmt: skip
def test_reasons(about: Any, reason: str, event: str | None, tmp_path: Path) -> None:
    found = events(tmp_path, make.event(about, reason, 5))
    assert [row["event"] for row in found] == ([event] if event else [])
    if event:
        named = (None, '["n1"]') if about is NODE else (about["metadata"]["uid"], None)
        assert (found[0]["raw_id"], found[0]["nodes"]) == named


def test_a_folded_event_is_one_row(tmp_path: Path) -> None:
    (row,) = events(tmp_path, make.event(POD, "FailedScheduling", 2, last=2402, count=37))
    assert (row["ts_ns"], row["last_ns"], row["count"]) == (ns(2), ns(2402), 37)


def test_a_series_counts_itself(tmp_path: Path) -> None:
    (row,) = events(
        tmp_path, make.series(POD, "FailedScheduling", 2, 900, 11, "0/1 nodes are available: 1 x.")
    )
    assert (row["ts_ns"], row["last_ns"], row["count"]) == (ns(2) + 1000, ns(900) + 1000, 11)
    assert row["message"] == "0/1 nodes are available: 1 x."


def test_an_event_without_times_is_as_old_as_its_record(tmp_path: Path) -> None:
    told = make.event(POD, "Scheduled", 2)
    told |= {"firstTimestamp": None, "lastTimestamp": None, "metadata": {"creationTimestamp": at(4)}}
    assert [row["ts_ns"] for row in events(tmp_path, told)] == [ns(4)]
    told["metadata"] = {}
    assert events(tmp_path, told, POD) == []


@pytest.mark.parametrize(
    ("told", "clock"),
    [({"source": {"component": "kubelet"}}, True), ({"source": {"component": "default-scheduler"}}, None),
     ({"source": {}, "reportingComponent": "kubelet"}, True)],
)  # fmt: skip
def test_whose_clock(told: dict[str, Any], clock: bool | None, tmp_path: Path) -> None:
    (row,) = events(tmp_path, make.event(POD, "Started", 2) | told)
    assert row["node_clock"] is clock


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("Preempted by pod 5f9f0c3e-aa on node gpu-07", "5f9f0c3e-aa"),
        ("Preempted by ml/big-0 on node gpu-07", "ml/big-0"),
        (
            "Preempted to accommodate a workload (UID: w-2, JobUID: j-2) due to prioritization in the ClusterQueue",
            "w-2",
        ),
        ("Preempted", None),
    ],
)
def test_who_preempts(message: str, other: str | None, tmp_path: Path) -> None:
    (row,) = events(tmp_path, make.event(POD, "Preempted", 2, message=message))
    assert row["other"] == other


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/64 nodes are available: 64 Insufficient nvidia.com/gpu.", "Insufficient nvidia.com/gpu"),
        (
            "0/9 nodes are available: 1 Insufficient nvidia.com/gpu, 8 node(s) were busy. preemption: 0/9 nodes: 9 x.",
            "Insufficient nvidia.com/gpu",
        ),
        (
            "0/9 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {a: b}, 4 node(s) were busy.",
            "Insufficient cpu",
        ),
        ("0/3 nodes are available: 1 node(s) were busy, 2 node(s) had untolerated taint {gpu: 8}.",
         "node(s) had untolerated taint {gpu: 8}"),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/2",
            "node(s) had untolerated taint(s)",
        ),
        ("running PreFilter plugin: no claim", "running PreFilter plugin"),
        ("", "FailedScheduling"),
    ],
)  # fmt: skip
def test_why_a_pod_has_no_node(message: str, reason: str) -> None:
    assert why_unschedulable(message) == reason
