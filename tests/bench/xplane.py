"""A large XPlane file, and what reading it costs: decoding alone, `mpg analyze`, up to the ledger and in all, and
xprof's overview page.

    python tests/bench/xplane.py [--events 2650000] [--keep FILE] [--runs 3] [--xprof PYTHON]

The file is a training run on four TPU cores: steps, modules, operations with times on the device's clock, asynchronous
copies; on the host the frames of a Python tracer, executions and one compilation. xprof is measured where PYTHON can
import it. Every measurement is a process of its own, and rounds are interleaved: on a shared machine only ratios mean
something. Peak memory is that of the process, imports included.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 2_650_000
CORES = 4
OPS, ASYNC, FRAMES, DEPTH = 50, 4, 2_000, 8  # of one step: per core, per core, of the host, of its stack
STEP_NS = 10_000_000
FIRST_NS = 1_000_000  # of the first step, after the profiler has started
START_NS = 1_760_000_000_000_000_000
PER_STEP = CORES * (2 + OPS + ASYNC) + FRAMES + 3

# ------------------------------------------------------------------------------------- protobuf's wire format


def varint(value: int) -> bytes:
    """A number, seven bits a byte; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that holds an integer."""
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    """A field that holds text, bytes or a message."""
    content = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(content)) + content


def double(field: int, value: float) -> bytes:
    """A field that holds a floating-point number."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


# --------------------------------------------------------------------------------------------------- XPlane


class Plane:
    """A plane that is being written: names get their numbers when they are first used."""

    def __init__(self, name: str) -> None:
        self.parts = [text(2, name)]
        self.stat_names: dict[str, int] = {}
        self.events: dict[str, tuple[int, bytes]] = {}

    def stat(self, name: str, value: float | str) -> bytes:
        """An XStat: integers as uint64, text in place."""
        head = number(1, self.stat_names.setdefault(name, len(self.stat_names) + 1))
        if isinstance(value, str):
            return head + text(5, value)
        return head + (double(2, value) if isinstance(value, float) else number(3, value))

    def kind(self, name: str, display: str = "", **stats: float | str) -> bytes:
        """The start of an event of this name: its number; what its events have in common is written once."""
        if name not in self.events:
            key = len(self.events) + 1
            common = b"".join(text(5, self.stat(*item)) for item in stats.items())
            self.events[name] = key, number(1, key) + text(2, name) + text(4, display) + common
        return number(1, self.events[name][0])

    def line(self, key: int, name: str, events: Iterator[bytes]) -> None:
        """Add a line of events that are encoded already."""
        content = bytearray(number(1, key) + text(2, name) + number(3, 0))
        for event in events:
            content += b"\x22%c" % len(event)
            content += event
        self.parts.append(text(3, bytes(content)))

    def encoded(self, **stats: float | str) -> bytes:
        """The plane as a field of an XSpace."""
        own = [text(6, self.stat(*item)) for item in stats.items()]
        kinds = [text(4, number(1, key) + text(2, value)) for key, value in self.events.values()]
        names = [
            text(5, number(1, key) + text(2, number(1, key) + text(2, name)))
            for name, key in self.stat_names.items()
        ]
        return text(1, b"".join([*self.parts, *kinds, *names, *own]))


def event(kind: bytes, offset_ps: int, dur_ps: int, *stats: bytes) -> bytes:
    """An XEvent; like every writer of the format, no duration where it is 0."""
    dur = b"\x18" + varint(dur_ps) if dur_ps else b""
    return kind + b"\x10" + varint(offset_ps) + dur + b"".join(text(4, stat) for stat in stats)


def device(core: int, steps: int) -> bytes:
    """The plane of a core: back-to-back operations in modules, 20 % of each step idle."""
    plane = Plane(f"/device:TPU:{core}")
    start = [(FIRST_NS + step * STEP_NS) * 1000 + core * 7_000 for step in range(steps)]
    module = plane.kind("jit_train_step(4242)")
    plane.line(1, "Steps", (event(plane.kind(f"{n}"), at, STEP_NS * 1000) for n, at in enumerate(start)))
    plane.line(
        2,
        "XLA Modules",
        (
            event(module, at, STEP_NS * 800, plane.stat("run_id", n), plane.stat("_c", n + 1))
            for n, at in enumerate(start)
        ),
    )
    plane.line(3, "XLA Ops", operations(plane, start))
    plane.line(4, "Async XLA Ops", copies(plane, start))
    return plane.encoded(
        device_type_string="TPU v6 Lite",
        peak_teraflops_per_second=918.0,
        peak_hbm_bw_gigabytes_per_second=1637.993152512,
    )


