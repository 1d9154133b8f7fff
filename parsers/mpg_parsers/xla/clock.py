"""The clock of a TPU core against the profile's.

An operation carries its times by the core's own clock beside those that the profiler converted. The latter may be off
by hundreds of milliseconds, beginning in the middle of a program run and for some runs after, so that operations which
follow one another overlap. The former are exact. So all operations of a core are placed by its clock, shifted by one
amount; program runs, and what is only converted, are placed by their operations. A core's clock runs apart from the
profile's by some millionths (15 µs per second on a TPU v6e): in long profiles, what the host did is off by that.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from polars import col

STATS = ("device_offset_ps", "device_duration_ps")
PS = 1000
SLACK_PS = (
    2_000_000  # the profiler converts the start of a run and of its first operation alike to within this
)
# errors of conversion are, nearly all, in the same direction and in under half of the runs
SOUND = 0.25
LONGEST_PS = 2**62 - 1  # so that no difference of two is too large
SOUND_TIME = col.device_offset_ps.is_between(-LONGEST_PS, LONGEST_PS).fill_null(value=False)
TOLD = SOUND_TIME & col.device_duration_ps.is_not_null()


@dataclass(frozen=True, slots=True)
class Clock:
    """shift_ps: from the core's clock to the profile's. begins: at_run (row in the runs), begins (by the core's clock,
    in ps), of the runs in which an operation began.
    """

    shift_ps: int
    begins: pl.DataFrame


def compare(events: pl.DataFrame, timestamp_ns: int, runs: pl.DataFrame) -> Clock | None:
    """The clock of a core by its operations; None where they have no times of their own.

    events: offset_ps (from timestamp_ns), STATS; runs: start_ns, end_ns, by start, as converted, and STATS, with which
    some versions give them too.
    """
    told = (
        events.filter(TOLD & col.offset_ps.is_between(-LONGEST_PS, LONGEST_PS))
        .select("offset_ps", found=col.offset_ps - col.device_offset_ps)
        .sort("offset_ps")
    )
    if told.is_empty():
        return None
    ends = ((col(end) - timestamp_ns) * PS for end in ("start_ns", "end_ns"))
    spans = (
        runs.select(*ends, own="device_offset_ps")
        .with_row_index("at_run")
        .cast({"at_run": pl.Int64})
        .sort("start_ns")
    )
    met = spans.join_asof(
        told,
        left_on="start_ns",
        right_on="offset_ps",
        strategy="forward",
        coalesce=False,
        check_sortedness=False,
    )
    first = met.filter(col.offset_ps < col.end_ns)
    shift = (first if first.height else told)["found"].quantile(SOUND, "nearest")
    begins = first.select("at_run", begins=pl.coalesce("own", col.start_ns - col.found))
    return Clock(int(shift or 0), begins.sort("begins"))


def aligned(events: pl.DataFrame, clock: Clock) -> pl.DataFrame:
    """`events` without STATS, placed by the core's clock where they have such times; with at_run, their run."""
    begins = clock.begins.select("at_run", begins=col.begins - SLACK_PS)
    numbered = events.with_row_index("event").sort("device_offset_ps", nulls_last=True)
    met = numbered.join_asof(begins, left_on="device_offset_ps", right_on="begins", check_sortedness=False)
    placed = met.sort("event").with_columns(
        offset_ps=pl.when(TOLD).then(col.device_offset_ps + clock.shift_ps).otherwise("offset_ps"),
        dur_ps=pl.when(TOLD).then("device_duration_ps").otherwise("dur_ps"),
    )
    return placed.select(*(name for name in events.columns if name not in STATS), "at_run")


def corrected(runs: pl.DataFrame, timestamp_ns: int, clock: Clock, operations: pl.DataFrame) -> pl.DataFrame:
    """`runs`, those with operations from where they began by the core's clock to their end by it, or, where that is not
    given, to the end of their last operation.

    operations: at_run, start_ns, dur_ns, placed.
    """
    last = operations.group_by("at_run").agg(last_ns=(col.start_ns + col.dur_ns).max())
    begun = (col.begins + clock.shift_ps).floordiv(PS) + timestamp_ns
    known = clock.begins.select("at_run", begun_ns=begun).join(last, on="at_run")
    numbered = runs.with_row_index("at_run").cast({"at_run": pl.Int64})
    own = (col.device_offset_ps + col.device_duration_ps + clock.shift_ps).floordiv(PS) + timestamp_ns
    end = pl.when(col.last_ns.is_not_null()).then(pl.coalesce(own, "last_ns")).otherwise("end_ns")
    met = numbered.join(known, on="at_run", how="left", maintain_order="left")
    placed = met.with_columns(start_ns=pl.coalesce("begun_ns", "start_ns"), end_ns=end)
    return placed.select(runs.columns)


def paired(events: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """Asynchronous `events` (name, hlo_op, start_ns, dur_ns, …), each from the start of the operation that begins it to
    the end of the one that awaits it (`hlo_op`), where both ran as often as it did; else where it was.

    operations: name, start_ns, dur_ns, of one core.
    """
    nth, of = pl.int_range(pl.len()).over("name"), pl.len().over("name")
    ran = operations.sort("start_ns").with_columns(nth=nth, of=of)
    begins = ran.select("name", "nth", "of", begun_ns="start_ns")
    awaits = ran.select("nth", "of", hlo_op="name", awaited_ns=col.start_ns + col.dur_ns)
    numbered = events.with_row_index("event").sort("start_ns").with_columns(nth=nth, of=of)
    met = numbered.join(begins, on=["name", "nth", "of"], how="left")
    met = met.join(awaits, on=["hlo_op", "nth", "of"], how="left")
    sound = (col.begun_ns <= col.awaited_ns).fill_null(value=False)
    placed = met.with_columns(
        start_ns=pl.when(sound).then("begun_ns").otherwise("start_ns"),
        dur_ns=pl.when(sound).then(col.awaited_ns - col.begun_ns).otherwise("dur_ns"),
    )
    return placed.sort("event").select(events.columns)
