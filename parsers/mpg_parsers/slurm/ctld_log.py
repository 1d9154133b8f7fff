"""slurmctld.log: what the controller did, by its own clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.scheduler_tables import SCHEDULER_EVENTS
from mpg_parsers.slurm import hostlist, times
from mpg_parsers.slurm.about import About, Found
from mpg_parsers.slurm.ctld_rules import GROUPS, JOB, NEEDLES, REASON, RULES, STARTED
from mpg_parsers.slurm.lines import Block, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.slurm.ctld_rules import Rule
    from mpg_parsers.source import Source

# LogTimeFormat iso8601(_ms), rfc5424(_ms), rfc3339; or what syslog and journalctl -o short-iso put before a line
STAMP = r"^\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\]?\s"
UNDATED = re.compile(r"^\[?(?:[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d)")
_STAMP = re.compile(STAMP)
_LINES = re.compile("|".join(f"(?:{re.escape(needle)})" for needle in NEEDLES))
_STARTED = re.compile(STARTED)
MESSAGE = 500  # characters that are kept of a line
AGENT = re.compile(r"^(?:\[[^\]]*\]|\S+)\s+(?:\S+ slurmctld\[\d+\]: )?")


def is_log(lines: list[str]) -> bool:
    """Whether these are lines of such a log."""
    for line in lines[:2000]:
        if not (_STAMP.match(line) or UNDATED.match(line)) or len(line) > 1 << 14:
            continue
        if _STARTED.search(line):
            return True
        if any(rule.needle in line and re.search(rule.pattern, line) for rule in RULES):
            return True
    return False


@dataclass
class _Log:
    """What is known so far."""

    about: About
    tz: str
    cluster: str | None = None
    undated: Found = field(default_factory=Found)

    def rows(self, block: Block) -> pl.DataFrame:
        """The events in a block."""
        lines = pl.DataFrame({"text": pl.Series(block.lines, dtype=pl.String)}).with_row_index(
            "at", block.first
        )
        self._look(block)
        said = lines.filter(col.text.str.contains_any([*NEEDLES, "reason set to: "]))
        said = self._timed(said)
        parts = self._matched(said)
        if not parts:
            return SCHEDULER_EVENTS.conform(pl.DataFrame())
        found = pl.concat(parts).sort("at")
        found = _with_reasons(found, said.filter(col.text.str.contains(REASON)))
        self.about.events += found.height
        own = pl.coalesce("own", "job")
        nodes = found["nodes"].unique().drop_nulls()
        return SCHEDULER_EVENTS.conform(
            found.with_columns(
                cluster=pl.lit(self.cluster, pl.String),
                count=pl.lit(1, pl.Int64),
                raw_id=own,
                other=pl.coalesce("other_own", "other"),
                nodes=col.nodes.replace_strict(
                    nodes, pl.Series([hostlist.as_json(n) for n in nodes], dtype=pl.String), default=None,
                    return_dtype=pl.String,
                ),
                message=col.text.str.replace(AGENT.pattern, "").str.slice(0, MESSAGE),
            )
        )  # fmt: skip

    def _look(self, block: Block) -> None:
        """The cluster's name, the version, and the latest time."""
        if self.cluster is None or self.about.version is None:
            for line in block.lines:
                if "started on cluster" in line and (match := _STARTED.search(line)):
                    self.cluster, self.about.version = match["cluster"], f"Slurm {match['version']}"
                    break
        for line in reversed(block.lines):
            if match := _STAMP.match(line[:80]):
                read = times.column(pl.Series([match[1]]), self.tz)
                self.about.saw(read.ns[0])
                break

    def _timed(self, said: pl.DataFrame) -> pl.DataFrame:
        """With ts_ns; lines without a year or a time are left out."""
        said = said.with_columns(stamp=col.text.str.extract(STAMP, 1).str.replace(",", ".", literal=True))
        read = _instants(said["stamp"], self.tz)
        self.about.is_naive(read.naive)
        said = said.with_columns(ts_ns=read.ns)
        lost = said.filter(col.ts_ns.is_null())
        if lost.height:
            job = lost["text"][:1].str.extract(JOB.replace("(?:JobId=)?", "JobId="), 1)[0]
            self.undated.add(lost["at"][0], job or "?", lost.height)
        return said.filter(col.ts_ns.is_not_null())

    def _matched(self, said: pl.DataFrame) -> list[pl.DataFrame]:
        """The lines by the rule that each matches."""
        parts: list[pl.DataFrame] = []
        left: list[pl.DataFrame] = []
        first = col.text.str.extract_many([*NEEDLES]).list.first()
        for (needle,), lines in said.with_columns(needle=first).partition_by("needle", as_dict=True).items():
            rules = [rule for rule in RULES if rule.needle == needle]
            left.append(_by_rule(lines.drop("needle"), rules, parts))
        if left:  # lines in which another needle than the first tells
            _by_rule(pl.concat(left), RULES, parts)
        return parts