def operations(plane: Plane, start: list[int]) -> Iterator[bytes]:
    """The operations of all steps, with their times on the device's clock."""
    dur = STEP_NS * 800 // OPS
    kinds = [operation(plane, index) for index in range(OPS)]
    clock, length = (plane.stat(name, 0)[:-1] for name in ("device_offset_ps", "device_duration_ps"))
    for at in start:
        for index, kind in enumerate(kinds):
            offset = at + index * dur
            yield event(kind, offset, dur - 328, clock + varint(offset - 1250), length + varint(dur - 500))


def operation(plane: Plane, index: int) -> bytes:
    """What is constant of an operation: a matrix product, or an elementwise fusion or an all-reduce."""
    kind = ("convolution fusion", "loop fusion", "all-reduce")[index % 3 if index % 9 else 2]
    name = (
        f"%{kind.split()[0]}.{index} = bf16[2048,8192]{{1,0:T(8,128)}} {kind.replace(' ', '-')}(%p.{index})"
    )
    flops = 200_000_000_000 if "conv" in kind else 0
    return plane.kind(
        name,
        name[1:].split(maxsplit=1)[0],
        hlo_category=kind,
        program_id=4242,
        symbol_id=index,
        flops=flops,
        model_flops=flops,
        bytes_accessed=50_331_648,
        raw_bytes_accessed=50_331_648,
        tf_op=f"jit(train_step)/layer_{index}/dot_general:",
        source=f"model.py:{100 + index}",
    )


def copies(plane: Plane, start: list[int]) -> Iterator[bytes]:
    """Asynchronous copies, which overlap operations."""
    kind = plane.kind("%copy-start = (bf16[2048]) copy-start(%p)", "async-copy", hlo_category="copy-start")
    marks = plane.stat("hlo_op", "copy-done"), plane.stat("_a", 1)
    for at in start:
        for index in range(ASYNC):
            yield event(kind, at + index * STEP_NS * 200, STEP_NS * 150, *marks)


def host(steps: int) -> bytes:
    """The host's threads: nested frames, step marks, executions, one compilation."""
    plane = Plane("/host:CPU")
    plane.line(11, "python", frames(plane, steps))
    plane.line(12, "py_xla_execute/12", executions(plane, steps))
    return plane.encoded()


def frames(plane: Plane, steps: int) -> Iterator[bytes]:
    """Frames of a Python tracer, DEPTH deep, and the annotation of each step around them."""
    kinds = [plane.kind(f"$module_{n % 37}.py:{n} function_{n}") for n in range(500)]
    train = plane.kind("train")
    each = STEP_NS * 900 * DEPTH // FRAMES
    for step in range(steps):
        at = (FIRST_NS + step * STEP_NS) * 1000
        yield event(train, at, STEP_NS * 990, plane.stat("_r", 1), plane.stat("step_num", step))
        for index in range(FRAMES):
            call, depth = divmod(index, DEPTH)
            kind = kinds[(step * 7 + index) % 500]
            yield event(kind, at + call * each + depth * 1000, each - depth * 2000 if index % 10 else 0)


def executions(plane: Plane, steps: int) -> Iterator[bytes]:
    """One launch a step, and the compilation before the first."""
    compile_, execute = plane.kind("PjRtCpuClient::Compile"), plane.kind("TfrtTpuLoadedExecutable::Execute")
    yield event(compile_, 0, FIRST_NS * 900)
    for step in range(steps):
        stats = plane.stat("_ct", 12), plane.stat("_c", step + 1), plane.stat("run_id", step)
        at = (FIRST_NS + step * STEP_NS) * 1000
        yield event(execute, at, STEP_NS * 10, *stats)
        yield event(execute, at + STEP_NS * 520, 0)


