"""Dashboard, inference steps and breakdowns of real traces, where the corpus is at hand."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.goodput import activity, breakdown, dashboard, inference, steps
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import find_steps, find_windows
from mpg_cli.ingest import IngestOptions, ingest
from mpg_cli.sources import load_sources
from tests.mpg_cli.running import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

RULES = NameRules.load()
REAL = ROOT.parent / "shared/corpus/pytorch"
NO_CORPUS = f"the corpus of real traces is not at {REAL}"
RESNET = "kineto_tb_plugin/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
SGLANG = "tracelens/inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz"
VLLM = "tracelens/inference/vllm_decode_full/graph_execution.json.gz"
XDIT = "tracelens/inference/xdit_sd_3.5/profile_trace_rank_0.json.gz"
B200 = "tracelens/b200/eager_trace.json.gz"
H100 = "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
CHECKPOINTED = "tracelens/mi300/resnet_act_checkpoint.json.gz"
CONTROL = "hta/trace_diff/control/control.json.gz"


@contextmanager
def loaded(name: str) -> Iterator[tuple[Dataset, Activity, pl.DataFrame, pl.DataFrame]]:
    """The dataset, its activity, the windows of its devices, and its steps."""
    if not (REAL / name).exists():
        pytest.skip(NO_CORPUS)
    with ingest([str(REAL / name)], IngestOptions()) as dataset:
        found = activity.load(dataset, load_sources(dataset)[0], RULES)
        windows = find_windows(found, find_steps(dataset, None), "steps")
        owners = found.subjects.select("subject", "source")
        yield dataset, found, owners.join(windows.by_source, on="source").sort("subject"), windows.steps


@pytest.mark.parametrize(
    ("name", "gpu_util", "waiting", "sm_activity", "occupancy"),
    [
        (RESNET, 0.5489, 0.0, 0.5412, 0.4905),
        (CONTROL, 0.7938, 0.1890, 0.6174, 0.3560),
        (B200, 0.1278, 0.0253, 0.0945, None),
        (H100, 0.9135, 0.0, 0.8964, None),
        (CHECKPOINTED, 0.9258, 0.6606, None, None),
        (SGLANG, 0.4991, 0.0, 0.4990, None),
    ],
)
def test_dashboard(name: str, gpu_util: float, waiting: float, sm_activity: Any, occupancy: Any) -> None:
    with loaded(name) as (dataset, found, spans, _):
        shown = dashboard.measure(dataset, found, spans)
    got = (shown.gpu_util, shown.waiting, shown.sm_activity, shown.occupancy)
    assert got == pytest.approx((gpu_util, waiting, sm_activity, occupancy), abs=5e-5)
    assert {name for name in ("sm_activity", "occupancy") if getattr(shown, name) is None} == set(
        shown.reasons
    )


def test_gpu_utilisation_as_torch_tb_profiler_has_it() -> None:
    """It says 55.51 %: its steps run on to the end of the last kernel, ours to the end of the last step."""
    with loaded(RESNET) as (dataset, found, spans, _):
        longer = spans.with_columns(end_ns=pl.lit(found.ops["end_ns"].max(), pl.Int64))
        shown = dashboard.measure(dataset, found, longer)
    assert round(100 * shown.gpu_util, 2) == 55.51


INFERENCE = [
    (SGLANG, "step[EXTEND bs=15 toks=15360]", "prefill", 15, 15360, 28915862, 493529207, 492687946),
    (
        VLLM, "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", "decode",
        32, 32, 2408598, 10743181, 10717708,
    ),
    (XDIT, "execute_diffusion_1_256x256", "diffusion", 1, None, 1194812438, 1171628656, 712489744),
    (B200, "execute_context_1(888_788544)_generation_0(0)", "prefill", 1, 888, 87412863, 84487178, 11596482),
]  # fmt: skip


@pytest.mark.parametrize("expected", INFERENCE, ids=["sglang", "vllm", "xdit", "b200"])
def test_inference(expected: tuple[Any, ...]) -> None:
    with loaded(expected[0]) as (dataset, found, _, __):
        rows = inference.steps(dataset, found)
    columns = ("name", "phase", "requests", "tokens", "host_ns", "device_ns", "busy_ns")
    assert rows.select(columns).rows() == [expected[1:]]


@pytest.mark.parametrize("by", breakdown.BREAKDOWNS)
@pytest.mark.parametrize("name", [RESNET, CHECKPOINTED, B200, CONTROL])
def test_breakdowns_are_whole(name: str, by: str) -> None:
    with loaded(name) as (dataset, found, spans, _):
        rows = breakdown.break_down(by, dataset, found, spans)
        clipped = found.ops.join(spans.select("subject", a="start_ns", b="end_ns"), on="subject")
    inside = pl.min_horizontal("end_ns", "b") - pl.max_horizontal("start_ns", "a")
    assert rows["excl_ns"].sum() == clipped.select(inside.clip(0).sum()).item()


def test_modules_have_their_backward_and_their_recomputation() -> None:
    """Of 6.402 ms of computing launched in the profile, the loss and DDP's averaging (0.182) are under no module."""
    with loaded(CHECKPOINTED) as (dataset, found, spans, _):
        rows = breakdown.break_down("module", dataset, found, spans)
    tops = rows.filter(pl.col("depth") == 0).select("key", "compute_ns")
    assert dict(tops.iter_rows()) == {
        "DistributedDataParallel_0": 6219732,
        "(no module)": 182210,
        "(launch call not in the file)": 6505209,
    }


@pytest.mark.parametrize("name", [RESNET, CONTROL])
def test_steps_without_segments_are_unobserved(name: str) -> None:
    with loaded(name) as (_, found, __, ranges):
        segments = found.ops.select("subject", "start_ns", "end_ns", cause=pl.lit("productive")).clear()
        rows = steps.by_cause(segments, ranges, found.subjects)
    assert rows["cause"].unique().to_list() == [steps.OUTSIDE]
    assert rows["chip_ns"].sum() == (ranges["end_ns"] - ranges["start_ns"]).sum()
