"""Events into packed columns, without Polars: what a reading process sends to the one that writes.

A packed table is a dict that msgpack can carry: integers as native int64 bytes, texts as int32 codes into a list of
distinct values, times either as native doubles (microseconds) or as lines of text.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from mpg_parsers.kineto import categories
from mpg_parsers.kineto.events import NULL, Event, Events

Packed = dict[str, Any]

DEVICE_INTS = (
    "device", "stream", "correlation", "external_id", "graph_node", "bytes",
    "group_size", "seq", "in_elements", "out_elements", "external_id_2021", "stream_mtia",
)  # fmt: skip
DEVICE_TEXTS = ("grid", "block", "collective", "group", "group_ranks", "element_type")
HOST_INTS = {
    "op": ("external_id", "sequence", "forward_thread", "external_id_2021"),
    "runtime": ("external_id", "correlation", "external_id_2021"),
    "python": ("python_id", "python_parent"),
}
HOST_TEXTS = {"op": ("input_dims", "input_types", "concrete_inputs", "input_dims_2021")}
LOOSE_INTS = tuple(dict.fromkeys((*DEVICE_INTS, *(i for ints in HOST_INTS.values() for i in ints))))
LOOSE_TEXTS = (*DEVICE_TEXTS, *HOST_TEXTS["op"])
META_NAMES = frozenset({"process_name", "process_labels", "thread_name"})
DIGITS = re.compile(r"-?\d{1,18}")


def to_int(value: object) -> int:
    """The integer in a JSON value such as 7, "7" or "stream 7"; NULL where there is none."""
    if isinstance(value, bool) or value is None:
        return NULL
    if isinstance(value, int):
        return value if -NULL > value >= NULL else NULL
    match = DIGITS.search(value) if isinstance(value, str) else None
    return int(match[0]) if match else NULL


def pack_ints(values: Sequence[Any]) -> bytes:
    """Values as native int64."""
    try:
        return struct.pack(f"{len(values)}q", *values)
    except struct.error:  # a null, a string, or a number beyond int64
        return struct.pack(f"{len(values)}q", *map(to_int, values))


def pack_floats(values: Sequence[float | None]) -> bytes:
    """Values as native doubles, null as NaN."""
    try:
        return struct.pack(f"{len(values)}d", *values)
    except struct.error:
        return struct.pack(f"{len(values)}d", *(float("nan") if v is None else v for v in values))


class Dictionary:
    """The codes of a text column; distinct values are kept once."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._parts: list[bytes] = []

    def add(self, values: Iterable[Any]) -> None:
        """Append the codes of `values`."""
        codes = self._codes
        column = [codes.setdefault(value, len(codes)) for value in values]
        self._parts.append(struct.pack(f"{len(column)}i", *column))

    def repeat(self, value: Any, count: int) -> None:
        """Append `value` `count` times."""
        code = self._codes.setdefault(value, len(self._codes))
        self._parts.append(struct.pack("i", code) * count)

    def pack(self, clean: Callable[[Any], Any] | None = None) -> tuple[bytes, list[Any]]:
        """(codes, distinct values)."""
        values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in self._codes]
        return b"".join(self._parts), [clean(v) if clean and v else v or None for v in values]


