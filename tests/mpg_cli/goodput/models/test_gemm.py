from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.models import cost
from tests.mpg_cli.goodput.models.calls import bf, call, t

SIZE = st.integers(1, 4)
F8 = "c10::Float8_e4m3fn"
F4 = "c10::Float4_e2m1fn_x2"


def loops(*sizes):
    """Two per multiply-add of nested loops of these lengths."""
    return 2 * sum(1 for _ in product(*map(range, sizes)))


# 3×4 by 4×5: 60 multiply-adds; float: 4 bytes
@pytest.mark.parametrize(
    ("op", "arguments", "flops", "moved"),
    [
        ("aten::mm", [t(3, 4), t(4, 5)], 120, 4 * (12 + 20 + 15)),
        ("aten::mm", [bf(3, 4), bf(4, 5)], 120, 2 * (12 + 20 + 15)),
        ("aten::addmm", [t(5), t(3, 4), t(4, 5), "1", "1"], 120, 4 * (5 + 12 + 20 + 15)),
        (
            "aten::addmm",
            [t(3, 5), t(3, 4), t(4, 5), "0", "1"],
            120,
            4 * (12 + 20 + 15),
        ),  # beta 0: c is not read
        ("aten::bmm", [t(2, 3, 4), t(2, 4, 5)], 240, 8 * (12 + 20 + 15)),
        ("aten::baddbmm", [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), "1", "1"], 240, 8 * (15 + 12 + 20 + 15)),
        ("aten::baddbmm", [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), "0", "1"], 240, 8 * (12 + 20 + 15)),
        ("aten::addbmm", [t(3, 5), t(2, 3, 4), t(2, 4, 5), "1", "1"], 240, 4 * (15 + 24 + 40 + 15)),
        ("aten::mv", [t(3, 4), t(4)], 24, 4 * (12 + 4 + 3)),
        ("aten::addmv", [t(3), t(3, 4), t(4), "1", "1"], 24, 4 * (3 + 12 + 4 + 3)),
        ("aten::dot", [t(4), t(4)], 8, 4 * (4 + 4 + 1)),
        ("aten::linear", [t(2, 3, 4), t(5, 4), t(5)], 240, 4 * (24 + 20 + 5 + 30)),
        ("aten::linear", [t(4), t(5, 4), ""], 40, 4 * (4 + 20 + 5)),
        ("aten::matmul", [t(2, 1, 3, 4), t(7, 4, 5)], 2 * 7 * 120, 4 * (24 + 140 + 14 * 15)),
        ("aten::matmul", [t(2, 3, 4), t(4)], 48, 4 * (24 + 4 + 6)),
        ("aten::matmul", [t(4), t(2, 4, 5)], 80, 4 * (4 + 40 + 10)),
        (
            "aten::_int_mm",
            [t(3, 4, dtype="signed char"), t(4, 5, dtype="signed char")],
            120,
            12 + 20 + 4 * 15,
        ),
        # fp8 into bf16 (type 15) with two scales
        (
            "aten::_scaled_mm",
            [t(3, 4, dtype=F8), t(4, 5, dtype=F8), t(), t(), "", "", "15", "True"],
            120,
            12 + 20 + 8 + 30,
        ),
        # two fp4 values in each element: K is 8
        (
            "aten::_scaled_mm",
            [t(3, 4, dtype=F4), t(4, 5, dtype=F4), t(), t(), "", "", "15", "True"],
            240,
            12 + 20 + 8 + 30,
        ),
        (
            "_C::cutlass_scaled_mm",
            [bf(3, 5), t(3, 4, dtype=F8), t(4, 5, dtype=F8), t(1), t(1)],
            120,
            12 + 20 + 30,
        ),
        ("aiter::gemm_a16w16", [bf(3, 4), bf(5, 4), "", "15"], 120, 2 * (12 + 20 + 15)),
        ("vllm::rocm_unquantized_gemm", [bf(3, 4), bf(5, 4), ""], 120, 2 * (12 + 20 + 15)),
        ("aten::_grouped_mm", [bf(3, 4), bf(2, 4, 5), t(2, dtype="int")], 120, 2 * (12 + 40 + 15) + 8),
        (
            "aten::_scaled_grouped_mm",
            [t(3, 4, dtype=F8), t(2, 4, 5, dtype=F8), t(3), t(2, 5), t(2, dtype="int")],
            120,
            12 + 40 + 8 + 30,
        ),
        (
            "triton_tem_fused_mm_1",
            [bf(3, 4), bf(5, 4), bf(3, 5)],
            120,
            2 * (12 + 20 + 15),
        ),  # however they lie
        ("triton_tem_fused_addmm_1", [bf(5), bf(3, 4), bf(4, 5), bf(3, 5)], 120, 2 * (5 + 12 + 20 + 15)),
    ],
)
def test_by_hand(op, arguments, flops, moved):
    found = cost(op, call(*arguments))
    assert (found.flops, found.bytes, found.unit) == (flops, moved, "matrix")


