"""Steps among the NVTX ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.nsight.writer import KERNEL, Exporter
from tests.parsers.nsight.parsing import counted, notices, parse

if TYPE_CHECKING:
    from pathlib import Path

NAMED = [
    "step 1", "Step_12", "iteration 3", "iter-7", "batch 5", "train_step 2", "training iteration 9", "step#4",
    "Step: 8", "global_step=3", "ProfilerStep#6", "step(5)", "decode step 3", "engine_step_7", "STEP 1",
]  # fmt: skip
OTHERS = [
    "step",
    "stepper 3",
    "step 1 of 2",
    "optimizer.step",
    "footstep 2",
    "batch_norm 3",
    "step 1.5",
    "epoch 3",
]


def work(*processes: int) -> Exporter:
    export = Exporter()
    for process in processes:
        export.kernel(100, 200, "gemm(int)", process=process, correlationId=process)
    return export


@pytest.mark.parametrize("name", NAMED)
def test_names_of_steps(tmp_path: Path, name: str) -> None:
    export = work(1)
    export.range(10, 30, name)
    steps = parse(tmp_path, export)["steps"]
    number = 6 if name == "ProfilerStep#6" else None
    assert steps.select("step", "name", "start_ns", "end_ns").rows() == [(number, name, 10, 30)]


@pytest.mark.parametrize("name", OTHERS)
def test_other_names(tmp_path: Path, name: str) -> None:
    export = work(1)
    export.range(10, 30, name)
    assert parse(tmp_path, export)["steps"].is_empty()


def test_of_nested_families_the_one_that_covers_most_time(tmp_path: Path) -> None:
    export = work(1)
    for number in range(3):
        export.range(number * 100, number * 100 + 90, f"iteration {number}")
        for part in range(2):
            export.range(number * 100 + part * 40, number * 100 + part * 40 + 30, f"step {part}")
    export.range(0, 1_000, "batch 1", thread=9)  # another thread: a loader's worker
    export.range(1_000, None, "iteration 3")
    names = parse(tmp_path, export)["steps"]["name"].to_list()
    assert names == ["batch 1"]
    export.tables["NVTX_EVENTS"] = [r for r in export.tables["NVTX_EVENTS"] if r["text"] != "batch 1"]
    (tmp_path / "b").mkdir()
    names = parse(tmp_path / "b", export)["steps"]["name"].to_list()
    assert names == ["iteration 0", "iteration 1", "iteration 2"]


def test_steps_are_those_of_processes_with_device_work(tmp_path: Path) -> None:
    export = work(2)
    export.range(0, 900, "step 1", process=1)
    export.range(0, 500, "step 1", process=2)
    parsed = parse(tmp_path, export)
    assert parsed["steps"].select("process", "end_ns").rows() == [(2, 500)]
    assert not notices(parsed)


def test_each_process_has_its_own(tmp_path: Path) -> None:
    export = work(1, 2, 3)
    for process in (1, 3):
        export.range(process, process + 500, "step 1", process=process)
        export.range(process + 500, process + 505, "step 2", process=process)
    export.range(0, 100, "batch 7", process=3)
    export.range(0, 501, "batch 7", process=1, thread=9)
    export.range(600, 700, "batch 8", process=1, thread=9)
    found = parse(tmp_path, export)["steps"].select("process", "name", "start_ns").rows()
    assert found == [(1, "batch 7", 0), (3, "step 1", 3), (3, "step 2", 503), (1, "batch 8", 600)]


def test_steps_of_processes_without_device_work_are_not_used(tmp_path: Path) -> None:
    export = work(1)
    for process in (2, 3):
        export.range(0, 500, "step 1", process=process)
    parsed = parse(tmp_path, export)
    assert parsed["steps"].is_empty()
    assert counted(parsed) == {"steps_elsewhere": 2}


def test_an_export_that_does_not_tell_processes_apart(tmp_path: Path) -> None:
    """The device rows have no globalPid."""
    export = Exporter()
    export.add(KERNEL, start=0, end=5, deviceId=0, shortName=export.string("gemm"))
    export.range(0, 500, "step 1", process=2)
    export.range(0, 400, "step 1", process=3)
    assert parse(tmp_path, export)["steps"].select("process", "end_ns").rows() == [(None, 500)]
