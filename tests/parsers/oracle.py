"""The slow, obvious reader: the whole file at once, exact decimals, plain lists. For undamaged traces only."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

DEVICE = {
    **dict.fromkeys(["kernel", "Kernel", "mtia_ccp_events"], "kernel"),
    **dict.fromkeys(["gpu_memcpy", "Memcpy"], "memcpy"),
    **dict.fromkeys(["gpu_memset", "Memset"], "memset"),
}
HOST = {
    **dict.fromkeys(["cpu_op", "Operator"], "op"),
    "user_annotation": "annotation",
    **dict.fromkeys(["cuda_runtime", "cuda_driver", "Runtime"], "runtime"),
    "python_function": "python",
    "overhead": "overhead",
    "cuda_sync": "sync",
    "gpu_user_annotation": "device_annotation",
}
Row = tuple[Any, ...]


@dataclass
class Oracle:
    """device: (device, kind, name, start, dur, stream, correlation); host: (kind, name, start, dur, thread)."""

    events: int = 0
    device: Counter[Row] = field(default_factory=Counter)
    host: Counter[Row] = field(default_factory=Counter)
    steps: list[Row] = field(default_factory=list)


def nanoseconds(value: object) -> int | None:
    if value is None:
        return None
    return int((Decimal(str(value)) * 1000).to_integral_value(ROUND_HALF_EVEN))


def whole_number(value: object) -> int | None:
    match = re.search(r"-?\d+", str(value))
    return int(match[0]) if match else None


def read(data: bytes) -> Oracle:
    """What the tables of a trace must hold."""
    loaded = json.loads(data, parse_float=Decimal, strict=False)
    found = Oracle()
    steps = set()
    for event in loaded if isinstance(loaded, list) else loaded["traceEvents"]:
        found.events += 1
        kind = DEVICE.get(event.get("cat")) or HOST.get(event.get("cat"))
        if event.get("ph") != "X" or not kind:
            continue
        args, name = event.get("args", {}), event["name"]
        start, dur = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        assert start is not None
        assert dur is not None
        if event["cat"] in DEVICE:
            device = whole_number(args.get("device", event["pid"]))
            stream = whole_number(args.get("stream", event["tid"]))
            correlation = whole_number(args.get("correlation")) or None
            found.device[device, kind, name, start, dur, stream, correlation] += 1
            continue
        found.host[kind, name, start, dur if dur >= 0 else None, whole_number(event["tid"])] += 1
        step = re.fullmatch(r"ProfilerStep\s*#\s*(\d+)", name)
        if step and kind in ("op", "annotation"):
            steps.add((int(step[1]), name, start, start + dur))
    found.steps = sorted(steps, key=lambda step: step[2:])
    return found


def of_tables(tables: dict[str, pl.DataFrame]) -> Oracle:
    """The same, of parsed tables."""
    device = ("device", "kind", "name", "start_ns", "dur_ns", "stream", "correlation")
    host = ("kind", "name", "start_ns", "dur_ns", "thread")
    return Oracle(
        tables["sources"]["events"][0],
        Counter(tables["device_ops"].select(device).iter_rows()),
        Counter(tables["host_events"].select(host).iter_rows()),
        list(tables["steps"].select("step", "name", "start_ns", "end_ns").iter_rows()),
    )
