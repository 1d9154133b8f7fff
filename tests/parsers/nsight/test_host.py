"""CUDA calls, NVTX ranges, calls into the operating system, overheads and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.nsight.writer import NVTX, RUNTIME, SYNC, Exporter, global_pid, global_tid
from tests.parsers.nsight.parsing import Parsed, counted, launch, notices, parse

if TYPE_CHECKING:
    from pathlib import Path


def base() -> Exporter:
    export = Exporter()
    export.kernel(1_000, 1_500, "gemm(int)", correlationId=5, process=41)
    return export


def events(parsed: Parsed, kind: str, *columns: str) -> list[tuple[object, ...]]:
    return parsed["host_events"].filter(kind=kind).select(columns or ("name",)).rows()


@pytest.mark.parametrize("parquet", [False, True])
def test_calls(tmp_path: Path, *, parquet: bool) -> None:
    export = base()
    export.call(900, 950, "cudaLaunchKernel_v7000", 5, process=41, thread=77)
    export.call(960, 970, "cuMemAlloc_v2", 0, process=42, thread=78)
    export.call(980, 990, "cudaLaunchKernel_ptsz_v7000", 6, process=41, thread=77)
    parsed = parse(tmp_path, export, parquet=parquet)
    columns = ("name", "process", "thread", "start_ns", "dur_ns", "correlation")
    assert events(parsed, "runtime", *columns) == [
        ("cudaLaunchKernel", 41, 77, 900, 50, launch(41, 5)),
        ("cuMemAlloc_v2", 42, 78, 960, 10, None),
        ("cudaLaunchKernel_ptsz", 41, 77, 980, 10, launch(41, 6)),
    ]


def test_the_highest_numbers_of_a_global_id(tmp_path: Path) -> None:
    """Its first bit is the sign of SQLite's integer."""
    export = base()
    tid = (0xFF << 56 | 0xFF << 48 | 0xABCDEF << 24 | 0x123456) - (1 << 64)
    export.add(RUNTIME, start=0, end=1, globalTid=tid, nameId=export.string("cuInit"), correlationId=1)
    assert events(parse(tmp_path, export), "runtime", "process", "thread") == [(0xABCDEF, 0x123456)]


OPERATORS = [
    ("aten::mm, op_id = 3", ("aten::mm", None, 3, None)),
    ("aten::mm, seq = 12, op_id = 3", ("aten::mm", 12, 3, None)),
    ("aten::mm, seq = 12", ("aten::mm", 12, None, None)),
    (
        "aten::addmm, seq = 7, op_id = 9, sizes = [[8], [4, 2], []], input_op_ids = [(1, 0), (2, 1)]",
        ("aten::addmm", 7, 9, "[[8], [4, 2], []]"),
    ),
    ("aten::relu, sizes = [[2, 3]]", ("aten::relu", None, None, "[[2, 3]]")),
    ("aten::mm", ("aten::mm", None, None, None)),
    ("MmBackward0, op_id = 44", ("MmBackward0", None, 44, None)),
]
PLAIN = ["forward", "nccl::mm", "a, b", "x, op_id = y", "loss, seq = many, op_id = 3", ", op_id = 3", ""]


def test_operators_of_emit_nvtx(tmp_path: Path) -> None:
    export = base()
    for place, (text, _) in enumerate(OPERATORS):
        export.range(place, place + 1, text, process=41)
    parsed = parse(tmp_path, export)
    columns = ("name", "sequence", "external_id", "input_dims")
    assert events(parsed, "op", *columns) == [want for _, want in OPERATORS]
    assert events(parsed, "annotation") == []


@pytest.mark.parametrize("text", PLAIN)
def test_other_ranges_keep_their_names(tmp_path: Path, text: str) -> None:
    export = base()
    export.range(0, 1, text)
    assert events(parse(tmp_path, export), "annotation", "name", "external_id") == [(text, None)]


