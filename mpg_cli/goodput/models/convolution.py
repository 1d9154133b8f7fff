"""Convolutions in any number of dimensions: a multiply-add per output element and filter element on it.

    forward       2 · batch · Π(output sizes) · elements of the weight       weight: out × in/groups × kernel…
    transposed    2 · batch · Π(input sizes) · elements of the weight        weight: in × out/groups × kernel…
    backward      as much again for each of the two gradients, of the input and of the weight

Products with padding count, as in PyTorch's flop counter. A bias and its gradient are vector work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from mpg_cli.goodput.models.costs import Cost, Model, matrix, vector
from mpg_cli.goodput.models.shapes import Call, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODEL = "convolution"
Operands = tuple[tuple[int, ...], tuple[int, ...]]
UNKNOWN = Tensor(())  # of unknown type: makes the bytes unknown


@dataclass(frozen=True, slots=True)
class Form:
    """Where an operator has its arguments, -1: nowhere; `transposed`: the place of the flag, or its value."""

    stride: int
    padding: int
    dilation: int = -1
    groups: int = -1
    bias: int = -1
    output_padding: int = -1
    transposed: int | bool = False
    added: int = -1  # a tensor added to the result


def forward(call: Call, form: Form) -> Cost | None:
    """Argument 0 convolved with the weight, argument 1.

    None if the size of the output is not known: records before 2023 have no stride and padding, so that it
    has to come from the caller (`call.output`; see `known_outputs`).
    """
    x, weight = _operands(call)
    transposed = call.flag(form.transposed) if type(form.transposed) is int else form.transposed
    if x is None or weight is None or transposed is None or not _fit(x, weight, transposed=bool(transposed)):
        return None
    out = _output(call, form, x, weight, transposed=bool(transposed))
    spread = x if transposed else out
    if spread is None:
        return None
    extra = [call.tensor(index) for index in (form.bias, form.added) if index >= 0]
    return matrix(MODEL, products(spread, weight), x, [x, weight, *extra, out or UNKNOWN])


def products(spread: Tensor, weight: Tensor) -> int:
    """2 · batch · Π(sizes of `spread`) · elements of the weight; spread is [batch, channels, sizes…]."""
    return 2 * spread.shape[0] * math.prod(spread.shape[2:]) * weight.numel


def _operands(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """The input, given a batch of one if it has none, and the weight."""
    x, weight = call.tensor(0), call.tensor(1)
    if x and weight and len(x.shape) == len(weight.shape) - 1:
        x = Tensor((1, *x.shape), x.dtype)
    return x, weight


def _fit(x: Tensor, weight: Tensor, *, transposed: bool) -> bool:
    """Whether the channels of the two agree."""
    if len(x.shape) != len(weight.shape) or len(weight.shape) < 3 or 0 in weight.shape:
        return False
    if transposed:
        return x.shape[1] == weight.shape[0]
    groups, rest = divmod(x.shape[1], weight.shape[1])
    return rest == 0 and groups > 0 and weight.shape[0] % groups == 0


def _output(call: Call, form: Form, x: Tensor, weight: Tensor, *, transposed: bool) -> Tensor | None:
    """The output, from its shape if the caller knows it, else from stride, padding and dilation."""
    if call.output and len(call.output) == len(x.shape):
        return Tensor(call.output, x.dtype)
    sizes = _sizes(call, form, x, weight, transposed=transposed)
    groups = call.integer(form.groups) if form.groups >= 0 else 1
    if sizes is None or (transposed and groups is None):
        return None
    channels = weight.shape[1] * (groups or 1) if transposed else weight.shape[0]
    return Tensor((x.shape[0], channels, *sizes), x.dtype)


def _sizes(call: Call, form: Form, x: Tensor, weight: Tensor, *, transposed: bool) -> tuple[int, ...] | None:
    """Size along each dimension, with reach d·(k − 1) + 1 of the filter:

    (n + 2·padding − reach) / stride + 1 rounded down, or transposed (n − 1)·stride − 2·padding + reach +
    output padding.
    """
    rank = len(weight.shape) - 2
    stride, padding = _spread(call, form.stride, rank), _spread(call, form.padding, rank)
    dilation, more = _spread(call, form.dilation, rank, 1), _spread(call, form.output_padding, rank, 0)
    if stride is None or padding is None or dilation is None or more is None or min(stride) < 1:
        return None
    sizes = []
    for n, k, s, p, d, o in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, more, strict=True):
        reach = d * (k - 1) + 1
        sizes.append((n - 1) * s - 2 * p + reach + o if transposed else (n + 2 * p - reach) // s + 1)
    return tuple(sizes) if min(sizes) >= 0 else None


def _spread(call: Call, index: int, rank: int, default: int | None = None) -> tuple[int, ...] | None:
    """The numbers at `index`, one per dimension, where one may stand for all; `default` if there are none."""
    if index < 0:
        return None if default is None else (default,) * rank
    values = call.integers(index) or ()
    return values * rank if len(values) == 1 else values if len(values) == rank else None


def backward(call: Call) -> Cost | None:
    """convolution_backward (gradient, x, weight, bias sizes, stride, padding, dilation, transposed, output
    padding, groups, mask): the mask says which gradients of x, weight and bias are computed.
    """
    gradient, x, weight = (call.tensor(index) for index in range(3))
    transposed, mask = call.flag(7), call.flags(10)
    if (
        gradient is None
        or x is None
        or weight is None
        or transposed is None
        or mask is None
        or len(mask) != 3
    ):
        return None
    if not len(gradient.shape) == len(x.shape) == len(weight.shape) >= 3:
        return None
    of_x = [weight, x] if mask[0] else []
    of_weight = [x, weight] if mask[1] else []
    of_bias = [Tensor((gradient.shape[1],), gradient.dtype)] if mask[2] else []
    moved = [gradient, *of_x, *of_weight, *of_bias]
    if not of_x and not of_weight:
        return vector(MODEL, moved)
    count = mask[0] + mask[1]
    return matrix(MODEL, count * products(x if transposed else gradient, weight), gradient, moved)


def input_gradient(call: Call) -> Cost | None:
    """*_convolution_backward_input (size of x, gradient, weight, …), until 2021: the gradient of x."""
    gradient, weight = call.tensor(1), call.tensor(2)
    if gradient is None or weight is None or not len(gradient.shape) == len(weight.shape) >= 3:
        return None
    shape, known = call.integers(0), call.parent.tensor(0) if call.parent else None
    x = Tensor(shape, gradient.dtype) if shape else known or UNKNOWN
    return matrix(MODEL, products(gradient, weight), gradient, [gradient, weight, x])


def weight_gradient(call: Call) -> Cost | None:
    """*_convolution_backward_weight (size of the weight, gradient, x, …), until 2021: the gradient of the
    weight.

    Its size is recorded only in the call around it, *_convolution_backward (x, gradient, weight, …).
    """
    gradient, x = call.tensor(1), call.tensor(2)
    shape, known = call.integers(0), call.parent.tensor(2) if call.parent else None
    weight = Tensor(shape, x.dtype) if shape and x else known
    if gradient is None or x is None or weight is None or not len(gradient.shape) == len(weight.shape) >= 3:
        return None
    return matrix(MODEL, products(gradient, weight), gradient, [gradient, x, weight])


def known_outputs(calls: Iterable[tuple[str, Call]]) -> dict[Operands, tuple[int, ...]]:
    """The shape of the output for each pair of shapes (x, weight) in a trace, from the calls that compute
    gradients, whose incoming gradient has it. Pairs with several outputs (differing strides) are left out.
    """
    found: dict[Operands, set[tuple[int, ...]]] = {}
    for op, call in calls:
        if op in GRADIENTS:
            gradient, x, weight = (call.tensor(index) for index in GRADIENTS[op])
            if gradient and x and weight:
                found.setdefault((x.shape, weight.shape), set()).add(gradient.shape)
    return {operands: shapes.pop() for operands, shapes in found.items() if len(shapes) == 1}


def with_output(call: Call, outputs: Mapping[Operands, tuple[int, ...]]) -> Call:
    """A forward call, with the shape of its output if `outputs` has it."""
    x, weight = call.tensor(0), call.tensor(1)
    shape = outputs.get((x.shape, weight.shape)) if x and weight else None
    return replace(call, output=shape) if shape else call


# the places of the gradient, x and the weight
GRADIENTS = {
    "aten::convolution_backward": (0, 1, 2),
    "aten::cudnn_convolution_backward": (1, 0, 2),
    "aten::miopen_convolution_backward": (1, 0, 2),
}

GENERAL = Form(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
PLAIN = Form(bias=2, stride=3, padding=4, dilation=5, groups=6)
TRANSPOSED = Form(bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True)
MIOPEN = Form(bias=2, padding=3, stride=4, dilation=5, groups=6)
DEPTHWISE = Form(bias=3, stride=4, padding=5, dilation=6)
SLOW_TRANSPOSED = Form(bias=3, stride=4, padding=5, output_padding=6, dilation=7, transposed=True)

# the places of arguments are those of PyTorch's native_functions.yaml
FORMS = {
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), GENERAL),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "cudnn_convolution_relu", "miopen_convolution_relu"), PLAIN
    ),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), TRANSPOSED),
    "cudnn_convolution": Form(padding=2, stride=3, dilation=4, groups=5),
    "cudnn_convolution_transpose": Form(
        padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True
    ),
    "cudnn_convolution_add_relu": Form(added=2, bias=4, stride=5, padding=6, dilation=7, groups=8),
    **dict.fromkeys(("miopen_convolution", "miopen_depthwise_convolution", "mkldnn_convolution"), MIOPEN),
    "miopen_convolution_transpose": Form(
        bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7, transposed=True
    ),
    **dict.fromkeys(("_conv_depthwise2d", "conv_depthwise3d"), DEPTHWISE),
    **dict.fromkeys(("slow_conv_dilated2d", "slow_conv_dilated3d"), DEPTHWISE),
    **dict.fromkeys(("_slow_conv2d_forward", "slow_conv3d_forward"), Form(bias=3, stride=4, padding=5)),
    **dict.fromkeys(("slow_conv_transpose2d", "slow_conv_transpose3d"), SLOW_TRANSPOSED),
}

OPS: dict[str, Model] = {
    **{f"aten::{name}": partial(forward, form=form) for name, form in FORMS.items()},
    "aten::convolution_backward": backward,
    **{f"aten::{library}_convolution_backward_input": input_gradient for library in ("cudnn", "miopen")},
    **{f"aten::{library}_convolution_backward_weight": weight_gradient for library in ("cudnn", "miopen")},
}

WRAPPERS = frozenset(
    {f"aten::conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3)}
    | {"aten::convolution", "aten::_convolution"}
)
