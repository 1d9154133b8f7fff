"""Device planes as rows of device_ops and program_runs.

On a TPU the operations of a program are the device activity; of a loop or a conditional only what runs between the
operations inside of it. Asynchronous operations run beside them. On a GPU it is what runs on the streams; all other
lines are derived from these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice
from mpg_parsers.xla import clock
from mpg_parsers.xla.planes import ASYNC_OPS, MODULES, OPS, TRACE_ME
from mpg_parsers.xla.timeline import alone, placed

if TYPE_CHECKING:
    from mpg_parsers.xla.catalogue import Catalogue
    from mpg_parsers.xla.planes import Device
    from mpg_parsers.xla.space import Line, Plane

COPY = re.compile(r"^(Memcpy|Copy(Host|Device|Peer|Unknown)|hipMemcpy|cudaMemcpy)")
SET = re.compile(r"^(Memset|hipMemset|cudaMemset|FillBuffer)")
WAIT = re.compile(r"(?i)\bwait|barrier")
ENDS = r"-(start|update|done)(\.|$)"
NOTABLE_NS = 1_000_000  # more than clocks drift apart in a minute
OCCUPANCY = r"\bocc_pct:(100(?:\.0+)?|\d{1,2}(?:\.\d+)?)(?: |$)"
LONGEST_WAIT = 120
LONGEST_KERNEL = 10_000  # templates of C++ have names of some thousands
LONGEST_MODULE = 300
MODULE = re.compile(r"^(?P<name>.*?)\((?P<id>-?\d{1,20})\)$")
COLLECTIVE = ("collective", "group", "group_size")
RUN_STATS = ("run_id", "_ct", "_c", *clock.STATS)
STREAM_STATS = (
    "correlation_id", "hlo_op", "hlo_module", "program_id", "kernel_details", "memcpy_details", "memset_details",
)  # fmt: skip
RUNS = pl.Schema({
    "device": pl.Int64, "program_id": pl.String, "name": pl.String, "run": pl.Int64, "start_ns": pl.Int64,
    "end_ns": pl.Int64, "context": pl.Int64, **dict.fromkeys(clock.STATS, pl.Int64),
})  # fmt: skip


def runs(device: Device) -> pl.DataFrame:
    """The runs of programs on a device, by time, with `context`, which the call that enqueued one carries."""
    parts = [_runs_of(plane, line, device.number) for plane, line in device.lines(*MODULES[:1])]
    return pl.concat(parts).sort("start_ns") if parts else pl.DataFrame(schema=RUNS)


def _runs_of(plane: Plane, line: Line, number: int) -> pl.DataFrame:
    events = line.events(RUN_STATS)
    own = pl.struct(clock.STATS).alias("own")  # kept from being taken for the duration here
    timed = placed(events.select(pl.exclude(clock.STATS), own), line).unnest("own")
    keys = timed["metadata"].unique()
    parts = [_module(plane.metadata[key].name if key in plane.metadata else "") for key in keys]
    names = pl.DataFrame(
        {"metadata": keys, "name": [name for name, _ in parts], "program_id": [id_ for _, id_ in parts]},
        schema_overrides={"program_id": pl.String},
    )
    named = timed.join(names, on="metadata")
    return named.select(
        pl.lit(number, pl.Int64).alias("device"), "program_id", "name", "start_ns", *clock.STATS, run="run_id",
        end_ns=col.start_ns + col.dur_ns, context="_c",
    ).select(RUNS.names()).cast(RUNS)  # fmt: skip


def _module(text: str) -> tuple[str, str | None]:
    """Name and program of a module's run: jit_f(123) is jit_f of program 123."""
    match = MODULE.match(text)
    return (match["name"][:LONGEST_MODULE], match["id"]) if match else (text[:LONGEST_MODULE], None)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a device did. runs: of programs, by time (RUNS); activity: frames of device_ops, one per line; core: its
    clock, if it has one of its own; moved_ns: by how much the profile's times of its operations were off, at most.
    """

    runs: pl.DataFrame
    activity: list[pl.DataFrame]
    number: int = 0
    core: clock.Clock | None = None
    moved_ns: int = 0

    def notices(self) -> list[Notice]:
        """What to say of times that the trace viewer shows otherwise."""
        if self.moved_ns < NOTABLE_NS:
            return []
        message = (
            f"operations of device {self.number} are placed by its own clock: the times that the profiler converted, "
            f"which a trace viewer shows, are off by up to {self.moved_ns / 1e6:.1f} ms"
        )
        return [Notice("clock_corrected", message)]


def recorded(device: Device, catalogue: Catalogue) -> Recorded:
    """The activity of a device, and the runs of programs on it (RUNS)."""
    converted = runs(device)
    if device.kind == "GPU":
        rows = [
            _stream(plane, line, catalogue).with_columns(stream=pl.lit(stream, pl.Int64))
            for plane, line, stream in device.streams()
        ]
        return Recorded(converted, [_numbered(part, device) for part in rows])
    lines = [_operations(plane, line, converted, catalogue) for plane, line in device.lines(*OPS)]
    placed_runs = next((each.runs for each in lines if each.runs is not None), converted)
    rows = [each.rows for each in lines]
    begun = [part.filter(col.part.fill_null(0) == 0) for part in rows]
    together = pl.concat([part.select("name", "start_ns", "dur_ns") for part in begun]) if begun else None
    for plane, line in device.lines(*ASYNC_OPS):
        rows.append(_asynchronous(plane, line, together, catalogue))
    core = next((each.core for each in lines if each.core is not None), None)
    moved = max((each.moved_ns for each in lines), default=0)
    activity = [_numbered(_in_runs(part, placed_runs), device) for part in rows]
    return Recorded(placed_runs, activity, device.number, core, moved)


def _numbered(rows: pl.DataFrame, device: Device) -> pl.DataFrame:
    return rows.with_columns(device=pl.lit(device.number, pl.Int64))


@dataclass(frozen=True, slots=True)
class _Operations:
    rows: pl.DataFrame
    runs: pl.DataFrame | None
    core: clock.Clock | None
    moved_ns: int


def _operations(plane: Plane, line: Line, converted: pl.DataFrame, catalogue: Catalogue) -> _Operations:
    """The operations on a line of a TPU, and its runs as they place them, if they do."""
    events = line.events(clock.STATS)
    core = clock.compare(events, line.timestamp_ns, converted)
    placed_runs, moved = None, 0
    if core is None:
        timed = placed(events.drop(clock.STATS), line)
    else:
        own = clock.aligned(events, core)
        moved = _farthest(own["offset_ps"] - events["offset_ps"])
        timed = placed(own, line)
        placed_runs = clock.corrected(converted, line.timestamp_ns, core, timed)
        timed = timed.drop("at_run")
    return _Operations(_known(alone(timed), plane, line, catalogue, beside=False), placed_runs, core, moved)


def _farthest(shifts: pl.Series) -> int:
    """The largest of shifts in ps, either way, in ns."""
    most = shifts.abs().max()
    return most // clock.PS if isinstance(most, int) else 0


def _asynchronous(
    plane: Plane, line: Line, operations: pl.DataFrame | None, catalogue: Catalogue
) -> pl.DataFrame:
    timed = placed(line.events(("hlo_op",)), line).with_columns(part=pl.lit(None, pl.Int64))
    rows = _known(timed, plane, line, catalogue, beside=True)
    rows = rows if operations is None else clock.paired(rows, operations)
    # from its start to when the core comes back for it: neither a transfer alone nor the wait of one device
    none = pl.lit(None, pl.String).alias("group")
    return rows.with_columns(none, name=pl.format("{}, asynchronous", "name"))


def _known(
    timed: pl.DataFrame, plane: Plane, line: Line, catalogue: Catalogue, *, beside: bool
) -> pl.DataFrame:
    """`timed` with what the catalogue knows of the operations."""
    about = catalogue.of_plane(plane, timed["metadata"].unique(maintain_order=True))
    known = timed.join(about, on="metadata", maintain_order="left")
    if not beside:
        # of a transfer that runs beside the operations its two ends are no collectives of their own
        ends = col.name.str.contains(ENDS)
        known = known.with_columns(group=pl.when(~ends).then("group"))
    return known.with_columns(asynchronous=pl.lit(beside), stream=pl.lit(line.id, pl.Int64))


def _in_runs(rows: pl.DataFrame, programs: pl.DataFrame) -> pl.DataFrame:
    """`rows` with the context of the program's run in which each begins as correlation."""
    spans = programs.filter(col.context.is_not_null()).select(
        "start_ns", until="end_ns", correlation="context"
    )
    met = rows.sort("start_ns").join_asof(spans.sort("start_ns"), on="start_ns")
    return met.with_columns(correlation=pl.when(col.start_ns < col.until).then("correlation")).drop("until")


