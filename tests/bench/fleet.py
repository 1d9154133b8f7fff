"""A fleet's report on a generated export of sacct: one million attempts to SG, waits and segments.

    python tests/bench/fleet.py [--attempts 1000000] [--keep FILE]

Prints wall and CPU seconds and the peak memory of `mpg analyze`, for a quarter of the attempts and for all of them, so
that growth can be seen, and as the yardstick the time that Polars takes to read the same file as text.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S, LIMIT_MB, GROWTH = 20.0, 2000.0, 1.3
COLUMNS = (
    "Cluster|JobIDRaw|JobID|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|Suspended|"
    "AllocTRES|ReqTRES|NNodes|NodeList|Reason|TimelimitRaw|Priority|JobName"
)
NODES, GROUP = 2_000, 4
BEGIN = 1_790_000_000


def write(path: Path, attempts: int) -> None:
    """An export in which no node ever holds more than its eight chips: groups of four nodes run jobs in turn."""
    rng = random.Random(1)
    clocks = [BEGIN] * (NODES // GROUP)
    with path.open("w", encoding="ascii") as file:
        file.write(COLUMNS + "\n")
        for number in range(1, attempts + 1):
            group = number % len(clocks)
            file.write(_row(rng, number, group, clocks))


def _row(rng: random.Random, number: int, group: int, clocks: list[int]) -> str:
    wide = rng.random() < 0.2
    first = group * GROUP
    nodes, count = (f"n[{first:04d}-{first + GROUP - 1:04d}]", GROUP) if wide else (f"n{first:04d}", 1)
    chips = 8 * count if wide else rng.choice((1, 2, 4, 8))
    start = clocks[group] + rng.randrange(30)
    end = start + 1 + int(rng.expovariate(1 / 1800))
    clocks[group] = end
    submit = start - int(rng.expovariate(1 / 300)) if rng.random() < 0.6 else start
    state = rng.choices(
        ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED by 1001"), (80, 10, 5, 1, 4)
    )[0]
    user = f"user{rng.randrange(200):03d}"
    tres = f"billing={chips},cpu={chips},gres/gpu:h100={chips},gres/gpu={chips},node={count}"
    return (
        f"c1|{number}|{number}|{user}|team{number % 20:02d}|main|normal|{state}|0:0|{submit}|{submit}|{start}|{end}|"
        f"{end - start}|00:00:00|{tres}|{tres}|{count}|{nodes}|None|60|{rng.randrange(1000)}|train-{chips}\n"
    )


def conf(path: Path) -> None:
    """The nodes, as slurm.conf has them."""
    path.write_text(
        f"ClusterName=c1\nNodeName=n[0000-{NODES - 1:04d}] CPUs=64 Gres=gpu:h100:8 State=UNKNOWN\n"
        f"PartitionName=main Nodes=n[0000-{NODES - 1:04d}] Default=YES State=UP\n"
    )


def measure(export: Path, config: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MB of one run."""
    command = [
        sys.executable,
        "-m",
        "mpg_cli",
        "analyze",
        str(export),
        str(config),
        "--no-cache",
        "-q",
        "-f",
        "json",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        pid = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(pid.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"mpg failed: status {status}")
    cpu = usage.ru_utime + usage.ru_stime
    del before
    return wall, cpu, usage.ru_maxrss / 1024


def yardstick(export: Path) -> float:
    """Seconds that Polars takes to read the file as columns of text."""
    import polars as pl

    begin = time.perf_counter()
    pl.read_csv(export, separator="|", infer_schema=False, quote_char=None)
    return time.perf_counter() - begin


def main() -> int:
    """Status 1 if the limits are not kept."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--attempts", type=int, default=1_000_000)
    ask.add_argument("--keep", type=Path, help="write the export here, and leave it")
    given = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpg-bench-") as folder:
        return _compare(given.attempts, given.keep, Path(folder))


def _compare(attempts: int, keep: Path | None, folder: Path) -> int:
    config = folder / "slurm.conf"
    conf(config)
    part, whole = folder / "part.psv", keep or folder / "sacct.psv"
    write(part, attempts // 4)
    write(whole, attempts)
    small, large = measure(part, config), measure(whole, config)
    for count, (wall, cpu, peak) in ((attempts // 4, small), (attempts, large)):
        print(f"{count:>9,} attempts: {wall:6.1f} s wall, {cpu:6.1f} s CPU, {peak:7.0f} MB")
    growth = large[1] / (4 * small[1])
    read = yardstick(whole)
    print(f"yardstick: Polars reads the text in {read:.1f} s; mpg takes {large[0] / read:.0f} times that")
    print(f"growth: {growth:.2f} times what is linear; limits: {LIMIT_S:g} s, {LIMIT_MB:g} MB, {GROWTH:g}")
    kept = large[0] < LIMIT_S and large[2] < LIMIT_MB and growth < GROWTH
    print("kept" if kept else "NOT KEPT")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
