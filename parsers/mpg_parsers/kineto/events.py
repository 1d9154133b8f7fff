"""One event of a Kineto trace, decoded with msgspec: only the fields that reach a table.

Times stay as the file wrote them: as float microseconds where a double holds the nanosecond (below 2**43 us),
else as the bytes of the number. `frames` makes nanoseconds of both.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

NULL = -(1 << 63)
FLOAT_LIMIT = float(1 << 43)  # microseconds; from here on a double cannot hold every nanosecond
NO_TEXT = Raw(b"")

Number = int | str | None
Real = float | int | str | None
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
    "blocks_per_sm": "blocks per SM",
    "occupancy": "est. achieved occupancy %",
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
    blocks_per_sm: Real = None
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    occupancy: Real = None
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
_decode_fields = msgspec.json.Decoder(list[dict[str, Raw] | None]).decode
_decode_args = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode

Events = list[Event] | list[ExactEvent]


def decode(data: bytes) -> Events:
    """The events of a JSON array of objects; nulls count as empty ones.

    Raises ValueError (msgspec.DecodeError, UnicodeDecodeError) or RecursionError where `data` is not that.
    """
    if not data.isascii():
        data.decode()  # msgspec does not check the strings it skips
    try:
        events = _decode_float(data)
    except msgspec.ValidationError:
        return _decode_unusual(data)
    return events if _fit_floats(events) else _decode_unusual(data)


def _fit_floats(events: list[Event]) -> bool:
    times = [event.ts for event in events if event.ts is not None]
    return not times or (max(times) < FLOAT_LIMIT and min(times) > -FLOAT_LIMIT)


def _decode_unusual(data: bytes) -> Events:
    try:
        return _decode_exact(data)
    except msgspec.ValidationError:
        return [_from_fields(fields or {}) for fields in _decode_fields(data)]


def _from_fields(fields: dict[str, Raw]) -> ExactEvent:
    """An event of any shape: fields of an unexpected type become null."""
    return ExactEvent(
        ph=_text(fields.get("ph")),
        cat=_text(fields.get("cat")),
        name=_text(fields.get("name")),
        pid=_number(fields.get("pid")),
        tid=_number(fields.get("tid")),
        ts=fields.get("ts", NO_TEXT),
        dur=fields.get("dur", NO_TEXT),
        args=_args(fields.get("args", NO_TEXT)),
    )


def _args(raw: Raw) -> Args:
    try:
        found = _decode_args(raw)
    except msgspec.DecodeError:  # null, or anything but an object
        return NO_ARGS
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Args):
        if field.encode_name in found:
            value = found[field.encode_name]
            convert = {Number: _number, Real: _real, Text: _text}.get(field.type)
            values[field.name] = convert(value) if convert else value
    return Args(**values)


def _text(raw: Raw | None) -> Text:
    """A string; the JSON text of anything else."""
    value = _value(raw)
    return value if raw is None or value is None or isinstance(value, str) else bytes(raw).decode()


def _number(raw: Raw | None) -> Number:
    value = _value(raw)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _real(raw: Raw | None) -> Real:
    value = _value(raw)
    return value if isinstance(value, float | int | str) and not isinstance(value, bool) else None


def _value(raw: Raw | None) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return None if raw is None else _decode_any(raw)
    except ValueError:  # a number beyond any double
        return None
