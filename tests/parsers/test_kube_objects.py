"""Pods, nodes, workloads and jobs, from the objects to the tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.kubernetes import make
from fixtures.kubernetes.make import at, condition, ns
from mpg_parsers.kube.chips import pod_resources, wish_of
from mpg_parsers.kube.fields import instant, quantity
from mpg_parsers.kube.nodes import sides_in_nodes
from mpg_parsers.kubernetes_objects import KUBERNETES
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

FOLDER = ROOT / "fixtures/kubernetes"


def tables(folder: Path, *items: Any) -> dict[str, pl.DataFrame]:
    return read_text(KUBERNETES, folder, "\n".join(map(json.dumps, items)))


def only(folder: Path, *items: Any) -> dict[str, Any]:
    """The one row of attempts."""
    row: dict[str, Any] = tables(folder, *items)["attempts"].row(0, named=True)
    return row


def test_the_fixture_is_what_its_generator_writes() -> None:
    items = json.loads((FOLDER / "dump.json").read_text())["items"]
    assert items == json.loads(json.dumps(make.cluster()))
    lines = [json.loads(line) for line in (FOLDER / "watch.jsonl").read_text().splitlines()]
    assert lines == json.loads(json.dumps(make.watch()))


def test_the_dump() -> None:
    found = read(KUBERNETES, FOLDER / "dump.json")
    attempts = found["attempts"].select(
        "kind", "job", "owner", "user", "state", "chips", "chips_requested", "nodes"
    )
    assert attempts.rows() == [
        ("workload", "wl-a", "JobSet/ml/a", "ml", "COMPLETED", 16, 16, '["n3","n4"]'),
        ("pod", "a-2", "JobSet/ml/a", "ml", "COMPLETED", 8, 8, '["n3"]'),
        ("pod", "a-3", "JobSet/ml/a", "ml", "COMPLETED", 8, 8, '["n4"]'),
        ("pod", "c-0", "Job/ml/c", "ml", "COMPLETED", 4, 4, '["n3"]'),
        ("pod", "c-1", "Job/ml/c", "ml", "COMPLETED", 4, 4, '["n4"]'),
        ("pod", "d", None, "ml", "PENDING", 0, 16, None),
    ]
    pending = found["pending"].select("raw_id", "start_ns", "end_ns", "reason", "count")
    assert pending.rows() == [
        ("uid-c-1", ns(1), ns(390), "Insufficient nvidia.com/gpu", 19),
        ("uid-d", ns(301) + 1000, ns(3000) + 1000, "Insufficient nvidia.com/gpu", 12),
    ]
    assert found["topology"].select("name", "kind", "level", "nodes").rows() == [
        ("r1", "block", 0, '["n1","n2"]'), ("r2", "block", 0, '["n3","n4"]'),
    ]  # fmt: skip
    nodes = found["nodes"].select("node", "chips", "chip_type", "partitions", "state")
    assert nodes.rows() == [
        (f"n{n}", 8, "NVIDIA-H100-80GB-HBM3", '["pool-h100"]', "up") for n in (1, 2, 3, 4)
    ]
    source = found["sources"].row(0, named=True)
    assert (source["format"], source["as_of_ns"], source["events"]) == ("kubernetes", ns(3000) + 1000, 14)
    assert (source["base_ns"], source["naive_time"]) == (None, None)
    assert notices(found) == []


def test_the_watch() -> None:
    found = read(KUBERNETES, FOLDER / "watch.jsonl")
    row = found["attempts"].row(0, named=True)
    assert (row["start_ns"], row["nodes"], row["chips_by_node"]) == (
        ns(100),
        '["n1","n2"]',
        '{"n1":8,"n2":8}',
    )
    assert (row["account"], row["partition"], row["topology"]) == (
        "team-a",
        "h100",
        "cloud.provider.com/topology-rack",
    )
    events = found["scheduler_events"].filter(raw_id="uid-wl-a").select("ts_ns", "event", "other", "reason")
    assert events.rows() == [
        (ns(100), "quota_reserved", None, "QuotaReserved"),
        (ns(100), "admit", None, "Admitted"),
        (ns(160), "start", None, "Started"),
        (ns(1000), "evict", "uid-wl-b", "Preempted"),
        (ns(1000), "preempt", "uid-wl-b", "InClusterQueue"),
        (ns(1030), "pending", None, "WaitingForQuota"),
        (ns(1030), "pending", None, "NoReservation"),
        (ns(1030), "requeue", None, "Preempted"),
    ]


def test_an_unchanged_object_is_one_row(tmp_path: Path) -> None:
    pod = make.pod("p", node="n1", scheduled=3)
    found = tables(tmp_path, pod, pod, make.pod("p", node="n1", scheduled=3, run=(5, None)), pod)
    assert found["attempts"]["state"].to_list() == ["PENDING", "RUNNING", "PENDING"]
    assert found["scheduler_events"]["event"].to_list() == ["allocate", "start"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("2024-05-29T08:00:00Z", make.ns(0)),
        ("2024-05-29T10:00:00+02:00", make.ns(0)),
        ("2024-05-29T08:00:00.123456Z", make.ns(0) + 123_456_000),
        ("0001-01-01T00:00:00Z", None),
        ("2024-05-29 08:00", None),
        ("2024-13-29T08:00:00Z", None),
        ("", None),
    ],
)
def test_times(text: str, wanted: int | None) -> None:
    assert instant(text) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("8", 8), (8, 8), ("1k", 1000), ("2Ki", 2048), ("1500m", 2), ("1e3", 1000), ("1.5", 2), ("x", None), ("-1", None),
     (None, None), (True, None), ("9" * 40, None), ("1e999", None)],
)  # fmt: skip
def test_quantities(value: object, wanted: int | None) -> None:
    assert quantity(value) == wanted


def test_init_containers_and_sidecars() -> None:
    gpu = make.container
    assert pod_resources({"containers": [gpu(2), gpu(3)]}).total() == 5
    assert pod_resources({"containers": [gpu(2)], "initContainers": [gpu(4), gpu(3)]}).total() == 4
    sidecar = {**gpu(1), "restartPolicy": "Always"}
    assert pod_resources({"containers": [gpu(2)], "initContainers": [sidecar]}).total() == 3
    assert pod_resources({"containers": [gpu(2)], "initContainers": [sidecar, gpu(4)]}).total() == 5


@pytest.mark.parametrize(
    ("resource", "count", "kind"),
    [
        ("nvidia.com/gpu", 2, ""), ("amd.com/gpu", 2, ""), ("google.com/tpu", 2, ""), ("habana.ai/gaudi", 2, "gaudi"),
        ("nvidia.com/mig-1g.10gb", 2, "mig-1g.10gb"), ("gpu.intel.com/xe", 2, ""), ("aws.amazon.com/neuron", 2, ""),
        ("huawei.com/Ascend910", 2, "Ascend910"), ("cambricon.com/mlu", 2, ""), ("cpu", 0, ""),
        ("nvidia.com/gpumem", 0, ""), ("gpu.intel.com/xe_monitoring", 0, ""), ("rdma/hca", 0, ""),
    ],
)  # fmt: skip
def test_accelerators(resource: str, count: int, kind: str) -> None:
    wish = wish_of({"containers": [make.container(2, resource)]})
    assert (wish.chips, wish.chip_type) == (count, kind)


def test_cores_and_devices_of_neuron_are_the_same_chips() -> None:
    limits = {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32}
    assert wish_of({"containers": [{"resources": {"limits": limits}}]}).chips == 16


def test_a_slice_of_tpus(tmp_path: Path) -> None:
    pod = make.pod("p")
    pod["spec"] = {
        "containers": [make.container(4, "google.com/tpu")],
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
            "cloud.google.com/gke-tpu-topology": "4x4x16",
        },
    }
    row = only(tmp_path, pod)
    assert (row["chips_requested"], row["chip_type"], row["shape"]) == (4, "tpu-v5p-slice", "4x4x16")


@pytest.mark.parametrize(
    ("shape", "chips", "sides"),
    [("2x2x1", 4, (1, 1, 1)), ("4x4x16", 4, (2, 2, 16)), ("4x8", 4, (2, 4)), ("2x4", 8, (1, 1)), ("3x3x3", 4, None),
     ("bad", 4, None), ("4x4", 3, None)],
)  # fmt: skip
def test_sides_of_a_slice_in_nodes(shape: str, chips: int, sides: tuple[int, ...] | None) -> None:
    assert sides_in_nodes(shape, chips) == sides


def test_a_slice_is_a_group_of_nodes(tmp_path: Path) -> None:
    labels = {"cloud.google.com/gke-tpu-topology": "4x4x4", "cloud.google.com/gke-nodepool": "slice-1"}
    nodes = [make.node(name, gpus=4, labels=labels) for name in ("t0", "t1")]
    row = tables(tmp_path, *nodes)["topology"].row(0, named=True)
    assert (row["name"], row["kind"], row["nodes"], row["dims"]) == (
        "slice-1",
        "torus",
        '["t0","t1"]',
        "[2,2,4]",
    )


def test_levels_of_a_network(tmp_path: Path) -> None:
    names = ("block", "subblock", "host")
    labels = {f"cloud.google.com/gce-topology-{name}": f"{name}-1" for name in names}
    found = tables(tmp_path, make.node("n", labels=labels))["topology"].sort("level")
    assert found.select("name", "level", "parent").rows() == [
        ("host-1", 0, "subblock-1"), ("subblock-1", 1, "block-1"), ("block-1", 2, None),
    ]  # fmt: skip


def failed(reason: str = "", *, disruption: str = "", container: str = "", code: int = 1) -> Any:
    pod = make.pod("p", node="n", scheduled=1, run=(2, 100), phase="Failed", code=code)
    if reason:
        pod["status"]["reason"] = reason
    if disruption:
        pod["status"]["conditions"].append(condition("DisruptionTarget", 90, reason=disruption))
    if container:
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = container
    return pod


@pytest.mark.parametrize(
    ("pod", "state", "ended_by"),
    [
        (failed(), "FAILED", None),
        (failed(container="OOMKilled", code=137), "OUT_OF_MEMORY", "OOMKilled"),
        (failed("DeadlineExceeded"), "TIMEOUT", "DeadlineExceeded"),
        (failed("Evicted", disruption="TerminationByKubelet"), "EVICTED", "TerminationByKubelet"),
        (failed(disruption="PreemptionByScheduler"), "PREEMPTED", "PreemptionByScheduler"),
        (failed(disruption="DeletionByTaintManager"), "NODE_FAIL", "DeletionByTaintManager"),
        (make.pod("p", node="n", scheduled=1, run=(2, 100)), "COMPLETED", None),
        (make.pod("p", node="n", scheduled=1, run=(2, None)), "RUNNING", None),
        (make.pod("p", node="n", scheduled=1, run=(2, 100), phase="Running"), "COMPLETED", None),
    ],
)
def test_how_pods_end(pod: Any, state: str, ended_by: str | None, tmp_path: Path) -> None:
    row = only(tmp_path, pod)
    assert (row["state"], row["ended_by"]) == (state, ended_by)
    assert (row["start_ns"], row["end_ns"]) == (ns(1), None if state == "RUNNING" else ns(100))


def test_a_failed_pod_without_containers_ends_with_its_conditions(tmp_path: Path) -> None:
    pod = make.pod("p", node="n", scheduled=1, phase="Failed")
    pod["status"]["reason"] = "Evicted"
    pod["status"]["conditions"].append(condition("Ready", 50, status="False"))
    row = only(tmp_path, pod)
    assert (row["end_ns"], row["state"], row["chips"]) == (ns(50), "EVICTED", 8)


def test_a_pod_that_restarts_its_container_goes_on(tmp_path: Path) -> None:
    pod = make.pod("p", node="n", scheduled=1, run=(60, None))
    status = pod["status"]["containerStatuses"][0]
    status |= {"restartCount": 1, "lastState": {"terminated": {"startedAt": at(5), "finishedAt": at(50)}}}
    found = tables(tmp_path, pod)
    row = found["attempts"].row(0, named=True)
    assert (row["restarts"], row["end_ns"], row["state"]) == (1, None, "RUNNING")
    assert found["scheduler_events"].filter(event="start")["ts_ns"].to_list() == [ns(5)]


def test_a_deleted_pod(tmp_path: Path) -> None:
    pod = make.pod("p", node="n", scheduled=1, run=(2, None))
    pod["metadata"]["deletionTimestamp"] = at(80)
    assert only(tmp_path, pod)["state"] == "RUNNING"
    row = only(tmp_path, {"type": "DELETED", "object": pod})
    assert (row["state"], row["end_ns"]) == ("CANCELLED", ns(80))


def test_what_a_pod_waits_for(tmp_path: Path) -> None:
    waits = make.pod("p")
    said = (
        "0/9 nodes are available: 7 node(s) didn't match Pod's node affinity, 2 Insufficient google.com/tpu."
    )
    waits["status"]["conditions"] = [
        condition("PodScheduled", 0, status="False", reason="Unschedulable", message=said)
    ]
    gated = make.pod("g")
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    gated["status"]["conditions"] = [condition("PodScheduled", 0, status="False", reason="SchedulingGated")]
    found = tables(tmp_path, waits, gated, make.pod("p", node="n", scheduled=70), make.pod("z", created=90))
    assert found["pending"].select("raw_id", "start_ns", "end_ns", "reason").rows() == [
        ("uid-p", ns(0), ns(70), "Insufficient google.com/tpu"),
        ("uid-g", ns(0), ns(90), "SchedulingGated"),
    ]
    row = found["attempts"].filter(job="g").row(0, named=True)
    assert (row["eligible_ns"], row["holds"]) == (None, '["held"]')


def test_states_of_nodes(tmp_path: Path) -> None:
    cordoned = make.node("b")
    cordoned["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "timeAdded": at(40)}],
    }
    broken = make.node("c")
    broken["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    down = make.node("a", ready=False, since=60)
    found = tables(tmp_path, make.node("a"), down, cordoned, broken, make.node("a", since=90))
    assert found["nodes"].select("node", "state", "reason").rows() == [
        ("a", "up", None),
        ("a", "down", "NodeStatusUnknown"),
        ("b", "draining", "unschedulable"),
        ("c", "up", "7 of 8 accelerators are allocatable"),
        ("a", "up", None),
    ]
    capacity = found["capacity"].sort("node", "start_ns").select("node", "state", "start_ns", "end_ns")
    assert capacity.rows() == [
        ("a", "up", ns(-9000), ns(60)),
        ("a", "down", ns(60), ns(90)),
        ("a", "up", ns(90), None),
        ("b", "draining", ns(40), None),
        ("c", "up", ns(-9000), None),
    ]


def test_partial_admission_and_past_runs(tmp_path: Path) -> None:
    value = make.workload(
        "w", count=4, conditions=[condition("Admitted", 50)], assignment=make.hosts("n1", "n2", "n3")
    )
    value["spec"]["podSets"][0]["minCount"] = 2
    value["status"]["admission"]["podSetAssignments"][0]["count"] = 3
    value["status"] |= {
        "accumulatedPastExecutionTimeSeconds": 70,
        "requeueState": {"count": 2},
        "schedulingStats": {
            "evictions": [{"reason": "Preempted", "count": 1}, {"reason": "PodsReadyTimeout", "count": 2}]
        },
        "unhealthyNodes": [{"name": "n2"}],
    }
    row = only(tmp_path, value)
    assert (row["chips"], row["chips_requested"], row["chips_least"]) == (24, 32, 16)
    assert (row["run_ns"], row["restarts"], row["failed_node"]) == (70 * 10**9, 3, "n2")


@pytest.mark.parametrize(
    ("reason", "message", "state"),
    [("Succeeded", "", "COMPLETED"), ("Failed", "", "FAILED"),
     ("JobFinished", "Job finished successfully", "COMPLETED"),
     ("JobFinished", "Job has failed", "FAILED")],
)  # fmt: skip
def test_how_workloads_finish(reason: str, message: str, state: str, tmp_path: Path) -> None:
    told = [condition("Admitted", 5), condition("Finished", 9, reason=reason, message=message)]
    row = only(tmp_path, make.workload("w", conditions=told))
    assert (row["state"], row["end_ns"], row["ended_by"]) == (state, ns(9), "Finished")


def test_what_a_workload_waits_for(tmp_path: Path) -> None:
    def waiting(since: float, reason: str) -> Any:
        return make.workload(
            "w", conditions=[condition("QuotaReserved", since, status="False", reason=reason)]
        )

    reserved = make.workload("w", conditions=[condition("QuotaReserved", 60)])
    admitted = make.workload("w", conditions=[condition("QuotaReserved", 60), condition("Admitted", 80)])
    found = tables(
        tmp_path, waiting(0, "ExceedsMaxQuota"), waiting(20, "TopologyPlacementFailed"), reserved, admitted
    )
    assert found["pending"].select("start_ns", "end_ns", "reason").rows() == [
        (ns(0), ns(20), "ExceedsMaxQuota"),
        (ns(20), ns(60), "TopologyPlacementFailed"),
        (ns(60), ns(80), "AdmissionChecks"),
    ]


def test_others_objects_of_the_same_name(tmp_path: Path) -> None:
    other = {"apiVersion": "example.com/v1", "kind": "Workload", "metadata": make.meta("w", "u", 0)}
    assert tables(tmp_path, other, make.pod("p"))["attempts"]["job"].to_list() == ["p"]


def test_jobs_and_sets_of_jobs(tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": make.meta("j", "uid-j", 0),
        "status": {"startTime": at(5), "completionTime": at(90), "conditions": [condition("Complete", 90)]},
    }  # fmt: skip
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": make.meta("s", "uid-s", 0),
        "status": {"conditions": [condition("Suspended", 3, status="False", reason="ResumeJobs"),
                                  condition("Failed", 50, reason="FailedJobs")]},
    }  # fmt: skip
    found = tables(tmp_path, job, jobset)
    assert found["attempts"].is_empty()
    assert found["scheduler_events"].select("raw_id", "ts_ns", "event", "reason").rows() == [
        ("uid-j", ns(0), "submit", "Created"), ("uid-j", ns(5), "start", "startTime"),
        ("uid-j", ns(90), "end", "Complete"), ("uid-s", ns(0), "submit", "Created"),
        ("uid-s", ns(3), "resume", "ResumeJobs"), ("uid-s", ns(50), "end", "FailedJobs"),
    ]  # fmt: skip


def test_a_lease_and_managed_fields_prove_the_time(tmp_path: Path) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": at(700.5)}}
    found = tables(tmp_path, make.pod("p"), lease)
    assert found["sources"]["as_of_ns"].to_list() == [ns(700.5)]
    pod = make.pod("p")
    pod["metadata"]["managedFields"] = [{"time": at(800)}]
    assert tables(tmp_path, pod)["sources"]["as_of_ns"].to_list() == [ns(800)]


def test_the_end_of_a_pod_whose_node_is_behind_is_later_than_it_says(tmp_path: Path) -> None:
    pod = make.pod("p", node="n", scheduled=600, run=(515, 4115))
    assert tables(tmp_path, pod)["sources"]["as_of_ns"].to_list() == [ns(4200)]
