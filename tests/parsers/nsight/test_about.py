"""Versions, clock, host, GPUs and complaints of an export."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.nsight.writer import Exporter, Row
from tests.parsers.nsight.parsing import counted, notices, parse

if TYPE_CHECKING:
    from pathlib import Path

UTC = 1_741_793_819_042_497_997


def work(*places: tuple[int, int], start: int = 100) -> Exporter:
    """One kernel for each (process, device)."""
    export = Exporter()
    for process, device in places or ((1, 0),):
        export.kernel(start, start + 50, "gemm(int)", process=process, deviceId=device)
    return export


def gpu(number: int, name: str = "NVIDIA H200", **more: Any) -> Row:
    return {
        "id": number, "name": name, "uuid": f"uuid-{number}", "totalMemory": 150_121_545_728, "smCount": 132,
        "memoryBandwidth": 4_916_736_000_000, "clockRate": 1_980_000_000, "computeMajor": 9, "computeMinor": 0,
    } | more  # fmt: skip


def test_a_gpu(tmp_path: Path) -> None:
    export = work((41, 0))
    export.add("TARGET_INFO_GPU", **gpu(0))
    assert parse(tmp_path, export)["devices"].drop("source").rows(named=True) == [
        {
            "process": 41, "device": 0, "uuid": "uuid-0", "name": "NVIDIA H200", "memory_bytes": 150_121_545_728,
            "sm_count": 132, "compute_capability": "9.0", "bandwidth": 4_916_736_000_000, "clock_hz": 1_980_000_000,
            "peak_flops": None,
        }
    ]  # fmt: skip


def test_device_numbers_lead_to_gpus_by_process(tmp_path: Path) -> None:
    """Two processes that each see their own GPU as device 0."""
    export = work((41, 0), (42, 0), (42, 1))
    for number in range(3):
        export.add("TARGET_INFO_GPU", **gpu(number, f"GPU {number}"))
    for process, device, number in ((41, 0, 2), (42, 0, 1), (42, 1, 0), (43, 0, 0)):
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=device, pid=process)
    devices = parse(tmp_path, export)["devices"]
    assert devices.select("process", "device", "uuid", "name").rows() == [
        (41, 0, "uuid-2", "GPU 2"),
        (42, 0, "uuid-1", "GPU 1"),
        (42, 1, "uuid-0", "GPU 0"),
    ]


def test_identity_without_a_description_of_the_gpu(tmp_path: Path) -> None:
    export = work((41, 0), (42, 0))
    for process, number in ((41, 0), (42, 5)):
        row = {
            "gpuId": number,
            "cudaId": 0,
            "pid": process,
            "uuid": f"GPU-{process}",
            "numMultiprocessors": 90,
        }
        export.add("TARGET_INFO_CUDA_DEVICE", **row)
    devices = parse(tmp_path, export)["devices"]
    assert devices.select("process", "uuid", "name", "sm_count").rows() == [
        (41, "GPU-41", None, 90),
        (42, "GPU-42", None, 90),
    ]


def test_several_gpus_and_no_mapping(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES may have renumbered them: what they are is likely, which one it was is not known."""
    export = work((41, 1))
    for number in range(2):
        export.add("TARGET_INFO_GPU", **gpu(number))
    assert parse(tmp_path, export)["devices"].select("uuid", "name").rows() == [(None, "NVIDIA H200")]


def test_what_old_captures_leave_out(tmp_path: Path) -> None:
    export = work()
    row = {"id": 0, "name": "", "memoryBandwidth": None, "clockRate": 0, "smCount": 0, "computeMajor": None}
    export.add("TARGET_INFO_GPU", **row)
    devices = parse(tmp_path, export)["devices"].drop("source", "process", "device")
    assert set(devices.row(0)) == {None}


CLOCKS: list[tuple[int, dict[str, str], int | None]] = [
    (100, {}, UTC),
    (-37_928, {}, UTC),
    (100, {"EXPORT_PARAM_TIME_SHIFT": "1000"}, UTC - 1000),
    (100, {"EXPORT_PARAM_TIME_SHIFT": "later"}, None),
    (UTC + 100, {}, None),  # exported with --ts-normalize: Unix time already
]


