"""Models of vector work: 0 matrix FLOPs, and bytes counted by hand. 2×3 floats are 24 bytes."""

import pytest

from mpg_cli.goodput.models import cost, parse
from mpg_cli.goodput.models.elementwise import broadcast
from tests.mpg_cli.goodput.models.calls import bf, call, t

I64 = "long int"
X = t(2, 3)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([], ()),
        ([(2, 3), (3,)], (2, 3)),
        ([(2, 1), (1, 3)], (2, 3)),
        ([(), (4,)], (4,)),
        ([(0, 1), (1, 3)], (0, 3)),
        ([(2,), (3,)], None),
        ([(5, 1, 4), (3, 1), (4,)], (5, 3, 4)),
    ],
)
def test_broadcast(shapes, result):
    assert broadcast(*shapes) == result


ELEMENTWISE = [
    ("aten::neg", [X], 24 + 24),
    ("aten::neg_", [X], 24 + 24),
    ("aten::gelu", [bf(2, 3), "none"], 12 + 12),
    ("aten::add", [X, X, "1"], 3 * 24),
    ("aten::add", [X, t(3), "1"], 24 + 12 + 24),
    ("aten::add", [t(2, 1), t(1, 3), "1"], 8 + 12 + 24),
    ("aten::add_", [X, t(3), "1"], 24 + 12 + 24),
    ("aten::mul", [X, "2."], 24 + 24),
    ("aten::mul", [bf(2, 3), X], 12 + 24 + 24),  # promoted to float
    ("aten::mul", [bf(2, 3), t()], 12 + 4 + 12),  # a tensor without dimensions does not promote
    ("aten::mul", [bf(2, 3), t(2, 3, dtype="c10::Half")], 12 + 12 + 24),
    ("aten::mul", [t(2, 3, dtype=I64), "2"], 48 + 48),
    ("aten::mul", [t(2, 3, dtype=I64), "0.5"], 48 + 24),  # an integer by a decimal number is a float
    ("aten::div", [t(2, 3, dtype=I64), "2"], 48 + 24),
    ("aten::sqrt", [t(2, 3, dtype="int")], 24 + 24),
    ("aten::eq", [X, "0"], 24 + 6),
    ("aten::gt", [X, X], 24 + 24 + 6),
    ("aten::isnan", [X], 24 + 6),
    ("aten::logical_not", [t(2, 3, dtype="bool")], 6 + 6),
    ("aten::mul", [X, X, X], 3 * 24),  # out=
    ("aten::sqrt", [X, bf(2, 3)], 24 + 12),  # out=
    ("aten::addcmul_", [X, X, X, "1"], 4 * 24),
    ("aten::addcdiv", [X, X, X, "1"], 4 * 24),
    ("aten::where", [t(2, 3, dtype="bool"), bf(2, 3), bf(1)], 6 + 12 + 2 + 12),
    ("aten::masked_fill_", [X, t(2, 3, dtype="bool"), "0"], 24 + 6 + 24),
    ("aten::threshold_backward", [X, X, "0"], 3 * 24),
    ("aten::fill_", [X, "0"], 24),
    ("aten::zero_", [X], 24),
    ("aten::normal_", [X, "0.", "1.", ""], 24),
    ("aten::copy_", [bf(2, 3), X, "False"], 24 + 12),
    ("aten::copy_", [X, t(3), "False"], 12 + 24),
    ("aten::clone", [bf(2, 3), ""], 12 + 12),
    ("aten::_to_copy", [X, "15", "", "", "", "False", ""], 24 + 12),
    ("aten::native_dropout", [X, "0.1", "True"], 24 + 24 + 6),
    ("aten::native_dropout_backward", [X, t(2, 3, dtype="bool"), "1.1"], 24 + 6 + 24),
    ("aten::upsample_nearest2d", [bf(1, 2, 3, 3), "[6, 6]", "2.", "2."], 2 * (18 + 72)),
    ("aten::upsample_nearest2d_backward", [bf(1, 2, 6, 6), "[6, 6]", "[1, 2, 3, 3]", "", ""], 2 * (72 + 18)),
]
GATHERS = [
    ("aten::gather", [X, "1", t(2, 1, dtype=I64), "False"], 8 + 16 + 8),
    ("aten::index_select", [t(100, 3), "0", t(2, dtype=I64)], 24 + 16 + 24),
    ("aten::index_select", [X, "0", t(5, dtype=I64)], 24 + 40 + 60),  # at most the whole table is read
    ("aten::index_select", [t(3, 100), "-1", t(2, dtype=I64)], 24 + 16 + 24),
    ("aten::embedding", [t(100, 3), t(2, 2, dtype=I64), "-1", "False", "False"], 48 + 32 + 48),
    (
        "aten::embedding_dense_backward",
        [t(2, 2, 3), t(2, 2, dtype=I64), "100", "-1", "False"],
        48 + 32 + 1200,
    ),
    ("aten::_embedding_bag", [t(100, 3), t(5, dtype=I64), t(2, dtype=I64), "False"], 60 + 40 + 16 + 24),
    ("aten::index_add_", [t(9, 3), "0", t(2, dtype=I64), X, "1"], 24 + 16 + 24 + 24),
    ("aten::scatter_", [t(2, 9), "1", t(2, 3, dtype=I64), X], 24 + 48 + 24),
]
REDUCTIONS = [
    ("aten::sum", [X, "[0]", "False", ""], 24 + 12),
    ("aten::sum", [X, "[-1]", "True", ""], 24 + 8),
    ("aten::sum", [X, "[]", "False", ""], 24 + 4),
    ("aten::sum", [X, ""], 24 + 4),
    ("aten::sum", [X, "6"], 24 + 4),  # a type, not a dimension
    ("aten::sum", [bf(2, 3), "[0]", "False", "6"], 12 + 12),
    ("aten::sum", [t(2, 3, dtype="int"), "[0]", "False", ""], 24 + 24),
    ("aten::mean", [t(2, 3, 4), "[0, 2]", "False", ""], 96 + 12),
    ("aten::argmax", [X, "1", "False"], 24 + 16),
    ("aten::argmax", [X, "", "False"], 24 + 8),
    ("aten::any", [t(2, 3, dtype="bool"), "1", "False"], 6 + 2),
    ("aten::all", [t(2, 3, dtype="bool")], 6 + 1),
    ("aten::max", [X, "1", "False"], 24 + 8 + 16),
    ("aten::max", [X], 24 + 4),
    ("aten::max", [X, X], 3 * 24),
    ("aten::linalg_vector_norm", [X, "2", "[-1]", "True", ""], 24 + 8),
    ("aten::cumsum", [X, "0", ""], 48),
    ("aten::_softmax", [bf(2, 3), "-1", "False"], 24),
    ("aten::_softmax", [bf(2, 3), "-1", "True"], 12 + 24),
    ("aten::_log_softmax_backward_data", [X, X, "1", "6"], 3 * 24),
    ("aten::topk", [t(2, 9), "3", "-1", "True", "True"], 72 + 24 + 48),
    ("aten::sort", [X, "-1", "False"], 24 + 24 + 48),
    ("aten::nll_loss_forward", [t(4, 9), t(4, dtype=I64), "", "1", "-100"], 16 + 32 + 4),
    ("aten::nll_loss_forward", [t(4, 9), t(4, dtype=I64), "", "0", "-100"], 16 + 32 + 16),
    ("aten::nll_loss_backward", [t(), t(4, 9), t(4, dtype=I64), "", "1", "-100", t()], 4 + 32 + 144),
    ("aten::cross_entropy_loss", [t(4, 9), t(4, dtype=I64), "", "1", "-100", "0."], 144 + 32 + 4),
    ("aten::mse_loss", [X, X, "1"], 24 + 24 + 4),
    ("aten::mse_loss_backward", [t(), X, X, "1"], 4 + 3 * 24),
    # 5×5, kernel 3, stride 2, padding 1: 3×3
    (
        "aten::max_pool2d_with_indices",
        [t(1, 2, 5, 5), "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"],
        200 + 72 + 144,
    ),
    ("aten::avg_pool2d", [t(2, 4, 4), "[2, 2]", "[]", "[0, 0]", "False", "True", ""], 128 + 32),
    ("aten::_adaptive_avg_pool2d", [t(1, 2, 4, 4), "[1, 1]"], 128 + 8),
    (
        "aten::max_pool2d_with_indices_backward",
        [
            t(1, 2, 3, 3),
            t(1, 2, 5, 5),
            "[3, 3]",
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            t(1, 2, 3, 3, dtype=I64),
        ],
        72 + 144 + 200,
    ),
]
NORMS = [
    # 2 rows of 3 bf16, weight and bias; mean and inverse deviation in float
    ("aten::native_layer_norm", [bf(2, 3), "[3]", bf(3), bf(3), "1e-05"], 12 + 12 + 6 + 6 + 8 + 8),
    ("aten::native_layer_norm", [bf(2, 3), "[3]", "", "", "1e-05"], 12 + 12 + 8 + 8),
    (
        "aten::native_layer_norm_backward",
        [bf(2, 3), bf(2, 3), "[3]", t(2, 1), t(2, 1), bf(3), bf(3), "[True, True, True]"],
        24 + 8 + 8 + 6 + 12 + 6 + 6,
    ),
    ("aten::_fused_rms_norm", [bf(2, 3), "[3]", bf(3), "1e-05"], 12 + 12 + 6 + 8),
    # x 2×3×4 floats: 96 bytes; per channel 12
    (
        "aten::native_batch_norm",
        [t(2, 3, 4), t(3), t(3), t(3), t(3), "True", "0.1", "1e-05"],
        96 * 2 + 12 * 4 + 12 * 2 + 12 * 2,
    ),
    (
        "aten::cudnn_batch_norm",
        [t(2, 3, 4), t(3), t(3), t(3), t(3), "False", "0.1", "1e-05"],
        96 * 2 + 12 * 4,
    ),
    (
        "aten::native_batch_norm_backward",
        [t(2, 3, 4), t(2, 3, 4), t(3), t(3), t(3), t(3), t(3), "True", "1e-05", "[True, True, True]"],
        96 * 3 + 12 * 5,
    ),
    (
        "aten::cudnn_batch_norm_backward",
        [t(2, 3, 4), t(2, 3, 4), t(3), t(3), t(3), t(3), t(3), "1e-05", t(0, dtype="unsigned char")],
        96 * 3 + 12 * 5,
    ),
    (
        "aten::native_group_norm",
        [t(2, 4, 5), t(4), t(4), "2", "4", "5", "2", "1e-05"],
        160 * 2 + 16 * 2 + 16 * 2,
    ),
    ("_C::rms_norm", [bf(2, 3), bf(2, 3), bf(3), "1e-05"], 12 + 12 + 6),
    ("_C::fused_add_rms_norm", [bf(2, 3), bf(2, 3), bf(3), "1e-05"], 4 * 12 + 6),
    ("aiter::rmsnorm", [bf(2, 3), bf(2, 3), bf(3), "1e-06"], 12 + 12 + 6),
    ("aiter::add_rmsnorm", [bf(2, 3), bf(2, 3), bf(2, 3), bf(2, 3), bf(3), "1e-06"], 4 * 12 + 6),
    ("aiter::_groupnorm_run", [bf(1, 4, 5), "2", bf(4), bf(4), "1e-06"], 2 * 40 + 8 + 8),
]
SERVING = [
    ("sgl_kernel::silu_and_mul", [bf(2, 3), bf(2, 6)], 12 + 24),
    ("_C::gelu_tanh_and_mul", [bf(2, 3), bf(2, 6)], 12 + 24),
    # 2 positions of 8 bytes, query 2×4, key 2×2, one table row of 2 each
    (
        "_C::rotary_embedding",
        [t(2, dtype=I64), bf(2, 4), bf(2, 2), "2", bf(99, 2), "True"],
        2 * 16 + 2 * 8 + 16 + 8,
    ),
    (
        "sgl_kernel::rotary_embedding",
        [t(2, dtype=I64), bf(2, 4), "", "2", bf(99, 2), "True"],
        2 * 16 + 16 + 8,
    ),
    (
        "_C_cache_ops::reshape_and_cache_flash",
        [
            bf(2, 1, 4),
            bf(2, 1, 4),
            t(9, 16, 1, 4, dtype="unsigned char"),
            t(9, 16, 1, 4, dtype="unsigned char"),
            t(2, dtype=I64),
        ],
        16 + 16 + 16 + 8 + 8,
    ),
    (
        "sglang::store_cache",
        [bf(2, 4), bf(2, 4), bf(99, 4), bf(99, 4), t(2, dtype=I64), "8", "0"],
        4 * 16 + 16,
    ),
    ("_C::static_scaled_fp8_quant", [t(2, 3, dtype="c10::Float8_e4m3fn"), bf(2, 3), t(1)], 6 + 12 + 4),
]
TRITON = [
    ("triton_poi_fused_addmm_gelu_view_15", [bf(2, 3), bf(3), "6"], 12 + 6),
    ("triton_red_fused_add_mean_0", [bf(2, 3), bf(3), X, "2", "3"], 12 + 6 + 24),
    ("triton_per_fused__to_copy_1", [bf(2, 3), "2", "3"], 12),
]


