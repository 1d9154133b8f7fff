import gzip
import json
from collections import Counter
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mpg_cli.goodput.models import cost, parse
from mpg_cli.goodput.models.convolution import known_outputs, with_output
from tests.mpg_cli.goodput.models.calls import bf, call, t


@dataclass(frozen=True)
class Case:
    batch: int
    groups: int
    inputs: int  # channels per group
    outputs: int
    sizes: tuple
    kernel: tuple
    stride: tuple
    padding: tuple
    dilation: tuple

    @property
    def rank(self):
        return len(self.sizes)

    @property
    def x(self):
        return (self.batch, self.groups * self.inputs, *self.sizes)

    def reach(self, dim):
        return self.dilation[dim] * (self.kernel[dim] - 1) + 1

    def places(self, dim):
        """Where the filter starts along a dimension: it slides by the stride while it fits into the padded
        input.
        """
        last = self.sizes[dim] + self.padding[dim] - self.reach(dim)
        return list(range(-self.padding[dim], last + 1, self.stride[dim]))

    def multiply_adds(self, sizes):
        """Loops over batch, groups, channels, places and taps of the filter."""
        loops = [self.batch, self.groups, self.inputs, self.outputs, *sizes, *self.kernel]
        return sum(1 for _ in product(*map(range, loops)))


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 3))
    small = st.integers(1, 2)
    each = st.tuples(*[small] * rank)
    return Case(
        draw(small),
        draw(small),
        draw(small),
        draw(small),
        draw(st.tuples(*[st.integers(1, 4)] * rank)),
        draw(each),
        draw(each),
        draw(st.tuples(*[st.integers(0, 2)] * rank)),
        draw(each),
    )


def text(values):
    return str(list(values))


def scalars(case, *, transposed="False", output_padding=None):
    more = text(output_padding or (0,) * case.rank)
    return [text(case.stride), text(case.padding), text(case.dilation), transposed, more, str(case.groups)]


@given(cases())
def test_forward_and_backward_flops_are_those_of_loops(case):
    out_sizes = [len(case.places(dim)) for dim in range(case.rank)]
    assume(min(out_sizes) > 0)
    x, weight = t(*case.x), t(case.groups * case.outputs, case.inputs, *case.kernel)
    out = t(case.batch, case.groups * case.outputs, *out_sizes)
    once = 2 * case.multiply_adds(out_sizes)
    found = cost("aten::convolution", call(x, weight, t(case.groups * case.outputs), *scalars(case)))
    elements = prod(x[0]) + prod(weight[0]) + case.groups * case.outputs + prod(out[0])
    assert (found.flops, found.bytes) == (once, 4 * elements)
    # each multiply-add of the forward pass gives one to either gradient
    for mask, times in (("[True, True, True]", 2), ("[True, False, False]", 1), ("[False, True, True]", 1)):
        arguments = (out, x, weight, "[4]", *scalars(case), mask)
        assert cost("aten::convolution_backward", call(*arguments)).flops == times * once


