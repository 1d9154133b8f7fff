"""Which planes are devices and which are hosts, and what the lines of a device hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.kineto.private import strip_directories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpg_parsers.xla.space import Line, Plane, Space

# /device:TPU:0, /device:TPU:0 SparseCore 1, /device:GPU:3; TensorFlow may put a job before them
DEVICE = re.compile(r"(?:.*/)?device:(?P<kind>TPU|GPU):(?P<number>\d{1,9})(?P<part> SparseCore \d+)?\b")
HOST = re.compile(r"(?:.*/)?host:(?!metadata|python-tracer-meta)")
METADATA = "/host:metadata"
STREAM = re.compile(r"Stream #(\d{1,18})\b")
# lines of a TPU on which operations run; what is on the asynchronous ones overlaps the others
OPS = ("XLA Ops", "Sparse Core Ops", "SC Ops")
ASYNC_OPS = ("Async XLA Ops", "Async Ops")
MODULES = ("XLA Modules", "Sparse Core Modules")
STEPS = "Steps"
TRACE_ME = "XLA TraceMe"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator: its number, its kind (TPU or GPU), and the planes of its parts."""

    number: int
    kind: str
    planes: tuple[Plane, ...]

    def lines(self, *names: str) -> list[tuple[Plane, Line]]:
        """Its lines of these names that have events, with their planes."""
        return [
            (plane, line)
            for plane in self.planes
            for line in plane.lines
            if line.count and line.name in names
        ]

    def streams(self) -> list[tuple[Plane, Line, int]]:
        """The streams of a GPU, with their numbers."""
        return [
            (plane, line, int(match[1]))
            for plane in self.planes
            for line in plane.lines
            if line.count and (match := STREAM.match(line.name))
        ]


def devices(space: Space) -> list[Device]:
    """The accelerators of a profile, by number."""
    found: dict[tuple[str, int], list[Plane]] = {}
    for plane in space.planes:
        if match := DEVICE.fullmatch(plane.name) or DEVICE.match(plane.name):
            found.setdefault((match["kind"], int(match["number"])), []).append(plane)
    return [Device(number, kind, tuple(planes)) for (kind, number), planes in sorted(found.items())]


def hosts(space: Space) -> list[Plane]:
    """The planes of host threads."""
    return [plane for plane in space.planes if HOST.match(plane.name) and plane.name != METADATA]


def named(planes: Iterable[Plane], most: int = 8) -> str:
    """The names of the planes, for a message."""
    names = [strip_directories(plane.name[:200])[:60] for plane in planes]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")