@pytest.mark.parametrize(
    ("op", "arguments", "moved"), [*ELEMENTWISE, *GATHERS, *REDUCTIONS, *NORMS, *SERVING, *TRITON]
)
def test_by_hand(op, arguments, moved):
    found = cost(op, call(*arguments))
    assert (found.flops, found.bytes, found.unit) == (0, moved, "vector")
    assert found.exact == (not op.startswith("triton"))


def test_lists_of_tensors_have_sizes_but_no_types():
    """The types of a list are not recorded: the bytes of cat and of optimizer steps are unknown."""
    lists = call([t(2, 3), t(3)], [t(2, 3), t(3)], "-0.001")
    for op in ("aten::_foreach_add_", "aten::cat", "aten::_fused_adam_"):
        found = cost(op, lists)
        assert (found.flops, found.bytes, found.unit) == (0, None, "vector")


@pytest.mark.parametrize(
    ("op", "dims", "types", "moved"),
    [
        ("aten::cat", "[[[2, 3], [3]], []]", '[["float", "float"], "Scalar"]', 2 * 36),
        (
            "aten::_foreach_add_",
            "[[[2], [3]], [[2], [3]], []]",
            '[["float", "float"], ["float", "float"], ""]',
            3 * 20,
        ),
        ("aten::_foreach_sqrt", "[[[2], [3]]]", '[["float", "float"]]', 2 * 20),
        ("aten::_foreach_norm", "[[[2], [3]]]", '[["float", "float"]]', 20),
        # parameters, gradients and two moments read, three of them written; the step counts are read
        (
            "aten::_fused_adamw_",
            "[[[2]], [[2]], [[2]], [[2]], [], [[]]]",
            '[["float"], ["float"], ["float"], ["float"], "TensorList", ["float"]]',
            7 * 8 + 4,
        ),
    ],
)
def test_lists_with_types(op, dims, types, moved):
    assert cost(op, parse(dims, types, None)).bytes == moved