@pytest.mark.parametrize(("start", "meta", "base"), CLOCKS)
def test_clock(tmp_path: Path, start: int, meta: dict[str, str], base: int | None) -> None:
    export = work(start=start)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=UTC, utcTime="2025-03-12T15:36:59")
    for name, value in meta.items():
        export.add("META_DATA_EXPORT", name=name, value=value)
    source = parse(tmp_path, export)["sources"].row(0, named=True)
    assert (source["base_ns"], source["first_ns"], source["last_ns"]) == (base, start, start + 50)


def test_no_clock_is_stated(tmp_path: Path) -> None:
    assert parse(tmp_path, work())["sources"]["base_ns"].to_list() == [None]


VERSIONS: list[tuple[str, dict[str, str], str | None, str]] = [
    (
        "META_DATA_EXPORT",
        {"SCHEMA_VERSION": "3.25.0", "PRODUCT_VERSION": "2026.2.1.210"},
        "3.25.0",
        " 2026.2.1.210",
    ),
    ("EXPORT_META_DATA", {"SCHEMA_VERSION_MAJOR": "2", "SCHEMA_VERSION_MINOR": "9"}, "2.9", ""),
    ("META_DATA_EXPORT", {}, None, ""),
]


@pytest.mark.parametrize(("table", "meta", "schema", "product"), VERSIONS)
def test_versions(tmp_path: Path, table: str, meta: dict[str, str], schema: str | None, product: str) -> None:
    export = work()
    export.add(table, name="EXPORT_HOST", value="somebody's laptop")
    for name, value in meta.items():
        export.add(table, name=f"EXPORT_{name}", value=value)
    source = parse(tmp_path, export, keep_names=True)["sources"].row(0, named=True)
    assert (source["format"], source["format_version"]) == ("nsight-systems", schema)
    assert source["framework"] == f"Nsight Systems{product}"
    assert source["host"] is None  # the exporting machine is not the profiled one


def test_the_host_is_not_named_unless_asked_for(tmp_path: Path) -> None:
    export = work()
    export.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node7")
    export.add("TARGET_INFO_SYSTEM_ENV", name="CpuDescription", value="fast")
    source = parse(tmp_path, export)["sources"].row(0, named=True)
    assert (source["host"], source["node"]) == (None, hashlib.sha256(b"node7").hexdigest()[:12])
    (tmp_path / "b").mkdir()
    assert parse(tmp_path / "b", export, keep_names=True)["sources"]["host"].to_list() == ["node7"]


def test_complaints(tmp_path: Path) -> None:
    export = work()
    said = [
        (1, "Profiling has started."),
        (2, "Process was launched, see /home/ann/out/log.txt"),
        (2, "No CUDA events collected."),
        (2, "No CUDA events collected."),
        (1, "CUPTI buffers: 49 of 50. Some CUPTI events might be missing."),
        (2, "Not all CUDA events might have been collected."),
        (3, "x" * 1_000),
    ]
    for severity, text in said:
        export.add("DIAGNOSTIC_EVENT", timestamp=0, severity=severity, text=text)
    parsed = parse(tmp_path, export)
    assert counted(parsed)["profiler_warning"] == 4
    assert counted(parsed)["capture_incomplete"] == 2
    text = notices(parsed)["profiler_warning"]
    assert "[2] Nsight Systems: No CUDA events collected." in text
    assert "ann" not in text
    assert "started" not in text
    assert "x" * 301 not in text


def test_many_complaints_are_bounded(tmp_path: Path) -> None:
    export = work()
    for number in range(50):
        export.add("DIAGNOSTIC_EVENT", severity=2, text=f"warning {number}")
    parsed = parse(tmp_path, export)
    assert notices(parsed)["profiler_warning"].count("Nsight Systems:") == 21
    assert counted(parsed)["profiler_warning"] == 50


def test_two_processes_on_one_gpu_are_two_devices(tmp_path: Path) -> None:
    export = work((41, 0), (42, 0))
    export.add("TARGET_INFO_GPU", **gpu(0))
    assert parse(tmp_path, export)["devices"].select("process", "uuid").rows() == [
        (41, "uuid-0"),
        (42, "uuid-0"),
    ]
