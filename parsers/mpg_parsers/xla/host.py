"""Host threads of a profile as host events: what can explain that a device waited.

Events that take no time, and the bookkeeping of thread pools and allocators, explain nothing and are left out; so are
short Python frames while all devices were at work, which are most of what a Python tracer records.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.xla import busy
from mpg_parsers.xla.timeline import placed_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mpg_parsers.xla.space import Line, Metadata, Plane

STATS = ("correlation_id", "_pt", "_p", "_ct", "_c", "step_num", "hlo_op")
# the consumer context of a program's run on a TPU: what its module carries in _ct, and the call that enqueued it in _pt
# (tsl/profiler/lib/connected_traceme.h, ContextType::kTpuLaunch)
TPU_LAUNCH = 12
LONG_NS = 1_000_000  # frames that last as long stay in any case: they say where the program was
TOGETHER = 1 << 18  # events of lines that are read at once
CHAIN = 4  # hand-overs from the thread that asks for a run to the one that enqueues it
API = re.compile(r"^(cu[A-Z]|cuda[A-Z]|hip[A-Z]|hsa_|nccl[A-Z])")
# the host waits for a device here (JAX, PjRt)
WAITS = re.compile(
    r"block_until_ready|BlockHostUntilReady|BlockUntilReady|^np\.asarray\(jax\.Array\)|ArrayImpl\._value|"
    r"^PjRtBuffer::ToLiteral|AwaitReady|^Wait for (usage|donation) holds"
)
NOISE = re.compile(r"^(ThreadpoolListener::|Memory(Allocation|Deallocation)|RecordUsage)")
PYTHON = re.compile(r"^\$(?P<file>.+?):(?P<line>\d+) (?P<function>.+)$")
LONGEST_NAME = 2_000
THREAD_OF_CALLS = re.compile(r"^Host Threads/")


def frame_name(name: str) -> str:
    """A Python frame as other profilers write it: `$train.py:88 step` is `train.py(88): step`."""
    match = PYTHON.match(name)
    if match:
        return f"{match['file']}({match['line']}): {match['function']}"
    return f"<built-in {name[1:]}>"


def kind_of(name: str) -> str:
    """What an event without stats is: python, runtime (a call of the device's API, or a wait for it) or op."""
    if name.startswith("$"):
        return "python"
    return "runtime" if API.match(name) or WAITS.search(name) else "op"


def events(planes: Iterable[Plane], clean: Callable[[str], str], at_work: pl.DataFrame) -> pl.DataFrame:
    """Columns of host_events, with STATS but hlo_op, of all threads of the host's planes, by thread and time.

    at_work: start_ns, end_ns of the time in which all devices were busy.
    """
    parts = [_of_lines(plane, lines, clean, at_work) for plane in planes for lines in _together(plane)]
    if not parts:
        return pl.DataFrame(schema=SCHEMA)
    found = pl.concat(parts)
    return _linked(_on_callers(found))


SCHEMA = pl.Schema({
    "thread": pl.Int64, "line": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64, "kind": pl.String,
    "name": pl.String, "correlation": pl.Int64, "step_num": pl.Int64, "_pt": pl.Int64, "_p": pl.Int64,
    "_ct": pl.Int64, "_c": pl.Int64, "hlo_op": pl.String,
})  # fmt: skip


def _together(plane: Plane) -> Iterator[list[Line]]:
    """The lines of a plane with events; of short ones, of which there may be thousands, many at a time."""
    some: list[Line] = []
    for line in plane.lines:
        if line.count:
            some.append(line)
        if sum(each.count for each in some) >= TOGETHER:
            yield some
            some = []
    if some:
        yield some


def _of_lines(
    plane: Plane, lines: Sequence[Line], clean: Callable[[str], str], at_work: pl.DataFrame
) -> pl.DataFrame:
    """The events of some threads that last."""
    bases = pl.Series([line.timestamp_ns for line in lines], dtype=pl.Int64)
    base_ns = pl.lit(bases).gather("line") if bases.n_unique() > 1 else pl.lit(bases[0])
    timed = placed_from(plane.together(lines, STATS), base_ns).filter(col.dur_ns > 0)
    names = _names(plane.metadata, timed["metadata"].unique(), clean)
    frames = names.filter(col.kind == "python")["metadata"]
    short = col.metadata.is_in(frames.implode()) & (col.dur_ns < LONG_NS)
    if frames.len() and at_work.height:
        timed = timed.filter(~(short & busy.inside(timed, at_work)))
    threads = pl.DataFrame(
        [(number, line.id, line.name) for number, line in enumerate(lines)],
        {"line": pl.Int64, "thread": pl.Int64, "called": pl.String},
        orient="row",
    )
    known = timed.join(names, on="metadata", maintain_order="left").join(
        threads, on="line", maintain_order="left"
    )
    calls = col.correlation_id.is_not_null() | (col._pt == TPU_LAUNCH).fill_null(value=False)
    kind = pl.when(col.step_num.is_not_null()).then(pl.lit("annotation")).when(calls).then(pl.lit("runtime"))
    name = pl.when(col.step_num.is_not_null()).then(pl.format("{} {}", "name", "step_num")).otherwise("name")
    return known.select(
        "thread", col.called.alias("line"), "start_ns", "dur_ns",
        kind=kind.otherwise("kind"), name=name, correlation="correlation_id",
        **{stat: stat for stat in ("step_num", "_pt", "_p", "_ct", "_c", "hlo_op")},
    ).cast(SCHEMA)  # fmt: skip


def _names(metadata: Mapping[int, Metadata], used: pl.Series, clean: Callable[[str], str]) -> pl.DataFrame:
    """metadata, name and kind of the events that count."""
    rows = []
    for key in used:
        about = metadata.get(key)
        name = (about.name or about.display_name)[:LONGEST_NAME] if about else ""
        if name and not NOISE.match(name):
            kind = kind_of(name)
            rows.append((key, clean(frame_name(name) if kind == "python" else name), kind))
    return pl.DataFrame(rows, {"metadata": pl.Int64, "name": pl.String, "kind": pl.String}, orient="row")


def _on_callers(found: pl.DataFrame) -> pl.DataFrame:
    """Calls of the device's API, which some versions put on lines of their own, on the thread that made them.

    That is the one whose events around them are named after the operation they launch.
    """
    apart = found.filter(col.line.str.contains(THREAD_OF_CALLS.pattern) & (col.kind == "runtime"))
    if apart.is_empty():
        return found
    asked = apart.select("thread", "start_ns", name="hlo_op").drop_nulls().sort("start_ns")
    around = found.filter(~col.line.str.contains(THREAD_OF_CALLS.pattern)).select(
        "name", "start_ns", caller="thread", end_ns=col.start_ns + col.dur_ns
    )
    met = asked.join_asof(around.sort("start_ns"), on="start_ns", by="name", check_sortedness=False)
    votes = met.filter(col.start_ns < col.end_ns).group_by("thread", "caller").len().sort("len", "caller")
    best = votes.unique("thread", keep="last", maintain_order=True).select("thread", "caller")
    moved = found.join(best, on="thread", how="left", maintain_order="left")
    return moved.with_columns(thread=pl.coalesce("caller", "thread")).drop("caller")


def _linked(found: pl.DataFrame) -> pl.DataFrame:
    """Calls that enqueue a program on a TPU carry its run's context as correlation; so do the calls that led to them.

    A thread that launches takes its orders from another: the event around the call names the context of the one that
    gave it. Of a GPU's many calls the first of each order is enough to know who gave it.
    """
    launches = col._pt == TPU_LAUNCH
    known = found.with_columns(correlation=pl.coalesce("correlation", pl.when(launches).then("_p")))
    calls = known.filter((col.kind == "runtime") & col.correlation.is_not_null())
    on_tpu = (calls["_pt"] == TPU_LAUNCH).fill_null(value=False)
    at = calls.select("thread", "start_ns", run="correlation")
    connected = found.filter(col._ct.is_not_null() | col._pt.is_not_null())
    asking = pl.concat(
        [_asking(connected, at.filter(on_tpu)), _asking(connected, at.filter(~on_tpu), every=False)]
    )
    if asking.is_empty():
        return known
    place = ["thread", "start_ns", "dur_ns", "name"]
    rest = known.join(asking.select(place).unique(), on=place, how="anti")
    return pl.concat([rest, asking.select(known.columns)])


def _asking(connected: pl.DataFrame, at: pl.DataFrame, *, every: bool = True) -> pl.DataFrame:
    """For `at` (thread, start_ns, run), on every thread that handed it over, the event that did, as a runtime call.

    Rows are copies: one for every run, or one for every event and thread that took its order.
    """
    takers = connected.filter(col._c.is_not_null()).select(
        "thread", "start_ns", end_ns=col.start_ns + col.dur_ns, pt="_ct", p="_c"
    )
    givers = connected.filter(col._p.is_not_null() & (col._pt != TPU_LAUNCH)).rename({"_pt": "pt", "_p": "p"})
    givers = givers.unique(["pt", "p"], keep="first", maintain_order=True)
    empty, found = connected.head(0), []
    for _ in range(CHAIN if takers.height else 0):
        order = at.sort("start_ns").join_asof(
            takers.sort("start_ns"), on="start_ns", by="thread", check_sortedness=False
        )
        inside = order.filter(col.start_ns < col.end_ns).select("run", "pt", "p", taker="thread")
        gave = givers.join(inside, on=["pt", "p"])
        if not every:
            gave = gave.filter(col.thread != col.taker)
            gave = gave.unique(["thread", "start_ns", "taker"], keep="first", maintain_order=True)
        if gave.is_empty():
            break
        rows = gave.with_columns(correlation="run", kind=pl.lit("runtime")).rename({"pt": "_pt", "p": "_p"})
        found.append(rows.select(empty.columns))
        at = gave.select("thread", "start_ns", "run")
    return pl.concat(found) if found else empty
