"""`sacctmgr show event -P`: when nodes were down, and which chips the cluster had."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import InputError
from mpg_parsers.scheduler_tables import CAPACITY
from mpg_parsers.slurm import durations, states, times, tres
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.delimited import Header, Table, header, tell_table
from mpg_parsers.slurm.fields import is_time, unique_tres
from mpg_parsers.slurm.lines import Block, blocks
from mpg_parsers.slurm.repair import Columns
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

KNOWN = frozenset(
    words(
        "Cluster ClusterNodes CondFlags Duration End Event EventRaw NodeName Node Reason Start TimeStart TimeEnd State "
        "StateRaw TRES User"
    )
)
HINT = (
    "run SLURM_TIME_FORMAT=%s sacctmgr -P show event start=2025-01-01 "
    "format=Cluster,NodeName,Start,End,Duration,State,Reason,User,EventRaw,TRES"
)
USED = words("cluster nodename timestart timeend duration state reason eventraw tres")
BANNER = 5  # lines that may precede the header
REGISTERED = "1"  # EventRaw of what the cluster has; 2 is a node's
_FORMS = {
    "eventraw": re.compile(r"[012]?"),
    "stateraw": re.compile(r"\d*"),
    "event": re.compile(r"Cluster|Node|"),
    "user": re.compile(r"[\w.@-]+\(\d+\)|[\w.@-]*", re.ASCII),
    "cluster": re.compile(r"[\w.-]*"),
    "nodename": re.compile(r"[\w.-]*"),
    "state": re.compile(r"[A-Z][A-Z_]*[*~#!%$@^-]?(?:\+[A-Z_]+)*|", re.ASCII),
}


def find_header(lines: list[str]) -> tuple[Header, int] | None:
    """The header among the first lines, and its place."""
    for at, line in enumerate(lines[:BANNER]):
        found = header(line, KNOWN, least=3)
        if found and {"timestart", "state"} <= set(found.names):
            return found, at
    return None


def fits(name: str, text: str) -> bool:
    """Whether `text` can be what stands in the column `name`."""
    if name in ("timestart", "timeend"):
        return is_time(text)
    if name == "duration":
        return durations.is_duration(text)
    if name == "tres":
        return unique_tres(text)
    return name not in _FORMS or _FORMS[name].fullmatch(text) is not None


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of capacity, then the row of sources. Raises InputError unsupported_format."""
    about = About("slurm-events")
    table: Table | None = None
    for block in blocks(source, options, about.notices):
        if table is None:
            found = find_header(block.lines)
            if found is None:
                continue
            columns = Columns(found[0].names, found[0].delimiter, frozenset({"reason"}), frozenset(), fits)
            table = Table(found[0], columns, tuple(name for name in USED if name in found[0].names))
            lines = block.lines[found[1] + 1 :]
            block = Block(block.first + found[1] + 1, lines, block.last, block.open)  # noqa: PLW2901
        yield "capacity", _rows(table.frame(block), options.tz, about, source)
    if table:
        tell_table(about, table)
    yield "sources", about.row()


def _rows(events: pl.DataFrame, tz: str, about: About, source: Source) -> pl.DataFrame:
    missing = [name for name in USED if name not in events.columns]
    events = events.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    start, end = times.column(events["timestart"], tz), times.column(events["timeend"], tz)
    if (start.bad | end.bad).any():
        raise InputError("unsupported_format", source.path, "times of a form that is not read", hint=HINT)
    chips = [tres.from_tres(text) if text and "gres/" in text else None for text in events["tres"]]
    types = [found.as_json() if found else None for found in chips]
    about.is_naive(start.naive, end.naive)
    events = events.with_columns(
        start_ns=start.ns,
        end_ns=end.ns,
        lasted=durations.column(events["duration"]),
        chips=pl.Series([found.total if found else None for found in chips], dtype=pl.Int64),
        chips_by_type=pl.Series(types, dtype=pl.String),
    )
    about.events += events.height
    latest = pl.max_horizontal(pl.max("start_ns"), pl.max("end_ns"), (col.start_ns + col.lasted).max())
    about.saw(events.select(latest).item())
    whole = (col.eventraw == REGISTERED) | col.nodename.is_null()
    word = pl.Series([states.node_state(text or "") or "down" for text in events["state"]], dtype=pl.String)
    return CAPACITY.conform(
        events.with_columns(
            node=pl.when(~whole.fill_null(value=False)).then("nodename"),
            # the controller's own absence is an event of the cluster, too: its chips are still there
            state=pl.when(whole.fill_null(value=False)).then(pl.lit("up")).otherwise(word),
        )
    )
