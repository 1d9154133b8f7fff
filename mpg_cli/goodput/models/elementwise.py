"""Element-wise operators, copies, gathers and scatters: no matrix products, so only bytes.

Operators named with a trailing underscore write into their first argument; others write a result of the
broadcast shape in the promoted type (https://docs.pytorch.org/docs/stable/tensor_attributes.html). An `out=`
argument comes last.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest

from mpg_cli.goodput.models.costs import Cost, Model, unsized, vector
from mpg_cli.goodput.models.shapes import Call, Tensor, canonical

MODEL = "element-wise"


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape: sizes are aligned at the right and 1 stretches. None if there is none."""
    result = []
    for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            return None
        result.append(stretched.pop() if stretched else 1)
    return tuple(reversed(result))


def promote(call: Call, operands: list[Tensor], *, floating: bool = False) -> str | None:
    """The element type of the result; None where a type is unknown.

    Tensors without dimensions take part only if there are no others. Integers become float where the operator
    asks for it (`floating`) or a scalar argument has a decimal point.
    """
    shaped = [tensor for tensor in operands if tensor.shape] or operands
    types = [tensor.dtype for tensor in shaped]
    if any(canonical(dtype) is None for dtype in types):
        return None
    widest = max(types, key=_rank, default=None)
    if {"fp16", "bf16"} <= {canonical(dtype) for dtype in types} and canonical(widest) in {"fp16", "bf16"}:
        return "float"
    floating = floating or any("." in text for text in call.concrete)
    return "float" if floating and _rank(widest)[0] == 0 else widest


def _rank(dtype: str | None) -> tuple[int, int]:
    """Order of promotion: integers, floating point, complex; within each by size."""
    name = canonical(dtype) or ""
    kind = 2 if name.startswith("complex") else 1 if name.startswith(("fp", "bf")) else 0
    return kind, Tensor((1,), dtype).nbytes or 0


def mapped(
    call: Call, arity: int, *, in_place: bool = False, to: str | None = None, floating: bool = False
) -> Cost | None:
    """f(x, y, …): reads `arity` tensors at most, writes the result (in type `to` if given)."""
    tensors = call.tensors
    operands, out = tensors[:arity], tensors[arity : arity + 1]
    shape = broadcast(*(tensor.shape for tensor in operands))
    if not operands or not call.complete or shape is None:
        return None
    if in_place:
        return vector(MODEL, [*operands, operands[0]])
    result = out[0] if out else Tensor(shape, to or promote(call, operands, floating=floating))
    return vector(MODEL, [*operands, result])


def where(call: Call) -> Cost | None:
    """where(condition, a, b): reads all three, writes a result in the type of a and b."""
    values = call.tensors[1:3]
    if not values:
        return None
    return mapped(call, 3, to=promote(call, values))


def written(call: Call) -> Cost | None:
    """fill_, zero_ and random fills: writes the first argument."""
    target = call.tensor(0)
    return vector("fill", [target]) if target else None


def copied(call: Call) -> Cost | None:
    """copy_ (to, from): reads one, writes the other."""
    target, source = call.tensor(0), call.tensor(1)
    return vector("copy", [source, target]) if target and source else None


def cloned(call: Call) -> Cost | None:
    """clone, contiguous, flip, …: reads the tensor, writes one like it."""
    source = call.tensor(0)
    return vector("copy", [source, source]) if source else None


def converted(call: Call) -> Cost | None:
    """_to_copy (x, dtype, …): reads x, writes it in the type asked for."""
    source = call.tensor(0)
    if source is None:
        return None
    return vector("copy", [source, Tensor(source.shape, call.dtype_argument(1) or source.dtype)])


def joined(call: Call) -> Cost | None:
    """cat, stack: every element is read and written. Kineto gives no types for a list: bytes unknown."""
    parts = call.tensor_list(0)
    if parts is None:
        return None
    return vector("copy", [*parts, *parts]) if parts and call.complete else unsized("copy")


def gathered(call: Call) -> Cost | None:
    """gather (x, dim, index): the result has the shape of the index."""
    source, index = call.tensor(0), call.tensor(2)
    if source is None or index is None:
        return None
    result = Tensor(index.shape, source.dtype)
    return vector("gather", [_read(source, result), index, result], dtype=source.dtype)


def selected(call: Call) -> Cost | None:
    """index_select (x, dim, index): whole slices of x, as many as the index has elements."""
    source, index, dim = call.tensor(0), call.tensor(2), call.integer(1)
    if source is None or index is None or not source.shape:
        return None
    if dim is None:  # not recorded before 2023: with one dimension there is no choice
        dim = 0 if len(source.shape) == 1 else None
    if dim is None or not -len(source.shape) <= dim < len(source.shape):
        return unsized("gather")
    sizes = list(source.shape)
    sizes[dim] = index.numel
    result = Tensor(tuple(sizes), source.dtype)
    return vector("gather", [_read(source, result), index, result], dtype=source.dtype)


