"""XPlane files for tests: the whole schema as one message, to write them and to read them the obvious way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from google.protobuf.message import DecodeError

from mpg_parsers.xla.messages import XSPACE, Field, classes
from mpg_parsers.xla.space import INTEGERS, one_by_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mpg_parsers.xla.space import Space

WHOLE = {
    **XSPACE,
    "XSpace": (
        Field("planes", 1, "XPlane", repeated=True),
        Field("errors", 2, "bytes", repeated=True),
        Field("warnings", 3, "bytes", repeated=True),
        Field("hostnames", 4, "bytes", repeated=True),
    ),
    "XPlane": (*XSPACE["XPlane"], Field("lines", 3, "XLine", repeated=True)),
    "XLine": tuple(f._replace(type="XEvent") if f.name == "events" else f for f in XSPACE["XLine"]),
}
__all__ = ["DecodeError", "XEvent", "XLine", "XPlane", "XSpace", "check", "events", "text"]

CLASSES = classes("tests.xplane", WHOLE)
XSpace, XPlane, XLine, XEvent, XStat = (CLASSES[n] for n in ("XSpace", "XPlane", "XLine", "XEvent", "XStat"))


def text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def value(stat: Any, names: Mapping[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    found = getattr(stat, kind) if kind else None
    if kind == "ref_value":
        return names.get(found, "")
    return text(found) if kind == "str_value" else found


def as_column(name: str, found: Any) -> Any:
    if name in INTEGERS:
        return (found + 2**63) % 2**64 - 2**63 if isinstance(found, int) else None
    return str(found) if isinstance(found, int | str) else None


def events(line: Any, names: Mapping[int, str], wanted: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows as Line.events has them."""
    rows = []
    for event in line.events:
        if event.WhichOneof("data") == "num_occurrences":
            continue
        row = dict.fromkeys(wanted)
        for stat in event.stats:
            if (name := names.get(stat.metadata_id)) in row:
                row[name] = as_column(name, value(stat, names))
        rows.append((event.metadata_id, event.offset_ps, max(event.duration_ps, 0), *row.values()))
    return rows


def stats(found: Any, names: Mapping[int, str]) -> dict[str, Any]:
    values = {names.get(stat.metadata_id, ""): value(stat, names) for stat in found}
    return {name: found for name, found in values.items() if name and found is not None}


def check(data: bytes, space: Space, wanted: Sequence[str]) -> int:
    """Compare everything in `space` with what is in `data`; the number of events."""
    whole = XSpace.FromString(data)
    assert space.hostnames == tuple(map(text, whole.hostnames))
    assert space.errors == tuple(map(text, whole.errors))
    assert space.warnings == tuple(map(text, whole.warnings))
    assert [plane.name for plane in space.planes] == [text(plane.name) for plane in whole.planes]
    count = 0
    for plane, want in zip(space.planes, whole.planes, strict=True):
        names = {entry.key: text(entry.value.name) for entry in want.stat_metadata}
        assert plane.stats == stats(want.stats, names)
        kinds = {entry.key: entry.value for entry in want.event_metadata}
        assert list(plane.metadata) == list(kinds)
        for key, kind in kinds.items():
            found = plane.metadata[key]
            assert (found.name, found.display_name) == (text(kind.name), text(kind.display_name))
            assert found.stats == stats(kind.stats, names)
        count += check_lines(plane.lines, want.lines, names, wanted)
        if plane.lines:
            assert plane.together(plane.lines, wanted).equals(one_by_one(plane.lines, wanted))
    return count


def check_lines(
    lines: Sequence[Any], want: Sequence[Any], names: Mapping[int, str], wanted: Sequence[str]
) -> int:
    for line, raw in zip(lines, want, strict=True):
        assert (line.id, line.name) == (raw.id, text(raw.name or raw.display_name))
        assert (line.timestamp_ns, line.count) == (raw.timestamp_ns, len(raw.events))
        frame = line.events(wanted)
        assert frame.columns == ["metadata", "offset_ps", "dur_ps", *wanted]
        kinds = [pl.Int64] * 3 + [pl.Int64 if name in INTEGERS else pl.String for name in wanted]
        assert frame.dtypes == kinds
        assert frame.rows() == events(raw, names, wanted)
    return sum(line.count for line in lines)
