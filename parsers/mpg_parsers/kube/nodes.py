"""Nodes: their accelerators, the state they are in since when, and the groups of the network that labels name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpg_parsers.kube.chips import POOL_LABELS, SHAPE_LABEL, TYPE_LABELS, accelerators, type_of
from mpg_parsers.kube.fields import (
    Object,
    as_json,
    conditions_of,
    labels_of,
    listed_labels,
    node_at,
    objects_at,
    text_at,
)

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows, Spells

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# labels of nodes by level, the outermost first; a level without its label is left out
FAMILIES = (
    (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
    ),
    ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    ("topology.kubernetes.io/block", "topology.kubernetes.io/rack"),
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    tuple(f"oci.oraclecloud.com/rdma.{name}_id" for name in ("hpc_island", "network_block", "local_block")),
    tuple(f"network.topology.nvidia.com/{name}" for name in ("datacenter", "spine", "core", "block", "leaf")),
    ("network.topology.nvidia.com/accelerator",),
    ("nvidia.com/gpu.clique",),
)
POOL = "cloud.google.com/gke-nodepool"
SHAPE = re.compile(r"\d{1,4}(?:x\d{1,4}){1,2}")
# chips of one host of a TPU slice, as sides
HOSTS = {(4, 3): (2, 2, 1), (4, 2): (2, 2), (8, 2): (2, 4), (1, 2): (1, 1)}


@dataclass
class Groups:
    """The groups of nodes that labels name."""

    members: dict[tuple[str, int, str], set[str]] = field(default_factory=dict)
    parents: dict[tuple[str, int, str], str] = field(default_factory=dict)
    slices: dict[str, tuple[str, int, set[str]]] = field(default_factory=dict)

    def add(self, node: str, labels: dict[str, str], chips: int) -> None:
        """Note the groups that a node is in."""
        for family in FAMILIES:
            found = [labels[key] for key in family if labels.get(key)]
            for level, name in enumerate(reversed(found)):
                key = (family[0], level, name)
                self.members.setdefault(key, set()).add(node)
                if level + 1 < len(found):
                    self.parents[key] = found[len(found) - level - 2]
        if labels.get(SHAPE_LABEL) and labels.get(POOL):
            slice_ = self.slices.setdefault(labels[POOL], (labels[SHAPE_LABEL], chips, set()))
            slice_[2].add(node)

    def add_to(self, rows: Rows) -> None:
        """Add a row of topology for each group."""
        for key in sorted(self.members):
            _, level, name = key
            nodes = as_json(sorted(self.members[key]))
            rows.add(
                "topology", name=name, kind="block", level=level, parent=self.parents.get(key), nodes=nodes
            )
        for pool, (shape, chips, members) in sorted(self.slices.items()):
            sides, kind = sides_in_nodes(shape, chips), "torus" if _wraps(shape) else "mesh"
            dims = as_json(list(sides)) if sides else None
            rows.add(
                "topology",
                name=pool,
                kind=kind,
                level=0,
                parent=None,
                nodes=as_json(sorted(members)),
                dims=dims,
            )


def sides_in_nodes(shape: str, chips: int) -> tuple[int, ...] | None:
    """Sides in nodes of a TPU slice of `shape` chips with so many on a node; None where they do not fit."""
    if not SHAPE.fullmatch(shape):
        return None
    sides = tuple(map(int, shape.split("x")))
    host = HOSTS.get((chips, len(sides)))
    if host is None or any(side % part for side, part in zip(sides, host, strict=True)):
        return None
    return tuple(side // part for side, part in zip(sides, host, strict=True))


def _wraps(shape: str) -> bool:
    """A 3D slice whose sides are all multiples of 4 has its ends joined."""
    return (
        bool(SHAPE.fullmatch(shape))
        and shape.count("x") == 2
        and all(int(n) % 4 == 0 for n in shape.split("x"))
    )


def read_node(value: Object, rows: Rows, spells: Spells, groups: Groups, *, deleted: bool) -> None:
    """Add a node, and the stretch that its state has just ended."""
    name, labels = text_at(value, "metadata", "name"), labels_of(value)
    found = accelerators(node_at(value, "status", "capacity"))
    chips, kind = sum(found.values()), _type(found, labels)
    conditions = conditions_of(value)
    for condition in conditions.values():
        rows.at(condition.get("lastHeartbeatTime"))
    state, reason, since = _state(value, conditions, rows)
    usable = sum(accelerators(node_at(value, "status", "allocatable")).values())
    if state == "up" and usable < chips and "allocatable" in node_at(value, "status"):
        reason = f"{usable} of {chips} accelerators are allocatable"
    pools = [labels[key] for key in POOL_LABELS if key in labels][:1]
    rows.add_state(
        "nodes", f"Node/{name}", 0, node=name, chips=chips, chip_type=kind, state="removed" if deleted else state,
        partitions=as_json(pools) if pools else None, reason=reason or None, labels=listed_labels(labels),
        at_ns=None,
    )  # fmt: skip
    groups.add(name, labels, chips)
    created = rows.at(node_at(value, "metadata").get("creationTimestamp"))
    start = since if since is not None else created
    if deleted:
        ended = spells.end(name, rows.as_of) if rows.as_of is not None else None
    elif start is not None:
        ended = spells.observe(name, start, node=name, chips=chips, state=state, reason=reason or None)
    else:
        return
    if ended:
        rows.add("capacity", **ended)


def _type(found: dict[str, int], labels: dict[str, str]) -> str | None:
    kinds = {kind for name in found if (kind := type_of(name))}
    if len(found) == 1 and kinds:
        return kinds.pop()
    return next((labels[key] for key in TYPE_LABELS if found and labels.get(key)), None)


def _state(value: Object, conditions: dict[str, Object], rows: Rows) -> tuple[str, str, int | None]:
    """The state, why, and since when; a node that is not ready is down, whether it is cordoned or not."""
    ready = conditions.get("Ready")
    since = rows.at(ready.get("lastTransitionTime")) if ready else None
    if ready is not None and ready.get("status") != "True":
        return "down", text_at(ready, "reason") or "NotReady", since
    if node_at(value, "spec").get("unschedulable") is True:
        taints = (
            rows.at(t.get("timeAdded"))
            for t in objects_at(value, "spec", "taints")
            if t.get("key") == UNSCHEDULABLE
        )
        return "draining", "unschedulable", next(taints, None)
    return "up", "", since