def _read(table: Tensor, result: Tensor) -> Tensor:
    """What a gather reads of `table`: as much as it writes, at most all of it."""
    return result if result.numel < table.numel else table


def scattered(call: Call, *, add: bool = False) -> Cost | None:
    """scatter_ (x, dim, index, source), index_add_, index_copy_: the source goes into x or is added to it."""
    target, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if target is None or index is None or source is None:
        return None
    touched = Tensor(source.shape, target.dtype)
    return vector("scatter", [source, index, touched, touched if add else None], dtype=target.dtype)


def indexed(call: Call) -> Cost | None:
    """index and index_put with lists of index tensors, whose types are not recorded: bytes unknown."""
    return unsized("gather") if call.tensors else None


def dropout(call: Call) -> Cost | None:
    """native_dropout (x, p, train): writes the result and a mask of one byte per element."""
    x = call.tensor(0)
    return vector(MODEL, [x, x, Tensor(x.shape, "bool")]) if x else None


def resampled(call: Call) -> Cost | None:
    """upsample_* (x, output size, …), x being [batch, channels, sizes…]."""
    x, size = call.tensor(0), call.integers(1)
    if x is None or not size or len(size) != len(x.shape) - 2:
        return None
    return vector("resampling", [x, Tensor((*x.shape[:2], *size), x.dtype)])


def resampled_backward(call: Call) -> Cost | None:
    """upsample_*_backward (gradient, output size, input size, …): writes the gradient of the input."""
    gradient, size = call.tensor(0), call.integers(2)
    return vector("resampling", [gradient, Tensor(size, gradient.dtype)]) if gradient and size else None


UNARY = """abs neg sign ceil floor round trunc frac relu hardtanh hardsigmoid hardswish silu mish gelu elu
    selu celu leaky_relu threshold bitwise_not nan_to_num positive tril triu"""
UNARY_FLOAT = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh
    cosh tanh sigmoid erf erfc erfinv lgamma digamma log_sigmoid logit"""
BINARY = """add sub rsub mul pow remainder fmod maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor
    __lshift__ __rshift__ atan2 prelu clamp_min clamp_max floor_divide xlogy hypot copysign masked_fill
    threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward
    hardtanh_backward hardswish_backward hardsigmoid_backward leaky_relu_backward mish_backward logit_backward
    softplus_backward native_dropout_backward"""
TERNARY = "clamp addcmul addcdiv lerp"
PREDICATES_1 = "isnan isinf isfinite isneginf isposinf logical_not signbit"
PREDICATES_2 = "eq ne lt le gt ge logical_and logical_or logical_xor"
FILLS = "fill_ zero_ uniform_ normal_ bernoulli_ random_ exponential_"
COPIES = "clone contiguous flip roll"
RESAMPLINGS = "nearest1d nearest2d nearest3d linear1d bilinear2d bicubic2d trilinear3d"


def _table(names: str, arity: int, *, to: str | None = None, floating: bool = False) -> dict[str, Model]:
    """The operators and their in-place forms."""
    table: dict[str, Model] = {}
    for name in names.split():
        table[f"aten::{name}"] = partial(mapped, arity=arity, to=to, floating=floating)
        table[f"aten::{name}_"] = partial(mapped, arity=arity, in_place=True)
    return table


OPS: dict[str, Model] = {
    **_table(UNARY, 1),
    **_table(UNARY_FLOAT, 1, floating=True),
    **_table(BINARY, 2),
    **_table("div divide true_divide", 2, floating=True),
    **_table(TERNARY, 3),
    **_table(PREDICATES_1, 1, to="bool"),
    **_table(PREDICATES_2, 2, to="bool"),
    **{f"aten::{name}": written for name in FILLS.split()},
    **{f"aten::{name}": cloned for name in COPIES.split()},
    "aten::where": where,
    "aten::copy_": copied,
    "aten::_to_copy": converted,
    **dict.fromkeys(("aten::cat", "aten::_cat", "aten::concat", "aten::stack"), joined),
    "aten::gather": gathered,
    "aten::index_select": selected,
    **dict.fromkeys(("aten::scatter_", "aten::index_copy_"), scattered),
    **dict.fromkeys(("aten::scatter_add_", "aten::index_add_"), partial(scattered, add=True)),
    **dict.fromkeys(
        ("aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"), indexed
    ),
    "aten::native_dropout": dropout,
    "aten::_fused_dropout": dropout,
    **{f"aten::upsample_{kind}": resampled for kind in RESAMPLINGS.split()},
    **{f"aten::upsample_{kind}_backward": resampled_backward for kind in RESAMPLINGS.split()},
}

WRAPPERS = frozenset(
    {
        "aten::clone", "aten::contiguous", "aten::_to_copy", "aten::zero_", "aten::concat", "aten::stack",
        "aten::index_put_",
    }
)  # fmt: skip
