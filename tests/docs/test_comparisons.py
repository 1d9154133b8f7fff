"""The figures of mpg in the coverage table of docs/comparisons.md, where the traces are at hand."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT
from tests.mpg_cli.running import analyze

TRACES = ROOT.parent / "shared/corpus/pytorch/tracelens"
TEXT = (ROOT / "docs/comparisons.md").read_text(encoding="utf-8")
FILES = {
    "OWLv2 large, H100": "h100/google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "BERT small, H100": "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "Qwen 0.5B, H100": "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "Qwen 0.5B, MI300X": "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "ResNet with checkpointing, MI300X": "mi300/resnet_act_checkpoint.json.gz",
    "SGLang Qwen3 8B, eager, MI300X": "inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz",
    "xDiT SD 3.5, compiled, MI300X": "inference/xdit_sd_3.5/profile_trace_rank_0.json.gz",
    "compiled Triton kernels, MI300X": "torch_compile_triton/trace.json.gz",
    "vLLM, eager, tensor parallel 8, B200": "b200/eager_trace.json.gz",
    "vLLM decode, full graph": "inference/vllm_decode_full/graph_execution.json.gz",
}


def rows() -> dict[str, list[str]]:
    """By trace, the cells for coverage, linked coverage and PG."""
    section = TEXT.partition("\n## FLOPs and rooflines\n")[2].partition("\nA dash")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    return {name: cells[-3:] for name, *cells in lines}


def test_every_row_has_its_trace() -> None:
    assert rows().keys() == FILES.keys()


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"the traces are not at {TRACES}")
@pytest.mark.parametrize("name", FILES)
def test_the_coverage_table(name: str) -> None:
    report = analyze(TRACES / FILES[name]).report
    pg = report["goodput"]["pg"]
    figures = [report["quality"]["shape_coverage"], report["quality"]["linked_coverage"], pg and pg["value"]]
    shown = ["null" if figure is None else f"{100 * figure:.1f}" for figure in figures]
    assert [re.sub(r" \(.*", "", cell) for cell in rows()[name]] == shown
