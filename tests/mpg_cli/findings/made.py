"""Facts small enough to check on paper: a device per source, whose window is what its segments cover."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.findings.facts import Facts
from mpg_cli.report.model import Collective, Communicator, Goodput, Hotspot, Op, Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]
SEGMENTS = {
    "subject": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "cause": pl.String,
    "evidence": pl.Int64,
}
EVIDENCE = {
    "evidence": pl.Int64, "name": pl.String, "before": pl.Boolean, "thread": pl.Int64, "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
}  # fmt: skip
SYNCS = {
    "subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String, "thread": pl.Int64,
    "op": pl.String, "frame": pl.String,
}  # fmt: skip
COMMUNICATION = {
    "subject": pl.Int64, "name": pl.String, "group": pl.String, "kernel": pl.String, "index": pl.UInt32,
    "start_ns": pl.Int64, "end_ns": pl.Int64, "cut_ns": pl.Int64, "met_ns": pl.Int64,
}  # fmt: skip
STEPS = {
    "source": pl.Int32, "process": pl.Int64, "step": pl.Int64, "name": pl.String, "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}  # fmt: skip
OPS = {
    "subject": pl.Int64, "source": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "kind": pl.String,
    "name": pl.Categorical, "activity": pl.String, "bytes": pl.Int64, "blocks_per_sm": pl.Float64,
}  # fmt: skip
BY_SUBJECT = {
    "subject": pl.Int64, "source": pl.Int32, "process": pl.Int64, "rank": pl.Int64, "cause": pl.String,
    "chip_ns": pl.Int64,
}  # fmt: skip


def frame(rows: Sequence[Row], schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def strip(subject: int, *pieces: tuple[str, int], at: int = 0) -> list[Row]:
    """Segments one after another: cause, length, and as third the number of the evidence."""
    rows = []
    for cause, length, *evidence in pieces:
        end = at + length
        number = evidence[0] if evidence else None
        rows.append({"subject": subject, "start_ns": at, "end_ns": end, "cause": cause, "evidence": number})
        at = end
    return rows


def kernel(subject: int, start: int, dur: int, name: str = "gemm", **more: Any) -> Row:
    about = {"source": subject, "kind": "kernel", "activity": "compute", "name": name} | more
    return {"subject": subject, "start_ns": start, "end_ns": start + dur, **about}


def copy(subject: int, start: int, dur: int, name: str, **more: Any) -> Row:
    return kernel(subject, start, dur, name, kind="memcpy", activity="memory", **more)


def sync(subject: int, start: int, dur: int, name: str = "cudaStreamSynchronize", **more: Any) -> Row:
    return {"subject": subject, "start_ns": start, "end_ns": start + dur, "name": name, "thread": 7, **more}


def step(source: int, number: int, start: int, end: int) -> Row:
    name = f"ProfilerStep#{number}"
    return {"source": source, "step": number, "name": name, "start_ns": start, "end_ns": end}


def moving(
    subject: int, start: int, end: int, index: int | None = None, transfer: int | None = None, **more: Any
) -> Row:
    about = {"name": "allreduce", "group": "0", "kernel": "ncclDevKernel_AllReduce"} | more
    cut = start if transfer is None else end - transfer
    at = {"start_ns": start, "end_ns": end, "index": index, "cut_ns": cut}
    met = None if index is None else cut
    return {"subject": subject, "met_ns": met, **at, **about}


def collective(
    index: int,
    last: int,
    reason: str = "host",
    late: int = 0,
    wait: int = 40,
    margin: int | None = None,
    **more: Any,
) -> Collective:
    """Of three ranks: two of them wait for the last for `wait` ns; `margin`: the shortest wait, if another one."""
    waits = {str(rank): wait for rank in range(3)} | {str(last): 0}
    shortest = wait if margin is None else margin
    return Collective(
        index, "allreduce", "0", None, "order", 10, waits, last, shortest, reason=reason, late_ns=late, **more
    )


def communicator(**more: Any) -> Communicator:
    about = {"name": "allreduce", "group": "0", "size": 2, "ranks": (0, 1), "count": 2, "time_ns": 100}
    about |= {"hidden_ns": 60, "exposed_ns": 40, "transfer_ns": None, "wait_ns": None, "last": {}}
    return Communicator(**about | {"bytes": None, "bus_gbps": None, "scope": "unknown"} | more)


def hotspot(cause: str, name: str, ns: int, **more: Any) -> Hotspot:
    about = {"frame": None, "share": 0.0, "count": 1, "source": "rank0.json", "rank": 0}
    about |= {"thread": 7, "start_ns": 5, "dur_ns": ns}
    return Hotspot(cause, name, chip_ns=ns, **about | more)


def operator(name: str, **more: Any) -> Op:
    about = {"dims": "", "dtypes": "", "count": 1, "kernels": 1, "time_ns": 100, "share": 0.1, "flops": 0}
    about |= {"bytes": None, "tflops": 0.0, "gbps": None, "intensity": None, "bound": "compute"}
    about |= {"efficiency": None, "recoverable_ns": 0, "recompute_ns": 0, "flops_source": "shapes"}
    return Op(name, **about | more)


def goodput(rg: float | None = None, pg: float | None = None, rg_max: float | None = None) -> Goodput:
    ratios = (None if value is None else Ratio(value, 0, 0, "", 1.0) for value in (rg, pg))
    return Goodput(None, *ratios, None, rg_max=rg_max)


def facts(segments: Sequence[Row], **more: Any) -> Facts:
    """`causes` are added to, or replace, what the segments sum to."""
    sums: Counter[tuple[int, str]] = Counter()
    for row in segments:
        sums[row["subject"], row["cause"]] += row["end_ns"] - row["start_ns"]
    by_subject = [
        {"subject": subject, "source": subject, "rank": subject, "cause": cause, "chip_ns": ns}
        for (subject, cause), ns in sums.items()
    ]
    causes: Counter[str] = Counter()
    for row in by_subject:
        causes[row["cause"]] += row["chip_ns"]
    subjects = sorted({row["subject"] for row in segments})
    tables = {
        "evidence": EVIDENCE,
        "syncs": SYNCS,
        "communication": COMMUNICATION,
        "steps": STEPS,
        "ops": OPS,
    }
    frames = {name: frame(more.pop(name, ()), schema) for name, schema in tables.items()}
    return Facts(
        capacity_ns=sum(causes.values()),
        causes={**causes, **more.pop("causes", {})},
        by_subject=frame(by_subject, BY_SUBJECT),
        segments=frame(segments, SEGMENTS),
        idle=frame(segments, SEGMENTS),
        paths={subject: f"rank{subject}.json" for subject in subjects},
        ranks={subject: subject for subject in subjects},
        goodput=more.pop("goodput", goodput(0.9, 0.9)),
        **frames,
        **more,
    )
