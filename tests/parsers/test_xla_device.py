"""What ran on a device: operations of a TPU, streams of a GPU, runs of programs, and what a device waited for."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.xla.writer import Plane, Ref, Stats, Unsigned, space
from mpg_parsers.xla_profile import XLA_PROFILE
from tests.parsers.reading import read

if TYPE_CHECKING:
    import polars as pl

US = 10**6  # picoseconds


def tables_of(data: bytes, **options: bool) -> dict[str, pl.DataFrame]:
    """All tables of a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "p.xplane.pb"
        path.write_bytes(data)
        return read(XLA_PROFILE, path, **options)


def tables(*planes: Plane, **options: bool) -> dict[str, pl.DataFrame]:
    """All tables of a profile with these planes."""
    return tables_of(space(planes), **options)


def core(*ops: tuple[Any, ...], line: str = "XLA Ops", name: str = "/device:TPU:0") -> Plane:
    """A core of a TPU: (name, start, length in us[, stats of the metadata[, of the event]])."""
    plane = Plane(name)
    return add(plane, line, *ops)


def add(plane: Plane, line_name: str, *ops: tuple[Any, ...], timestamp_ns: int = 0) -> Plane:
    line = plane.line(line_name, len(plane.lines) + 1, timestamp_ns)
    for op_name, start, dur, *stats in ops:
        key = plane.metadata(op_name, stats=stats[0] if stats else {})
        line.add(key, start * US, dur * US, stats[1] if len(stats) > 1 else {})
    return plane


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.sort("start_ns", maintain_order=True).select(columns).rows()


# ---------------------------------------------------------------------------------------------------------- TPU


def test_operations_of_a_core() -> None:
    """A loop of two passes; the collective by its category; the copy beside it on the other line."""
    plane = core(
        ("%while.1 = (s32[]) while((s32[]) %t)", 0, 100, {"hlo_category": "while"}),
        ("%fusion.2 = f32[8]{0} fusion(f32[8]{0} %p)", 10, 20, {"hlo_category": "loop fusion"}),
        ("%all-reduce.3 = f32[8]{0} all-reduce(f32[8]{0} %p)", 50, 20, {"hlo_category": "all-reduce"}),
    )
    add(plane, "Async XLA Ops", ("%copy-start.4 = (f32[8]) copy-start(f32[8] %p)", 5, 60))
    for line in ("Steps", "Framework Name Scope", "Source code", "XLA TraceMe", "_counters_", "TC Overlay"):
        add(plane, line, ("0", 0, 500))
    found = tables(plane)
    columns = ("name", "start_ns", "dur_ns", "kind", "collective", "part", "asynchronous", "stream")
    assert rows(found["device_ops"], *columns) == [
        ("while.1", 0, 10_000, "kernel", None, 0, False, 1),
        ("copy-start.4, asynchronous", 5_000, 60_000, "memcpy", None, None, True, 2),
        ("fusion.2", 10_000, 20_000, "kernel", None, None, False, 1),
        ("while.1", 30_000, 20_000, "kernel", None, 1, False, 1),
        ("all-reduce.3", 50_000, 20_000, "kernel", "all-reduce", None, False, 1),
        ("while.1", 70_000, 30_000, "kernel", None, 2, False, 1),
    ]
    assert set(found["device_ops"]["device"]) == {0}


def test_lines_count_from_times_of_their_own() -> None:
    plane = Plane("/device:TPU:1")
    add(plane, "XLA Ops", ("fusion.1", 1, 2), timestamp_ns=1_000_000)
    add(plane, "XLA Ops", ("fusion.1", 1, 2), timestamp_ns=0)
    assert rows(tables(plane)["device_ops"], "start_ns", "dur_ns") == [(1_000, 2_000), (1_001_000, 2_000)]


def test_a_device_of_two_planes() -> None:
    """A SparseCore, and the same plane again, are parts of the chip; ids of metadata are their own."""
    sparse = core(("fusion.7", 20, 5), line="Sparse Core Ops", name="/device:TPU:0 SparseCore 0")
    found = tables(core(("fusion.1", 0, 10)), sparse, core(("fusion.9", 40, 10)))
    assert rows(found["device_ops"], "device", "name", "start_ns") == [
        (0, "fusion.1", 0), (0, "fusion.7", 20_000), (0, "fusion.9", 40_000),
    ]  # fmt: skip
    assert found["devices"]["device"].to_list() == [0]


def test_runs_and_what_they_are_linked_by() -> None:
    """An operation carries the context of the run that it begins in; program numbers may exceed an int64."""
    plane = core(("fusion.1", 12, 5), ("fusion.1", 30, 5), ("fusion.1", 52, 5))
    add(
        plane,
        "XLA Modules",
        ("jit_f(11000000000000000007)", 10, 10, {}, {"run_id": Unsigned(4), "_ct": 12, "_c": -77}),
        ("jit_g(x)(5)", 50, 10, {}, {"_ct": 12, "_c": 78}),
        ("other", 60, 10),
    )
    found = tables(plane)
    ran = found["program_runs"].sort("start_ns")
    assert ran.select("device", "program_id", "name", "run").rows() == [
        (0, "11000000000000000007", "jit_f", 4), (0, "5", "jit_g(x)", None), (0, None, "other", None),
    ]  # fmt: skip
    assert rows(found["device_ops"], "start_ns", "correlation") == [
        (12_000, -77),
        (30_000, None),
        (52_000, 78),
    ]


