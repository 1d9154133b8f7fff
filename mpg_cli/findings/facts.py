"""What the rules look at, and what they say: `Facts` go in, `Found` comes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import intervals
from mpg_cli.goodput.windows import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mpg_cli.report import model

LENGTH = pl.col("end_ns") - pl.col("start_ns")
HOST = (
    "launch_bound", "host_code", "synchronisation", "allocator", "compile", "checkpoint", "restore",
    "profiler_overhead",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """One analysis. Times are int64 ns on each source's own clock; syncs and communication may leave the windows.

    causes: chip-ns of each cause of the ledger, computing split where it could be; they sum to capacity_ns
    by_subject: subject, source, process, rank, cause, chip_ns, computing not split
    segments: subject, start_ns, end_ns, cause; they part every device's window, computing not split
    idle: subject, start_ns, end_ns, cause, evidence; those in which the device did nothing, in more detail
    evidence: evidence, name, before, thread, start_ns, dur_ns; what the host did, as in goodput.idle.evidence
    syncs: subject, start_ns, end_ns, name, thread, op, frame; calls in which a launching thread waited for the
        device; op: the operator around the call, frame: the Python frame; both null where there is none
    communication: subject, name, group, kernel, index, start_ns, end_ns, cut_ns, met_ns; the records;
        name and group as in `communicators`, kernel as in the file; index and met_ns are null where no other rank's
        record was matched; cut_ns is where waiting ends and transfer starts in the record, met_ns where it does in the
        collective, of which one rank may have several records
    steps: source, process, step, name, start_ns, end_ns
    ops: subject, source, start_ns, end_ns, kind, name, activity, bytes, blocks_per_sm
    tpu: all devices are TPUs, whose operations are launched together; operators: computing time by operator, most
    recoverable time first; paths and ranks: by source
    hotspots: of all devices; rank_hotspots: those of one rank alone
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
    rank_hotspots: Callable[[int], tuple[model.Hotspot, ...]] = lambda _: ()
    collectives: tuple[model.Collective, ...] = ()
    communicators: tuple[model.Communicator, ...] = ()
    operators: tuple[model.Op, ...] = ()
    tpu: bool = False

    @cached_property
    def subjects(self) -> pl.DataFrame:
        """One row per device: subject, source, process, rank."""
        return self.by_subject.select("subject", *OWNER, "rank").unique("subject").sort("subject")

    @cached_property
    def chips(self) -> int:
        """The devices in the traces."""
        return self.subjects.height

    @cached_property
    def device_steps(self) -> int:
        """Steps, counted once on each device that took part; 0 without steps."""
        return self.subjects.join(self.steps.select(OWNER), on=OWNER, nulls_equal=True).height

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
        """Pieces of the ledger's communication_wait by collective: subject, index, met_ns, start_ns, end_ns."""
        matched = self.communication.filter(pl.col("index").is_not_null())
        waiting = matched.select("subject", "index", "met_ns", "start_ns", end_ns="cut_ns")
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
        """The words ` in STEP` with the step that an instant lies in, the innermost of several; "" if in none, or if
        it lies in steps of different names in several processes.
        """
        inside = (pl.col("source") == source) & (pl.col("start_ns") <= at_ns) & (pl.col("end_ns") > at_ns)
        innermost = self.steps.filter(inside).sort("start_ns").group_by("process").last()
        names = innermost["name"].unique()
        return f" in {names[0]}" if names.len() == 1 else ""

    def largest(self, cause: str) -> list[dict[str, Any]]:
        """The longest segment of a cause, if any, with its source and the event behind most of it.

        subject, start_ns, end_ns, length_ns, source, rank; part_ns: how much of the segment rests on the event; its
        name, thread, at_ns and dur_ns, and inside: whether the part lies in it. These five are null where nothing more
        is known of that part than what came after.
        """
        top = longest(self.pieces(cause).with_columns(length_ns=LENGTH))
        inside = intervals.clip(self.idle, top.select("subject", "start_ns", "end_ns"), ["subject"])
        parts = inside.group_by("subject", "evidence").agg(
            pl.col("start_ns").min(), pl.col("end_ns").max(), part_ns=LENGTH.sum()
        )
        did = self.evidence.filter(~pl.col("before"))
        did = did.select("evidence", "name", "thread", "dur_ns", at_ns="start_ns")
        covers = (pl.col("at_ns") <= pl.col("start_ns")) & (
            pl.col("end_ns") <= pl.col("at_ns") + pl.col("dur_ns")
        )
        most = longest(parts, "part_ns").join(did, on="evidence", how="left").with_columns(inside=covers)
        named = most.select("subject", "part_ns", "name", "thread", "at_ns", "dur_ns", "inside")
        known = top.join(named, on="subject", how="left", maintain_order="left")
        return known.join(self.subjects, on="subject", maintain_order="left").to_dicts()


def longest(rows: pl.DataFrame, column: str = "length_ns") -> pl.DataFrame:
    """The row with the largest value (the first on the first device of several), or none of none."""
    keys = [name for name in ("subject", "start_ns", "at_ns", "to_ns") if name in rows.columns]
    return rows.filter(pl.col(column) == pl.col(column).max()).sort(keys, nulls_last=True).head(1)


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
