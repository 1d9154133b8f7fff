"""Events into packed columns, without Polars: what a reading process sends to the one that writes.

A packed table is a dict that msgpack can carry: integers as native int64 bytes, texts as int32 codes into a
list of distinct values, times either as native doubles (microseconds) or as lines of text.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from mpg_parsers.kineto import categories
from mpg_parsers.kineto.events import NULL, Event, Events
from mpg_parsers.kineto.private import strip_strings

Packed = dict[str, Any]
Clean = Callable[[str], str]

DEVICE_INTS = (
    "device", "stream", "correlation", "external_id", "graph_node", "bytes",
    "group_size", "seq", "in_elements", "out_elements", "external_id_2021", "stream_mtia",
)  # fmt: skip
# few launches differ in the decimals: as texts they are kept once
DEVICE_TEXTS = (
    "grid", "block", "blocks_per_sm", "occupancy", "collective", "group", "group_ranks", "element_type",
)  # fmt: skip
HOST_INTS = {
    "op": ("external_id", "sequence", "forward_thread", "external_id_2021"),
    "runtime": ("external_id", "correlation", "external_id_2021"),
    "python": ("python_id", "python_parent"),
}
OTHER_HOST_INTS = ("external_id", "correlation")
HOST_TEXTS = {"op": ("input_dims", "input_types", "concrete_inputs", "input_dims_2021")}
ALL_HOST_INTS = tuple(dict.fromkeys(name for names in HOST_INTS.values() for name in names))
LOOSE_INTS = tuple(dict.fromkeys((*DEVICE_INTS, *ALL_HOST_INTS)))
LOOSE_TEXTS = (*DEVICE_TEXTS, *HOST_TEXTS["op"])
LOOSE_FIELDS = ("ph", "cat", "pid", "tid")

# these may hold a number in words, such as "stream 7"; others are a number or nothing
LABELS = frozenset({"device", "stream", "stream_mtia"})
META_NAMES = frozenset({"process_name", "process_labels"})
META_LIMIT = 10_000
META_LENGTH = 200
FIRST_DIGITS = re.compile(r"-?[0-9]{1,18}")
ONLY_DIGITS = re.compile(r"\s*(-?[0-9]{1,18})\s*\Z")


def number(value: object) -> int:
    """The integer that a JSON value such as 7 or "7" is; NULL if it is none."""
    if isinstance(value, str):
        match = ONLY_DIGITS.match(value)
        return int(match[1]) if match else NULL
    return value if isinstance(value, int) and -NULL > value > NULL else NULL


def first_number(value: object) -> int:
    """The first integer in a JSON value such as 7, "7" or "stream 7"; NULL if there is none."""
    if isinstance(value, str):
        match = FIRST_DIGITS.search(value)
        return int(match[0]) if match else NULL
    return number(value)


def pack_ints(values: Sequence[Any], convert: Callable[[object], int]) -> bytes:
    """Values as native int64."""
    try:
        return struct.pack(f"{len(values)}q", *values)
    except struct.error:  # a null, a string, or a number beyond int64
        return struct.pack(f"{len(values)}q", *map(convert, values))


def pack_floats(values: Sequence[float | None]) -> bytes:
    """Values as native doubles, null as NaN."""
    try:
        return struct.pack(f"{len(values)}d", *values)
    except struct.error:
        return struct.pack(f"{len(values)}d", *(float("nan") if v is None else v for v in values))


def pack_lines(values: Sequence[bytes]) -> bytes:
    """Values as lines; a value that spans lines is no time and becomes an empty one."""
    lines = b"\n".join(values)
    if lines.count(b"\n") == len(values) - 1:
        return lines
    return b"\n".join(b"" if b"\n" in value else value for value in map(bytes, values))


class Dictionary:
    """The codes of a text column; distinct values are kept once."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._parts: list[bytes] = []

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, values: Iterable[Any]) -> None:
        """Append the codes of `values`."""
        codes = self._codes
        column = [codes.setdefault(value, len(codes)) for value in values]
        self._parts.append(struct.pack(f"{len(column)}i", *column))

    def repeat(self, value: Any, count: int) -> None:  # noqa: ANN401 - text, bytes or None
        """Append `value` `count` times."""
        code = self._codes.setdefault(value, len(self._codes))
        self._parts.append(struct.pack("i", code) * count)

    def pack(self, clean: Callable[[str], str | None] | None = None) -> tuple[bytes, list[str | None]]:
        """(codes, distinct values)."""
        values = [value if isinstance(value, str | None) else _as_text(value) for value in self._codes]
        return b"".join(self._parts), [clean(v) if clean and v else v or None for v in values]


