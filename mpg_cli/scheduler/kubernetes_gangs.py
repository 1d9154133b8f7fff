"""Pods that only make sense together: the workers of one Job, JobSet or the like."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
# each pod of these stands for itself
LOOSE = ("ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Node")
RESTART = "jobset.sigs.k8s.io/restart-attempt"
READY = {"cluster": pl.String, "group": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64, "chips": pl.Int64,
         "pods": pl.Int64}  # fmt: skip


def group_of(owner: str | None) -> str | None:
    """The owner whose pods are one job; None for pods that stand for themselves."""
    return None if owner is None or owner.partition("/")[0] in LOOSE else owner


def labels_of(row: Row) -> dict[str, str]:
    """The labels of an attempt."""
    found = json.loads(row["labels"]) if row["labels"] else {}
    return found if isinstance(found, dict) else {}


def gang_ready(attempts: pl.DataFrame) -> pl.DataFrame:
    """Stretches in which all pods of a group run at once: cluster, group, start_ns, end_ns (Unix ns), chips, pods.

    attempts: what `kubernetes.stitch` returns. A group has as many pods as were there at one time, waiting ones too;
    the pods that a JobSet makes at a restart are counted by themselves. Chips held outside of these stretches are
    partial: held while not all workers were there.
    """
    rows = attempts.filter(col.kind == "pod", col.group.is_not_null(), col.submit_ns.is_not_null())
    groups: dict[tuple[str | None, str, str], list[Row]] = defaultdict(list)
    names = ("cluster", "group", "labels", "submit_ns", "start_ns", "end_ns", "chips")
    for row in rows.select(names).iter_rows(named=True):
        groups[row["cluster"], row["group"], labels_of(row).get(RESTART, "")].append(row)
    found = [
        {"cluster": cluster, "group": group, **stretch}
        for (cluster, group, _), pods in groups.items()
        for stretch in _stretches(pods)
    ]
    return pl.DataFrame(found, schema=READY).sort("cluster", "group", "start_ns")


def _stretches(pods: list[Row]) -> Iterator[Row]:
    """The stretches of one group."""
    size = max((count for _, count, _ in _sweep(pods, "submit_ns")), default=0)
    since: tuple[int, int] | None = None
    for at, count, chips in _sweep(pods, "start_ns"):
        if count == size and since is None:
            since = (at, chips)
        elif count < size and since is not None:
            yield {"start_ns": since[0], "end_ns": at, "chips": since[1], "pods": size}
            since = None


def _sweep(pods: list[Row], begin: str) -> Iterator[tuple[int, int, int]]:
    """(instant, pods, chips) after each change of what lies between `begin` and end_ns."""
    changes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for pod in pods:
        start, end = pod[begin], pod["end_ns"]
        if start is None or end is None or end <= start:
            continue
        for at, sign in ((start, 1), (end, -1)):
            changes[at][0] += sign
            changes[at][1] += sign * (pod["chips"] or 0)
    count = chips = 0
    for at in sorted(changes):
        count, chips = count + changes[at][0], chips + changes[at][1]
        yield at, count, chips