def _by_rule(lines: pl.DataFrame, rules: Sequence[Rule], parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Lines that match none of the rules; of the others, what is told goes to `parts`."""
    for rule in rules:
        if not lines.height:
            break
        lines = lines.with_columns(hit=col.text.str.contains(rule.pattern))
        hit = lines.filter("hit")
        if hit.height:
            parts.append(_told(hit, rule))
            lines = lines.filter(~col.hit)
    return lines.drop("hit", strict=False)


def _told(hit: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """What the named groups of the rule's pattern hold."""
    groups = [name for name in GROUPS if f"(?P<{name}>" in rule.pattern]
    told = hit.with_columns(col.text.str.extract_groups(rule.pattern).struct.field(*groups))
    told = told.with_columns(pl.lit(None, pl.String).alias(name) for name in GROUPS if name not in groups)
    return told.select(
        "at", "ts_ns", "text", *(name for name in GROUPS if name != "reason"),
        event=pl.lit(rule.event),
        reason=pl.coalesce(pl.when(col.reason != "").then("reason"), pl.lit(rule.reason, pl.String)),
    )  # fmt: skip


def _instants(stamps: pl.Series, tz: str) -> times.Column:
    """Times with fractions, each second read once."""
    fraction = stamps.str.extract(r"\.(\d+)", 1).fill_null("0").str.pad_end(9, "0").cast(pl.Int64)
    read = times.column(stamps.str.replace(r"\.\d+", ""), tz)
    return times.Column(read.ns + fraction, read.naive, read.bad, read.unsure)


def _with_reasons(found: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """With the reason that was set for a node within a second of its state."""
    pattern = r"node (?P<node>[\w.\[\],-]+) reason set to: (?P<why>.*)"
    drained = found.filter(col.event.is_in(["node_drain", "node_down"]) & col.reason.is_null())
    if not lines.height or not drained.height:
        return found
    why = lines.with_columns(col.text.str.extract_groups(pattern).struct.field("node", "why")).select(
        "node", "why", "ts_ns"
    )
    near = drained.join(why, left_on="nodes", right_on="node", suffix="_why").filter(
        (col.ts_ns - col.ts_ns_why).abs() <= times.SECOND
    )
    near = near.sort((col.ts_ns - col.ts_ns_why).abs()).unique("at", keep="first").select("at", "why")
    found = found.join(near, on="at", how="left", maintain_order="left")
    return found.with_columns(reason=pl.coalesce("reason", "why")).drop("why")


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of scheduler_events, then the row of sources. Raises InputError corrupt_input."""
    about = About("slurm-controller-log")
    log = _Log(about, options.tz)
    for block in blocks(source, options, about.notices):
        yield "scheduler_events", log.rows(block)
    log.undated.left_out(about, "a time without its year (LogTimeFormat, or syslog's)")
    yield "sources", about.row()
