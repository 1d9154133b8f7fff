"""Rows of `nodes`: from scontrol show node and partition, as text, and from the JSON of scontrol and sinfo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers import wall_times
from mpg_parsers.scheduler_tables import NODES
from mpg_parsers.slurm import hostlist, states, tres
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.json_arrays import Elements, number, part, version, word
from mpg_parsers.slurm.keyvalues import NONE, Pairs, pairs, records, stated
from mpg_parsers.slurm.lines import blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

BATCH = 10_000
SECOND = 1_000_000_000
Batch = tuple[str, pl.DataFrame]
Row = dict[str, Any]


def frame(rows: list[Row]) -> pl.DataFrame:
    """Rows of `nodes`."""
    schema = {name: kind for name, kind in NODES.schema().items() if name != "source"}
    return NODES.conform(pl.DataFrame(rows, schema=schema))


def batches(rows: Iterable[Row], about: About) -> Iterator[Batch]:
    """Rows in batches, counted."""
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        about.events += 1
        if len(waiting) == BATCH:
            yield "nodes", frame(waiting)
            waiting = []
    yield "nodes", frame(waiting)


def parse_text(source: Source, options: ParseOptions) -> Iterator[Batch]:
    """scontrol show node, with -o or without."""
    about = About("slurm-nodes")
    found = records(blocks(source, options, about.notices), "NodeName")
    yield from batches((_text_row(pairs(text), options.tz, about) for _, text in found), about)
    yield "sources", about.row()


def parse_partitions(source: Source, options: ParseOptions) -> Iterator[Batch]:
    """scontrol show partition: which nodes are in which."""
    about = About("slurm-partitions")
    members: dict[str, list[str]] = {}
    for _, text in records(blocks(source, options, about.notices), "PartitionName"):
        record = pairs(text)
        for node in names(record.get("nodes", "")):
            members.setdefault(node, []).append(record["partitionname"])
    rows = ({"node": node, "partitions": json.dumps(partitions)} for node, partitions in members.items())
    yield from batches(rows, about)
    yield "sources", about.row()


def names(text: str) -> list[str]:
    """Names of a list of hosts; none for what is no such list."""
    return json.loads(hostlist.as_json(text) or "[]")  # type: ignore[no-any-return]


def _text_row(record: Pairs, tz: str, about: About) -> Row:
    chips = _chips(record.get("gres"), record.get("cfgtres"))
    states_text = record.get("state", "")
    state = states.node_state(states_text)
    busy = _instant(record.get("lastbusytime"), tz, about)
    about.saw(_instant(record.get("reasontime"), tz, about))
    about.version = about.version or (f"Slurm {record['version']}" if stated(record, "version") else None)
    features = stated(record, "activefeatures", "availablefeatures")
    return {
        "node": record["nodename"].split()[0] if record["nodename"] else "",
        "chips": None if chips is None else chips.total,
        "chip_type": None if chips is None else chips.type,
        "partitions": json.dumps(record["partitions"].split(",")) if stated(record, "partitions") else None,
        "state": state,
        "reason": stated(record, "reason"),
        "chips_allocated": _allocated(record.get("alloctres"), record.get("gresused"), record.get("cfgtres")),
        "last_busy_ns": busy,
        "labels": json.dumps({"features": features}) if features else None,
    }


def _instant(text: str | None, tz: str, about: About) -> int | None:
    """A time that has passed; bad ones count as not stated."""
    if text is None or text in NONE:
        return None
    try:
        ns, naive = wall_times.one(text, tz)
    except ValueError:
        return None
    about.naive = bool(about.naive or naive)
    about.saw(ns)
    return ns


def _chips(gres: str | None, configured: str | None) -> tres.Chips | None:
    """What a node has: its Gres, else the TRES configured for it."""
    if gres is not None and gres not in NONE:
        return tres.from_gres(gres)
    if configured and "gres/" in configured:
        return tres.from_tres(configured)
    return None if gres is None else tres.Chips()


def _allocated(allocated: str | None, used: str | None, configured: str | None) -> int | None:
    """Chips in use: accounting's count and the one of the GRES plugin may differ, then the larger."""
    counts = []
    if allocated is not None and "gres/" in (configured or ""):
        counts.append(tres.from_tres(allocated).total)
    if used is not None and used not in NONE:
        counts.append(tres.from_gres(used).total)
    return max(counts, default=None)


