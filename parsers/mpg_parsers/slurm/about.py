"""The row of `sources` for a file of Slurm's."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from mpg_parsers.errors import Notice, listed
from mpg_parsers.tables import SOURCES

FULL = (
    "SLURM_TIME_FORMAT=%s sacct -a -D -X -P -S 2025-01-01 -o JobIDRaw,JobID,User,Account,Partition,QOS,State,ExitCode,"
    "Submit,Eligible,Start,End,ElapsedRaw,Suspended,Restarts,AllocTRES,ReqTRES,NNodes,NodeList,Reason,TimelimitRaw,"
    "Priority,Constraints,Comment,SubmitLine,JobName"
)
HINT = f"run {FULL} (leave out Restarts before Slurm 24.11)"


@dataclass
class About:
    """What is told of a file: its format, and what was found while reading."""

    format: str
    version: str | None = None
    events: int = 0
    as_of_ns: int | None = None
    naive: bool | None = None
    notices: list[Notice] = field(default_factory=list)

    def saw(self, ns: int | None) -> None:
        """An instant that the file proves."""
        if ns is not None:
            self.as_of_ns = max(ns, self.as_of_ns) if self.as_of_ns is not None else ns

    def is_naive(self, *said: bool | None) -> None:
        """What columns of times said; see times.Column."""
        every = (self.naive, *said)
        self.naive = True if True in every else False if False in every else None

    def notice(self, kind: str, message: str, count: int = 1) -> None:
        """Something wrong that does not keep the rest from being read."""
        self.notices.append(Notice(kind, message, count))

    def row(self) -> pl.DataFrame:
        """The row."""
        row = {
            "format": self.format,
            "format_version": self.version,
            "framework": "Slurm",
            "as_of_ns": self.as_of_ns,
            "naive_time": self.naive,
            "events": self.events,
            "notices": listed(self.notices),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))


@dataclass
class Found:
    """Rows that something is to be said of: how many, and line and job of the first."""

    count: int = 0
    first: list[tuple[int | None, str]] = field(default_factory=list)

    def add(self, line: int | None, job: str, count: int = 1) -> None:
        """One more, or some of which this is the first."""
        self.count += count
        if len(self.first) < 3:
            self.first.append((line, job))

    def left_out(self, about: About, why: str) -> None:
        """The notice that these rows were left out."""
        if self.count:
            shown = ", ".join(
                f"line {line} (job {job})" if line else f"job {job}" for line, job in self.first
            )
            more = f" and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
            about.notice("bad_row", f"{shown}{more}: {why}; left out", self.count)
