"""Launch calls and device work of several processes in one export."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.nsight.writer import RUNTIME, Exporter
from tests.parsers.nsight.parsing import launch, parse

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("parquet", [False, True])
def test_no_launches_are_confused_between_processes(tmp_path: Path, *, parquet: bool) -> None:
    """Two processes give the same number to a launch; ids have 32 bits without a sign."""
    export = Exporter()
    for process in (41, 0xABCDEF):
        for number in (5, (1 << 32) - 1):
            export.kernel(100, 200, "gemm(int)", process=process, correlationId=number)
            export.call(0, 9, "cudaLaunchKernel_v7000", number, process=process)
    parsed = parse(tmp_path, export, parquet=parquet)
    expected = [launch(process, number) for process in (41, 0xABCDEF) for number in (5, (1 << 32) - 1)]
    assert (
        sorted(parsed["device_ops"]["correlation"])
        == sorted(parsed["host_events"]["correlation"])
        == expected
    )
    joined = parsed["device_ops"].join(parsed["host_events"], on="correlation")
    assert joined["process"].to_list() == joined["process_right"].to_list()


@pytest.mark.parametrize("other", [0, None])
def test_the_ids_of_a_single_process_are_as_in_the_file(tmp_path: Path, other: int | None) -> None:
    """A process of 0 or none is one not stated."""
    export = Exporter()
    export.kernel(100, 200, "gemm(int)", process=41, correlationId=5)
    export.call(0, 9, "cudaLaunchKernel_v7000", 5, process=41)
    export.tables[RUNTIME].append(export.tables[RUNTIME][0] | {"globalTid": other})
    parsed = parse(tmp_path, export)
    assert (parsed["device_ops"]["correlation"][0], set(parsed["host_events"]["correlation"])) == (5, {5})


def test_calls_of_a_process_without_device_work_count(tmp_path: Path) -> None:
    export = Exporter()
    export.kernel(100, 200, "gemm(int)", process=1, correlationId=1)
    export.call(0, 9, "cudaMalloc_v3020", 1, process=2)
    parsed = parse(tmp_path, export)
    assert (parsed["device_ops"]["correlation"][0], parsed["host_events"]["correlation"][0]) == (
        launch(1, 1),
        launch(2, 1),
    )