class Buffer:
    """The rows of one table, as they come."""

    def __init__(self, ints: Sequence[str], texts: Sequence[str]) -> None:
        self.rows = 0
        self._int_names = ints
        self._text_names = texts
        self._ints: dict[str, list[tuple[int, bytes]]] = {}
        self._texts = {name: Dictionary() for name in ("kind", "name", "ph", "cat", "pid", *texts)}
        self._times: list[tuple[str, int, bytes, bytes]] = []

    def add(
        self, events: Sequence[Any], kind: str, ints: Sequence[str], texts: Sequence[str], *, loose: bool = False
    ) -> None:
        """Append events of one kind; integer and text columns not named become null."""
        count = len(events)
        self._add_times(events)
        self._texts["kind"].repeat(kind, count)
        self._texts["name"].add([event.name for event in events])
        self._put("process", pack_ints([event.pid for event in events]))
        self._put("thread", pack_ints([event.tid for event in events]))
        if loose:
            self._texts["ph"].add([event.ph for event in events])
            self._texts["cat"].add([event.cat for event in events])
            self._texts["pid"].add([str(event.pid) for event in events])
        args = [event.args for event in events]
        for name in ints:
            self._put(name, pack_ints(list(map(attrgetter(name), args))))
        for name in self._text_names:
            if name in texts:
                self._texts[name].add(_texts(list(map(attrgetter(name), args))))
            else:
                self._texts[name].repeat(None, count)
        self.rows += count

    def _put(self, name: str, data: bytes) -> None:
        self._ints.setdefault(name, []).append((self.rows, data))

    def _add_times(self, events: Sequence[Any]) -> None:
        ts, dur = [event.ts for event in events], [event.dur for event in events]
        if isinstance(events[0], Event):
            self._times.append(("float", len(ts), pack_floats(ts), pack_floats(dur)))
        else:
            self._times.append(("text", len(ts), b"\n".join(ts), b"\n".join(dur)))

    def pack(self, clean: Callable[[Any], Any] | None) -> Packed:
        """The table so far, as a message."""
        ints = {name: _join(parts, self.rows) for name, parts in self._ints.items()}
        texts = {
            name: column.pack(clean if name == "name" else None)
            for name, column in self._texts.items()
            if column._parts
        }
        return {"rows": self.rows, "ints": ints, "texts": texts, "times": self._times}


def _texts(values: list[Any]) -> list[Any]:
    """Hashable values: the bytes of raw JSON, strings as they are."""
    return values if isinstance(values[0], str | None) else list(map(bytes, values))


def _join(parts: list[tuple[int, bytes]], rows: int) -> bytes:
    """The parts of an integer column put at their rows; nulls in between and after."""
    null, out, filled = struct.pack("q", NULL), [], 0
    for start, data in parts:
        out += [null * (start - filled), data]
        filled = start + len(data) // 8
    return b"".join([*out, null * (rows - filled)])


class Packer:
    """Sorts decoded events into the tables `device`, `host` and `loose` (everything that needs a second look)."""

    def __init__(self, clean: Callable[[Any], Any] | None = None) -> None:
        self._clean = clean
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.device = Buffer(DEVICE_INTS, DEVICE_TEXTS)
        self.host = Buffer(tuple(dict.fromkeys(i for v in HOST_INTS.values() for i in v)), HOST_TEXTS["op"])
        self.loose = Buffer(LOOSE_INTS, LOOSE_TEXTS)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.meta: dict[tuple[str, str, str], None] = {}

    def take(self, events: Events) -> None:
        """Add events."""
        groups: dict[tuple[str | None, str | None], list[Any]] = {}
        for event in events:
            key = event.ph, event.cat
            group = groups.get(key)
            if group is None:
                group = groups[key] = []
            group.append(event)
        for (phase, category), group in groups.items():
            self.counts[phase or "", category or ""] += len(group)
            self._route(phase, category, group)

    def _route(self, phase: str | None, category: str | None, group: list[Any]) -> None:
        if phase == "M":
            self._take_meta(group)
        elif phase in ("B", "E") or (phase == "X" and not category):
            self.loose.add(group, "loose", LOOSE_INTS, LOOSE_TEXTS, loose=True)
        elif phase == "X" and category in categories.DEVICE:
            self.device.add(group, categories.DEVICE[category], DEVICE_INTS, DEVICE_TEXTS)
        elif phase == "X" and category in categories.HOST:
            kind = categories.HOST[category]
            ints = HOST_INTS.get(kind, ("external_id", "correlation"))
            self.host.add(group, kind, ints, HOST_TEXTS.get(kind, ()))

    def _take_meta(self, group: list[Any]) -> None:
        for event in group:
            if event.name in META_NAMES and len(self.meta) < 100_000:
                value = bytes(event.args.name or event.args.labels).decode("utf-8", "replace").strip('"')
                self.meta[event.name, str(event.pid), value] = None

    @property
    def rows(self) -> int:
        """Rows waiting to be packed."""
        return self.device.rows + self.host.rows + self.loose.rows

    def pack(self) -> Packed:
        """Everything since the last call, as a message; then start afresh."""
        message = {
            "tables": {
                name: buffer.pack(self._clean)
                for name, buffer in (("device", self.device), ("host", self.host), ("loose", self.loose))
                if buffer.rows
            },
            "counts": [[*key, n] for key, n in self.counts.items()],
            "meta": [list(key) for key in self.meta],
        }
        self.reset()
        return message