# ------------------------------------------------------------------------------------------------------- JSON


def parse_json(source: Source, options: ParseOptions) -> Iterator[Batch]:
    """scontrol show node --json, and sinfo --json before 23.02: a list of nodes."""
    about = About("slurm-nodes-json")
    elements = Elements(source, options, dict)
    yield from batches(
        (_json_row(node, about) for nodes in elements for node in nodes if word(node.get("name"))), about
    )
    _finish(about, elements)
    yield "sources", about.row()


def parse_sinfo(source: Source, options: ParseOptions) -> Iterator[Batch]:
    """sinfo --json since 23.02: groups of like nodes, once for each partition."""
    about = About("slurm-sinfo-json")
    elements = Elements(source, options, dict)
    found: dict[str, Row] = {}
    for groups in elements:
        for group in groups:
            _add_group(found, group)
    _finish(about, elements)
    cluster = word(part(elements.rest.get("meta"), "slurm", "cluster"))
    for row in found.values():
        row["cluster"] = row["cluster"] or cluster
        row["partitions"] = json.dumps(row["partitions"]) if row["partitions"] else None
    yield from batches(found.values(), about)
    yield "sources", about.row()


def _finish(about: About, elements: Elements[Any]) -> None:
    about.version = version(elements.rest.get("meta"))
    about.notices += elements.notices
    updated = number(elements.rest.get("last_update"))
    about.saw(updated * SECOND if updated else None)


def _json_row(node: dict[str, Any], about: About) -> Row:
    gres = node.get("gres")
    chips = _chips(gres if isinstance(gres, str) else None, word(node.get("tres")))
    busy = number(node.get("last_busy")) or None
    about.saw(busy and busy * SECOND)
    features = node.get("active_features")
    features = ",".join(map(str, features)) if isinstance(features, list) else word(features)
    partitions = node.get("partitions")
    return {
        "cluster": word(node.get("cluster_name")),
        "node": node["name"],
        "chips": None if chips is None else chips.total,
        "chip_type": None if chips is None else chips.type,
        "partitions": json.dumps(partitions) if isinstance(partitions, list) and partitions else None,
        "state": states.node_state(_words(node.get("state"), node.get("state_flags"))),
        "reason": word(node.get("reason")),
        "chips_allocated": _allocated(
            node.get("tres_used") or "", word(node.get("gres_used")), word(node.get("tres"))
        ),
        "last_busy_ns": busy and busy * SECOND,
        "labels": json.dumps({"features": features}) if features else None,
    }


def _words(*found: object) -> str:
    """A state and its flags, each a text or a list, as IDLE+DRAIN."""
    listed = [item for some in found for item in (some if isinstance(some, list) else [some])]
    return "+".join(item for item in listed if isinstance(item, str))


def _add_group(found: dict[str, Row], group: dict[str, Any]) -> None:
    nodes = part(group, "nodes", "nodes")
    nodes = [node for node in nodes if isinstance(node, str)] if isinstance(nodes, list) else []
    chips = _chips(word(part(group, "gres", "total")) or "", None)
    used = _allocated(None, word(part(group, "gres", "used")), None)
    partition = word(part(group, "partition", "name"))
    for node in nodes:
        row = found.setdefault(
            node,
            {
                "cluster": word(group.get("cluster")),
                "node": node,
                "chips": None if chips is None else chips.total,
                "chip_type": None if chips is None else chips.type,
                "partitions": [],
                "state": states.node_state(_words(part(group, "node", "state"))),
                "reason": word(part(group, "reason", "description")),
                # of a group, only what all its nodes have in common is certain
                "chips_allocated": used if len(nodes) == 1 or used == 0 else None,
            },
        )
        if partition and partition not in row["partitions"]:
            row["partitions"].append(partition)
