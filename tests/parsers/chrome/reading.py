"""Reads trace text with the real decoder, and events in a form that does not depend on their layout."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import msgspec

from mpg_parsers.chrome.blocks import BLOCK_SIZE
from mpg_parsers.chrome.reader import TraceReader
from mpg_parsers.errors import InputError
from mpg_parsers.kineto.events import Args, decode

Canonical = tuple[Any, ...]


def read(data: bytes, size: int = BLOCK_SIZE) -> tuple[list[Canonical], TraceReader]:
    """All events, and the reader afterwards. Raises InputError."""
    reader = TraceReader(io.BytesIO(data), "t.json", decode, size)
    found: list[Canonical] = []
    for events in reader:
        assert len(set(map(type, events))) <= 1
        found += map(canonical, events)
    return found, reader


def outcome(data: bytes, size: int = BLOCK_SIZE) -> tuple[list[Canonical], set[str]]:
    """All events, and the kinds of the notices; no events and the kind of the error where there is one."""
    try:
        found, reader = read(data, size)
    except InputError as error:
        return [], {error.kind}
    return found, {notice.kind for notice in reader.notices}


def canonical(event: Any) -> Canonical:
    times = [_time(event.ts), _time(event.dur)]
    args = [_plain(getattr(event.args, name)) for name in Args.__struct_fields__]
    return (event.ph, event.cat, event.name, event.pid, event.tid, *times, *args)


def _plain(value: Any) -> Any:
    return json.dumps(json.loads(bytes(value) or b"null")) if isinstance(value, msgspec.Raw) else value


def _time(value: Any) -> Any:
    text = bytes(value).decode() if isinstance(value, msgspec.Raw) else value
    try:
        return None if text in ("", None, "null") else Decimal(str(text).strip('"'))
    except ArithmeticError:
        return text


def is_json(data: bytes) -> bool:
    """Whether it is JSON by the letter: UTF-8, and no NaN."""
    try:
        json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> None:
    raise ValueError(name)
