"""Numbers in objects of Kubernetes that no cluster has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mpg_parsers.kube.chips import MOST_CHIPS, accelerators
from mpg_parsers.kubernetes_objects import KUBERNETES
from tests.parsers.reading import read_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("quantity", ["9223372036854775807", "1E", 10**30, "-8", "1e18"])
def test_chips_that_are_none(quantity: str | int) -> None:
    assert accelerators({"nvidia.com/gpu": quantity}) == {}


@pytest.mark.parametrize(
    ("count", "chips"), [(10**9, MOST_CHIPS), (2**63 - 1, 2**20), (2**63, 2**20), (-1, 2**20), (2, 2**21)]
)
def test_counts_of_workloads(tmp_path: Path, count: int, chips: int) -> None:
    resources = {"requests": {"nvidia.com/gpu": "1Mi"}}
    template = {"spec": {"containers": [{"resources": resources}]}}
    workload: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w", "uid": "u", "creationTimestamp": "2026-01-05T00:00:00Z"},
        "spec": {
            "podSets": [{"name": "main", "count": count, "template": template}],
            "maximumExecutionTimeSeconds": 2**62,
        },
        "status": {"accumulatedPastExecutionTimeSeconds": -1, "requeueState": {"count": 2**40}},
    }
    row = read_text(KUBERNETES, tmp_path, json.dumps(workload))["attempts"].row(0, named=True)
    assert row["chips_requested"] == chips
    assert (row["limit_ns"], row["run_ns"], row["restarts"]) == (None, None, None)
