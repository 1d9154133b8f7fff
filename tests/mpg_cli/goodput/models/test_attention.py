from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.models import cost, parse
from mpg_cli.goodput.models.attention import Mask
from tests.mpg_cli.goodput.models.calls import bf, call, t

SMALL = st.integers(1, 5)
HEADS = st.sampled_from([(2, 1), (2, 2), (4, 2), (3, 1)])  # of queries, of keys and values
FLASH = "aten::_flash_attention_forward"


def admitted(queries, keys, *, causal, corner="bottom right", left=-1, right=-1):
    """Pairs of a query and a key, one by one."""
    shift = keys - queries if corner == "bottom right" else 0
    count = 0
    for i in range(queries):
        for j in range(keys):
            ahead = j - (i + shift)
            limit = 0 if causal else right
            count += (limit < 0 or ahead <= limit) and (left < 0 or -ahead <= left)
    return count


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from(["bottom right", "top left"]),
    st.integers(-1, 4),
    st.integers(-1, 4),
)
def test_pairs_are_counted_as_one_by_one(queries, keys, causal, corner, left, right):
    mask = Mask(None if left < 0 else left, 0 if causal else None if right < 0 else right, corner)
    assert mask.pairs(queries, keys) == admitted(
        queries, keys, causal=causal, corner=corner, left=left, right=right
    )


def test_the_pairs_of_a_long_sequence_take_no_time():
    n = 10**12
    assert Mask(None, 0, "bottom right").pairs(n, n) == n * (n + 1) // 2
    assert Mask(127, 0, "bottom right").pairs(n, n) == 128 * n - 127 * 128 // 2


def dense(b, q, k, h, g, d, e):
    """Q, K and V as [batch, tokens, heads, width] and as [batch, heads, tokens, width]."""
    rows = [bf(b, q, h, d), bf(b, k, g, d), bf(b, k, g, e)]
    return rows, [(([s[0], s[2], s[1], s[3]]), dtype) for s, dtype in rows]


def operators(qkv, turned, n, causal):
    """Every dense operator: name, arguments, whether backward, where a causal mask is aligned."""
    yes, q, out = str(causal), qkv[0], qkv[0]
    bhnd = turned[0]
    return [
        (FLASH, [*qkv, "", "", n, n, "0.", yes, "False", "1.", "", "", "", ""], False, "bottom right"),
        (
            "aten::_flash_attention_backward",
            [out, *qkv, out, t(1), "", "", n, n, "0.", yes, "", "", "1.", "", ""],
            True,
            "bottom right",
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [*turned, "0.", yes, "False", "1."],
            False,
            "bottom right",
        ),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            [bhnd, *turned, bhnd, t(1), "", "", n, n, "0.", yes],
            True,
            "bottom right",
        ),
        (
            "aten::_scaled_dot_product_efficient_attention",
            [*turned, "", "True", "0.", yes],
            False,
            "top left",
        ),
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            [bhnd, *turned, "", bhnd, t(1), t(), t(), "0.", "[True]", yes],
            True,
            "top left",
        ),
        (
            "aten::_efficient_attention_forward",
            [*qkv, "", "", "", "", "", "0.", str(int(causal)), "True"],
            False,
            "top left",
        ),
        (
            "aten::_efficient_attention_forward",
            [*qkv, "", "", "", "", "", "0.", str(2 * int(causal)), "True"],
            False,
            "bottom right",
        ),
        (
            "aten::_efficient_attention_backward",
            [q, *qkv, "", q, "", "", n, n, t(1), "0.", t(), t(), str(int(causal)), "False"],
            True,
            "top left",
        ),
        (
            "aten::_scaled_dot_product_cudnn_attention",
            [*turned, "", "True", "0.", yes, "False"],
            False,
            "top left",
        ),
        (
            "aten::_scaled_dot_product_cudnn_attention_backward",
            [bhnd, *turned, bhnd, t(1), t(), t(), "", "", "", n, n, "0.", yes],
            True,
            "top left",
        ),
        ("aten::_cudnn_attention_forward", [*turned, "", "", "", n, n, "True", "0.", yes], False, "top left"),
        ("aten::scaled_dot_product_attention", [*turned, "", "0.", yes, "", "True"], False, "top left"),
        (
            "flash_attn::_flash_attn_forward",
            [*qkv, "0.", "1.", yes, "-1", "-1", "0.", "", "False"],
            False,
            "bottom right",
        ),
        (
            "flash_attn::_flash_attn_backward",
            [q, *qkv, q, t(1), q, qkv[1], qkv[2], "0.", "1.", yes, "-1", "-1"],
            True,
            "bottom right",
        ),
        ("flash_attn_3::fwd", [*qkv, *[""] * 20, "1.", yes, "-1", "-1"], False, "bottom right"),
        (
            "flash_attn_3::_flash_attn_backward",
            [q, *qkv, q, t(1), *[""] * 9, "1.", yes, "-1", "-1"],
            True,
            "bottom right",
        ),
        ("aiter::mha_fwd", [*qkv, "0.", "1.", yes, "-1", "-1"], False, "bottom right"),
        ("aiter::mha_bwd", [q, *qkv, q, t(1), "0.", "1.", yes, "-1", "-1"], True, "bottom right"),
    ]