def test_the_attention_products_of_owlv2():
    """(16, 5185, 64) × (16, 64, 5185) in bf16: 55.0589 GFLOP and 881.53 MB, which are 840.70 MiB."""
    first = cost("aten::bmm", call(bf(16, 5185, 64), bf(16, 64, 5185)))
    assert first.flops == 2 * 16 * 5185 * 5185 * 64 == 55_058_892_800
    assert first.bytes == 881_532_960
    assert round(first.bytes / 2**20, 2) == 840.70
    assert first.dtype == "c10::BFloat16"
    second = cost("aten::bmm", call(bf(16, 5185, 5185), bf(16, 5185, 64)))
    assert (second.flops, second.bytes) == (first.flops, first.bytes)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("aten::mm", [t(3, 4), t(5, 4)]),  # inner sizes differ
        ("aten::mm", [t(3, 4)]),
        ("aten::mm", [t(), t(4, 5)]),
        ("aten::bmm", [t(2, 3, 4), t(3, 4, 5)]),  # batches differ
        ("aten::linear", [t(3, 4), t(2, 5, 4), ""]),
        ("aten::mm", [t(3, 4, dtype="c10::complex<float>"), t(4, 5, dtype="c10::complex<float>")]),
        ("aten::_grouped_mm", [bf(2, 3, 4), bf(3, 4, 5), ""]),
        ("aten::_grouped_mm", [bf(3, 4), bf(4, 5), ""]),  # how many groups?
        ("_C::cutlass_scaled_mm", [bf(3, 6), t(3, 4, dtype=F8), t(4, 5, dtype=F8)]),
        ("triton_tem_fused_mm_1", [bf(3, 4), bf(4, 5), bf(3, 6)]),
        ("triton_tem_fused_mm_1", [bf(3, 4), bf(4, 5), bf(3, 5), bf(3, 5)]),  # which is the result?
        ("triton_tem_fused_mm_1", [bf(2, 2), bf(3, 3), bf(2, 3)]),
        ("triton_tem_fused_mm_1", [bf(3, 3), bf(4, 4), bf(5, 5)]),  # sizes pair up, but no product has them
    ],
)
def test_shapes_that_do_not_suffice(op, arguments):
    assert cost(op, call(*arguments)) is None


def test_without_types_the_bytes_are_unknown_and_the_flops_are_not():
    from mpg_cli.goodput.models import parse

    found = cost("aten::mm", parse("[[3, 4], [4, 5]]", None, None))
    assert (found.flops, found.bytes, found.dtype) == (120, None, None)


@given(SIZE, SIZE, SIZE, SIZE)
def test_flops_are_those_of_loops(b, m, n, k):
    single, batch = loops(m, n, k), loops(b, m, n, k)
    assert cost("aten::mm", call(t(m, k), t(k, n))).flops == single
    assert cost("aten::addmm", call(t(n), t(m, k), t(k, n), "1", "1")).flops == single
    assert cost("aten::bmm", call(t(b, m, k), t(b, k, n))).flops == batch
    assert cost("aten::baddbmm", call(t(b, m, n), t(b, m, k), t(b, k, n), "1", "1")).flops == batch
    assert cost("aten::addbmm", call(t(m, n), t(b, m, k), t(b, k, n), "1", "1")).flops == batch
    assert cost("aten::linear", call(t(b, m, k), t(n, k), t(n))).flops == batch
    assert cost("aten::matmul", call(t(b, 1, m, k), t(b, k, n))).flops == loops(b, b, m, n, k)
    assert cost("aten::mv", call(t(m, k), t(k))).flops == loops(m, k)
    assert cost("aten::dot", call(t(k), t(k))).flops == loops(k)
    assert cost("aten::_int_mm", call(t(m, k), t(k, n))).flops == single
    assert cost("aten::_scaled_mm", call(t(m, k), t(k, n), t(), t())).flops == single
    assert cost("triton_tem_fused_mm_0", call(t(k, m), t(k, n), t(n, m))).flops == single


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), SIZE, SIZE)
def test_grouped_flops_are_those_of_loops_over_the_groups(parts, p, q):
    """The sizes of the groups are `parts`; the operator sees only their sum."""
    groups, total = len(parts), sum(parts)
    offsets = t(groups, dtype="int")
    expected = sum(loops(part, p, q) for part in parts)
    assert cost("aten::_grouped_mm", call(bf(total, p), bf(groups, p, q), offsets)).flops == expected
    assert cost("aten::_grouped_mm", call(bf(groups, p, q), bf(q, total), offsets)).flops == expected
    assert cost("aten::_grouped_mm", call(bf(p, total), bf(total, q), offsets)).flops == expected
    assert cost("aten::_grouped_mm", call(bf(groups, p, q), bf(groups, q, 2), "")).flops == loops(
        groups, p, q, 2
    )
