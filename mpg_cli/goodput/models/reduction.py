"""Reductions, softmax, losses, pooling, sorting: no matrix products, so only bytes."""

from __future__ import annotations

import math
from functools import partial

from mpg_cli.goodput.models.costs import Cost, Model, vector
from mpg_cli.goodput.models.elementwise import mapped
from mpg_cli.goodput.models.shapes import Call, Tensor, canonical

MODEL = "reduction"
INDEX = "long int"


def reduced(call: Call, dims: int = 1, to: str | None = None, extra: str | None = None) -> Cost | None:
    """sum, mean, max, … (x, dims, keepdim): reads x, writes one element per slice (in type `to` if given).

    dims: where the dimensions stand; extra: element type of a second result, where dimensions are given (the
    indices of a maximum). Without scalar arguments in the record the result's size is unknown: only x is
    counted.
    """
    x = call.tensor(0)
    if x is None:
        return None
    if not call.concrete:
        return vector(MODEL, [x], exact=False)
    over = _dimensions(call, dims)
    shape = kept(x.shape, over)
    if shape is None:
        return vector(MODEL, [x], exact=False)
    second = Tensor(shape, extra) if extra and over else None
    return vector(MODEL, [x, Tensor(shape, to or call.dtype_argument(dims + 2) or _sum_type(x)), second])


def _dimensions(call: Call, index: int) -> tuple[int, ...]:
    """The dimensions to reduce, () for all: a list, or a number in the forms with `keepdim` behind it."""
    one = call.integer(index) if len(call.arguments) > index + 1 else None
    return call.integers(index) or (() if one is None else (one,))


def kept(shape: tuple[int, ...], over: tuple[int, ...]) -> tuple[int, ...] | None:
    """`shape` without the dimensions in `over`, () for all of them. None for one it does not have."""
    rank = len(shape)
    if any(not -rank <= dim < rank for dim in over):
        return None
    gone = {dim % rank for dim in over} if over else set(range(rank))
    return tuple(size for dim, size in enumerate(shape) if dim not in gone)


def _sum_type(x: Tensor) -> str | None:
    """Integers are summed as 64-bit integers; everything else keeps its type."""
    name = canonical(x.dtype) or ""
    return INDEX if name.startswith(("int", "uint", "bool")) else x.dtype


def extreme(call: Call) -> Cost | None:
    """max, min: of one tensor, along a dimension with indices, or of two tensors element by element."""
    return mapped(call, 2) if call.tensor(1) else reduced(call, extra=INDEX)


def scanned(call: Call) -> Cost | None:
    """cumsum, softmax, log_softmax …: reads x, writes a result of its shape."""
    x = call.tensor(0)
    return vector("scan", [x, x]) if x else None


def softmax(call: Call) -> Cost | None:
    """_softmax, _log_softmax (x, dim, half_to_float): reads x, writes its shape, in float if asked to."""
    x = call.tensor(0)
    return vector("softmax", [x, Tensor(x.shape, "float" if call.flag(2) else x.dtype)]) if x else None


def softmax_backward(call: Call) -> Cost | None:
    """_softmax_backward_data (gradient, output, dim, input type): writes the gradient of the input."""
    gradient, output = call.tensor(0), call.tensor(1)
    if gradient is None or output is None:
        return None
    return vector("softmax", [gradient, output, Tensor(output.shape, call.dtype_argument(3) or output.dtype)])


def topk(call: Call) -> Cost | None:
    """topk (x, k, dim, …): reads x, writes k values and indices of each slice."""
    x, k = call.tensor(0), call.integer(1)
    if x is None or not x.shape or k is None:
        return None
    dim = call.integer(2)
    rest = kept(x.shape, (-1 if dim is None else dim,))
    return (
        None if rest is None else vector(MODEL, [x, Tensor((*rest, k), x.dtype), Tensor((*rest, k), INDEX)])
    )


def sort(call: Call) -> Cost | None:
    """sort (x, …): reads x, writes values and indices."""
    x = call.tensor(0)
    return vector("sort", [x, x, Tensor(x.shape, INDEX)]) if x else None


def nll_loss(call: Call) -> Cost | None:
    """nll_loss_forward (log-probabilities [N, classes, …], target [N, …], weight, reduction): picks one value
    per target and writes their sum or mean, or all of them for reduction 0.
    """
    logs, target = call.tensor(0), call.tensor(1)
    if logs is None or target is None:
        return None
    picked = Tensor(target.shape, logs.dtype)
    result = picked if call.text(3) == "0" else Tensor((), logs.dtype)
    return vector("loss", [picked, target, call.tensor(2), result], dtype=logs.dtype)


def nll_loss_backward(call: Call) -> Cost | None:
    """nll_loss_backward (gradient, log-probabilities, target, …): writes a gradient like the second."""
    logs = call.tensor(1)
    return vector("loss", [call.tensor(0), call.tensor(2), logs], dtype=logs.dtype) if logs else None


def cross_entropy(call: Call) -> Cost | None:
    """cross_entropy_loss (logits, target, weight, reduction): reads the logits once; as if fused."""
    logits, target = call.tensor(0), call.tensor(1)
    if logits is None or target is None:
        return None
    result = Tensor(target.shape if call.text(3) == "0" else (), logits.dtype)
    return vector("loss", [logits, target, call.tensor(2), result])


