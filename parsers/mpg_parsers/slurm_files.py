"""Slurm: accounting (sacct), events, nodes, topology, configuration, the controller's log, the queue, roll-ups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.slurm import (
    conf,
    ctld_log,
    events,
    jobs,
    nodes,
    sacct_json,
    sacct_text,
    sniffing,
    squeue_json,
    squeue_text,
    sreport,
    topology,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

READERS = {
    "sacct": sacct_text.parse,
    "sacct-json": sacct_json.parse,
    "events": events.parse,
    "nodes": nodes.parse_text,
    "nodes-json": nodes.parse_json,
    "sinfo-json": nodes.parse_sinfo,
    "partitions": nodes.parse_partitions,
    "topology": topology.parse,
    "conf": conf.parse,
    "gres-conf": conf.parse_gres,
    "ctld-log": ctld_log.parse,
    "job": jobs.parse,
    "squeue-json": squeue_json.parse,
    "squeue": squeue_text.parse,
    "sreport": sreport.parse,
}


@dataclass(frozen=True)
class SlurmParser:
    """Reads what Slurm's tools print and its daemons write; which of it a file is, its first bytes tell."""

    name: str = "slurm"
    description: str = (
        "Slurm: sacct -P and --json, sacctmgr show event, scontrol show node, job, topology; sinfo, squeue, sreport; "
        "slurm.conf, gres.conf, topology.conf, slurmctld.log"
    )
    tables: tuple[str, ...] = (
        "sources",
        "attempts",
        "pending",
        "capacity",
        "nodes",
        "topology",
        "scheduler_events",
        "rollups",
    )

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """A header of sacct, or what other files of Slurm begin with."""
        return "" if sniffing.kind_of(head) else "nothing that Slurm's tools print begins so"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """Batches of the tables that the file fills, then sources, in bounded memory.

        Raises InputError: unsupported_format (what is needed is not in it: the hint is the command that prints
        it), corrupt_input, truncated_input.
        """
        kind = sniffing.kind_of(source.head())
        if kind == "sacct-cut":
            sacct_text.refuse_cut(source)
        yield from READERS[kind](source, options)


SLURM = SlurmParser()
