"""The report as JSON: the public, versioned form."""

from __future__ import annotations

import dataclasses
import json
from math import isfinite
from typing import TYPE_CHECKING

import msgspec
import orjson

if TYPE_CHECKING:
    from mpg_cli.report.model import Report

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def render(report: Report) -> bytes:
    r"""The report as UTF-8 JSON: keys in the order of the model, two spaces of indentation, a final newline.

    Lone surrogates, for which UTF-8 has no form, are written as text such as ``\ud800``; NaN as null. Integers of any
    size are written exactly.
    """
    try:
        return orjson.dumps(report, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return _large(report)


def _large(report: Report) -> bytes:
    """orjson refuses integers of more than 64 bits, such as the chip-nanoseconds of a large fleet and a year."""
    try:
        return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    except UnicodeEncodeError:
        return _dumps(_encodable(dataclasses.asdict(report)))


def _dumps(value: object) -> bytes:
    """Plain values, whose integers may be large as well."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case float():
            return value if isfinite(value) else None
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value
