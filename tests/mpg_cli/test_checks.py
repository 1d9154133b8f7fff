"""Datasets that somebody edited: each is refused with the table's name, and none crashes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.analysis import AnalysisOptions, analyze
from mpg_cli.goodput import runtime
from mpg_cli.goodput.names import NameRules
from mpg_cli.store import MANIFEST, _fingerprint, write_dataset
from mpg_parsers.errors import InputError
from tests.mpg_cli.datasets import call, dataset, op, source, step
from tests.mpg_cli.running import mpg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Edit = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = dataset(source([op(0, 9), op(5, 9)], steps=[step(1, 0, 20)], events=[call(1)]))
    write_dataset(made, tmp_path / "out", force=False)
    return tmp_path / "out"


def edit(folder: Path, table: str, change: Edit) -> None:
    """Change a table and its mark in the manifest."""
    name = f"{table}/part-0000.parquet"
    change(pl.read_parquet(folder / name)).write_parquet(folder / name)
    mark(folder, name)


def mark(folder: Path, name: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = _fingerprint(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def to(**values: object) -> Edit:
    return lambda frame: frame.with_columns(
        pl.lit(value, frame.schema[name]).alias(name) for name, value in values.items()
    )


def test_an_edit_that_keeps_to_the_rules_is_fine(folder: Path) -> None:
    edit(folder, "device_ops", to(dur_ns=4))
    assert mpg("report", folder).status == 0


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("sources", lambda frame: frame.clear(), "it has 0 rows"),
        ("sources", lambda frame: pl.concat([frame, frame]), "it has 2 rows"),
        ("sources", to(source=1), "source is not below 1 in 1 rows"),
        ("sources", to(notices="[{]"), "notices is no list"),
        ("sources", to(notices=None), "notices is no list"),
        ("sources", to(path=None), "path is null in 1 rows"),
        ("sources", lambda frame: frame.drop("path"), "its columns are not those"),
        ("devices", to(device=None), "device is null"),
        ("device_ops", lambda frame: frame.cast({"start_ns": pl.String}), "its columns are not those"),
        ("device_ops", lambda frame: frame.with_columns(x=1), "its columns are not those"),
        ("device_ops", to(start_ns=None), "start_ns is null in 2 rows"),
        ("device_ops", to(dur_ns=-1), "dur_ns is no duration in 2 rows"),
        ("device_ops", to(start_ns=2**62), "start_ns is no time"),
        ("device_ops", to(dur_ns=2**62 - 1), "the end is no time"),
        ("device_ops", to(kind="krenel"), "kind is unknown"),
        ("device_ops", to(source=7), "source is not below 1"),
        ("host_events", to(source=-1), "source is not below 1"),
        ("host_events", to(dur_ns=-3), "dur_ns is no duration"),
        ("steps", to(end_ns=-5), "end_ns is before start_ns"),
        ("steps", to(end_ns=None), "end_ns is null"),
    ],
)
def test_an_edit_that_does_not_is_refused(folder: Path, table: str, change: Edit, words: str) -> None:
    edit(folder, table, change)
    found = mpg("report", folder)
    assert (found.status, found.out) == (3, "")
    assert found.err.startswith(f"error[corrupt_input]: {folder}: table {table}: {words}")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"rubbish" * 100])
def test_a_part_that_is_no_parquet(folder: Path, content: bytes) -> None:
    (folder / "steps/part-0000.parquet").write_bytes(content)
    mark(folder, "steps/part-0000.parquet")
    found = mpg("report", folder)
    assert found.status == 3
    assert found.err.startswith(f"error[corrupt_input]: {folder}: table steps: cannot be read (")
    assert len(found.err.splitlines()) == 2


@pytest.mark.parametrize("sources", [0, 2])
def test_the_manifest_counts_the_sources(folder: Path, sources: int) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sources": sources}))
    assert "it has 1 rows" in mpg("report", folder).err


# ------------------------------------------------------------------------------------------ times that add up

YEARS_146 = 1 << 62


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([op(0, YEARS_146 // 2, stream=n) for n in range(3)], id="durations on one device"),
        pytest.param([op(0, 1, device=n) for n in range(5)], id="windows of several devices"),
        pytest.param([op(YEARS_146 - 5, 9)], id="an end"),
    ],
)
def test_times_that_add_up_to_more_than_64_bits_are_refused(ops: list[Any]) -> None:
    steps = [step(1, 0, YEARS_146 // 2)] if len(ops) == 5 else []
    made = dataset(source([op(0, 1)], path="fine.json"), source(ops, steps=steps, path="wrong.json"))
    with pytest.raises(InputError, match="add up to over 146 years") as caught:
        analyze(made, AnalysisOptions(rules=NameRules.load()))
    assert caught.value.kind == "corrupt_input"
    if len(ops) < 5:
        assert caught.value.path == "wrong.json"


def test_times_just_below_that_are_exact() -> None:
    longest = YEARS_146 // 4
    made = dataset(source([op(0, longest, device=n) for n in range(3)]))
    report = analyze(made, AnalysisOptions(rules=NameRules.load()))
    assert report.totals.capacity_ns == report.totals.device_busy_ns == 3 * longest
    assert [row.chip_ns for row in report.ledger] == [3 * longest]
    assert [kernel.time_ns for kernel in report.kernels] == [3 * longest]


def test_steps_that_are_not_listed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = dataset(
        source([op(n, 1, device=n) for n in range(4)], steps=[step(n, n, n + 1) for n in range(9)])
    )
    whole = analyze(made, AnalysisOptions(rules=NameRules.load()))
    monkeypatch.setattr(runtime, "MAX_STEP_ROWS", 10)
    part = analyze(made, AnalysisOptions(rules=NameRules.load()))
    assert part.steps == whole.steps[:8]
    assert [(w.kind, w.count) for w in part.warnings if w not in whole.warnings] == [("steps_not_listed", 7)]
    assert (part.ledger, part.goodput, part.totals) == (whole.ledger, whole.goodput, whole.totals)