@given(SMALL, SMALL, SMALL, HEADS, SMALL, SMALL, st.booleans())
def test_flops_are_those_of_the_products_over_the_pairs(b, queries, keys, heads, d, e, causal):
    """Forward: d multiply-adds for a score and e for its part of the output. Backward: S again, dV, dP, dQ
    and dK.
    """
    h, g = heads
    qkv, turned = dense(b, queries, keys, h, g, d, e)
    for op, arguments, backward, corner in operators(qkv, turned, "9", causal):
        pairs = sum(admitted(queries, keys, causal=causal, corner=corner) for _ in range(b * h))
        products = [d, e, e, d, d] if backward else [d, e]
        assert cost(op, call(*arguments)).flops == 2 * pairs * sum(products), op


def test_by_hand():
    """2 sequences of 3 tokens, 4 heads of which 2 share keys, width 8, bf16: 6 of 9 pairs are causal."""
    qkv, turned = dense(2, 3, 3, 4, 2, 8, 8)
    elements = 2 * 3 * 8 * (4 + 2 + 2 + 4)
    for op, arguments, backward, _ in operators(qkv, turned, "3", causal=True):
        found = cost(op, call(*arguments))
        assert (found.flops, found.unit, found.dtype) == (
            2 * (2 * 4 * 6) * 8 * (5 if backward else 2),
            "matrix",
            "c10::BFloat16",
        )
        # backward: Q, K, V, the output and its gradient are read, three gradients written
        assert found.bytes == 2 * elements + backward * 2 * 2 * 3 * 8 * (4 + 4 + 2 + 2), op


def test_one_query_sees_all_keys_before_it():
    """Decoding: 1 query, 7 keys, causal: all 7 at the bottom right, 1 at the top left."""
    qkv, turned = dense(1, 1, 7, 1, 1, 1, 1)
    found = {op: cost(op, call(*rest)).flops for op, rest, _, _ in operators(qkv, turned, "7", causal=True)}
    assert found["flash_attn::_flash_attn_forward"] == 7 * 4
    assert found["aten::scaled_dot_product_attention"] == 1 * 4


def test_a_window():
    """5 queries and keys, causal, one key back: 1 + 2·4 pairs."""
    found = cost(
        FLASH, call(*[bf(1, 5, 1, 1)] * 3, "", "", "5", "5", "0.", "True", "False", "1.", "1", "0", "", "")
    )
    assert found.flops == 4 * 9


def varlen(total, sequences, longest, causal, keys=None):
    return call(
        bf(total, 2, 8),
        *[bf(keys or total, 1, 8)] * 2,
        *[t(sequences + 1, dtype="int")] * 2,
        str(longest),
        str(longest),
        "0.",
        "1.",
        str(causal),
        "-1",
        "-1",
    )


VARLEN = "flash_attn::_flash_attn_varlen_forward"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.booleans())
def test_packed_sequences_are_exact_or_a_lower_bound(lengths, causal):
    """Two heads, width 8: the operator sees only the number of sequences, their total and the longest."""
    found = cost(VARLEN, varlen(sum(lengths), len(lengths), max(lengths), causal))
    true = sum(admitted(n, n, causal=causal) for n in lengths) * 2 * 2 * 16
    assert found.flops <= true
    if len({*lengths}) == 1:
        assert (found.flops, found.exact) == (true, True)
    elif len({*lengths, max(lengths)}) == 2 and len(lengths) == 2:
        assert (found.flops, found.exact) == (true, False)  # the longest and the rest: no other way


def test_packed_sequences_by_hand():
    """7 tokens in 3 sequences, the longest 4: at least 4² + 2² + 1² pairs."""
    found = cost(VARLEN, varlen(7, 3, 4, causal=False))
    assert (found.flops, found.exact) == (21 * 2 * 2 * 16, False)
    assert found.bytes == 2 * (7 * 2 * 8 * 2 + 7 * 8 * 2)
    assert cost(VARLEN, varlen(7, 3, 2, causal=False)) is None  # 3 sequences of at most 2 are no 7 tokens
    assert cost(VARLEN, varlen(7, 3, 4, causal=False, keys=9)) is None  # which query has which keys?


def test_pages_hide_the_lengths():
    arguments = varlen(8, 2, 4, causal=True).arguments
    pages = (*arguments, None, None, None, arguments[3])
    paged = replace(varlen(8, 2, 4, causal=True), arguments=pages)
    assert paged.tensor(15) is not None
    assert cost(VARLEN, paged) is None


def prefill(total, sequences, longest_q, longest_k, annotation=None):
    """AITER's batch prefill over a pool of 100 pages of one token."""
    found = call(
        bf(total, 4, 8),
        bf(100, 2, 8),
        bf(100, 2, 8),
        *[t(sequences + 1, dtype="int")] * 2,
        t(total + 9, dtype="int"),
        str(longest_q),
        str(longest_k),
        "0.",
        "1.",
        "0.",
        "False",
        "True",
        "-1",
        "-1",
        "0",
    )
    return replace(found, annotation=annotation)


