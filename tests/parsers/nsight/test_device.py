"""Kernels, copies, sets, migrations and graphs of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fixtures.nsight.writer import GRAPH, KERNEL, MEMCPY, MEMSET, Exporter, global_pid
from tests.parsers.nsight.parsing import counted, launch, notices, parse

if TYPE_CHECKING:
    from pathlib import Path

GEMM, FILL = "void gemm<(int)4>(float *)", "fill(int)"


def small() -> Exporter:
    export = Exporter()
    export.kernel(1_000, 1_500, GEMM, correlationId=5, process=41)
    export.kernel(2_000, 2_700, FILL, correlationId=6, process=42, deviceId=1, streamId=(1 << 32) - 1)
    export.kernel(3_000, 3_001, GEMM, correlationId=7, process=41, graphNodeId=9)
    return export


@pytest.mark.parametrize("parquet", [False, True])
def test_kernels(tmp_path: Path, *, parquet: bool) -> None:
    ops = parse(tmp_path, small(), parquet=parquet)["device_ops"]
    columns = (
        "process",
        "device",
        "stream",
        "start_ns",
        "dur_ns",
        "kind",
        "name",
        "correlation",
        "graph_node",
    )
    assert ops.select(columns).rows() == [
        (41, 0, 7, 1_000, 500, "kernel", GEMM, launch(41, 5), None),
        (42, 1, None, 2_000, 700, "kernel", FILL, launch(42, 6), None),
        (41, 0, 7, 3_000, 1, "kernel", GEMM, launch(41, 7), 9),
    ]
    assert ops.select("grid", "block").row(0) == ("[108, 2, 1]", "[256, 1, 1]")
    assert ops["blocks_per_sm"].to_list() == [None] * 3  # the export states no SMs


COPIES = [
    ((1, 0, 2), "Memcpy HtoD (Pageable -> Device)"),
    ((1, 1, 2), "Memcpy HtoD (Pinned -> Device)"),
    ((2, 2, 1), "Memcpy DtoH (Device -> Pinned)"),
    ((8, 2, 2), "Memcpy DtoD (Device -> Device)"),
    ((9, 0, 1), "Memcpy HtoH (Pageable -> Pinned)"),
    ((10, 2, 2), "Memcpy PtoP (Device -> Device)"),
    ((2, 5, 4), "Memcpy DtoH (Device Static -> Managed)"),
    ((11, 7, 7), "Unified memory migration HtoD"),
    ((12, 7, 7), "Unified memory migration DtoH"),
    ((77, 99, 2), "Memcpy Unknown (Unknown -> Device)"),
]


def test_copies_are_named_by_their_memory(tmp_path: Path) -> None:
    export = Exporter()
    for place, (kinds, _) in enumerate(COPIES):
        export.copy(place * 10, place * 10 + 5, kinds)
    ops = parse(tmp_path, export)["device_ops"]
    assert ops["name"].to_list() == [name for _, name in COPIES]
    assert set(ops["kind"]) == {"memcpy"}
    assert set(ops["bytes"]) == {1024}


def test_memory_kinds_of_the_file_come_before_the_built_in(tmp_path: Path) -> None:
    export = Exporter()
    export.copy(0, 5, (1, 0, 1))
    export.add("ENUM_CUDA_MEM_KIND", id=1, name="CUDA_MEMKIND_NEW", label="Fabric")
    assert parse(tmp_path, export)["device_ops"]["name"].to_list() == ["Memcpy HtoD (Pageable -> Fabric)"]


def test_an_export_without_memory_kinds(tmp_path: Path) -> None:
    export = Exporter()
    export.add(MEMCPY, start=0, end=5, deviceId=0, globalPid=global_pid(1), copyKind=1)
    export.add(MEMSET, start=7, end=9, deviceId=0, globalPid=global_pid(1), bytes=64)
    ops = parse(tmp_path, export)["device_ops"]
    assert ops.select("kind", "name", "bytes").rows() == [
        ("memcpy", "Memcpy HtoD", None),
        ("memset", "Memset (Device)", 64),
    ]


def test_sets(tmp_path: Path) -> None:
    export = Exporter()
    export.add(
        MEMSET, start=7, end=9, deviceId=0, globalPid=global_pid(1), bytes=64, memKind=1, correlationId=3
    )
    ops = parse(tmp_path, export)["device_ops"]
    assert ops.select("kind", "name", "bytes", "correlation").rows() == [("memset", "Memset (Pinned)", 64, 3)]


def test_graphs_recorded_as_wholes(tmp_path: Path) -> None:
    export = small()
    place = {"deviceId": 0, "streamId": 7, "globalPid": global_pid(41), "graphExecId": 1}
    export.add(GRAPH, start=5_000, end=9_000, correlationId=8, graphId=3, **place)
    export.add(GRAPH, start=10_000, end=12_000, correlationId=9, graphId=None, **place)
    parsed = parse(tmp_path, export)
    graphs = parsed["device_ops"].filter(kind="graph")
    assert graphs.select("name", "start_ns", "dur_ns", "correlation").rows() == [
        ("CUDA graph 3", 5_000, 4_000, launch(41, 8)),
        ("CUDA graph", 10_000, 2_000, launch(41, 9)),
    ]
    assert counted(parsed)["graph_level_trace"] == 2
    assert "--cuda-graph-trace=node" in notices(parsed)["graph_level_trace"]


@pytest.mark.parametrize(
    "names",
    [{"shortName": "gemm"}, {"shortName": "gemm", "demangledName": None}, {"mangledName": "gemm"}],
)
def test_names_of_other_versions(tmp_path: Path, names: dict[str, str | None]) -> None:
    export = Exporter()
    ids = {column: None if name is None else export.string(name) for column, name in names.items()}
    export.add(KERNEL, start=0, end=5, deviceId=0, globalPid=global_pid(1), **ids)
    assert parse(tmp_path, export)["device_ops"]["name"].to_list() == ["gemm"]


def test_a_name_that_is_nowhere(tmp_path: Path) -> None:
    export = Exporter()
    export.kernel(0, 5, GEMM, demangledName=99, shortName=99)
    assert parse(tmp_path, export)["device_ops"]["name"].to_list() == ["(unnamed)"]


def test_an_export_without_processes(tmp_path: Path) -> None:
    export = Exporter()
    export.add(KERNEL, start=0, end=5, deviceId=2, shortName=export.string("gemm"))
    parsed = parse(tmp_path, export)
    assert parsed["device_ops"].select("process", "device", "stream", "correlation").rows() == [
        (None, 2, None, None)
    ]
    assert parsed["devices"].select("process", "device").rows() == [(None, 2)]


BAD: list[dict[str, Any]] = [
    {"start": None},
    {"end": None},
    {"end": 900},
    {"deviceId": None},
    {"start": "soon"},
]


@pytest.mark.parametrize("values", BAD)
def test_rows_that_cannot_be_used_are_counted(tmp_path: Path, values: dict[str, Any]) -> None:
    export = small()
    export.tables[KERNEL].append(export.tables[KERNEL][0] | values)
    parsed = parse(tmp_path, export)
    assert parsed["device_ops"].height == 3
    assert "[1] 1 rows of CUPTI_ACTIVITY_KIND_KERNEL" in notices(parsed)["bad_row"]


def test_values_of_the_wrong_type_are_left_out(tmp_path: Path) -> None:
    export = small()
    export.copy(5_000, 5_010, (1, 1, 2), bytes="many", correlationId=3.0)
    parsed = parse(tmp_path, export)
    copies = parsed["device_ops"].filter(kind="memcpy")
    assert copies.select("bytes", "correlation").rows() == [
        (None, launch(1, 3))
    ]  # 3.0 is what pandas makes of 3
    assert notices(parsed)["bad_row"].startswith(" [1] 1 values of CUPTI_ACTIVITY_KIND_MEMCPY.bytes")


def test_records_that_are_there_twice_count_once(tmp_path: Path) -> None:
    export = small()
    export.kernel(1_000, 1_500, GEMM, correlationId=5, process=41)
    parsed = parse(tmp_path, export)
    assert parsed["device_ops"].height == 3
    assert counted(parsed)["duplicate_events"] == 1


def test_migrations_of_different_pages_at_one_time_are_different(tmp_path: Path) -> None:
    export = Exporter()
    for address in (4096, 8192, 8192):
        export.copy(0, 5, (11, 7, 7), virtualAddress=address)
    assert parse(tmp_path, export)["device_ops"].height == 2


def test_long_kernels_of_one_stream_keep_their_ends(tmp_path: Path) -> None:
    """Stream numbers are those of a context, so such an overlap need not be wrong; the union is exact anyhow."""
    export = Exporter()
    export.kernel(0, 10_000_000, GEMM, correlationId=1)
    export.kernel(1_000_000, 2_000_000, GEMM, correlationId=2, contextId=2)
    export.kernel(3_000_000, 4_000_000, GEMM, correlationId=3, contextId=2)
    assert parse(tmp_path, export)["device_ops"]["dur_ns"].to_list() == [10_000_000, 1_000_000, 1_000_000]


def test_a_record_of_another_day_is_dropped(tmp_path: Path) -> None:
    export = small()
    export.call(900, 950, "cudaLaunchKernel_v7000", 5)
    export.kernel(-40_000_000_000_000_000, -39_999_999_999_999_000, GEMM)
    parsed = parse(tmp_path, export)
    assert parsed["device_ops"].height == 3
    assert counted(parsed)["dropped_events"] == 1


def test_blocks_per_sm(tmp_path: Path) -> None:
    export = small()
    export.add("TARGET_INFO_GPU", id=0, name="H100", smCount=54)
    ops = parse(tmp_path, export)["device_ops"].filter(process=41)
    assert ops["blocks_per_sm"].to_list() == [108 * 2 / 54] * 2
