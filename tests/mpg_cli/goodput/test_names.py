"""Every rule on names keeps its promises; arguments and operators go before names."""

import json
from pathlib import Path

import polars as pl
import pytest

from mpg_cli.goodput.names import CLASSES, NameRule, NameRules
from mpg_parsers.errors import UsageError

RULES = NameRules.load()

LOOK_LIKE_COMMUNICATION = [
    "hipblaslt_foo_kernel",
    "hipMemsetKernel",
    "triton_poi_fused_all_gather_into_tensor_cat_view_wait_tensor_3",
    "triton_red_fused_all_reduce_mean_pow_rsqrt_1",
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float> >",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "void vllm::moe::moe_align_block_size_kernel<int>(int*, int*)",
    "void at::native::elementwise_kernel<128, 2, at::native::BroadcastFunctor<float> >(int)",
    "void cudnn::ring_attention_softmax_kernel<float>()",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
    "vectorizedMemcpyKernel",
    "deviceSyncKernel",
    "dma_gather_kernel",
    "fused_dispatch_combine_kernel",
    "void groupnorm_kernel_dispatch_down<float>()",
    "void c10d::checkForNaN<float>(float*, unsigned long)",
    "a_kernel_nobody_knows",
]


Row = tuple[str, str, str | None, str | None]


def frame(*rows: Row) -> pl.DataFrame:
    columns = ("kind", "name", "collective", "linked_op")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def by_name(rules: NameRules, *names: str) -> list[tuple[str, str, str]]:
    out = rules.classify(frame(*(("kernel", name, None, None) for name in names)))
    return list(out.select("activity", "family", "rule").iter_rows())


def test_ids_are_unique_and_classes_known() -> None:
    assert len({rule.id for rule in RULES.rules}) == len(RULES.rules)
    assert {rule.activity for rule in RULES.rules} == set(CLASSES)


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_examples_reach_their_own_rule_first(rule: NameRule) -> None:
    assert rule.examples
    expected = [(rule.activity, rule.family, rule.id)] * len(rule.examples)
    assert by_name(RULES, *rule.examples) == expected


@pytest.mark.parametrize("rule", [r for r in RULES.rules if r.excluded], ids=lambda rule: rule.id)
def test_excluded_names_get_another_class(rule: NameRule) -> None:
    assert rule.activity not in [activity for activity, _, _ in by_name(RULES, *rule.excluded)]


def test_names_that_look_like_communication_are_compute() -> None:
    assert [a for a, _, _ in by_name(RULES, *LOOK_LIKE_COMMUNICATION)] == ["compute"] * len(
        LOOK_LIKE_COMMUNICATION
    )


PUBLIC_NAMES = Path(__file__).parents[4] / "shared" / "corpus" / "hard_inputs" / "comm-kernel-names"


@pytest.mark.skipif(not PUBLIC_NAMES.exists(), reason="needs the corpus of hard inputs beside the repository")
def test_names_from_public_traces() -> None:
    expected = json.loads((PUBLIC_NAMES / "expected.json").read_text())["expected"]["classification"]
    found = by_name(RULES, *expected)
    assert {name: activity for name, (activity, _, _) in zip(expected, found, strict=True)} == expected


def test_a_name_without_a_rule_is_unknown_compute() -> None:
    assert by_name(RULES, "a_kernel_nobody_knows") == [("compute", "unknown", "no rule")]


NCCL = "ncclDevKernel_AllGather_RING_LL()"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("memcpy", "Memcpy HtoD (Pinned -> Device)", None, None), ("memory", "copy", "copy or set record")),
        (("memset", NCCL, "allreduce", None), ("memory", "set", "copy or set record")),
        (("graph", "graph 7", "allreduce", None), ("other", "graph", "graph-level row")),
        (("kernel", NCCL, "allgather", None), ("comm", "nccl", "collective arguments")),
        (("kernel", "k", "allgather", None), ("comm", "collective", "collective arguments")),
        (("kernel", "volta_sgemm_32x32_nt", "x", None), ("comm", "collective", "collective arguments")),
        (("kernel", "k", None, "record_param_comms"), ("comm", "collective", "linked operator")),
        (("kernel", NCCL, None, "c10d::allreduce_"), ("comm", "nccl", "linked operator")),
        (("kernel", "k", None, "_c10d_functional::all_reduce"), ("comm", "collective", "linked operator")),
        (("kernel", "k", None, "my_record_param_comms"), ("compute", "unknown", "no rule")),
        (("kernel", "ampere_sgemm_128x64_nn", None, "aten::mm"), ("compute", "gemm", "gemm")),
        (("kernel", NCCL, None, "aten::mm"), ("comm", "nccl", "nccl")),
        (("kernel", "__amd_rocclr_copyBuffer", None, None), ("memory", "copy", "runtime-copy")),
    ],
)
def test_order_of_evidence(
    row: tuple[str, str, str | None, str | None], expected: tuple[str, str, str]
) -> None:
    assert RULES.classify(frame(row)).select("activity", "family", "rule").row(0) == expected


