"""A tiled trace is valid, complete, and nothing in it joins across repetitions."""

import gzip
import json
import runpy
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TILE = runpy.run_path(str(ROOT / "tests" / "bench" / "tile.py"))
SOURCE = ROOT / "fixtures" / "train_2rank" / "rank0.pt.trace.json.gz"
SIZE = len(gzip.decompress(SOURCE.read_bytes()))


def tiled(out: Path, *sources: Path, size: int) -> tuple[int, dict[str, Any]]:
    TILE["main"]([*map(str, sources), "-o", str(out), "--megabytes", str(size / 1_000_000)])
    return out.stat().st_size, json.loads(out.read_bytes(), parse_float=Decimal)


def identifiers(events: list[dict[str, Any]], key: str) -> set[int]:
    return {e["args"][key] for e in events if e.get("args", {}).get(key) is not None}


def test_three_tiles(tmp_path: Path) -> None:
    size, trace = tiled(tmp_path / "out.json", SOURCE, size=int(2.2 * SIZE))
    original = json.loads(gzip.decompress(SOURCE.read_bytes()), parse_float=Decimal)
    events, count = trace["traceEvents"], len(original["traceEvents"])
    tiles = [events[index * count : (index + 1) * count] for index in range(3)]
    assert len(events) == 3 * count
    assert 2.2 * SIZE <= size < 3.1 * SIZE
    assert trace["distributedInfo"] == original["distributedInfo"]
    assert [[e["name"].split("#")[0] for e in tile] for tile in tiles] == [
        [e["name"].split("#")[0] for e in original["traceEvents"]]
    ] * 3
    assert [[e.get("dur") for e in tile] for tile in tiles] == [
        [e.get("dur") for e in original["traceEvents"]]
    ] * 3
    for key in ("correlation", "External id", "Ev Idx", "Python id", "Sequence number"):
        found = [identifiers(tile, key) for tile in tiles]
        assert len(set().union(*found)) == 3 * len(identifiers(original["traceEvents"], key))
    ends = [
        (min(e["ts"] for e in t if e["ph"] == "X"), max(e["ts"] for e in t if e["ph"] == "X")) for t in tiles
    ]
    assert ends[0][1] < ends[1][0]
    assert ends[1][1] < ends[2][0]
    steps = [e["name"] for e in events if e.get("cat") == "user_annotation" and "Step#" in e["name"]]
    assert steps == [f"ProfilerStep#{number}" for number in range(10, 22)]


def test_joins_survive_inside_a_tile(tmp_path: Path) -> None:
    _, trace = tiled(tmp_path / "out.json", SOURCE, SOURCE, size=1)
    flows: dict[tuple[str, int], list[str]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "sf":
            flows[event["cat"], event["id"]].append(event["ph"])
    assert {tuple(sorted(pair)) for pair in flows.values()} == {("f", "s")}
    calls = [e["args"]["correlation"] for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"]
    assert len(set(calls)) == len(calls)
    parents = identifiers(trace["traceEvents"], "Python parent id")
    assert parents < identifiers(trace["traceEvents"], "Python id")


def test_a_single_tile_keeps_the_text_of_its_source(tmp_path: Path) -> None:
    tiled(tmp_path / "out.json", SOURCE, size=1)
    lines = gzip.decompress(SOURCE.read_bytes()).decode().splitlines()
    again = (tmp_path / "out.json").read_text().splitlines()
    different = [a for a, b in zip(lines, again, strict=True) if a != b and '"ts": ' not in a]
    assert [line for line in different if "traceName" not in line] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1712195495997093.250", 1712195495997093250), ("0.1", 100), ("7", 7000), ("1.5e3", 1500000)],
)
def test_times_are_exact(text: str, expected: int) -> None:
    assert TILE["nanoseconds"](TILE["Exact"](text)) == expected
