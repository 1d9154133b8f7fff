"""`make bench`: whole commands on a large trace, against `orjson.loads` of the same file in the same run.

    python tests/bench/bench.py [--megabytes 460] [--runs 3] [--source TRACE.json[.gz]]

These machines are shared and noisy: absolute times mean little, so runs are interleaved and the ratio of the fastest
ones is what counts. Peak memory is that of the largest single process and of all processes together.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
YARDSTICK = "import sys, orjson; orjson.loads(open(sys.argv[1], 'rb').read())"
LIMITS = {"ratio": 1.0, "memory_mb": 400.0}


@dataclass(frozen=True)
class Run:
    """wall and cpu in seconds, memory in MB (all processes of the command together, sampled)."""

    wall: float
    cpu: float
    memory: float


def main() -> int:
    """Build the trace, run everything, print the table; 1 if a target of the project is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--megabytes", type=int, default=460)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--source", nargs="*", default=[])
    options = parser.parse_args()
    trace = build_trace(options.megabytes, options.source)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(commands(trace, Path(folder)), options.runs, Path(folder))
    size = trace.stat().st_size / 1e6
    return report(results, size)


def build_trace(megabytes: int, source: list[str]) -> Path:
    """The tiled trace, kept under build/bench."""
    trace = ROOT / "build" / "bench" / f"trace-{megabytes}.json"
    if source or not trace.exists():
        trace.parent.mkdir(parents=True, exist_ok=True)
        tile = [sys.executable, HERE / "tile.py", *source, "-o", trace, "--megabytes", str(megabytes)]
        subprocess.run(tile, check=True)
    return trace


def commands(trace: Path, folder: Path) -> dict[str, list[str]]:
    """What is measured, in the order of a round: the cached run comes after the run that fills the cache."""
    mpg = [sys.executable, "-m", "mpg_cli", "analyze", str(trace), "-f", "json", "-q"]
    cached = [*mpg, "--cache", str(folder / "cache")]
    return {
        "orjson.loads": [sys.executable, "-c", YARDSTICK, str(trace)],
        "mpg analyze --no-cache": [*mpg, "--no-cache"],
        "mpg analyze, filling the cache": cached,
        "mpg analyze, from the cache": cached,
    }


def measure(commands: dict[str, list[str]], runs: int, folder: Path) -> dict[str, list[Run]]:
    """`runs` rounds of all commands, interleaved."""
    results: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        for name, command in commands.items():
            results[name].append(run(command))
    return results


def run(command: list[str]) -> Run:
    """One run of a command; its memory is sampled 50 times a second."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, start_new_session=True)
    peak = [0.0]
    sampler = threading.Thread(target=sample, args=(process.pid, peak), daemon=True)
    sampler.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    sampler.join()
    if process.returncode:
        raise SystemExit(f"{command[:4]} failed with status {process.returncode}")
    return Run(wall, usage.ru_utime + usage.ru_stime, max(peak[0], usage.ru_maxrss / 1024))


def sample(group: int, peak: list[float]) -> None:
    """Keep the highest sum of the resident memory of a process group's processes (Linux only)."""
    while memory := group_memory(group):
        peak[0] = max(peak[0], memory)
        time.sleep(0.02)


def group_memory(group: int) -> float:
    """Resident MB of all processes of a group, 0 when there are none."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            total += int(fields[21])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def report(results: dict[str, list[Run]], size: float) -> int:
    """Print the table and the verdict."""
    yardstick = min(run.wall for run in results["orjson.loads"])
    print(f"\n{size:.0f} MB of JSON; fastest of {len(results['orjson.loads'])} runs, memory of the largest\n")
    print(f"{'command':32} {'wall s':>8} {'cpu s':>8} {'x orjson':>9} {'memory MB':>10}")
    for name, runs in results.items():
        wall, cpu = min(run.wall for run in runs), min(run.cpu for run in runs)
        memory = max(run.memory for run in runs)
        print(f"{name:32} {wall:8.2f} {cpu:8.2f} {wall / yardstick:9.2f} {memory:10.0f}")
    ours = results["mpg analyze --no-cache"]
    ratio = min(run.wall for run in ours) / yardstick
    memory = max(run.memory for run in ours)
    held = ratio < LIMITS["ratio"] and memory < LIMITS["memory_mb"]
    print(f"\n{'holds' if held else 'MISSED'}: under 1.0 x orjson.loads and under 400 MB")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
