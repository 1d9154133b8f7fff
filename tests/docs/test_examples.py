"""Every worked example of docs/metrics.md, computed: ```json trace NAME, then ```json report ARGUMENTS.

A settings file for an example is a block ```toml settings NAME.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpg_cli.__main__ import main
from tests.docs.markdown import ROOT, Block, blocks, examples

METRICS = ROOT / "docs/metrics.md"
REPORTS = [block for block in blocks(METRICS) if block.info[:2] == ("json", "report")]


def test_there_are_examples() -> None:
    assert len(REPORTS) >= 10
    used = {word for block in REPORTS for word in block.info[2:]}
    assert examples(METRICS).keys() <= used


@pytest.mark.parametrize("block", REPORTS, ids=lambda block: block.place)
def test_the_report_has_the_figures_of_the_example(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in examples(METRICS).items():
        Path(name).write_text(text, encoding="utf-8")
    assert main(["analyze", *block.info[2:], "--no-cache", "--quiet", "-o", "report.json"]) == 0
    shown = json.loads(block.text)
    assert within(json.loads(Path("report.json").read_text()), shown) == shown


def within(report: Any, shown: Any) -> Any:
    """The part of `report` that has the keys of `shown`; lists count as a whole."""
    if isinstance(shown, dict) and isinstance(report, dict):
        return {key: within(report[key], value) for key, value in shown.items()}
    if isinstance(shown, list) and isinstance(report, list):
        parts = [within(part, value) for part, value in zip(report, shown, strict=False)]
        return parts + report[len(shown) :]
    return report
