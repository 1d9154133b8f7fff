"""A large Nsight Systems export, made by SQLite itself, and how long mpg takes for it against reading its rows.

    python tests/bench/nsight.py [--kernels 2000000] [-o OUT.sqlite] [--whole]

The limit is on the way from the file to the ledger of Runtime Goodput; --whole runs `mpg analyze` too, which explains
every idle gap (here there is one before each kernel).

As many runtime rows as kernels, in two processes with eight devices each; correlation ids repeat in both processes.
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
DEVICES = 8
PERIOD_NS, KERNEL_NS, LAUNCH_NS = 2_000, 1_500, 700
PROCESSES = (4_021, 4_022)
APART_NS = 370  # by how much the second process is late
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
        "devices": DEVICES,
        "period": PERIOD_NS,
        "kernel": KERNEL_NS,
        "launch": LAUNCH_NS,
        "late": PROCESSES.index(process) * APART_NS,
    }
    kernel = (
        ":late + i * :period, :late + i * :period + :kernel, i % :devices, 1, NULL, 7, i + 1, :pid, i % :names, "
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


def to_ledger(path: Path) -> None:
    """Ingest an export and resolve its ledger, without the causes of idle time; prints seconds and peak memory."""
    import polars as pl

    from mpg_cli.goodput import activity, runtime
    from mpg_cli.goodput.names import NameRules
    from mpg_cli.goodput.windows import find_steps, find_windows
    from mpg_cli.ingest import IngestOptions, ingest
    from mpg_cli.sources import load_sources

    begin = time.perf_counter()
    with ingest([str(path)], IngestOptions()) as dataset:
        ingested, memory = time.perf_counter() - begin, peak_mb(resource.RUSAGE_SELF)
        loaded = activity.load(dataset, load_sources(dataset)[0], NameRules.load())
        windows = find_windows(loaded, find_steps(dataset, None), "steps")
        spans = loaded.subjects.select("subject", "source").join(windows.by_source, on="source")
        busy = runtime.busy_intervals(loaded.ops)
        communication = busy.filter(pl.col("activity") == "comm").with_columns(cause=pl.lit("communication"))
        runtime.resolve_windows(runtime.claims(busy, communication), spans)
    print(ingested, memory, time.perf_counter() - begin, peak_mb(resource.RUSAGE_SELF))


def peak_mb(who: int) -> float:
    """Largest resident memory so far."""
    return resource.getrusage(who).ru_maxrss / 1000


def main() -> int:
    """Measure; 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--kernels", type=int, default=2_000_000)
    parser.add_argument("--output", "-o", type=Path, default=None)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    path = options.output or ROOT / "build" / "bench" / f"nsight-{options.kernels}.sqlite"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path, options.kernels)
    rows = read_rows(path)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.bench import nsight as n; "
    code += f"n.to_ledger(n.Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ingested, memory, ledger, most = map(float, done.stdout.split())
    print(f"{path.stat().st_size / 1e6:.0f} MB, rows {rows:.2f} s")
    print(f"ingested   {ingested:7.2f} s  {ingested / rows:5.2f} x  {memory:6.0f} MB")
    print(f"to ledger  {ledger:7.2f} s  {ledger / rows:5.2f} x  {most:6.0f} MB")
    if options.whole:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "mpg_cli", "analyze", "--no-cache", "-q", "-f", "json", str(path)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        wall = time.perf_counter() - begin
        print(f"whole      {wall:7.2f} s  {wall / rows:5.2f} x  {peak_mb(resource.RUSAGE_CHILDREN):6.0f} MB")
    return int(ledger > LIMIT * rows)


if __name__ == "__main__":
    sys.exit(main())