PREFILL = "aiter::mha_batch_prefill"


def test_prefill_of_equal_lengths_without_cached_tokens():
    """3 sequences of 4 tokens: 10 causal pairs each; keys and values of 12 tokens are read, not the pool."""
    found = cost(PREFILL, prefill(12, 3, 4, 4))
    assert (found.flops, found.exact) == (3 * 10 * 4 * 2 * 16, True)
    assert found.bytes == 2 * (2 * 12 * 4 * 8 + 2 * 12 * 2 * 8)


def test_ragged_prefill_needs_the_sums_of_the_engine():
    """4 new tokens of 6, and 1 of 4: Σq 5, Σk 10, Σq² 17, Σq·k 28; 28 − (17 − 5)/2 = 22 pairs."""
    assert cost(PREFILL, prefill(5, 2, 4, 6)) is None
    name = "execute_5_context_2(sq5sk10sqsq17sqsk28)_generation_0(sq0sk0sqsq0sqsk0)"
    pairs = admitted(4, 6, causal=True) + admitted(1, 4, causal=True)
    found = cost(PREFILL, prefill(5, 2, 4, 6, name))
    assert (found.flops, found.exact) == (pairs * 4 * 2 * 16, True)
    assert found.bytes == 2 * (2 * 5 * 4 * 8 + 2 * 10 * 2 * 8)
    assert cost(PREFILL, prefill(6, 2, 4, 6, name)) is None  # of another batch


def test_sglang_prefill_as_recorded():
    """15 requests of 1024 tokens, 32 heads of width 128, 8 of keys; the page table has 256 spare entries."""
    dims = "[[15360,32,128],[835874,8,128],[835874,8,128],[16],[16],[15616],[],[],[],[],[],[],[],[],[]]"
    types = '["c10::BFloat16","c10::BFloat16","c10::BFloat16","int","int","int"' + ',"Scalar"' * 9 + "]"
    texts = '["","","","","","","1024","1024","0.","0.08","0.","False","True","-1","-1"]'
    found = cost(PREFILL, parse(dims, types, texts))
    assert (found.flops, found.exact) == (15 * (1024 * 1025 // 2) * 32 * 2 * 256, True)


UNIFIED = "vllm::unified_attention_with_output"
FULL = "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext"
SLIDING = "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausalP16VarSeqQ128Kv128"


@pytest.mark.parametrize(
    ("annotation", "kernel", "pairs"),
    [
        ("execute_context_1(6_36)_generation_0(0)", FULL, 21),
        ("execute_context_1(6)_generation_0(0)", FULL, 21),
        ("execute_8_context_2(sq5sk10sqsq17sqsk28)_generation_3(sq3sk30sqsq3sqsk30)", FULL, 22 + 30),
        ("execute_context_1(6_36)_generation_0(0)", SLIDING, None),  # how wide is the window?
        ("execute_context_1(6_36)_generation_0(0)", "kernel_unified_attention_2d", None),
        ("execute_context_1(6_36)_generation_0(0)", None, None),
        ("execute_context_2(6_18)_generation_0(0)", FULL, None),
        ("execute_context_1(6_36)_generation_1(40)", FULL, None),
        ("execute_context_1(9_81)_generation_0(0)", FULL, None),  # more tokens than the operator has
        ("ProfilerStep#3", FULL, None),
        (None, FULL, None),
    ],
)
def test_unified_attention_of_vllm(annotation, kernel, pairs):
    q, kv = t(8, 4, 16, dtype="c10::Float8_e4m3fn"), bf(8, 2, 16)
    recorded = replace(call(q, kv, kv, bf(8, 4, 16), ""), annotation=annotation, kernel=kernel)
    found = cost(UNIFIED, recorded)
    if pairs is None:
        assert found is None
    else:
        assert (found.flops, found.exact, found.dtype) == (pairs * 4 * 2 * 32, False, "c10::Float8_e4m3fn")
        assert found.bytes == 8 * 4 * 16 * (1 + 2) + 2 * 2 * 8 * 2 * 16


@pytest.mark.parametrize(
    "arguments",
    [
        [bf(1, 3, 4, 8), bf(1, 3, 3, 8), bf(1, 3, 3, 8), "", "", "3", "3", "0.", "True"],  # 3 of 4 heads
        [bf(1, 3, 4, 8), bf(1, 3, 4, 9), bf(1, 3, 4, 8), "", "", "3", "3", "0.", "True"],
        [bf(1, 3, 4, 8), bf(1, 3, 4, 8), bf(1, 4, 4, 8), "", "", "3", "3", "0.", "True"],
        [bf(1, 3, 4, 8), bf(1, 3, 4, 8), bf(1, 3, 4, 8), "", "", "3", "3", "0.", ""],  # causal or not?
        [bf(1, 3, 4, 8), bf(1, 3, 4, 8)],
        [bf(3, 4, 8), bf(3, 4, 8), bf(3, 4, 8), "", "", "3", "3", "0.", "True"],
    ],
)
def test_shapes_that_do_not_suffice(arguments):
    assert cost(FLASH, call(*arguments)) is None
