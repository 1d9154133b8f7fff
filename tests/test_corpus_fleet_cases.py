"""The worked cases of schedulers' files in ../shared/corpus, by the comparison that comes with them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mpg_cli.running import analyze

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = SHARED / "corpus/hard_inputs"
CHECK = SHARED / "check/cases.py"
THEMES = ("slurm-sacct", "kubernetes-kueue")

pytestmark = pytest.mark.skipif(not CASES.is_dir() or not CHECK.is_file(), reason=f"no corpus at {SHARED}")


def cases() -> list[Path]:
    found = sorted(CASES.glob("*/expected.json")) if CASES.is_dir() else []
    return [path.parent for path in found if json.loads(path.read_text())["theme"] in THEMES]


@pytest.fixture(scope="module")
def check() -> Any:
    spec = importlib.util.spec_from_file_location("check_cases", CHECK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", cases(), ids=lambda path: path.name)
def test_case(case: Path, check: Any) -> None:
    spec = json.loads((case / "expected.json").read_text())
    expected = spec["expected"]
    result = analyze(*(case / name for name in spec["inputs"]))
    if expected["outcome"] == "error":
        assert result.status == 3
        assert f"error[{expected['error']['kind']}]" in result.err
        return
    report = result.report
    assert check.job_diffs(expected, report) == []
    told = {warning["kind"] for warning in report["warnings"]}
    assert {warning["kind"] for warning in expected.get("warnings", [])} <= told
