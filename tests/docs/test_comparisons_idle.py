"""What docs/comparisons.md says of input time and of stragglers, where the traces are at hand."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT
from tests.mpg_cli.running import analyze

TRACES = ROOT.parent / "shared/corpus/pytorch"
TEXT = " ".join((ROOT / "docs/comparisons.md").read_text(encoding="utf-8").split())
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the traces are not at {TRACES}")


def test_the_input_time_of_every_step() -> None:
    report = analyze(TRACES / "kineto_tb_plugin/resnet50_num_workers_0", "--per-step").report
    section = TEXT.partition("**Waiting for data.**")[2].partition("**Difficult files.**")[0]
    shown = re.findall(r"\d+\.\d{3}", section.partition("Step by step")[2])
    spent = [step["causes"]["input"] for step in report["per_step"]]
    assert [f"{ns / 1e6:.3f}" for ns in spent] == shown
    assert len(shown) == 6
    whole = report["totals"]["capacity_ns"]
    assert f"mpg says {sum(spent) / 6e6:.2f} of {whole / 6e6:.3f} are `input`" in section
    assert sum(row["chip_ns"] for row in report["ledger"] if row["cause"] == "input") == sum(spent)


def test_the_last_ranks() -> None:
    report = analyze(TRACES / "param/dlrm_kineto").report
    section = TEXT.partition("**Stragglers.**")[2].partition("**Waiting for data.**")[0]
    last = [str(one["last_rank"]) for one in report["collectives"]]
    assert f"ranks {', '.join(last[:-1])} and {last[-1]}." in section
    assert [one["margin_ns"] for one in report["collectives"] if one["near_tie"]] == [9_000, 10_000]
    assert [i for i, one in enumerate(report["collectives"]) if one["near_tie"]] == [4, 7]
    assert [one["transient"] for one in report["collectives"]] == [True, *[False] * 7]
    assert {one["reason"] for one in report["collectives"][1:]} == {"host"}
