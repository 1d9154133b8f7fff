"""Running mpg inside the test's process, and traces small enough to write by hand."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from mpg_cli.__main__ import main

CATEGORIES = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        assert self.status == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def warnings(self) -> list[str]:
        return [warning["kind"] for warning in self.report["warnings"]]


def mpg(*arguments: object, stdin: bytes = b"", encoding: str = "utf-8") -> Result:
    """The status of a command and what it wrote; neither stream is a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    streams = {"stdout": out, "stderr": err, "stdin": io.TextIOWrapper(io.BytesIO(stdin))}
    with mock.patch.multiple(sys, **streams):
        status = main([str(argument) for argument in arguments])
    return Result(status, *(text(stream) for stream in (out, err)))


def text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)  # type: ignore[attr-defined,no-any-return]


def analyze(*arguments: object, **options: Any) -> Result:
    """`mpg analyze … -f json` without a cache."""
    return mpg("analyze", "-f", "json", "--no-cache", "-q", *arguments, **options)


def event(cat: str, name: str, start: int, dur: int, *, tid: int = 7, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": start, "dur": dur, "args": args}


def kernel(start: int, dur: int, name: str = "sgemm_128x64", **args: Any) -> dict[str, Any]:
    """A kernel; times in microseconds."""
    return event("kernel", name, start, dur, **args)


def profiler_step(number: int, start: int, dur: int) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", start, dur, tid=1)


def trace(*events: dict[str, Any], rank: int | None = None, world: int | None = None) -> str:
    document: dict[str, Any] = {"traceEvents": list(events or [kernel(0, 10), profiler_step(1, 0, 20)])}
    if rank is not None:
        document["distributedInfo"] = {"rank": rank, "world_size": world or rank + 1}
    return json.dumps(document)
