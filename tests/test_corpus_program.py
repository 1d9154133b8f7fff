"""Program Goodput of real traces, where the corpus is at hand: figures counted in other ways, and what is claimed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli import hardware
from mpg_cli.goodput import activity, judging, neighbours, operators, pricing
from mpg_cli.goodput.chips import find_chips
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.goodput.models import Models
from mpg_cli.goodput.names import NameRules
from mpg_cli.ingest import IngestOptions, ingest
from tests.mpg_cli.running import analyze
from tests.real_traces import NO_CORPUS, REAL, analyze_real

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mpg_cli.goodput.operators import Operators

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=NO_CORPUS)

LENS, HTA = "tracelens", "hta"
BERT, QWEN, OWL = (
    f"{name}.json.gz"
    for name in (
        "gaunernst_bert-small-uncased__1016001",
        "Qwen_Qwen1.5-0.5B-Chat__1016005",
        "google_owlv2-large-patch14-ensemble__1016001",
    )
)
RESNET = f"{LENS}/mi300/resnet_act_checkpoint.json.gz"
V100 = "kineto_tb_plugin/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
B200 = f"{LENS}/b200/eager_trace.json.gz"


def trace(name: str) -> Path:
    path = REAL / name
    if not path.exists():
        pytest.skip(f"no {path}")
    return path


def report(name: str, *arguments: str) -> dict[str, Any]:
    trace(name)  # skips where it is missing
    return analyze_real(name, *arguments).report


def messages(found: dict[str, Any], kind: str) -> list[str]:
    return [warning["message"] for warning in found["warnings"] if warning["kind"] == kind]


# ---------------------------------------------------------------------------------------------- anchors


@pytest.mark.parametrize(
    ("dims", "mean_us", "tflops"),
    [([[16, 5185, 64], [16, 64, 5185]], 1083.46, 50.82), ([[16, 5185, 5185], [16, 5185, 64]], 827.60, 66.53)],
)
def test_the_two_products_of_attention_in_owlv2(dims: object, mean_us: float, tflops: float) -> None:
    rows = [row for row in report(f"{LENS}/h100/{OWL}")["ops"] if row["op"] == "aten::bmm"]
    (row,) = [row for row in rows if json.loads(row["dims"]) == dims]
    assert (row["count"], row["kernels"]) == (120, 120)
    assert row["flops"] == 120 * 55_058_892_800
    assert row["bytes"] == 120 * 881_532_960
    assert round(row["time_ns"] / 120_000, 2) == mean_us
    assert round(row["tflops"], 2) == tflops


# --------------------------------------------------------------------------------------------- coverage


@pytest.mark.parametrize(
    "name",
    [
        f"{LENS}/h100/{BERT}",
        f"{LENS}/mi300/{BERT}",
        f"{LENS}/h100/{OWL}",
        f"{LENS}/inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz",
        f"{LENS}/inference/xdit_sd_3.5/profile_trace_rank_0.json.gz",
        f"{LENS}/torch_compile_triton/trace.json.gz",
    ],
)
def test_models_cover_what_is_linked(name: str) -> None:
    found = report(name)
    assert found["quality"]["linked_coverage"] >= 0.97
    assert found["goodput"]["pg"]["coverage"] == found["quality"]["shape_coverage"] >= 0.97
    assert 0 < found["goodput"]["pg"]["value"] < 1
    assert "above_peak" not in {warning["kind"] for warning in found["warnings"]}


def test_winograd_is_why_the_v100_has_no_pg() -> None:
    """Every operator has a model, but convolutions of a tenth of the time did less than a direct one would."""
    found = report(V100)
    faults = sum(row["share"] for row in found["unmodelled"] if row["op"].endswith("(above its peak)"))
    assert 0.1 < faults < 0.12
    assert found["quality"]["shape_coverage"] >= 0.97
    assert all("Winograd" in message for message in messages(found, "above_peak")[:5])
    assert found["goodput"]["pg"] is None
    assert found["goodput"]["reasons"]["pg"].endswith(": above peak: 11.6 %")
    bounds = found["goodput"]["pg_min"], found["goodput"]["pg_max"]
    assert [round(bound, 2) for bound in bounds] == [0.33, 0.45]


@pytest.mark.parametrize(
    ("name", "linked"), [(f"{LENS}/h100/{QWEN}", 68.9), (f"{LENS}/mi300/{QWEN}", 66.1), (RESNET, 49.6)]
)
def test_carry_over_is_inferred_and_said_to_be(name: str, linked: float) -> None:
    quality = report(name)["quality"]
    assert round(100 * quality["linked_coverage"], 1) == linked
    assert quality["shape_coverage"] >= 0.97


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{LENS}/inference/vllm_decode_full/graph_execution.json.gz", "no operator (graph replay"),
        (f"{LENS}/mi210/gpu_only_trace/gpu_only_trace.json.gz", "the trace holds no operators"),
        (f"{HTA}/nccl_parser_config/nccl_data.json.gz", "no operand shapes were recorded"),
        (f"{HTA}/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "no operand shapes were recorded"),
        (f"{HTA}/trace_file_list/inference_rank_1.json.gz", "say --chip NAME"),
    ],
)  # fmt: skip
def test_no_pg_without_operators_or_shapes(name: str, words: str) -> None:
    goodput = report(name)["goodput"]
    assert [goodput[ratio] for ratio in ("pg", "mfu", "hfu")] == [None] * 3
    assert words in goodput["reasons"]["pg"]


def test_the_opaque_operator_is_named_and_can_be_declared(tmp_path: Path) -> None:
    found = report(B200)
    assert found["goodput"]["pg"] is None
    assert found["goodput"]["reasons"]["pg"].endswith('[[model]] op = "vllm::moe_forward"')
    assert found["unmodelled"][0]["op"] == "vllm::moe_forward"
    assert 0.69 < found["unmodelled"][0]["share"] < 0.71
    settings = tmp_path / "mpg.toml"
    settings.write_text(
        """
        [[model]]
        op = "vllm::moe_forward"
        flops = "2 * tokens * hidden * inter * 3 * topk"
        dims = { tokens = "0.0", hidden = "0.1", inter = 360, topk = 4 }
        dtype = "c10::BFloat16"
        """
    )
    declared = analyze(trace(B200), "--config", settings).report
    assert declared["quality"]["shape_coverage"] >= 0.95
    assert declared["goodput"]["pg"]["value"] > 0
    assert "declared" in {row["flops_source"] for row in declared["ops"] if row["op"] == "vllm::moe_forward"}


@pytest.mark.parametrize(
    ("name", "linked"),
    [
        (f"{HTA}/trace_diff/control/control.json.gz", 97.3),
        (f"{HTA}/trace_diff/test/test.json.gz", 91.6),
        (f"{HTA}/df_index_resolver/df_index_resolver.json.gz", 100.0),
    ],
)
def test_launch_calls_lead_to_an_operator_where_ids_do_not(name: str, linked: float) -> None:
    """The ids of these traces are correlation numbers, or match nothing."""
    with opened(name) as (loaded, nested, _):
        compute = loaded.ops.filter(pl.col("activity") == "compute")
        found = pricing.launching_operator(compute, nested)
    known = found.filter(pl.col("row").is_not_null())["dur_ns"].sum()
    assert round(100 * known / found["dur_ns"].sum(), 1) == linked


# ---------------------------------------------------------------------------------------- recomputation


@contextmanager
def opened(name: str) -> Iterator[tuple[activity.Activity, Operators, pl.DataFrame]]:
    """Device activity, operators, and the ids of those that carry the marks of a forward operator."""
    with ingest([str(trace(name))], IngestOptions()) as dataset:
        loaded = activity.load(dataset, dataset.scan("sources").collect(), NameRules.load())
        forward = (
            dataset.scan("host_events")
            .filter(
                pl.col("kind") == "op",
                pl.col("sequence").is_not_null(),
                pl.col("forward_thread").fill_null(0) == 0,
            )
            .select("external_id")
            .collect()
        )
        yield loaded, operators.load(dataset), forward


def test_activation_checkpointing() -> None:
    with opened(RESNET) as (loaded, nested, forward):
        again = nested.ops.filter("recompute")
        assert again.join(forward, on="external_id", how="semi").height == 438
        linked = pricing.launching_operator(loaded.ops, nested).join(
            nested.ops.select("row", "recompute"), on="row"
        )
    assert linked.filter("recompute").height == 615
    compute = linked.filter(pl.col("activity") == "compute")
    recomputing = compute.filter("recompute")
    assert recomputing.height == 591
    assert round(recomputing["dur_ns"].sum() / 1e6, 3) == 4.122
    assert round(100 * recomputing["dur_ns"].sum() / compute["dur_ns"].sum(), 1) == 21.4
    goodput = report(RESNET)["goodput"]
    assert goodput["hfu"]["value"] > goodput["mfu"]["value"]
    assert sum(row["recompute_ns"] for row in report(RESNET)["ops"]) > 0


@pytest.mark.parametrize("name", [f"{LENS}/h100/{BERT}", f"{LENS}/h100/{QWEN}", f"{LENS}/mi300/{QWEN}", V100])
def test_nothing_else_recomputes(name: str) -> None:
    found = report(name)
    assert "recompute" not in {row["cause"] for row in found["ledger"]}
    assert sum(row["recompute_ns"] for row in found["ops"]) == 0
    assert found["goodput"]["mfu"] == found["goodput"]["hfu"]


# --------------------------------------------------------------------------------------------- hold-out


@pytest.mark.parametrize(
    ("name", "right"), [(f"{LENS}/h100/{QWEN}", 0.99), (f"{LENS}/mi300/{QWEN}", 0.99), (RESNET, 0.9)]
)
def test_the_second_half_is_inferred_from_the_first(name: str, right: float) -> None:
    """Hide the links of the later half of the linked kernels; nearly all come back, and nearly none wrong."""
    with ingest([str(trace(name))], IngestOptions()) as dataset:
        loaded = activity.load(dataset, dataset.scan("sources").collect(), NameRules.load())
        options = judging.ProgramOptions(hardware.load(), Models.load())
        chips, _ = find_chips(dataset, loaded, options.catalogue, options.chip)
        annotations = batch_annotations(dataset.scan("host_events"))
        priced = pricing.price(loaded.ops, operators.load(dataset), annotations, chips, options.models)
    known = priced.kernels.filter(~pl.col("inferred")).with_columns(
        truth=pl.struct("operator", "flops_whole", "bytes_whole", "dtype").hash()
    )
    known = known.with_columns(linked=pl.col("start_ns") < known["start_ns"].median())
    guess = neighbours.infer(known, "truth")
    hidden = known.with_columns(guess=guess).filter(~pl.col("linked"))
    time = hidden["dur_ns"].sum()
    shares = [
        hidden.filter(what)["dur_ns"].sum() / time
        for what in (pl.col("guess") == pl.col("truth"), pl.col("guess") != pl.col("truth"))
    ]
    assert shares[0] > right
    assert shares[1] < 0.005


# ------------------------------------------------------------------------------------------- every file


def test_every_report_accounts_for_its_computing_time() -> None:
    """Of the reports above: the program layer sums to RG's numerator, and PG and MFU are what they say."""
    names = [BERT, QWEN, OWL]
    for found in [report(f"{LENS}/h100/{name}") for name in names] + [report(RESNET)]:
        program = {r["cause"]: r["chip_ns"] for r in found["ledger"] if r["layer"] == "program"}
        goodput = found["goodput"]
        assert sum(program.values()) == goodput["rg"]["numerator_ns"] == goodput["pg"]["denominator_ns"]
        assert program["ideal"] == goodput["pg"]["numerator_ns"] == goodput["mfu"]["numerator_ns"]
        assert goodput["mfu"]["denominator_ns"] == goodput["rg"]["denominator_ns"]
        assert json.loads(found["ops"][0]["dims"])
