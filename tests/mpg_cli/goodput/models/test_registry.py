import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput.models import MODELS, Call, Cost, Tensor, cost, has_model, is_wrapper
from mpg_cli.goodput.models.registry import FAMILIES, PATTERNS, WRAPPERS
from mpg_cli.goodput.models.shapes import ELEMENTS, INT64_MAX
from tests.mpg_cli.goodput.models.calls import call, t

GENERATED = [
    "triton_poi_fused_add_0",
    "triton_tem_fused_mm_1",
    "fbgemm::jagged_to_dense",
    "fbgemm::split_embedding_codegen_lookup_sgd_function",
]


@pytest.mark.parametrize(
    "op",
    [
        "aten::mm", "aten::convolution_backward", "aten::_flash_attention_forward", "triton_red_fused_sum_3",
        "fbgemm::bounds_check_indices", "aiter::mha_batch_prefill", "vllm::unified_attention_with_output",
    ],
)  # fmt: skip
def test_operators_with_a_model(op):
    assert has_model(op)


@pytest.mark.parametrize(
    "op",
    [
        "", "mm", "aten::mm2", "aten::view", "CompiledFunction", "vllm::moe_forward", "record_param_comms",
        "triton_", "Xaten::mm",
        "aten::mm\n", "aten::cudnn_convolution_backward", "aten::_scaled_dot_product_attention_math",
        "fbgemm::f8f8bf16",
    ],
)  # fmt: skip
def test_operators_without(op):
    assert not has_model(op)
    assert cost(op, call(t(2, 2), t(2, 2))) is None


def test_no_operator_has_two_models():
    assert sum(len(family.OPS) for family in FAMILIES) == len(MODELS)
    assert not [op for op in MODELS for pattern, _ in PATTERNS if pattern.fullmatch(op)]


def test_wrappers_have_models_and_leaves_are_none():
    assert all(map(has_model, WRAPPERS))
    assert is_wrapper("aten::linear")
    assert not any(
        map(is_wrapper, ("aten::addmm", "aten::cudnn_convolution", "aten::_flash_attention_forward"))
    )


def test_every_model_says_what_it_counts():
    for model in [*MODELS.values(), *(model for _, model in PATTERNS)]:
        function = getattr(model, "func", model)
        assert re.search(r"\w+ \w+", function.__doc__ or ""), function


TENSORS = st.builds(
    Tensor,
    st.lists(st.integers(0, 4) | st.just(2**31), max_size=5).map(tuple),
    st.sampled_from([*ELEMENTS, "acme::int3", None]),
)
TEXTS = st.sampled_from(
    [
        "",
        "True",
        "False",
        "0",
        "1",
        "2",
        "-1",
        "0.5",
        "[1, 1]",
        "[0]",
        "[]",
        "[-9, 99]",
        "[True, False, True]",
        "x",
    ]
)
CALLS = st.builds(
    Call,
    st.lists(st.none() | TENSORS | st.lists(TENSORS, max_size=3).map(tuple), max_size=18).map(tuple),
    st.lists(TEXTS, max_size=20).map(tuple),
    st.booleans(),
    output=st.none() | st.lists(st.integers(0, 4), max_size=5).map(tuple),
    annotation=st.sampled_from([None, "execute_context_1(4_16)_generation_0(0)"]),
    kernel=st.sampled_from([None, "PagedKvCausal"]),
)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from([*MODELS, *GENERATED]), CALLS)
def test_no_call_is_odd_enough_to_raise(op, odd):
    found = cost(op, odd)
    assert found is None or isinstance(found, Cost)
    if found:
        assert 0 <= found.flops <= INT64_MAX
        assert found.bytes is None or 0 <= found.bytes <= INT64_MAX
        assert found.unit == "matrix" or found.flops == 0


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(MODELS)), st.lists(TENSORS, min_size=1, max_size=6))
def test_the_same_with_tensors_only(op, tensors):
    cost(op, Call(tuple(tensors), ("",) * len(tensors)))
