"""slurm.conf and gres.conf: which nodes there are, with what chips, in which partitions."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mpg_parsers.slurm import tres
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.hostlist import HostlistError, expand
from mpg_parsers.slurm.keyvalues import Pairs, logical_lines, pairs
from mpg_parsers.slurm.lines import blocks
from mpg_parsers.slurm.nodes import batches, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

DEFAULT = "DEFAULT"


@dataclass
class _Cluster:
    """What slurm.conf says so far; a line for DEFAULT holds for those that follow."""

    name: str | None = None
    nodes: dict[str, Pairs] = field(default_factory=dict)
    sets: dict[str, list[str]] = field(default_factory=dict)
    partitions: dict[str, Pairs] = field(default_factory=dict)
    defaults: dict[str, Pairs] = field(default_factory=lambda: {"nodename": {}, "partitionname": {}})

    def take(self, line: str) -> None:
        """One line."""
        record = pairs(line)
        key = next(iter(record), "")
        if key == "clustername":
            self.name = record[key]
        elif key == "nodeset":
            self.sets[record[key]] = names(record.get("nodes", "")) or self._with(record.get("feature", ""))
        elif key in self.defaults and record[key].upper() == DEFAULT:
            self.defaults[key] |= record
        elif key == "nodename" and not record.get("state", "").upper().startswith("FUTURE"):
            self.nodes |= dict.fromkeys(names(record[key]), self.defaults[key] | record)
        elif key == "partitionname":
            self.partitions[record[key]] = self.defaults[key] | record

    def _with(self, feature: str) -> list[str]:
        wanted = set(filter(None, feature.split(",")))
        return [
            node
            for node, record in self.nodes.items()
            if wanted & set((record.get("feature") or record.get("features") or "").split(","))
        ]

    def members(self, record: Pairs) -> list[str]:
        """Nodes of a partition."""
        found: list[str] = []
        for name in names(record.get("nodes", "")):
            found += list(self.nodes) if name.upper() == "ALL" else self.sets.get(name, [name])
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of `nodes`."""
        inside: dict[str, list[str]] = {}
        for partition, record in self.partitions.items():
            for node in self.members(record):
                inside.setdefault(node, []).append(partition)
        for node, record in self.nodes.items():
            chips = tres.from_gres(record.get("gres", ""))
            features = record.get("feature") or record.get("features")
            yield {
                "cluster": self.name,
                "node": node,
                "chips": chips.total,
                "chip_type": chips.type,
                "partitions": json.dumps(inside[node]) if node in inside else None,
                "labels": json.dumps({"features": features}) if features else None,
            }


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """slurm.conf, or a part of it. Included files are read where they are given, too."""
    about = About("slurm-conf")
    cluster = _Cluster()
    for _, line in logical_lines(blocks(source, options, about.notices)):
        cluster.take(line)
    yield from batches(cluster.rows(), about)
    yield "sources", about.row()


def parse_gres(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """gres.conf. Lines without NodeName hold for the node the file is on, which it does not name."""
    about = About("slurm-gres-conf")
    counts: dict[str, Counter[str]] = {}
    for _, line in logical_lines(blocks(source, options, about.notices)):
        record = pairs(line)
        if record.get("name", "").lower() in tres.ACCELERATORS:
            for node in names(record.get("nodename", "")):
                counts.setdefault(node, Counter())[record.get("type", "")] += _count(record)
    rows = (
        {
            "node": node,
            "chips": types.total(),
            "chip_type": next(iter(types)) or None if len(types) == 1 else None,
        }
        for node, types in counts.items()
        if types.total()
    )
    yield from batches(rows, about)
    yield "sources", about.row()


def _count(record: Pairs) -> int:
    """Count=, else as many as there are device files; 0 where slurmd finds them (AutoDetect)."""
    if match := re.match(r"(\d{1,6})", record.get("count", "")):
        return int(match[1])
    files = record.get("file") or record.get("multiplefiles") or ""
    try:
        return len(expand(files)) if files else 0
    except HostlistError:
        return 0
