"""What the rules look at, and what they say: `Facts` go in, `Found` comes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.report import model

HOST = (
    "launch_bound", "host_code", "synchronisation", "allocator", "compile", "checkpoint", "restore",
    "profiler_overhead",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """One analysis. Times are int64 ns on each source's own clock; syncs and communication may leave the windows.

    causes: chip-ns of each cause of the ledger, computing split where it could be; they sum to capacity_ns
    by_subject: subject, source, rank, cause, chip_ns, computing not split
    segments: subject, start_ns, end_ns, cause; they part every device's window, computing not split
    idle: subject, start_ns, end_ns, cause, evidence; those in which the device did nothing, in more detail
    evidence: evidence, name, before, thread, start_ns, dur_ns; what the host did, as in goodput.idle.evidence
    syncs: subject, start_ns, end_ns, name, thread, op, frame; calls in which a launching thread waited for the
        device; op: the operator around the call, frame: the Python frame; both null where there is none
    communication: subject, name, group, kernel, index, start_ns, end_ns, cut_ns; the records;
        name and group as in `communicators`, kernel as in the file; index is null where no other rank's record was
        matched; cut_ns is where waiting ends and transfer starts
    steps: source, step, name, start_ns, end_ns
    ops: subject, source, start_ns, end_ns, kind, name, activity, bytes, blocks_per_sm
    operators: computing time by operator, most recoverable time first; paths and ranks: by source
    """

    capacity_ns: int
    causes: Mapping[str, int]
    by_subject: pl.DataFrame
    segments: pl.DataFrame
    idle: pl.DataFrame
    evidence: pl.DataFrame
    syncs: pl.DataFrame
    communication: pl.DataFrame
    steps: pl.DataFrame
    ops: pl.DataFrame
    paths: Mapping[int, str]
    ranks: Mapping[int, int | None]
    goodput: model.Goodput
    hotspots: tuple[model.Hotspot, ...] = ()
    collectives: tuple[model.Collective, ...] = ()
    communicators: tuple[model.Communicator, ...] = ()
    operators: tuple[model.Op, ...] = ()

    @cached_property
    def subjects(self) -> pl.DataFrame:
        """One row per device: subject, source, rank."""
        return self.by_subject.select("subject", "source", "rank").unique("subject").sort("subject")

    @cached_property
    def chips(self) -> int:
        """The devices in the traces."""
        return self.subjects.height

    @cached_property
    def device_steps(self) -> int:
        """Steps, counted once on each device that took part; 0 without steps."""
        return self.subjects.join(self.steps.select("source"), on="source").height

    @cached_property
    def windows(self) -> pl.DataFrame:
        """Every device's window: subject, start_ns, end_ns."""
        return self.segments.group_by("subject").agg(pl.col("start_ns").min(), pl.col("end_ns").max())

    @cached_property
    def blocked(self) -> pl.DataFrame:
        """`syncs`, cut to the windows."""
        return intervals.clip(self.syncs, self.windows, ["subject"])

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Pieces of the ledger's communication_wait by collective: subject, index, start_ns, end_ns."""
        matched = self.communication.filter(pl.col("index").is_not_null())
        waiting = matched.select("subject", "index", "start_ns", end_ns="cut_ns")
        parts = self.pieces("communication_wait").select("subject", "start_ns", "end_ns")
        return intervals.clip(waiting.filter(pl.col("start_ns") < pl.col("end_ns")), parts, ["subject"])

    def of(self, *causes: str) -> int:
        """The chip-ns of these causes in the ledger."""
        return sum(self.causes.get(cause, 0) for cause in causes)

    def pieces(self, *causes: str) -> pl.DataFrame:
        """The segments of these causes."""
        return self.segments.filter(pl.col("cause").is_in(causes))

    def of_rank(self, rank: int, *causes: str) -> int:
        """The chip-ns of these causes on one rank, computing not split."""
        rows = self.by_subject.filter((pl.col("rank") == rank) & pl.col("cause").is_in(causes))
        return int(rows["chip_ns"].sum())

    def on(self, source: int) -> str:
        """The words ` on rank 3`, or the path where the rank is not known; "" if it is the only source."""
        return f" on {self.place(source)}" if len(self.paths) > 1 else ""

    def place(self, source: int) -> str:
        """How a source is called in a sentence."""
        rank = self.ranks.get(source)
        return self.paths[source] if rank is None else f"rank {rank}"

    def in_step(self, source: int, at_ns: int) -> str:
        """The words ` in STEP` with the step that an instant lies in, the innermost of several; "" if in none."""
        inside = (pl.col("source") == source) & (pl.col("start_ns") <= at_ns) & (pl.col("end_ns") > at_ns)
        names = self.steps.filter(inside).sort("start_ns")["name"]
        return f" in {names[-1]}" if names.len() else ""

    def largest(self, cause: str) -> list[dict[str, Any]]:
        """The longest segment of a cause, if any, with source and what the host did there, where that is known."""
        top = longest(self.pieces(cause).with_columns(length_ns=pl.col("end_ns") - pl.col("start_ns")))
        inside = self.idle.join(top.select("subject", since="start_ns", until="end_ns"), on="subject")
        inside = inside.filter(
            (pl.col("start_ns") >= pl.col("since")) & (pl.col("end_ns") <= pl.col("until"))
        )
        most = longest(inside.with_columns(length_ns=pl.col("end_ns") - pl.col("start_ns")))
        did = self.evidence.filter(~pl.col("before"))
        did = did.select("evidence", "name", "thread", "dur_ns", at_ns="start_ns")
        named = most.select("subject", "evidence").join(did, on="evidence", how="left", maintain_order="left")
        known = top.join(named, on="subject", how="left", maintain_order="left")
        return known.join(self.subjects, on="subject", maintain_order="left").to_dicts()


def longest(rows: pl.DataFrame, column: str = "length_ns") -> pl.DataFrame:
    """The row with the largest value (the first on the first device of several), or none of none."""
    return rows.filter(pl.col(column) == pl.col(column).max()).sort("subject", "start_ns").head(1)


@dataclass(frozen=True)
class Found:
    """What a rule found. `chip_ns` is all that would go at most; the speed-up is not bounded unless `bounded`.

    `fix` replaces the usual fixes of the cause.
    """

    id: str
    cause: str
    title: str
    chip_ns: int
    where: str
    evidence: tuple[model.Evidence, ...]
    fix: tuple[str, ...] = ()
    bounded: bool = True
