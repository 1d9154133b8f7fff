"""Makes a large trace out of small real ones, for measuring speed and memory.

    python tests/bench/tile.py [SOURCE.json[.gz] ...] -o OUT.json --megabytes 460

The sources are laid one after the other in time; that tile is repeated until the file is large enough. Every
repetition has its own times, step numbers and identifiers (correlation, External id, flow, Ev Idx, Record
function id, Python id, Sequence number), so nothing joins across repetitions. Text layout: Kineto's. The
default sources give about 23 % Python frames, 29 % operators, 15 % runtime calls, 24 % flows and 7 % device
activity.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fixtures.kineto_writer import event_text, header_text, microseconds, tail_text  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS = ROOT.parent / "shared" / "corpus" / "pytorch"
DEFAULT = (
    CORPUS / "hta" / "nccl_parser_config" / "nccl_data.json.gz",
    CORPUS / "tracelens" / "b200" / "eager_trace.json.gz",
)
FALLBACK = ROOT / "fixtures" / "train_2rank" / "rank0.pt.trace.json.gz"

BASE_NS = 1_767_189_312_000_000_000
START_NS = 1_365_627_862_757_064
GAP_NS = 1_000_000

IDENTIFIERS = "id|correlation|[Ee]xternal id|Ev Idx|Python id|Python parent id|Sequence number"
# A value to shift: a time, an identifier (Record function id 0 means none) or the number of a step.
SHIFTED = re.compile(
    rf'(?<!\\)"(?:(?P<ts>ts)": |(?:{IDENTIFIERS}|Record function id(?=": [1-9]))": '
    r'|name": "(?P<step>ProfilerStep#))'
    r"(?P<number>\d+)(?:\.(?P<decimals>\d{3}))?"
)


class Exact(float):
    """A number with a decimal point that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> Self:
        """From the text in the file."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class Tile(NamedTuple):
    """The text between the values to shift, and the values: (ts, id or step; source; number)."""

    literals: list[str]
    values: list[tuple[str, int, int]]
    duration: int
    stride: int
    steps: int


def nanoseconds(value: float | str) -> int:
    """A time in microseconds, as the file has it, in nanoseconds."""
    return int(Decimal(value.text if isinstance(value, Exact) else value) * 1000)


def load(path: Path) -> dict[str, Any]:
    """A trace; its times are integer nanoseconds."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    trace = json.loads(text, parse_float=Exact)
    trace = {"traceEvents": trace} if isinstance(trace, list) else trace
    for event in trace["traceEvents"]:
        event.update({key: nanoseconds(event[key]) for key in ("ts", "dur") if key in event})
    return trace


def make_tile(traces: Sequence[dict[str, Any]]) -> Tile:
    """All sources in a row, cut at the values that change from tile to tile."""
    literals, values, start = [""], list[tuple[str, int, int]](), START_NS
    for source, trace in enumerate(traces):
        events = trace["traceEvents"]
        timed = [event for event in events if event["ph"] == "X"]
        first = min(event["ts"] for event in timed)
        last = max(event["ts"] + event["dur"] for event in timed)
        placed = (e | {"ts": max(e["ts"], first) - first + start} if "ts" in e else e for e in events)
        cut((",\n" if source else "") + ",\n".join(map(event_text, placed)), source, literals, values)
        start += last - first + GAP_NS
    stride = 1 + max((number for kind, _, number in values if kind == "id"), default=0)
    steps = [number for kind, _, number in values if kind == "step"]
    return Tile(literals, values, start - START_NS, stride, 1 + max(steps, default=0) - min(steps, default=0))


def cut(text: str, source: int, literals: list[str], values: list[tuple[str, int, int]]) -> None:
    """Append what lies between the values of `text` to `literals`, and the values to `values`."""
    done = 0
    for match in SHIFTED.finditer(text):
        kind = "ts" if match["ts"] else "step" if match["step"] else "id"
        number = int(match["number"] + (match["decimals"] or ""))
        literals[-1] += text[done : match.start("number")]
        literals.append("")
        values.append((kind, source, number))
        done = match.end()
    literals[-1] += text[done:]


def tile_text(tile: Tile, index: int, sources: int) -> str:
    """The `index`-th repetition."""
    later, step = index * tile.duration, index * tile.steps
    shift = [(index * sources + source) * tile.stride for source in range(sources)]
    pieces = [""] * (2 * len(tile.literals) - 1)
    pieces[0::2] = tile.literals
    pieces[1::2] = [
        microseconds(number + later)
        if kind == "ts"
        else str(number + (shift[source] if kind == "id" else step))
        for kind, source, number in tile.values
    ]
    return "".join(pieces)


def write(sources: Sequence[Path], out: Path, size: int) -> int:
    """Write whole tiles until `out` has at least `size` bytes; returns the number of tiles."""
    traces = [load(path) for path in sources]
    tile = make_tile(traces)
    kept = {"schemaVersion", "traceEvents", "traceName", "displayTimeUnit", "baseTimeNanoseconds"}
    header = {"deviceProperties": []} | {key: value for key, value in traces[0].items() if key not in kept}
    del traces
    count = 0
    with out.open("w", encoding="utf-8") as file:
        written = file.write(header_text(header))
        while count == 0 or written < size:
            written += file.write((",\n" if count else "") + tile_text(tile, count, len(sources)))
            count += 1
        file.write(tail_text(out.name, BASE_NS))
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", type=Path, metavar="SOURCE")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=460.0)
    options = parser.parse_args(arguments)
    default = DEFAULT if all(path.exists() for path in DEFAULT) else (FALLBACK,)
    count = write(options.sources or default, options.output, int(options.megabytes * 1_000_000))
    print(f"{options.output}: {count} tiles, {options.output.stat().st_size / 1_000_000:.1f} MB")


if __name__ == "__main__":
    main()
