import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.models import Tensor, parse
from mpg_cli.goodput.models.shapes import CUT, ELEMENTS, canonical

BF = "c10::BFloat16"


@pytest.mark.parametrize(
    ("dims", "types", "arguments"),
    [
        ("[]", "[]", ()),
        ("[[2, 3], []]", '["float", "Scalar"]', (Tensor((2, 3), "float"), None)),
        (
            "[[], []]",
            '["double", ""]',
            (Tensor((), "double"), None),
        ),  # a tensor without dimensions, and no tensor
        ("[[], []]", '["Double", "Int"]', (None, None)),  # scalars of 2021
        ("[[0]]", '["long int"]', (Tensor((0,), "long int"),)),
        ("[[2], []]", None, (Tensor((2,)), None)),  # types not recorded: [] may be anything
        ("[[2], [3]]", '["float"]', (Tensor((2,), "float"), Tensor((3,)))),
        ("[[[2], [3, 4]], []]", '["TensorList", "Scalar"]', ((Tensor((2,)), Tensor((3, 4))), None)),
        ("[[[2], []]]", '[["float", "double"]]', ((Tensor((2,), "float"), Tensor((), "double")),)),
        ("[[]]", '["TensorList"]', ((),)),  # a list of more than 30, left out
        ("[[\n 2,\n 3\n ]]", f'[\n"{BF}"\n]', (Tensor((2, 3), BF),)),
        ("[[7]]", '["acme::int3"]', (Tensor((7,), "acme::int3"),)),  # an unknown type keeps its name
    ],
)
def test_arguments(dims, types, arguments):
    found = parse(dims, types, None)
    assert found.arguments == arguments
    assert found.complete


@pytest.mark.parametrize(
    ("dims", "arguments"),
    [
        ('[[2], [3], "..."]', (Tensor((2,), "float"), Tensor((3,)))),
        ('[[2], "...", [3]]', (Tensor((2,), "float"),)),  # what stands behind the cut has no known place
        ('[[2, "..."], [3]]', (None, Tensor((3,)))),
        ('[[[2], "..."]]', (None,)),
        ("[[-1], [2]]", (None, Tensor((2,)))),
        ("[[1.5], [true], null, 3, {}]", (None,) * 5),
        ("[[4294967296, 4294967296]]", (None,)),  # 2^64 elements: no real tensor
        (f"[{[1] * 65}]", (None,)),
    ],
)
def test_what_was_cut_or_makes_no_sense_is_left_out_and_said(dims, arguments):
    found = parse(dims, '["float"]', None)
    assert found.arguments == arguments
    assert not found.complete


@pytest.mark.parametrize("dims", [None, "", "{}", "null", "[", "7", '"..."', "[[1]]]", "\ud800", "[" * 5000])
def test_no_readable_dims_no_call(dims):
    assert parse(dims, '["float"]', "[]") is None


def test_scalars():
    texts = (
        '["", "True", "False", "3", "-1", "0.5", "[1, 2]", "[]", "[True, False]", "[1, ...]", "6", 7, true]'
    )
    call = parse("[]", None, texts)
    assert [call.flag(i) for i in (0, 1, 2, 3, 99)] == [None, True, False, None, None]
    assert [call.integer(i) for i in (0, 3, 4, 5, 11, 99)] == [None, 3, -1, None, 7, None]
    assert [call.integers(i) for i in (0, 3, 6, 7, 8, 9)] == [None, None, (1, 2), (), None, None]
    assert [call.flags(i) for i in (6, 8)] == [None, (True, False)]
    assert call.flag(12) is True
    assert (call.dtype_argument(10), call.dtype_argument(0)) == ("float", None)


def test_tensors_without_those_in_lists():
    call = parse("[[2], [[3], [4]], [], [5]]", '["float", "TensorList", "", "int"]', None)
    assert call.tensors == [Tensor((2,), "float"), Tensor((5,), "int")]
    assert (call.tensor(1), call.tensor(9)) == (None, None)
    assert (call.tensor_list(1), call.tensor_list(0)) == ((Tensor((3,)), Tensor((4,))), None)


def test_sizes_in_bytes():
    assert [Tensor((2, 3), dtype).nbytes for dtype in ("double", BF, "bool", "acme", None)] == [
        48,
        12,
        6,
        None,
        None,
    ]
    assert Tensor((), "float").nbytes == 4
    assert (canonical("c10::Float8_e4m3fnuz"), canonical("long"), canonical("acme"), canonical(None)) == (
        "fp8", "int64", None, None,
    )  # fmt: skip


LEAF = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([CUT, "float", "", "TensorList"])
)
ODD = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=2)
)


@given(ODD, ODD, ODD)
def test_no_json_is_odd_enough_to_raise(dims, types, concrete):
    import json

    call = parse(json.dumps(dims), json.dumps(types), json.dumps(concrete))
    if call is not None:
        for index in range(7):
            call.tensor(index), call.tensor_list(index), call.flag(index), call.integer(index)
            call.integers(index), call.flags(index), call.dtype_argument(index)
        assert all(tensor.numel >= 0 for tensor in call.tensors)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_is_odd_enough_to_raise(dims, types):
    parse(dims, types, dims)
    parse(f"[{dims}]", f"[{types}]", f"[{types}]")


def test_every_type_has_a_size():
    assert all(size > 0 for _, size in ELEMENTS.values())
