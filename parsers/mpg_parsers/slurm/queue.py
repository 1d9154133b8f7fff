"""Rows of jobs that the controller still knows (scontrol show job, squeue): attempts, and why the pending ones wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.scheduler_tables import PENDING
from mpg_parsers.slurm import states
from mpg_parsers.slurm.attempts import Attempts
from mpg_parsers.slurm.sacct_text import tell
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.slurm.about import About

COLUMNS = words(
    "jobid jobidraw jobname user account partition qos reservation state exitcode failednode submit eligible start "
    "end elapsed suspended timelimit timelimitraw alloctres reqtres tres_per_node nnodes nodelist reason priority "
    "constraints comment cluster restarts wckey reqswitch dependency hold chips_by_node message"
)
SCHEMA = {**dict.fromkeys(COLUMNS, pl.String()), "line": pl.Int64()}
BATCH = 10_000
Record = dict[str, str | int | None]


@dataclass
class Queue:
    """Gathers records; `finish` says why those wait that do, as of the latest instant of the file."""

    about: About
    tz: str
    cluster: str | None = None
    attempts: Attempts = field(init=False)
    _records: list[Record] = field(default_factory=list)
    _pending: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.attempts = Attempts(self.tz)

    def add(self, record: Record) -> Iterator[tuple[str, pl.DataFrame]]:
        """One more record; sometimes a batch of attempts."""
        self._records.append(record)
        if len(self._records) == BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """A batch of what was gathered."""
        records = pl.DataFrame(self._records, schema=SCHEMA)
        self._records.clear()
        rows = self.attempts.batch(records)
        if self.cluster:
            rows = rows.with_columns(col.cluster.fill_null(self.cluster))
        waiting = rows.filter(col.state.is_in(states.WAITING) & col.reason.is_not_null())
        said = records.select("line", "message").join(waiting, on="line", how="right")
        self._pending.append(said.select("cluster", "raw_id", "reason", "message"))
        yield "attempts", rows

    def finish(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """What is left, the reasons, and the row of sources."""
        yield from self.flush()
        known = self.about.as_of_ns
        tell(self.about, self.attempts)
        self.about.saw(known)
        waiting = pl.concat(self._pending)
        if waiting.height and self.about.as_of_ns is not None:
            start = pl.lit(self.about.as_of_ns, pl.Int64)
            rows = waiting.with_columns(start_ns=start, count=pl.lit(1, pl.Int64))
            yield "pending", PENDING.conform(rows)
        yield "sources", self.about.row()