class Buffer:
    """The rows of one table, as they come; `fields` are kept as text, whatever they are."""

    def __init__(self, texts: Sequence[str], fields: Sequence[str] = ()) -> None:
        self.rows = 0
        self._text_names = texts
        self._fields = fields
        self._ints: dict[str, list[tuple[int, bytes]]] = {}
        self._texts = {name: Dictionary() for name in ("kind", "name", *fields, *texts)}
        self._times: list[tuple[str, int, bytes, bytes]] = []

    def add(self, events: Sequence[Any], kind: str, ints: Sequence[str], texts: Sequence[str]) -> None:
        """Append events of one kind; integer and text columns not named become null."""
        self._add_times(events)
        self._texts["kind"].repeat(kind, len(events))
        self._texts["name"].add([event.name for event in events])
        for field in self._fields:
            values = map(attrgetter(field), events)
            self._texts[field].add([None if value is None else str(value) for value in values])
        self._put("process", pack_ints([event.pid for event in events], first_number))
        self._put("thread", pack_ints([event.tid for event in events], first_number))
        self._add_args([event.args for event in events], ints, texts)
        self.rows += len(events)

    def _add_args(self, args: Sequence[Any], ints: Sequence[str], texts: Sequence[str]) -> None:
        for name in ints:
            convert = first_number if name in LABELS else number
            self._put(name, pack_ints(list(map(attrgetter(name), args)), convert))
        for name in self._text_names:
            if name in texts:
                self._texts[name].add(_hashable(list(map(attrgetter(name), args))))
            else:
                self._texts[name].repeat(None, len(args))

    def _put(self, name: str, data: bytes) -> None:
        self._ints.setdefault(name, []).append((self.rows, data))

    def _add_times(self, events: Sequence[Any]) -> None:
        ts, dur = [event.ts for event in events], [event.dur for event in events]
        if isinstance(events[0], Event):
            self._times.append(("float", len(ts), pack_floats(ts), pack_floats(dur)))
        else:
            self._times.append(("text", len(ts), pack_lines(ts), pack_lines(dur)))

    def pack(self, clean: Clean | None) -> Packed:
        """The table so far, as a message."""
        ints = {name: _join(parts, self.rows) for name, parts in self._ints.items()}
        cleaners = _cleaners(clean) if clean else {}
        texts = {name: column.pack(cleaners.get(name)) for name, column in self._texts.items()}
        return {"rows": self.rows, "ints": ints, "texts": texts, "times": self._times}


def _cleaners(clean: Clean) -> dict[str, Callable[[str], str | None]]:
    """By column: what users write, as opposed to what the profiler does."""
    return {"name": clean, "concrete_inputs": partial(strip_strings, clean=clean)}


def _as_text(value: float | bytes) -> str:
    return _json_text(value) if isinstance(value, bytes) else str(value)


def _json_text(raw: bytes) -> str:
    """JSON on one line, whatever the layout of the file; of a JSON string, what it says."""
    if raw[:1] == b'"':
        return str(msgspec.json.decode(raw))
    return msgspec.json.format(raw, indent=0).decode() if raw else ""


def _hashable(values: list[Any]) -> list[Any]:
    """The bytes of raw JSON; strings and numbers as they are."""
    return list(map(bytes, values)) if isinstance(values[0], Raw) else values


def _join(parts: list[tuple[int, bytes]], rows: int) -> bytes:
    """The parts of an integer column put at their rows; nulls in between and after."""
    null, out, filled = struct.pack("q", NULL), [], 0
    for start, data in parts:
        out += [null * (start - filled), data]
        filled = start + len(data) // 8
    return b"".join([*out, null * (rows - filled)])


class Packer:
    """Sorts decoded events into the tables `device`, `host` and `loose` (what needs a second look)."""

    def __init__(self, clean: Clean | None = None) -> None:
        self._clean = clean
        self._reset()

    def _reset(self) -> None:
        self._device = Buffer(DEVICE_TEXTS)
        self._host = Buffer(HOST_TEXTS["op"])
        self._loose = Buffer(LOOSE_TEXTS, LOOSE_FIELDS)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._foreign: Counter[str] = Counter()
        self._meta: dict[tuple[str, str, str], None] = {}

    @property
    def rows(self) -> int:
        """Rows waiting to be packed."""
        return self._device.rows + self._host.rows + self._loose.rows

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
            self._counts[phase or "", category or ""] += len(group)
            self._route(phase, category, group)

    def _route(self, phase: str | None, category: str | None, group: list[Any]) -> None:
        if phase == "M":
            self._take_meta(group)
        elif phase in ("B", "E") or (phase == "X" and not category):
            self._loose.add(group, "", LOOSE_INTS, LOOSE_TEXTS)
        elif phase == "X" and category in categories.DEVICE:
            self._device.add(group, categories.DEVICE[category], DEVICE_INTS, DEVICE_TEXTS)
        elif phase == "X" and category in categories.HOST:
            kind = categories.HOST[category]
            self._host.add(group, kind, HOST_INTS.get(kind, OTHER_HOST_INTS), HOST_TEXTS.get(kind, ()))
        elif phase == "X" and category not in categories.IGNORED:
            self._take_foreign(category or "", group)

    def _take_foreign(self, category: str, group: list[Any]) -> None:
        on_device = sum(NULL not in (event.args.device, event.args.stream) for event in group)
        self._foreign[category] += len(group) if category in categories.FOREIGN else on_device

    def _take_meta(self, group: list[Any]) -> None:
        for event in group:
            if event.name in META_NAMES and len(self._meta) < META_LIMIT:
                value = _json_text(bytes(event.args.name or event.args.labels))
                self._meta[event.name, str(event.pid)[:META_LENGTH], value[:META_LENGTH]] = None

    def pack(self) -> Packed:
        """Everything since the last call, as a message; then start afresh."""
        buffers = {"device": self._device, "host": self._host, "loose": self._loose}
        message = {
            "tables": {name: buffer.pack(self._clean) for name, buffer in buffers.items() if buffer.rows},
            "counts": [[*key, count] for key, count in self._counts.items()],
            "foreign": [[category, count] for category, count in self._foreign.items() if count],
            "meta": [list(key) for key in self._meta],
        }
        self._reset()
        return message