@given(cases(), st.data())
def test_transposed_flops_are_those_of_loops(case, data):
    padding = tuple(min(p, case.reach(dim) // 2) for dim, p in enumerate(case.padding))
    more = data.draw(st.tuples(*[st.integers(0, 1)] * case.rank))
    sizes = tuple(
        (n - 1) * s + case.reach(dim) - 2 * p + o
        for dim, (n, s, p, o) in enumerate(zip(case.sizes, case.stride, padding, more, strict=True))
    )
    assume(min(sizes) > 0)
    x, weight = t(*case.x), t(case.groups * case.inputs, case.outputs, *case.kernel)
    numbers = [text(case.stride), text(padding), text(case.dilation), "True", text(more), str(case.groups)]
    found = cost("aten::convolution", call(x, weight, "", *numbers))
    out = (case.batch, case.groups * case.outputs, *sizes)
    assert found.flops == 2 * case.multiply_adds(case.sizes)
    assert found.bytes == 4 * (prod(x[0]) + prod(weight[0]) + prod(out))
    backward = cost(
        "aten::convolution_backward", call(t(*out), x, weight, "[0]", *numbers, "[True, True, False]")
    )
    assert backward.flops == 2 * found.flops


# x 2×3×5×5, weight 4×3×3×3, stride 2, padding 1: out 2×4×3×3; 2·2·9·108 = 3888 FLOPs; 150 + 108 + 72 elements
@pytest.mark.parametrize(
    ("op", "rest"),
    [
        ("aten::conv2d", ["", "[2, 2]", "[1, 1]", "[1, 1]", "1"]),
        ("aten::conv2d", ["", "[2]", "[1]", "[1]", "1"]),  # one number for all dimensions
        ("aten::convolution", ["", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]),
        (
            "aten::_convolution",
            ["", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "False", "False", "True", "True"],
        ),
        ("aten::cudnn_convolution", ["[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]),
        ("aten::cudnn_convolution_relu", ["", "[2, 2]", "[1, 1]", "[1, 1]", "1"]),
        ("aten::miopen_convolution", ["", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False"]),
        ("aten::mkldnn_convolution", ["", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
        ("aten::slow_conv_dilated2d", ["[3, 3]", "", "[2, 2]", "[1, 1]", "[1, 1]"]),
        ("aten::_slow_conv2d_forward", ["[3, 3]", "", "[2, 2]", "[1, 1]"]),
    ],
)
def test_every_operator_has_its_arguments_where_it_should(op, rest):
    found = cost(op, call(t(2, 3, 5, 5), t(4, 3, 3, 3), *rest))
    assert (found.flops, found.bytes) == (3888, 4 * (150 + 108 + 72))


def test_a_bias_and_an_added_tensor_are_read():
    plain = ["[2, 2]", "[1, 1]", "[1, 1]", "1"]
    biased = cost("aten::conv2d", call(t(2, 3, 5, 5), t(4, 3, 3, 3), t(4), *plain))
    assert (biased.flops, biased.bytes) == (3888, 4 * (150 + 108 + 4 + 72))
    fused = call(t(2, 3, 5, 5), t(4, 3, 3, 3), t(2, 4, 3, 3), "1", t(4), *plain)
    assert cost("aten::cudnn_convolution_add_relu", fused).bytes == 4 * (150 + 108 + 4 + 72 + 72)


@pytest.mark.parametrize(
    ("op", "rest"),
    [
        ("aten::conv_transpose2d", ["", "[2, 2]", "[1, 1]", "[1, 1]", "1", "[1, 1]"]),
        ("aten::cudnn_convolution_transpose", ["[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
        ("aten::miopen_convolution_transpose", ["", "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
        ("aten::slow_conv_transpose2d", ["[3, 3]", "", "[2, 2]", "[1, 1]", "[1, 1]", "[1, 1]"]),
    ],
)
def test_transposed_operators(op, rest):
    """x 2×3×3×3, weight 3×4×3×3, stride 2, padding 1, output padding 1: out 2×4×6×6."""
    found = cost(op, call(t(2, 3, 3, 3), t(3, 4, 3, 3), *rest))
    assert (found.flops, found.bytes) == (2 * 2 * 9 * 108, 4 * (54 + 108 + 288))


def test_depthwise_and_a_batch_of_none():
    depthwise = cost(
        "aten::conv2d", call(bf(2, 3, 5, 5), bf(6, 1, 3, 3), "", "[1, 1]", "[0, 0]", "[1, 1]", "3")
    )
    assert (depthwise.flops, depthwise.bytes) == (2 * 2 * 9 * 54, 2 * (150 + 54 + 108))
    single = cost("aten::conv1d", call(t(3, 5), t(4, 3, 3), "", "[1]", "[0]", "[1]", "1"))
    assert (single.flops, single.bytes) == (2 * 3 * 36, 4 * (15 + 36 + 12))


def test_only_a_bias_gradient_is_vector_work():
    found = cost(
        "aten::convolution_backward",
        call(
            t(2, 4, 3, 3),
            t(2, 3, 5, 5),
            t(4, 3, 3, 3),
            "[4]",
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "1",
            "[False, False, True]",
        ),
    )
    assert (found.flops, found.bytes, found.unit) == (0, 4 * (72 + 4), "vector")


def old(*arguments):
    return call(*arguments, concrete=False)


X, WEIGHT, GRADIENT = t(2, 3, 5, 5), t(4, 3, 3, 3), t(2, 4, 3, 3)


def test_a_record_without_scalars_needs_the_output_from_the_backward_pass():
    forward = old(X, WEIGHT, "", "", "", "", "", "", "")
    assert cost("aten::cudnn_convolution", forward) is None
    around = old(X, GRADIENT, WEIGHT, *[""] * 8)
    outputs = known_outputs([("aten::add", around), ("aten::cudnn_convolution_backward", around)])
    found = cost("aten::cudnn_convolution", with_output(forward, outputs))
    assert (found.flops, found.bytes) == (3888, 4 * (150 + 108 + 72))
    other = old(X, t(2, 4, 5, 5), WEIGHT, *[""] * 8)
    both = known_outputs([("aten::cudnn_convolution_backward", each) for each in (around, other)])
    assert cost("aten::cudnn_convolution", with_output(forward, both)) is None


def test_the_two_gradients_of_2021():
    from dataclasses import replace

    around = old(X, GRADIENT, WEIGHT, *[""] * 8)
    of_input = replace(old("", GRADIENT, WEIGHT, *[""] * 7), parent=around)
    of_weight = replace(old("", GRADIENT, X, *[""] * 7), parent=around)
    for op, each in (("input", of_input), ("weight", of_weight)):
        found = cost(f"aten::cudnn_convolution_backward_{op}", each)
        assert (found.flops, found.bytes) == (3888, 4 * (150 + 108 + 72))
    assert cost("aten::cudnn_convolution_backward_weight", replace(of_weight, parent=None)) is None
    alone = cost("aten::cudnn_convolution_backward_input", replace(of_input, parent=None))
    assert (alone.flops, alone.bytes) == (3888, None)


@pytest.mark.parametrize(
    "arguments",
    [
        [t(2, 3, 5, 5), t(4, 2, 3, 3), "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],  # channels do not fit
        [t(2, 3, 5, 5), t(4, 3, 3, 3), "", "[0, 0]", "[0, 0]", "[1, 1]", "1"],  # stride 0
        [t(2, 3, 5, 5), t(4, 3, 3, 3), "", "[1, 1]", "same", "[1, 1]", "1"],
        [t(2, 3, 2, 2), t(4, 3, 5, 5), "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],  # the filter is larger
        [t(3, 5), t(4, 3), "", "[1]", "[0]", "[1]", "1"],
        [t(2, 3, 5, 5), "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],
        [t(2, 0, 5, 5), t(4, 0, 3, 3), "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],
    ],
)
def test_shapes_that_do_not_suffice(arguments):
    assert cost("aten::conv2d", call(*arguments)) is None


SAMPLE = (
    Path(__file__).resolve().parents[5]
    / "shared/corpus/pytorch/kineto_tb_plugin/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
)


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the corpus is not beside the project")
def test_resnet50_training_of_2021():
    """Six steps of 32 images: 4.09 G multiply-adds forward in 53 convolutions, twice that backward less what
    the first one would need for the gradient of the images (118 M).
    """
    events = json.loads(gzip.decompress(SAMPLE.read_bytes()))["traceEvents"]
    calls = [
        (event["name"], event["args"]) for event in events if "cudnn_convolution" in event.get("name", "")
    ]
    parsed = [
        (name, parse(json.dumps(args["Input Dims"]), json.dumps(args["Input type"]), None))
        for name, args in calls
    ]
    outputs = known_outputs(parsed)
    forward = [
        cost(name, with_output(each, outputs)).flops
        for name, each in parsed
        if name == "aten::cudnn_convolution"
    ]
    assert len(forward) == 6 * 53
    assert sum(forward) / (6 * 32 * 2) == pytest.approx(4.087e9, rel=1e-3)
    inputs = [cost(name, each).flops for name, each in parsed if name.endswith("backward_input")]
    first = 2 * 32 * 112 * 112 * 64 * 3 * 49
    assert sum(inputs) == sum(forward) - 6 * first
    assert Counter(forward)[first] == 6
