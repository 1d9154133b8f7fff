"""Small traces for tests: events, the layouts a trace can be written in, and its tables."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.pytorch import PYTORCH
from mpg_parsers.registry import ParseOptions
from mpg_parsers.source import expand
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Event = dict[str, Any]


class Bare(str):
    """JSON text to be written as it stands, such as a number with more digits than a double holds."""

    __slots__ = ()


def dumps(value: object, **style: Any) -> str:
    """json.dumps that knows Bare."""

    def mark(item: object) -> object:
        if isinstance(item, Bare):
            return f"@@{item}@@"
        if isinstance(item, dict):
            return {key: mark(inner) for key, inner in item.items()}
        return [mark(inner) for inner in item] if isinstance(item, list) else item

    text = json.dumps(mark(value), **{"ensure_ascii": False} | style)
    return re.sub('"@@(.*?)@@"', lambda match: str(json.loads(f'"{match[1]}"')), text)


def event(
    cat: str | None, name: str, ts: object, dur: object, pid: object = 10, tid: object = 11, **args: Any
) -> Event:
    fields = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return {key: value for key, value in fields.items() if value is not None}


def kernel(ts: object, dur: object, name: str = "k", device: int = 0, stream: int = 7, **args: Any) -> Event:
    return event("kernel", name, ts, dur, device, stream, device=device, stream=stream, **args)


def document(events: Iterable[Event | None], **metadata: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, **metadata, "traceEvents": list(events)}


# -- layouts: a document's bytes ---------------------------------------------------------------------------------

PROPERTIES = [{"id": number, "name": "H100", "computeMajor": 9, "computeMinor": 0} for number in range(20)]


def kineto(trace: dict[str, Any]) -> str:
    """Two to three keys a line, as Kineto breaks them."""
    head = dumps({key: value for key, value in trace.items() if key != "traceEvents"}, indent=2)
    bodies = []
    for item in trace["traceEvents"]:
        args = ",\n    ".join(f"{json.dumps(key)}: {dumps(value)}" for key, value in (item or {}).items())
        bodies.append("null" if item is None else f"  {{\n    {args}\n  }}")
    return (
        f'\n{head[:-2]},\n  "traceEvents": [\n' + ",\n".join(bodies) + '\n  ],\n  "traceName": "t.json"\n}\n'
    )


def lines(trace: dict[str, Any]) -> str:
    """One event a line."""
    head = dumps({key: value for key, value in trace.items() if key != "traceEvents"})
    return head[:-1] + ',\n"traceEvents": [\n' + ",\n".join(map(dumps, trace["traceEvents"])) + "\n]}\n"


def backwards(value: Any) -> Any:
    """All keys in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


def metadata_last(trace: dict[str, Any]) -> str:
    """Arrays of objects that look like event boundaries, after the events."""
    rest = {key: value for key, value in trace.items() if key != "traceEvents"}
    return dumps({"traceEvents": trace["traceEvents"], **rest, "deviceProperties": PROPERTIES})


def metadata_first(trace: dict[str, Any]) -> str:
    return dumps({"deviceProperties": PROPERTIES, **trace}, indent=1)


TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "kineto": kineto,
    "compact": lambda trace: dumps(trace, separators=(",", ":")),
    "default": dumps,
    "escaped": lambda trace: dumps(trace, ensure_ascii=True),
    "indent": lambda trace: dumps(trace, indent=2),
    "tabs, CRLF": lambda trace: dumps(trace, indent="\t").replace("\n", "\r\n"),
    "event a line": lines,
    "spread out": lambda trace: dumps(trace, indent=1, separators=(" \n,", " \n:")),
    "backwards": lambda trace: dumps(backwards(trace)),
    "metadata last": metadata_last,
    "metadata first": metadata_first,
}
LAYOUTS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    **{name: lambda trace, text=text: text(trace).encode() for name, text in TEXTS.items()},  # type: ignore[misc]
    "UTF-8 with mark": lambda trace: kineto(trace).encode("utf-8-sig"),
    "UTF-16 with mark": lambda trace: kineto(trace).encode("utf-16"),
    "UTF-16 LE": lambda trace: lines(trace).encode("utf-16-le"),
    "UTF-16 BE": lambda trace: lines(trace).encode("utf-16-be"),
    "UTF-32 with mark": lambda trace: lines(trace).encode("utf-32"),
}


# -- tables --------------------------------------------------------------------------------------------------------


def parse(path: Path, *, keep_names: bool = False) -> dict[str, pl.DataFrame]:
    """All tables of one file."""
    parts = {name: [table.conform(pl.DataFrame())] for name, table in TABLES.items()}
    with expand([str(path)]) as expansion:
        for table, frame in PYTORCH.parse(expansion.sources[0], ParseOptions(keep_names=keep_names)):
            parts[table].append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}


def tables(folder: Path, content: bytes | dict[str, Any], **options: Any) -> dict[str, pl.DataFrame]:
    """All tables of a trace."""
    path = folder / "trace.json"
    path.write_bytes(content if isinstance(content, bytes) else dumps(content).encode())
    return parse(path, **options)


def notices(found: dict[str, pl.DataFrame]) -> list[tuple[str, int]]:
    """(kind, count) of what was noticed."""
    return [(item["kind"], item["count"]) for item in json.loads(found["sources"]["notices"][0])]
