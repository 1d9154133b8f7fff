"""Runs of programs that left no trace on any device: the profiler lost their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator

EXECUTION = ":XLA GPU module"  # what the host's event of a program's run on a GPU is called after the program


def lost_runs(host: pl.DataFrame) -> Iterator[Notice]:
    """What to say of runs in which nothing was launched, of programs that launch something in others.

    host: thread, start_ns, dur_ns, kind, name, correlation.
    """
    runs = host.filter(col.name.str.ends_with(EXECUTION)).select(
        "thread", "start_ns", "name", end_ns=col.start_ns + col.dur_ns
    )
    if runs.is_empty():
        return
    calls = host.filter((col.kind == "runtime") & col.correlation.is_not_null())
    at = calls.select("thread", "start_ns", call_ns="start_ns").sort("start_ns")
    met = runs.sort("start_ns").join_asof(
        at, on="start_ns", by="thread", strategy="forward", check_sortedness=False
    )
    told = met.with_columns(seen=(col.call_ns < col.end_ns).fill_null(value=False))
    known = told.filter(col.seen.any().over("name"))
    lost = known.filter(~col.seen)
    if lost.height:
        programs = ", ".join(sorted({name.removesuffix(EXECUTION) for name in lost["name"]})[:3])
        message = (
            f"{lost.height} of {known.height} runs of programs have no record on any device ({programs}): what they "
            "did is missing, and that time counts as idle"
        )
        yield Notice("device_records_lost", message[:400], lost.height)