def write(path: Path, events: int) -> None:
    """Write a profile of about `events` events, plane by plane."""
    steps = max(events // PER_STEP, 1)
    environment = Plane("Task Environment")
    end = START_NS + FIRST_NS + steps * STEP_NS
    with path.open("wb") as file:
        for core in range(CORES):
            file.write(device(core, steps))
        file.write(host(steps))
        file.write(environment.encoded(profile_start_time=START_NS, profile_stop_time=end))
        file.write(text(4, "bench-host"))


# ---------------------------------------------------------------------------------------------- measurements

# modules are compiled once, as they are where mpg is installed
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
IMPORTS = "import sys; sys.path.insert(0, {!r}); from mpg_parsers.xla import xplane"
DECODE = """
with open(sys.argv[1], "rb") as file:
    space = xplane.read(file.read(), sys.argv[1])
stats = ("device_offset_ps", "device_duration_ps", "run_id", "step_num")
frames = [line.events(stats) for plane in space.planes for line in plane.lines]
print(sum(frame.height for frame in frames), "events")
"""
LEDGER = """
import sys
from mpg_cli.__main__ import main
from mpg_cli.goodput import ledger

roll = ledger.roll

def stop(*account):
    roll(*account)
    raise SystemExit

ledger.roll = stop
sys.exit(main(sys.argv[1:]))
"""
XPROF = """
import sys
from xprof.convert import raw_to_tool_data
page, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {"use_saved_result": False})
assert page
"""


@dataclass(frozen=True)
class Run:
    """One run of a command: seconds, peak memory in MB, exit status, and the last line it wrote."""

    wall: float
    cpu: float
    memory: float
    status: int
    said: str


def run(command: Sequence[str | Path]) -> Run:
    """One run, in a process of its own."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=ENV, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().decode(errors="replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "")
    cpu = usage.ru_utime + usage.ru_stime
    return Run(wall, cpu, usage.ru_maxrss / 1000, process.returncode, said)


def commands(path: Path, xprof: str) -> dict[str, list[str | Path]]:
    """What is measured, in the order of a round. Its first two differ by what decoding costs."""
    imports = IMPORTS.format(str(ROOT / "parsers"))
    analyze = ["analyze", "--no-cache", "-q", "-f", "json", path]
    found: dict[str, list[str | Path]] = {
        "imports of the decoder": [sys.executable, "-c", imports],
        "decoding of all lines": [sys.executable, "-c", imports + DECODE, path],
        "mpg, up to the ledger": [sys.executable, "-c", LEDGER, *analyze],
        "mpg analyze": [sys.executable, "-m", "mpg_cli", *analyze],
    }
    if xprof:
        found["xprof overview_page"] = [xprof, "-c", XPROF, path]
    return found


def report(results: dict[str, list[Run]]) -> None:
    """Print the fastest run of each command, less the imports; memory of the largest run; ratios to decoding."""
    base = min(run.wall for run in results["imports of the decoder"])
    empty = min(run.memory for run in results["imports of the decoder"])
    decoding = min(run.wall for run in results["decoding of all lines"]) - base
    print(f"\n{'command':24} {'wall s':>8} {'cpu s':>8} {'x decoding':>11} {'memory MB':>10}")
    for name, runs in results.items():
        best = min(runs, key=lambda run: run.wall)
        memory = max(run.memory for run in runs)
        times = f"{best.wall:8.2f} {best.cpu:8.2f} {best.wall / decoding:11.2f} {memory:10.0f}"
        print(f"{name:24} {times}" + (f"  status {best.status}: {best.said[:160]}" if best.status else ""))
    memory = max(run.memory for run in results["decoding of all lines"]) - empty
    print(f"\ndecoding without imports: {decoding:.2f} s, {memory:.0f} MB")


def main() -> int:
    """Write the file, run everything, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument(
        "--keep", type=Path, help="write the file here and leave it, or use the one that is here"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--xprof", default="", help="a Python that can import xprof")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = (options.keep or Path(folder) / "bench.xplane.pb").absolute()
        if not path.exists():
            start = time.perf_counter()
            write(path, options.events)
            print(f"written in {time.perf_counter() - start:.1f} s")
        print(f"{path.stat().st_size / 1e6:.1f} MB")
        results: dict[str, list[Run]] = {name: [] for name in commands(path, options.xprof)}
        for _ in range(options.runs):
            for name, command in commands(path, options.xprof).items():
                results[name].append(run(command))
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
