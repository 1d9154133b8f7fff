"""A large Nsight Systems export, made by SQLite itself, and how long mpg takes for it against reading its rows.

    python tests/bench/nsight.py [--kernels 2000000] [-o OUT.sqlite]

As many runtime rows as kernels, in eight processes with one device each, as torchrun starts them; correlation ids
repeat in all of them. Launches are a few kernels ahead, and there is a gap before every kernel.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 4.0  # times what `SELECT *` of the same rows takes
PERIOD_NS, KERNEL_NS, LAUNCH_NS = 2_000, 1_500, 700
PROCESSES = tuple(range(4_021, 4_029))
APART_NS = 370  # by how much each process is later than the one before
NAMES = (
    "ampere_sgemm_128x64_nn",
    "void at::native::vectorized_elementwise_kernel<4>(int)",
    "ncclDevKernel_AllReduce",
)
COLUMNS = (
    "start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "mangledName", "launchType", "cacheConfig", "registersPerThread", "gridX", "gridY",
    "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread",
    "localMemoryTotal", "gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig",
)  # fmt: skip
CALL_COLUMNS = (
    "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId",
)  # fmt: skip
SERIES = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count)"


def global_pid(process: int) -> int:
    """The profiler's number of a process; that of a thread adds its id."""
    return (1 << 56) | process << 24


def make(path: Path, kernels: int) -> None:
    """Write an export with `kernels` kernels and as many launches to `path`, which must not exist."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    connection.executemany(
        "INSERT INTO StringIds VALUES (?, ?)", enumerate((*NAMES, "cudaLaunchKernel_v7000"))
    )
    for table, columns in (("KERNEL", COLUMNS), ("RUNTIME", CALL_COLUMNS)):
        declared = ", ".join(f"{name} INTEGER" for name in columns)
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{table} ({declared})")
    for process in PROCESSES:
        _fill(connection, process, kernels // len(PROCESSES))
    connection.commit()
    connection.close()


def _fill(connection: sqlite3.Connection, process: int, count: int) -> None:
    values = {
        "count": count,
        "pid": global_pid(process),
        "tid": global_pid(process) + process,
        "names": len(NAMES),
        "period": PERIOD_NS,
        "kernel": KERNEL_NS,
        "launch": LAUNCH_NS,
        "late": PROCESSES.index(process) * APART_NS,
    }
    kernel = (
        ":late + i * :period, :late + i * :period + :kernel, 0, 1, NULL, 7, i + 1, :pid, i % :names, "
        "i % :names, i % :names, 1, 0, 32, 108, 1 + i % 7, 1, 256, 1, 1, 0, 0, 0, 0, i, 0, NULL, 0"
    )
    call = ":late + i * :period - 5000, :late + i * :period - 5000 + :launch, 0, :tid, i + 1, :names, 0, NULL"
    for table, row in (("KERNEL", kernel), ("RUNTIME", call)):
        connection.execute(f"{SERIES} INSERT INTO CUPTI_ACTIVITY_KIND_{table} SELECT {row} FROM n", values)


def read_rows(path: Path) -> float:
    """Seconds to fetch every row of both tables."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    begin = time.perf_counter()
    for table in ("KERNEL", "RUNTIME"):
        cursor = connection.execute(f"SELECT * FROM CUPTI_ACTIVITY_KIND_{table}")
        while cursor.fetchmany(100_000):
            pass
    return time.perf_counter() - begin


def peak_mb(who: int) -> float:
    """Largest resident memory so far."""
    return resource.getrusage(who).ru_maxrss / 1000


def main() -> int:
    """Measure; 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--kernels", type=int, default=2_000_000)
    parser.add_argument("--output", "-o", type=Path, default=None)
    options = parser.parse_args()
    path = options.output or ROOT / "build" / "bench" / f"nsight-{options.kernels}.sqlite"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path, options.kernels)
    rows = read_rows(path)
    begin = time.perf_counter()
    command = [sys.executable, "-m", "mpg_cli", "analyze", "--no-cache", "-q", "-f", "json", str(path)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - begin
    print(f"{path.stat().st_size / 1e6:.0f} MB, rows {rows:.2f} s")
    print(f"mpg analyze {wall:7.2f} s  {wall / rows:5.2f} x  {peak_mb(resource.RUSAGE_CHILDREN):6.0f} MB")
    return int(wall > LIMIT * rows)


if __name__ == "__main__":
    sys.exit(main())
