"""What a profile of XLA holds, whichever file it came from: planes, their lines, and events read on demand.

A plane is a device, or a host's threads; a line is a queue or a thread of it. Nothing of a line but its name and size
is decoded before `Line.events` is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Value = int | float | str | bytes

# stats of events that are read, and what their values are; all others stay undecoded. Absent is null.
INTEGERS = (
    "device_offset_ps", "device_duration_ps", "run_id", "correlation_id", "step_num", "group_id", "program_id", "_r",
    "_pt", "_p", "_ct", "_c", "_a", "device_ordinal", "flow", "id", "bytes_accessed", "all_reduce_unique_id",
)  # fmt: skip
TEXTS = (
    "hlo_op", "hlo_module", "tf_op", "name", "kernel_details", "memcpy_details", "memset_details", "hlo_category",
    "graph_id", "cuda_graph_id", "nvtx_range", "step_name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the events of one kind have in common: an HLO operation of a program, a function of the host.

    stats: by name, references resolved; bytes where the file has bytes that are no text
    """

    name: str
    display_name: str = ""
    stats: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """One line. count: its number of events; timestamp_ns: what the offsets of its events are relative to.

    events(stats): one row per event, in the order of the file: metadata (key into Plane.metadata), offset_ps, dur_ps
    (all Int64, dur_ps >= 0) and one column per stat of INTEGERS (Int64; unsigned values above 2**63 wrap around) or
    TEXTS (String) that is asked for. Events without a time (only a number of occurrences) are left out.
    """

    id: int
    name: str
    timestamp_ns: int
    count: int
    events: Callable[[Sequence[str]], pl.DataFrame]


def one_by_one(lines: Sequence[Line], stats: Sequence[str]) -> pl.DataFrame:
    """The events of some lines, as Line.events has them, with `line`: which of `lines` each is on."""
    return pl.concat(
        line.events(stats).with_columns(line=pl.lit(number, pl.Int64)) for number, line in enumerate(lines)
    )


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane; `stats` as in Metadata. Keys of `metadata` mean nothing outside of it.

    together: as one_by_one, for some of `lines`, but faster for short ones
    """

    name: str
    stats: Mapping[str, Value]
    lines: tuple[Line, ...]
    metadata: Mapping[int, Metadata]
    together: Callable[[Sequence[Line], Sequence[str]], pl.DataFrame] = one_by_one


@dataclass(frozen=True, slots=True)
class Space:
    """A whole profile of one host.

    start_ns, stop_ns: Unix times between which the profiler was on; times of lines are relative to the first.
    None where the file does not state them
    capped: the exporter stopped at its limit of events: what is missing cannot be told
    """

    planes: tuple[Plane, ...]
    hostnames: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    start_ns: int | None = None
    stop_ns: int | None = None
    capped: bool = False