def _stream(plane: Plane, line: Line, catalogue: Catalogue) -> pl.DataFrame:
    """What ran on one stream of a GPU."""
    timed = placed(line.events(STREAM_STATS), line)
    keys = timed["metadata"].unique()
    names = [plane.metadata[key].name[:LONGEST_KERNEL] if key in plane.metadata else "" for key in keys]
    kinds = ["memcpy" if COPY.match(name) else "memset" if SET.match(name) else "kernel" for name in names]
    known = timed.join(pl.DataFrame({"metadata": keys, "name": names, "kind": kinds}), on="metadata")
    joined = known.join(
        catalogue.of_kernels(known.select("program_id", "hlo_module", "hlo_op")),
        on=["program_id", "hlo_module", "hlo_op"], how="left", nulls_equal=True, maintain_order="left",
    )  # fmt: skip
    runs = col.kind == "kernel"
    joined = joined.with_columns(pl.when(runs).then(name).alias(name) for name in COLLECTIVE)
    moved = pl.coalesce("memcpy_details", "memset_details")
    return joined.with_columns(
        correlation=col.correlation_id,
        grid=_sides("grid"),
        block=_sides("block"),
        occupancy=_detail(OCCUPANCY).cast(pl.Float64).replace(0.0, None),
        bytes=pl.when(col.kind != "kernel").then(moved.str.extract(r"\bsize:(\d{1,18})\b").cast(pl.Int64)),
    )


