"""Tiny archives as nsys-jax writes them."""

from __future__ import annotations

import io
import lzma
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

# id, parent, name, start, duration, GPU operations
Row = tuple[int | None, int | None, str | None, int, int, int | None]

STEP = "TSL:XlaModule:#hlo_module=jit_step,program_id=7#"
ROWS: tuple[Row, ...] = (
    (8, None, "TSL:XlaCompile:#module=jit_step,program_id=7#", 10, 5, 1),
    (1, None, STEP, 100, 60, 5),
    (2, 1, "TSL:Thunk:#hlo_op=fusion.1#", 100, 10, 1),
    (3, 1, "TSL:Thunk:#name=jit(f)/gather[axes=(0,)],hlo_op=all-gather-start#", 105, 20, 1),
    (4, 3, "NCCL:ncclGroupEnd", 105, 20, 1),
    (5, 1, "TSL:Thunk:#hlo_op=while.1#", 130, 30, 3),
    (6, 5, "TSL:Thunk:#hlo_op=copy.3#", 130, 5, 1),
    (7, 5, "TSL:Thunk:#name=jit(f)/dot,hlo_op=custom-call.2#", 140, 20, 2),
    (11, None, STEP, 200, 50, 5),
    (12, 11, "TSL:Thunk:#hlo_op=fusion.1#", 200, 10, 1),
    (None, None, None, 5, 900, 4),
)


def parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def trace(rows: Sequence[Row] = ROWS, thread: int = 42) -> pl.DataFrame:
    """As of Nsight Systems 2024.4: ids with nulls are floating-point numbers."""
    ids, parents, names, starts, durations, counts = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "Name": pl.Series(names, dtype=pl.String),
            "Projected Start": pl.Series(starts, dtype=pl.Int64),
            "Projected Duration": pl.Series(durations, dtype=pl.Int64),
            "Orig Start": pl.Series([None if at is None else at - 50 for at in starts], dtype=pl.Float64),
            "Orig Duration": pl.Series([3.0] * len(rows)),
            "Style": ["PushPop"] * len(rows),
            "PID": [9] * len(rows),
            "TID": [thread] * len(rows),
            "NumGPUOps": pl.Series(counts, dtype=pl.Int64),
            "RangeId": pl.Series(ids, dtype=pl.Float64),
            "ParentId": pl.Series(parents, dtype=pl.Float64),
            "Rank": [0] * len(rows),
        }
    )


def later_trace(rows: Sequence[Row] = ROWS) -> pl.DataFrame:
    """As of Nsight Systems 2024.5: other headings, no prefix, ends, no count of operations."""
    found = trace([row for row in rows if row[0] is not None])
    return found.select(
        Text=pl.col("Name").str.strip_prefix("TSL:"),
        Start="Projected Start",
        End=pl.col("Projected Start") + pl.col("Projected Duration"),
        **{"Range ID": pl.col("RangeId").cast(pl.Int64), "Parent ID": "ParentId", "PID": "PID", "TID": "TID"},
    )


def devices(*places: tuple[int, int, int]) -> pl.DataFrame:
    """Devices as (device, global number, process)."""
    gpu, named = "TARGET_INFO_GPU", "TARGET_INFO_NVTX_CUDA_DEVICE"
    facts = {
        "uuid": "gpu-uuid",
        "name": "NVIDIA A100",
        "totalMemory": 40,
        "memoryBandwidth": 1555,
        "clockRate": 1410,
    }
    facts |= {"smCount": 108, "computeMajor": 8, "computeMinor": 0}
    rows = [
        {f"('{gpu}', '{key}')": value for key, value in facts.items()}
        | {
            f"('{named}', 'name')": f"Xla:#global={number},local={device},process={process},slice=0#",
            f"('{named}', 'deviceId')": device,
            "cuDevice": device,
        }
        for device, number, process in places
    ]
    return pl.DataFrame(rows)


def threads(*names: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Name": [name for _, name in names],
            "PID": [9 for _ in names],
            "TID": [thread for thread, _ in names],
        },
        schema={"Name": pl.String, "PID": pl.Int64, "TID": pl.Int64},
    )


SYSTEM = pl.DataFrame(
    {
        "name": ["Hostname", "TargetInstallDir", "DeviceEnvironment"],
        "value": [
            "node17",
            "/opt/nvidia/nsight-systems-cli/2024.4.1/target-linux-x64",
            "SECRET=1;HOME=/home/ann",
        ],
    }
)
PUSHPOP = """Start (ns),End (ns),Duration (ns),Name,PID,TID,Lvl,RangeId
0,40,40,"TSL:XlaCompile:#module=jit_step,program_id=7#",9,42,0,8
50,53,3,"TSL:Thunk:#hlo_op=fusion.1#",9,42,1,2
60,90,30,"/home/ann/load.py",9,43,0,99
"""


def files(process: int = 0) -> dict[str, bytes]:
    """One archive of one process."""
    return {
        "dump/module_0007.jit_step.before_optimizations.hlo.pb.xz": lzma.compress(b"no HLO"),
        "protos/xla/xla.proto": b"syntax",
        "sources/home/ann/train.py": b"import jax",
        "install.sh": b"#!/bin/bash",
        "nvtx_gpu_proj_trace/trace.parquet": parquet(trace()),
        "nvtx_gpu_proj_trace/files.parquet": b"",
        "report_nvtx_pushpop_trace.csv.xz": lzma.compress(PUSHPOP.encode()),
        "device-metadata.parquet": parquet(devices((1, process, process))),
        "thread-metadata.parquet": parquet(threads((42, "python"))),
        "system-metadata.parquet": parquet(SYSTEM),
    }


def combined() -> dict[str, bytes]:
    """What nsys-jax-combine makes of two: files that differ become folders."""
    first, second = files(0), files(1)
    merged = {name: data for name, data in first.items() if second[name] == data}
    for process, own in (("p0", first), ("p1", second)):
        merged |= {f"{name}/{process}": data for name, data in own.items() if name not in merged}
    # the traces of two processes are never equal
    same = merged.pop("nvtx_gpu_proj_trace/trace.parquet")
    return merged | {f"nvtx_gpu_proj_trace/trace.parquet/{process}": same for process in ("p0", "p1")}
