"""One event of a Kineto trace, decoded with msgspec: only the fields that reach a table.

Times stay as the file wrote them: as float microseconds where a double holds the nanosecond (below 2**43 us),
else as the bytes of the number. `columns.py` makes nanoseconds of both.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

NULL = -(1 << 63)
FLOAT_LIMIT = float(1 << 43)  # microseconds; from here on a double cannot hold every nanosecond
NO_TEXT = Raw(b"")

Number = int | str | None
Text = str | None

RENAMED = {
    "external_id": "External id",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "input_dims": "Input Dims",
    "input_types": "Input type",
    "concrete_inputs": "Concrete Inputs",
    "python_parent": "Python parent id",
    "python_id": "Python id",
    "collective": "Collective name",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
    "group": "Process Group Name",
    "group_ranks": "Process Group Ranks",
    "element_type": "dtype",
    "seq": "Seq",
    "graph_node": "graph node id",
    "external_id_2021": "external id",
    "input_dims_2021": "Input dims",
    "stream_mtia": "stream_id",
}


class Args(msgspec.Struct, gc=False, frozen=True, rename=RENAMED):
    """The arguments of an event, in the order Kineto writes them (msgspec guesses the next key)."""

    external_id: Number = NULL
    sequence: Number = NULL
    forward_thread: Number = NULL
    concrete_inputs: Raw = NO_TEXT
    input_types: Raw = NO_TEXT
    input_dims: Raw = NO_TEXT
    python_parent: Number = NULL
    python_id: Number = NULL
    device: Number = NULL
    stream: Number = NULL
    correlation: Number = NULL
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    bytes: Number = NULL
    collective: Text = None
    in_elements: Number = NULL
    out_elements: Number = NULL
    group_size: Number = NULL
    element_type: Text = None
    group: Text = None
    group_ranks: Raw = NO_TEXT
    seq: Number = NULL
    graph_node: Number = NULL
    external_id_2021: Number = NULL
    input_dims_2021: Raw = NO_TEXT
    stream_mtia: Number = NULL
    name: Raw = NO_TEXT
    labels: Raw = NO_TEXT


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False, frozen=True):
    """An event whose times are floats."""

    ph: Text = None
    cat: Text = None
    name: Text = None
    pid: Number = NULL
    tid: Number = NULL
    ts: float | None = None
    dur: float | None = None
    args: Args = NO_ARGS


class ExactEvent(msgspec.Struct, gc=False, frozen=True):
    """An event whose times are the text of the file."""

    ph: Text = None
    cat: Text = None
    name: Text = None
    pid: Number = NULL
    tid: Number = NULL
    ts: Raw = NO_TEXT
    dur: Raw = NO_TEXT
    args: Args = NO_ARGS


_decode_float = msgspec.json.Decoder(list[Event]).decode
_decode_exact = msgspec.json.Decoder(list[ExactEvent]).decode

Events = list[Event] | list[ExactEvent]


def decode(data: bytes) -> Events:
    """The events of a JSON array.

    Raises msgspec.DecodeError or UnicodeDecodeError where `data` is not valid JSON.
    """
    if not data.isascii():
        data.decode()  # msgspec does not check the strings it skips
    try:
        events = _decode_float(data)
    except msgspec.ValidationError:
        return _decode_any(data)
    return events if _fit_floats(events) else _decode_any(data)


def _fit_floats(events: list[Event]) -> bool:
    times = [event.ts for event in events if event.ts is not None]
    return not times or (max(times) < FLOAT_LIMIT and min(times) > -FLOAT_LIMIT)


def _decode_any(data: bytes) -> Events:
    try:
        return _decode_exact(data)
    except msgspec.ValidationError:
        return [_from_object(item) for item in json.loads(data, parse_float=_Digits)]


class _Digits(str):
    """The text of a number that is not an integer."""

    __slots__ = ()


def _from_object(item: Any) -> ExactEvent:
    """An event of any shape: fields of an unexpected type become null."""
    if not isinstance(item, dict):
        return ExactEvent()
    args = item.get("args")
    return ExactEvent(
        ph=_text(item.get("ph")),
        cat=_text(item.get("cat")),
        name=_text(item.get("name")),
        pid=_number(item.get("pid")),
        tid=_number(item.get("tid")),
        ts=_raw(item.get("ts")),
        dur=_raw(item.get("dur")),
        args=_args(args) if isinstance(args, dict) else NO_ARGS,
    )


def _args(args: dict[str, Any]) -> Args:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Args):
        value = args.get(field.encode_name)
        if value is None:
            continue
        kind = _raw if field.type is Raw else _number if field.type == Number else _text
        values[field.name] = kind(value)
    return Args(**values)


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) else None


def _number(value: Any) -> int | str | None:
    if isinstance(value, _Digits):
        return int(float(value)) if float(value).is_integer() else None
    return value if isinstance(value, int | str) else None


def _raw(value: Any) -> Raw:
    if isinstance(value, _Digits):
        return Raw(value.encode())
    return NO_TEXT if value is None else Raw(json.dumps(value).encode())