def test_operations_that_do_not_say_what_they_are() -> None:
    plane = Plane("/device:TPU:0")
    line = plane.line("XLA Ops", 3)
    line.add(99, 0, 5 * US)  # no such metadata
    line.add(plane.metadata("infeed.1"), 5 * US, 5 * US)
    found = tables(plane)
    assert rows(found["device_ops"], "name", "kind") == [("", "kernel"), ("infeed.1", "infeed")]
    assert found["hlo_ops"]["category"].to_list() == ["", "infeed"]


def test_what_a_core_waits_for() -> None:
    plane = core(("fusion.1", 0, 5))
    waits = [
        ("barrier-cores", 10, 3),
        ("dependency-wait", 20, 4),
        ("step", 0, 50),
        ("Wait: x", 30, 0),
        ("await", 40, 1),
    ]
    found = tables(add(plane, "XLA TraceMe", *waits))["host_events"]
    assert rows(found, "thread", "kind", "name", "start_ns", "dur_ns") == [
        (0, "device_wait", "barrier-cores", 10_000, 3_000),
        (0, "device_wait", "dependency-wait", 20_000, 4_000),
    ]


# ---------------------------------------------------------------------------------------------------------- GPU

KERNEL = "regs:32 static_shared:0 dynamic_shared:0 grid:{grid} block:128,1,1 occ_pct:{occupancy}"


def gpu(name: str, details: Stats, line: str = "Stream #13(Compute)") -> dict[str, Any]:
    """The row of the only activity of a GPU."""
    found = tables(core((name, 1, 2, {}, details), line=line, name="/device:GPU:3"))
    assert found["devices"]["device"].to_list() == [3]
    (row,) = found["device_ops"].to_dicts()
    return row


def test_a_kernel() -> None:
    details = Ref(KERNEL.format(grid="8,2,1", occupancy="62.5"))
    row = gpu("gemm", {"correlation_id": Unsigned(41), "kernel_details": details})
    want = {
        "name": "gemm", "kind": "kernel", "stream": 13, "start_ns": 1_000, "dur_ns": 2_000, "correlation": 41,
        "grid": "[8, 2, 1]", "block": "[128, 1, 1]", "occupancy": 62.5, "bytes": None, "hlo": None, "part": None,
        "asynchronous": None,
    }  # fmt: skip
    assert {key: row[key] for key in want} == want


@pytest.mark.parametrize(
    ("details", "grid", "occupancy"),
    [
        ("", None, None),
        ("grid:8,1 block:1", None, None),
        ("grid:1,2,3 occ_pct:0", "[1, 2, 3]", None),  # rocm cannot tell
        ("grid:99999999999999999999,1,1 occ_pct:1000", None, None),
        ("grid:4294967295,1,1 occ_pct:100.0", "[4294967295, 1, 1]", 100.0),
        ("occ_pct:100.5", None, None),
        ("occ_pct:99.5", None, 99.5),
        ("subgrid:1,2,3", None, None),
        ("occ_pct:-5", None, None),
    ],
)
def test_kernels_that_say_less(details: str, grid: str | None, occupancy: float | None) -> None:
    row = gpu("gemm", {"kernel_details": details})
    assert (row["grid"], row["occupancy"], row["correlation"]) == (grid, occupancy, None)


@pytest.mark.parametrize(
    ("name", "stat", "details", "kind", "size"),
    [
        (
            "MemcpyH2D",
            "memcpy_details",
            "kind_src:pinned kind_dst:device size:4096 dest:0 async:1",
            "memcpy",
            4096,
        ),
        ("MemcpyD2D", "memcpy_details", "no figure", "memcpy", None),
        ("CopyDeviceToHost", "memcpy_details", "size:7", "memcpy", 7),
        ("hipMemcpyAsync", "memcpy_details", f"size:{10**19}", "memcpy", None),
        ("Memset", "memset_details", "kind:device size:12 async:0", "memset", 12),
        ("FillBuffer", "memset_details", "size:9", "memset", 9),
        ("memcpy_kernel", "memcpy_details", "size:7", "kernel", None),
        ("CopyFusion", "memcpy_details", "size:7", "kernel", None),
    ],
)
def test_copies_and_sets(name: str, stat: str, details: str, kind: str, size: int | None) -> None:
    row = gpu(name, {stat: Ref(details)})
    assert (row["kind"], row["bytes"]) == (kind, size)


def test_only_streams_count() -> None:
    plane = core(("k", 0, 5), line="Stream #7", name="/device:GPU:0")
    for line in ("Steps", "XLA Modules", "XLA Ops", "Framework Name Scope", "Source code", "Launch Stats"):
        add(plane, line, ("k", 0, 500))
    assert rows(tables(plane)["device_ops"], "stream", "name", "dur_ns") == [(7, "k", 5_000)]


def test_kernels_of_operations() -> None:
    """The same name in two programs is two operations; a kernel without one has none."""
    both: Stats = {"hlo_op": Ref("fusion.1"), "hlo_module": Ref("jit_f")}
    kernels = [
        ("a", 0, 1, {}, {**both, "program_id": 5}),
        ("b", 1, 1, {}, {**both, "program_id": 5}),
        ("a", 2, 1, {}, {**both, "program_id": -6}),
        ("a", 3, 1, {}, both),
        ("memset", 4, 1),
    ]
    found = tables(core(*kernels, line="Stream #1", name="/device:GPU:0"))
    assert rows(found["device_ops"], "hlo") == [(0,), (0,), (1,), (2,), (None,)]
    assert found["hlo_ops"].select("hlo", "program_id", "program", "name").rows() == [
        (0, "5", "jit_f", "fusion.1"), (1, "-6", "jit_f", "fusion.1"), (2, None, "jit_f", "fusion.1"),
    ]  # fmt: skip
