"""The Chrome JSON that JAX and TensorFlow write beside an xplane file (`*.trace.json.gz`), as a Space.

It holds less than the xplane: the planes of the host and of one kind of device, without their stats (no name or peak of
the device, no Unix time), no event of a line named "Async XLA Ops", no stats that the exporter calls internal
(program_id, flops, flows between threads), no value that is neither text nor number, and of more than a million events
those that start last are missing.
"""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.chrome.reader import TraceReader
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.xla.space import INTEGERS, Line, Plane, Space
from mpg_parsers.xla.trace_json_events import EventTable, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mpg_parsers.chrome.text import Readable
    from mpg_parsers.xla.space import Metadata

# GetTraceViewerMaxEvents of xla/tsl/profiler/convert/xplane_to_trace_events.cc: the complete events of all planes that
# start first. Exactly that many are left; in older exporters more, if several start at the same time as the last; and
# in the one that JAX had for a while (its file has no "metadata") fewer, as it counted events that it did not write.
MAX_EVENTS = 1_000_000
HEAD = 1 << 16
PREFIXES = ("/device:", "/host:")

_S = rb"[ \t\r\n]*"
_NAME = rb'"name"%b:%b"/(?:device|host):' % (_S, _S)
# a process_name event of XLA, its keys in the exporter's order or another
_PROCESS = re.compile(
    rb'"process_name"[^{}]*"args"%b:%b\{%b%b' % (_S, _S, _S, _NAME)
    + rb'|"args"%b:%b\{%b%b[^{}"]*"%b\}[^{}]*"process_name"' % (_S, _S, _S, _NAME, _S)
)
_HEADER = re.compile(
    rb'%b\{%b"displayTimeUnit"%b:%b"ns"%b,%b"metadata"%b:%b\{%b"highres-ticks"%b:%btrue%b\}' % ((_S,) * 12)
)
_ARGUMENT = re.compile(rb'"(?:hlo_op|hlo_module|hlo_category|device_offset_ps)"%b:' % _S)
_PHASE = re.compile(rb'"ph"%b:' % _S)
_CATEGORY = re.compile(rb'"cat"%b:' % _S)


def looks_like(head: bytes) -> bool:
    """Whether a file that starts with `head` (unpacked, at most 64 KiB are looked at) is JSON of XLA's exporter.

    A process named like a device or host of XLA decides. Where no such event comes that early, there must be events,
    none of them with a category (which other profilers' events have), and the exporter's header or an argument that
    only XLA writes.
    """
    text = Utf8Stream(io.BytesIO(head[:HEAD])).read(HEAD)
    if text.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return False
    if _PROCESS.search(text):
        return True
    if _CATEGORY.search(text) or not _PHASE.search(text):
        return False
    return bool(_HEADER.match(text) or _ARGUMENT.search(text))


def read(stream: Readable, path: str, report: Callable[[], None] | None = None) -> tuple[Space, list[Notice]]:
    """The profile in a trace, and what was repaired or dropped; `report` is called after each block of about 512 KiB.

    Times are picoseconds after the start of the profile (`timestamp_ns` of all lines is 0). What is kept in memory are
    columns: about 50 bytes per event, and every distinct name and constant once. A line that is named but has no event
    is there, with count 0; a process or thread without a name has the name "".

    Notices: truncated_input and repaired_input (see TraceReader), dropped_events. Raises InputError: empty_input,
    truncated_input, corrupt_input, not_a_trace (see TraceReader); unsupported_format if no process is a device or a
    host of XLA, or the JSON is larger than 4 GiB.
    """
    table = EventTable(path)
    reader = TraceReader(stream, path, table.decode)
    for events in reader:
        table.take(events)
        if report:
            report()
    lines = table.lines()
    if not any(name.startswith(PREFIXES) for name in table.processes.values()):
        message = "no process of this trace is a device or a host of XLA"
        raise InputError(
            "unsupported_format", path, message, hint="run `mpg formats` for the list of formats"
        )
    space = Space(planes=_planes(table, lines), capped=table.count >= MAX_EVENTS)
    return space, [*reader.notices, *_dropped(table, path)]


def _dropped(table: EventTable, path: str) -> list[Notice]:
    if not table.lost:
        return []
    message = f"{table.lost} events without a start, a duration or a thread were dropped"
    return [Notice("dropped_events", message, table.lost, path)]


def _planes(table: EventTable, lines: Mapping[tuple[int, int], pl.DataFrame]) -> tuple[Plane, ...]:
    """One plane per process, in the order in which the file names them, then those it does not name."""
    texts = pl.Series(list(table.texts), dtype=pl.String)
    threads: dict[int, list[Line]] = {pid: [] for pid in table.processes}
    for key in dict.fromkeys([*table.threads, *lines]):
        name = table.threads.get(key, "")
        threads.setdefault(key[0], []).append(_line(key[1], name, lines.get(key), texts))
    kinds: dict[int, dict[int, Metadata]] = {pid: {} for pid in threads}
    for kind, code in table.kinds.items():
        if kind[0] in kinds:  # else all events of that process were dropped
            kinds[kind[0]][code] = metadata_of(kind)
    return tuple(
        Plane(table.processes.get(pid, ""), {}, tuple(found), kinds[pid]) for pid, found in threads.items()
    )


def _line(number: int, name: str, rows: pl.DataFrame | None, texts: pl.Series) -> Line:
    if rows is None:
        rows = pl.DataFrame(schema=dict.fromkeys(("metadata", "offset_ps", "dur_ps"), pl.Int64))
    return Line(number, name, 0, rows.height, partial(_events, rows, texts))


def _events(rows: pl.DataFrame, texts: pl.Series, stats: Sequence[str]) -> pl.DataFrame:
    """The `events` of a Line."""
    columns = [rows[name] for name in ("metadata", "offset_ps", "dur_ps")]
    for stat in dict.fromkeys(stats):
        dtype = pl.Int64 if stat in INTEGERS else pl.String
        if stat not in rows.columns:
            columns.append(pl.Series(stat, [None] * rows.height, dtype=dtype))
        else:
            columns.append(rows[stat] if stat in INTEGERS else texts.gather(rows[stat]).alias(stat))
    return pl.DataFrame(columns)
