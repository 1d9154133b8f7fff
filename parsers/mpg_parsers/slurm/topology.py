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
    _set_levels(groups)
    parents = {child: name for name, group in groups.items() for child in group.children}
    rows = [_row(name, group, groups, parents) for name, group in groups.items()]
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


def _row(name: str, group: Group, groups: dict[str, Group], parents: dict[str, str]) -> dict[str, object]:
    below = _below(name, groups)
    nodes = group.nodes or [node for inside in below for node in groups[inside].nodes]
    return {
        "name": name,
        "kind": group.kind,
        "level": group.level,
        "parent": parents.get(name),
        "nodes": json.dumps(list(dict.fromkeys(nodes))),
    }


def _below(name: str, groups: dict[str, Group]) -> list[str]:
    """All groups in one, itself first; each once, also where the file has them in a circle."""
    found = {name: None}
    waiting = [name]
    while waiting:
        for child in groups[waiting.pop()].children:
            if child in groups and child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)


def _set_levels(groups: dict[str, Group]) -> None:
    """0 for what has no groups in it, and for what is in itself; unless the file tells."""
    left = {name for name, group in groups.items() if group.level is None}
    level = 0
    while left:
        ready = {name for name in left if not left.intersection(groups[name].children)}
        for name in ready or left:
            groups[name].level = level if ready else 0
        left -= ready or left
        level += 1
