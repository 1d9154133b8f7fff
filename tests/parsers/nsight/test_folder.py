"""Exports as a folder of Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from fixtures.nsight.writer import KERNEL, STRINGS, Exporter, write_parquet, write_sqlite
from mpg_parsers.errors import InputError
from mpg_parsers.nsight.folder import TABLES
from mpg_parsers.source import expand
from tests.parsers.nsight.parsing import parse_file

if TYPE_CHECKING:
    from pathlib import Path


def full() -> Exporter:
    """Rows in every table that is read."""
    export = Exporter()
    export.kernel(100, 150, "gemm(int)", correlationId=5, process=0xABCDEF)
    export.copy(200, 210, (1, 0, 2), process=0xABCDEF)
    export.call(90, 95, "cudaLaunchKernel_v7000", 5, process=0xABCDEF)
    export.range(50, 300, "step 1", process=0xABCDEF)
    export.add(
        "TARGET_INFO_GPU", id=0, name="H100", uuid="GPU-1", smCount=132, memoryBandwidth=3_352_320_000_000
    )
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    export.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node7")
    export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.25.0")
    export.add("DIAGNOSTIC_EVENT", severity=2, text="careful")
    export.add("TARGET_INFO_GPU_METRICS", typeId=1 << 8, metricId=1, metricName="SM Active")
    export.add("GPU_METRICS", timestamp=120, typeId=1 << 8, metricId=1, value=40)
    export.add("ENUM_CUDA_MEM_KIND", id=0, name="X", label="Pageable")
    return export


def test_a_folder_says_what_the_database_says(tmp_path: Path) -> None:
    export = full()
    write_sqlite(tmp_path / "report.sqlite", export.rows())
    write_parquet(tmp_path / "folder", export.rows())
    database, folder = parse_file(tmp_path / "report.sqlite"), parse_file(tmp_path / "folder")
    for table, frame in database.items():
        assert frame.height, table
        assert folder[table].equals(frame), table


def test_a_folder_is_one_source_with_a_digest_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_parquet(tmp_path / "runs" / name, full().rows())
    (tmp_path / "runs/a/PROCESSES.parquet").write_bytes(b"not read")
    (tmp_path / "runs/trace.json").write_text("[]")
    with expand([str(tmp_path / "runs")]) as expansion:
        assert [source.path.rsplit("/", 1)[-1] for source in expansion.sources] == ["a", "b", "trace.json"]
        first, second, _ = expansion.sources
        assert first.sha256() == second.sha256()
        assert first.size > sum(file.stat().st_size for file in (tmp_path / "runs/b").iterdir())
        assert not first.named
    with expand([str(tmp_path / "runs/a"), str(tmp_path / "runs/a")]) as expansion:
        assert [source.named for source in expansion.sources] == [True]


def test_parquet_files_of_others_stay_files(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / f"{STRINGS}.parquet")
    with expand([str(tmp_path)]) as expansion:
        assert expansion.sources[0].path.endswith(".parquet")


def test_a_damaged_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "folder", full().rows())
    file = tmp_path / f"folder/{KERNEL}.parquet"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=f"{KERNEL}.parquet cannot be read") as caught:
        parse_file(tmp_path / "folder")
    assert caught.value.kind == "corrupt_input"


def test_columns_of_the_wrong_type(tmp_path: Path) -> None:
    write_parquet(tmp_path / "folder", full().rows())
    file = tmp_path / f"folder/{KERNEL}.parquet"
    odd = {"correlationId": 5.0, "gridX": "wide", "streamId": 7.5}
    pl.read_parquet(file).with_columns(**{k: pl.lit(v) for k, v in odd.items()}).write_parquet(file)
    kernel = parse_file(tmp_path / "folder")["device_ops"].filter(kind="kernel")
    assert kernel.select("correlation", "grid", "stream").rows() == [(5, None, None)]


def test_whitelist() -> None:
    assert not {"PROCESSES", "META_DATA_CAPTURE", "ThreadNames", "ProcessStreams", "ANALYSIS_FILE"} & set(
        TABLES
    )
