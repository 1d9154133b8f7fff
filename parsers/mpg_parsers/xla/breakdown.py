"""The bytes that an operation moves, by memory, as a TPU profile states them (xprof's MemoryAccessBreakdown)."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.message import DecodeError

from mpg_parsers.xla.messages import Field, classes

# xprof plugin/xprof/protobuf/op_metrics.proto: a list of operation (1 read, 2 write), memory space and bytes
FIELDS = {
    "Access": (Field("operation", 1, "int64"), Field("space", 2, "uint64"), Field("bytes", 3, "int64")),
    "Breakdown": (Field("accesses", 1, "Access", repeated=True),),
}
HBM = 1


@cache
def _message() -> Any:  # noqa: ANN401 - a class made at run time
    return classes("mpg.xla.memory", FIELDS)["Breakdown"]


def device_memory_bytes(blob: bytes) -> int | None:
    """Bytes read from and written to device memory; None if the figure cannot be read, or is empty."""
    try:
        found = _message().FromString(blob)
    except DecodeError:
        return None
    moved = sum(access.bytes for access in found.accesses if access.space == HBM)
    return moved if found.accesses and 0 <= moved < 1 << 62 else None
