"""Rows of `topology`: scontrol show topology, topology.conf and topology.yaml."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.scheduler_tables import TOPOLOGY
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.keyvalues import logical_lines, pairs
from mpg_parsers.slurm.lines import blocks
from mpg_parsers.slurm.nodes import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

DEEPEST = 64
_YAML = re.compile(r"\s*(?:- )?\s*(switch|block|children|nodes):\s*(\S.*?)\s*$")


@dataclass
class Group:
    """A switch or block, with the groups and nodes in it as the file lists them."""

    kind: str
    nodes: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    level: int | None = None


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """The groups of a text."""
    about = About("slurm-topology")
    lines = (text for _, text in logical_lines(blocks(source, options, about.notices)))
    groups = _read(lines)
    rows = [_row(name, group, groups) for name, group in groups.items()]
    about.events = len(rows)
    schema = {name: kind for name, kind in TOPOLOGY.schema().items() if name != "source"}
    yield "topology", TOPOLOGY.conform(pl.DataFrame(rows, schema=schema))
    yield "sources", about.row()


def _read(lines: Iterable[str]) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    current = Group("switch")
    for line in lines:
        record = pairs(line)
        name = record.get("switchname") or record.get("blockname")
        if name:
            kind = "block" if "blockname" in record else "switch"
            level = record.get("level", "")
            groups[name] = Group(
                kind,
                names(record.get("nodes", "")),
                names(record.get("switches", "")),
                int(level) if level.isdigit() and len(level) < 3 else None,
            )
        elif match := _YAML.match(line):
            key, value = match[1], match[2].strip("\"'")
            if key in ("switch", "block"):
                current = groups[value] = Group(key)
            elif key == "nodes":
                current.nodes = names(value)
            else:
                current.children = names(value)
    return groups


def _row(name: str, group: Group, groups: dict[str, Group]) -> dict[str, object]:
    parent = next((other for other, above in groups.items() if name in above.children), None)
    return {
        "name": name,
        "kind": group.kind,
        "level": _level(group, groups) if group.level is None else group.level,
        "parent": parent,
        "nodes": json.dumps(list(dict.fromkeys(group.nodes or _below(group, groups)))),
    }


def _level(group: Group, groups: dict[str, Group], depth: int = 0) -> int:
    """0 for what has no groups in it."""
    children = [groups[name] for name in group.children if name in groups]
    if not children or depth > DEEPEST:
        return 0
    return 1 + max(_level(child, groups, depth + 1) for child in children)


def _below(group: Group, groups: dict[str, Group], depth: int = 0) -> list[str]:
    """The nodes of all groups in it."""
    if depth > DEEPEST:
        return []
    return group.nodes + [
        node for name in group.children if name in groups for node in _below(groups[name], groups, depth + 1)
    ]