def test_rows_keep_their_order_and_other_columns() -> None:
    ops = frame(("kernel", "b", None, None), ("memset", "a", None, None), ("kernel", NCCL, None, None))
    ops = pl.concat([ops] * 50).with_row_index("row")
    out = RULES.classify(ops)
    assert out.columns == [*ops.columns, "activity", "family", "rule"]
    assert out.select(ops.columns).equals(ops)
    assert out["activity"].to_list() == ["compute", "memory", "comm"] * 50


def test_no_rows() -> None:
    out = RULES.classify(frame())
    assert out.height == 0
    assert out.schema["activity"] == pl.String


def test_user_rules_win_even_under_a_shipped_id() -> None:
    mine = {"id": "nccl", "class": "compute", "family": "fake", "pattern": "^ncclDevKernel_AllGather"}
    rules = NameRules.load([mine])
    assert by_name(rules, NCCL, "ncclKernel_AllReduce()") == [
        ("compute", "fake", "nccl"),
        ("comm", "nccl", "nccl"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pattern": "(?=a)b"}, ["mine", "bad pattern"]),
        ({"pattern": "("}, ["mine", "bad pattern"]),
        ({"class": "communication"}, ["mine", "communication", "comm"]),
        ({"family": None}, ["mine", "family"]),
        ({"pattern": ""}, ["mine", "pattern"]),
        ({"id": None}, ["name rule 1", "id"]),
        ({"examples": "one"}, ["mine", "examples"]),
        ({"not": [1]}, ["mine", "not"]),
    ],
)
def test_a_bad_user_rule_is_named(change: dict[str, object], words: list[str]) -> None:
    entry: dict[str, object] = {"id": "mine", "class": "comm", "family": "x", "pattern": "x"} | change
    with pytest.raises(UsageError) as caught:
        NameRules.load([entry])
    assert [word for word in words if word not in caught.value.message] == []


def with_category(*rows: tuple[str, str, str | None, str | None]) -> pl.DataFrame:
    """kind, name, collective and category of the XLA operation."""
    columns = ("kind", "name", "collective", "category")
    made = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
    return made.with_columns(linked_op=pl.lit(None, pl.String))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("infeed", "infeed.1", None, "infeed"), ("input", "infeed", "infeed record")),
        (("infeed", NCCL, "allreduce", None), ("input", "infeed", "infeed record")),
        (("kernel", "fusion.1", None, "loop fusion"), ("compute", "loop fusion", "category of the XLA operation")),
        (("kernel", "fusion.1", None, None), ("compute", "unknown", "no rule")),
        (("kernel", "sgemm_128x64", None, "custom-call"), ("compute", "gemm", "gemm")),
        (("kernel", "all-reduce.1", "all-reduce", "all-reduce"), ("comm", "collective", "collective arguments")),
        (("memcpy", "copy-done.1", None, "copy-done"), ("memory", "copy", "copy or set record")),
    ],
)  # fmt: skip
def test_operations_of_xla(
    row: tuple[str, str, str | None, str | None], expected: tuple[str, str, str]
) -> None:
    assert RULES.classify(with_category(row)).select("activity", "family", "rule").row(0) == expected


def test_one_name_in_several_categories() -> None:
    """As of the same number in two programs."""
    rows = [
        ("kernel", "fusion.1", None, what) for what in ("loop fusion", None, "input fusion", "loop fusion")
    ]
    out = RULES.classify(with_category(*rows))
    assert out["family"].to_list() == ["loop fusion", "unknown", "input fusion", "loop fusion"]