def test_a_list_left_out_is_vector_work_of_unknown_size():
    found = cost("aten::_foreach_add_", parse("[[], [], []]", '["TensorList", "TensorList", "Scalar"]', None))
    assert (found.flops, found.bytes, found.exact) == (0, None, False)


@pytest.mark.parametrize(
    "op",
    [
        "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
        "fbgemm::permute_2D_sparse_data",
        "torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>",
        "aten::_index_put_impl_",
    ],
)
def test_vector_work_whose_size_is_hidden(op):
    found = cost(op, call(X, t(5, dtype="int"), ""))
    assert (found.flops, found.bytes) == (0, None)


@pytest.mark.parametrize(
    ("op", "arguments", "moved"),
    [
        ("aten::sum", [X, "", "", ""], 24),
        ("aten::cudnn_batch_norm", [t(2, 3, 4), t(3), t(3), t(3), t(3), "", "", ""], 96 * 2 + 12 * 4),
        ("aten::max_pool2d_with_indices", [t(1, 2, 5, 5), *[""] * 5], 200),
        ("aten::embedding_dense_backward", [t(2, 2, 3), t(2, 2, dtype=I64), "", "", ""], 48 + 32),
    ],
)
def test_without_scalars_what_is_known_is_a_lower_bound(op, arguments, moved):
    """Records before 2023."""
    found = cost(op, call(*arguments, concrete=False))
    assert (found.bytes, found.exact) == (moved, False)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("aten::add", [t(2), t(3)]),
        ("aten::add", ["1", "2"]),
        ("aten::where", [t(2, dtype="bool")]),
        ("aten::copy_", [X]),
        ("aten::topk", [X, "3", "5"]),
        ("aten::embedding", [t(100), t(2, dtype=I64)]),
        ("aten::max_pool2d_with_indices", [t(1, 2, 2, 2), "[9, 9]", "[1, 1]", "[0, 0]", "[1, 1]", "False"]),
        ("aten::native_batch_norm", [t(3)]),
        ("_C::rotary_embedding", [t(2, dtype=I64), bf(2, 4), bf(2, 2), "2", bf(99), "True"]),
        ("_C_cache_ops::reshape_and_cache_flash", [bf(2, 1, 4), bf(2, 1, 4), bf(9, 4)]),
    ],
)
def test_shapes_that_do_not_suffice(op, arguments):
    assert cost(op, call(*arguments)) is None


def test_a_record_that_was_cut_has_no_sum():
    for op in ("aten::add", "triton_poi_fused_add_0", "_C::rms_norm"):
        assert cost(op, parse('[[2], [2], "..."]', '["float", "float"]', None)) is None
    cut = cost("aten::mm", parse('[[2, 3], [3, 4], "..."]', '["float", "float"]', None))
    assert (cut.flops, cut.bytes) == (48, 4 * (6 + 12 + 8))  # what was cut plays no part