def pairwise_loss(call: Call, reduction: int = 2) -> Cost | None:
    """mse_loss, … (x, target, reduction): reads both; writes all for reduction 0, else one element."""
    x, target = call.tensor(0), call.tensor(1)
    if x is None or target is None:
        return None
    return vector("loss", [x, target, Tensor(x.shape if call.text(reduction) == "0" else (), x.dtype)])


def pairwise_loss_backward(call: Call) -> Cost | None:
    """mse_loss_backward, … (gradient, x, target, …): reads all, writes the gradient of x."""
    gradient, x, target = (call.tensor(index) for index in range(3))
    return vector("loss", [gradient, x, target, x], dtype=x.dtype) if x and gradient and target else None


def pooled(call: Call, indices: str | None = None, ceil: int = 5, dilation: int | None = None) -> Cost | None:
    """max_pool, avg_pool (x, kernel, stride, padding, …), x being [(batch,) channels, sizes…].

    Output size along a dimension: (n + 2·padding − dilation·(kernel − 1) − 1) / stride + 1, rounded down.
    """
    x, kernel = call.tensor(0), call.integers(1)
    if x is None:
        return None
    if not kernel or len(kernel) >= len(x.shape) or call.flag(ceil) is not False:
        return vector("pooling", [x], exact=False)
    rank = len(kernel)
    stride = _spread(call.integers(2) or kernel, rank)
    padding = _spread(call.integers(3) or (0,), rank)
    spacing = _spread((call.integers(dilation) if dilation else None) or (1,), rank)
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // max(s, 1) + 1
        for n, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, spacing, strict=True)
    ]
    if min(sizes) < 0:
        return None
    shape = (*x.shape[:-rank], *sizes)
    return vector("pooling", [x, Tensor(shape, x.dtype), Tensor(shape, indices) if indices else None])


def _spread(values: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """One value per dimension: a single one counts for all."""
    return values if len(values) == rank else values[:1] * rank


def adaptive(call: Call) -> Cost | None:
    """_adaptive_avg_pool2d (x, output size): reads x, writes the size asked for."""
    x, size = call.tensor(0), call.integers(1)
    if x is None:
        return None
    if not size or len(size) >= len(x.shape):
        return vector("pooling", [x], exact=False)
    return vector("pooling", [x, Tensor((*x.shape[: -len(size)], *size), x.dtype)])


def pooled_backward(call: Call, indices: int | None = None) -> Cost | None:
    """*_pool_backward (gradient, x, …): reads the gradient and any indices, writes a gradient like x."""
    gradient, x = call.tensor(0), call.tensor(1)
    if gradient is None or x is None:
        return None
    return vector("pooling", [gradient, call.tensor(indices) if indices else None, x])


def counted(call: Call) -> Cost | None:
    """nonzero, unique, …: reads x; how much is written depends on the values."""
    x = call.tensor(0)
    return vector(MODEL, [x], exact=False) if x and math.prod(x.shape) else None


OPS: dict[str, Model] = {
    **{f"aten::{name}": reduced for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "nansum")},
    **{f"aten::{name}": extreme for name in ("max", "min")},
    **{f"aten::{name}": partial(reduced, to=INDEX) for name in ("argmax", "argmin", "count_nonzero")},
    **{f"aten::{name}": partial(reduced, to="bool") for name in ("any", "all")},
    **{f"aten::{name}": reduced for name in ("var", "std")},
    **{f"aten::{name}": partial(reduced, dims=2) for name in ("norm", "linalg_vector_norm")},
    **{f"aten::{name}": scanned for name in ("cumsum", "cumprod", "cumsum_", "logcumsumexp")},
    **{f"aten::{name}": softmax for name in ("_softmax", "_log_softmax")},
    **{
        f"aten::{name}": softmax_backward for name in ("_softmax_backward_data", "_log_softmax_backward_data")
    },
    **{f"aten::{name}": scanned for name in ("softmax", "log_softmax", "_safe_softmax")},
    "aten::topk": topk,
    "aten::sort": sort,
    "aten::nonzero": counted,
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), nll_loss),
    **dict.fromkeys(("aten::nll_loss_backward", "aten::nll_loss2d_backward"), nll_loss_backward),
    "aten::cross_entropy_loss": cross_entropy,
    **{f"aten::{name}": pairwise_loss for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
    **{
        f"aten::{name}_backward": pairwise_loss_backward
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss")
    },
    "aten::binary_cross_entropy": partial(pairwise_loss, reduction=3),
    "aten::binary_cross_entropy_backward": pairwise_loss_backward,
    "aten::max_pool2d_with_indices": partial(pooled, indices=INDEX, dilation=4),
    "aten::max_pool3d_with_indices": partial(pooled, indices=INDEX, dilation=4),
    "aten::avg_pool2d": partial(pooled, ceil=4),
    "aten::avg_pool3d": partial(pooled, ceil=4),
    **dict.fromkeys(("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d"), adaptive),
    **{f"aten::max_pool{n}d_with_indices_backward": partial(pooled_backward, indices=7) for n in (2, 3)},
    **{f"aten::avg_pool{n}d_backward": pooled_backward for n in (2, 3)},
    **{f"aten::_adaptive_avg_pool{n}d_backward": pooled_backward for n in (2, 3)},
}

WRAPPERS = frozenset(
    {"aten::softmax", "aten::log_softmax", "aten::_safe_softmax", "aten::cross_entropy_loss", "aten::norm"}
)