def _detail(pattern: str) -> pl.Expr:
    return col.kernel_details.str.extract(pattern)


def _sides(what: str) -> pl.Expr:
    """`grid:4,1,1` as a JSON list."""
    sides = _detail(rf"\b{what}:(\d{{1,10}},\d{{1,10}},\d{{1,10}})\b")
    return pl.format("[{}]", sides.str.replace_all(",", ", "))


def waits(device: Device, core: clock.Clock | None) -> pl.DataFrame:
    """What a TPU says that it waits for, as rows of host_events: thread is the device."""
    parts = [_waits_of(plane, line, core) for plane, line in device.lines(TRACE_ME)]
    rows = (
        pl.concat(parts)
        if parts
        else pl.DataFrame(schema={"start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String})
    )
    return rows.with_columns(kind=pl.lit("device_wait"), thread=pl.lit(device.number, pl.Int64))


def _waits_of(plane: Plane, line: Line, core: clock.Clock | None) -> pl.DataFrame:
    events = line.events(clock.STATS)
    own = events.drop(clock.STATS) if core is None else clock.aligned(events, core)
    timed = placed(own, line).filter(col.dur_ns > 0)
    used = {key: plane.metadata.get(key) for key in timed["metadata"].unique()}
    names = {key: about.name[:LONGEST_WAIT] for key, about in used.items() if about}
    keys = [key for key, name in names.items() if WAIT.search(name)]
    texts = pl.DataFrame(
        {"metadata": keys, "name": [names[key] for key in keys]},
        {"metadata": pl.Int64, "name": pl.String},
    )
    return timed.join(texts, on="metadata").select("start_ns", "dur_ns", "name")
