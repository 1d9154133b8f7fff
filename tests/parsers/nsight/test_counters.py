"""Samples of GPU metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fixtures.nsight.writer import Exporter
from tests.parsers.nsight.parsing import counted, notices, parse

if TYPE_CHECKING:
    from pathlib import Path

TYPE = 0x1400
METRICS = [
    "SMs Active", "SM Issue", "Tensor Active", "DRAM Read Bandwidth", "GPC Clock Frequency [MHz]",
    "Compute Warps in Flight [Avg]", "PCIe RX Throughput", "SM Active [Throughput %]", "DRAM Bytes [Bytes]",
]  # fmt: skip


def sampled(*samples: tuple[int, object]) -> Exporter:
    """Samples (metric number, value) of GPU 2, 100 ns apart."""
    export = Exporter()
    export.kernel(0, 5, "gemm(int)")
    for number, name in enumerate(METRICS):
        export.add("TARGET_INFO_GPU_METRICS", typeId=TYPE | 2, metricId=number + 40, metricName=name)
    for place, (number, value) in enumerate(samples):
        row = {"timestamp": place * 100 - 100, "typeId": TYPE | 2, "metricId": number + 40, "value": value}
        export.add("GPU_METRICS", **row)
    export.add("TARGET_INFO_GPU", id=2, uuid="uuid-2")
    return export


def test_samples_by_name(tmp_path: Path) -> None:
    parsed = parse(tmp_path, sampled((0, 40), (2, 0), (4, 1_980_000_000), (6, 3)))
    columns = ("process", "device", "uuid", "metric", "ts_ns", "value")
    assert parsed["counters"].select(columns).rows() == [
        (None, 2, "uuid-2", "SMs Active", -100, 40),
        (None, 2, "uuid-2", "Tensor Active", 0, 0),
        (None, 2, "uuid-2", "GPC Clock Frequency [MHz]", 100, 1_980_000_000),
    ]
    assert "dropped_samples" not in counted(parsed)


def test_samples_out_of_range_are_dropped_and_counted(tmp_path: Path) -> None:
    """The clock is one that a real report holds."""
    bad = [(0, -1), (0, 101), (4, -1_964_454_041), (4, 10_000_000_001), (7, 250), (1, None), (1, "x")]
    good = [(0, 0), (0, 100), (4, 0), (7, 100), (8, 5_000)]
    parsed = parse(tmp_path, sampled(*bad, *good))
    assert parsed["counters"]["value"].to_list() == [value for _, value in good]
    assert counted(parsed)["dropped_samples"] == len(bad)
    assert f"{len(bad)} of {len(bad) + len(good)} samples" in notices(parsed)["dropped_samples"]


def test_no_samples_are_no_zeros(tmp_path: Path) -> None:
    export = sampled()
    assert parse(tmp_path, export)["counters"].is_empty()
    del export.tables["TARGET_INFO_GPU_METRICS"]
    export.add("GPU_METRICS", timestamp=0, typeId=1, metricId=1, value=5)
    (tmp_path / "b").mkdir()
    assert parse(tmp_path / "b", export)["counters"].is_empty()
