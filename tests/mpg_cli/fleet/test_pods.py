"""Pods whose waits the scheduler explains, without the nodes they could have run on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.mpg_cli.running import analyze

if TYPE_CHECKING:
    from pathlib import Path

GPU = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}


def pod(**status: Any) -> dict[str, Any]:
    about = {"name": "w-0", "namespace": "ml", "uid": "u-1", "creationTimestamp": "2026-01-05T08:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {"containers": [{"name": "c", **GPU}]},
        "status": {"phase": "Pending", **status},
    }


def event(reason: str, message: str, first: str, last: str, count: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"w-0.{reason}", "namespace": "ml", "creationTimestamp": first},
        "involvedObject": {"kind": "Pod", "name": "w-0", "namespace": "ml", "uid": "u-1"},
        "reason": reason,
        "message": message,
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": count,
    }


def test_the_scheduler_s_word_counts_where_no_node_is_known(tmp_path: Path) -> None:
    short = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."
    items = [
        pod(),
        event("FailedScheduling", short, "2026-01-05T08:00:10Z", "2026-01-05T08:10:00Z", 7),
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    report = analyze(path).report
    (job,) = report["jobs"]
    assert job["queue_wait_s"] == 600
    assert job["failed_scheduling_count"] == 7
    assert job["attempts"][0]["waits"] == {"shortage": 590.0, "unknown": 10.0}
    assert report["goodput"]["sg"] is None