def test_ranges(tmp_path: Path) -> None:
    """Start/end ranges count as push/pop ones do; marks, categories and domains are none."""
    export = base()
    registered = export.string("registered")
    export.range(0, 10, "pushed", process=41, thread=5)
    export.range(5, 20, "started", kind=60)
    export.range(7, None, "open")
    for kind in (33, 34, 39, 75, 76):
        export.range(8, None, "no range", kind=kind)
    tid = global_tid(1, 2)
    export.add(NVTX, start=9, end=11, eventType=59, text=None, textId=registered, globalTid=tid)
    export.add(NVTX, start=10, end=11, eventType=59, text=None, textId=None, globalTid=tid)
    parsed = parse(tmp_path, export)
    assert events(parsed, "annotation", "name", "start_ns", "dur_ns") == [
        ("pushed", 0, 10),
        ("started", 5, 15),
        ("open", 7, None),
        ("registered", 9, 2),
        ("(unnamed)", 10, 1),
    ]
    assert events(parsed, "annotation", "process", "thread")[0] == (41, 5)


def test_private_directories_are_left_out_of_names(tmp_path: Path) -> None:
    export = base()
    export.range(0, 10, "load /home/ann/secret/data.bin")
    export.call(0, 1, "call /home/ann/secret/x", 3)
    kept = parse(tmp_path / "a", export, keep_names=True) if (tmp_path / "a").mkdir() is None else None
    assert kept is not None
    assert events(kept, "annotation") == [("load /home/ann/secret/data.bin",)]
    assert "ann" not in str(parse(tmp_path, export)["host_events"]["name"].to_list())


def test_calls_into_the_operating_system(tmp_path: Path) -> None:
    export = base()
    export.add("OSRT_API", start=3, end=9, globalTid=global_tid(41, 6), nameId=export.string("poll"))
    assert events(parse(tmp_path, export), "os", "name", "process", "thread", "dur_ns") == [
        ("poll", 41, 6, 6)
    ]


def test_overheads(tmp_path: Path) -> None:
    """Versions name them by a string or by a type; what CUDA does itself is no overhead of the profiler."""
    export = base()
    tid = global_tid(41, 6)
    export.add("PROFILER_OVERHEAD", start=0, end=9, globalTid=tid, nameId=export.string("CUPTI Buffer flush"))
    for place, kind in enumerate((3, 7, 8, 2)):
        row = {"start": 20 + place, "end": 21 + place, "globalTid": tid, "nameId": None}
        export.add("CUPTI_ACTIVITY_KIND_OVERHEAD", **row, overheadType=kind, correlationId=5)
    export.add("ENUM_CUPTI_OVERHEAD_TYPE", id=8, name="X", label="Command buffer full (CUDA)")
    parsed = parse(tmp_path, export)
    assert events(parsed, "overhead") == [
        ("CUPTI Buffer flush",),
        ("Buffer Flush",),
        ("Lazy Function Loading",),
    ]
    own = [("Command buffer full (CUDA)", None), ("Driver Compiler", None)]
    assert events(parsed, "runtime", "name", "correlation") == own


@pytest.mark.parametrize("column", ["syncType", "deprecatedSyncType"])
def test_waits(tmp_path: Path, column: str) -> None:
    export = base()
    names = ["Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync", "Unknown"]
    for number in range(1, 6):
        stream = 7 if number == 3 else (1 << 32) - 1
        row = {"start": 0, "end": 5, "globalPid": global_pid(41), "streamId": stream, "correlationId": number}
        export.add(SYNC, **row, **{column: number})
    found = events(parse(tmp_path, export), "sync", "name", "process", "thread", "correlation")
    assert found == [(name, 41, 7 if n == 3 else None, n) for n, name in enumerate(names, 1)]


def test_host_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    export = base()
    export.call(100, 50, "cuInit", 1)
    export.range(5, 3, "backwards")
    parsed = parse(tmp_path, export)
    assert parsed["host_events"].is_empty()
    assert counted(parsed)["bad_row"] == 2
    assert "NVTX_EVENTS" in notices(parsed)["bad_row"]
