"""Normalisation layers: no matrix products, so only bytes. Means and inverse deviations are kept in float."""

from __future__ import annotations

from functools import partial

from mpg_cli.goodput.models.costs import Cost, Model, vector
from mpg_cli.goodput.models.shapes import Call, Tensor

MODEL = "normalisation"


def layer_norm(call: Call, weight: int = 2, bias: int | None = 3, saved: int = 2) -> Cost | None:
    """native_layer_norm (x, shape, weight, bias): reads all, writes x's shape and `saved` statistics per row.

    The rows are what is left of x without the normalised shape, which is the argument 1 or the weight's
    shape.
    """
    x, scale = call.tensor(0), call.tensor(weight)
    if x is None:
        return None
    shape = scale.shape if scale else call.integers(1)
    shift = call.tensor(bias) if bias is not None else None
    if not shape or x.shape[-len(shape) :] != shape:
        return vector(MODEL, [x, x, scale, shift], exact=False)
    rows = x.shape[: -len(shape)]
    return vector(MODEL, [x, x, scale, shift, *[Tensor(rows, "float")] * saved])


def layer_norm_backward(
    call: Call, tensors: tuple[int, ...] = (0, 1, 3, 4, 5), params: tuple[int, ...] = (5, 6)
) -> Cost | None:
    """native_layer_norm_backward (gradient, x, shape, mean, rstd, weight, bias): reads the tensors at
    `tensors`, writes gradients of x and of the parameters at `params`.
    """
    x = call.tensor(1)
    if call.tensor(0) is None or x is None:
        return None
    return vector(MODEL, [*map(call.tensor, tensors), x, *map(call.tensor, params)])


def batch_norm(call: Call) -> Cost | None:
    """native_batch_norm (x, weight, bias, running mean, running variance, training, …), cuDNN's and MIOpen's
    alike.

    Reads all; in training writes x's shape, the running statistics, and the batch's mean and inverse
    deviation. cuDNN's reserve space is not counted.
    """
    x = call.tensor(0)
    if x is None or len(x.shape) < 2:
        return None
    inputs = [x, *(call.tensor(index) for index in (1, 2, 3, 4))]
    training = call.flag(5)
    if not training:
        return vector(MODEL, [*inputs, x], exact=training is not None)
    saved = Tensor((x.shape[1],), "float")
    return vector(MODEL, [*inputs, x, call.tensor(3), call.tensor(4), saved, saved])


def batch_norm_backward(call: Call, x: int, gradient: int, saved: tuple[int, int]) -> Cost | None:
    """*_batch_norm_backward: reads x, the gradient, the weight (argument 2) and what the forward pass saved;
    writes the gradients of x, weight and bias.
    """
    values, incoming, weight = call.tensor(x), call.tensor(gradient), call.tensor(2)
    if values is None or incoming is None:
        return None
    return vector(MODEL, [values, incoming, weight, *map(call.tensor, saved), values, weight, weight])


def group_norm(call: Call) -> Cost | None:
    """native_group_norm (x, weight, bias, N, C, size, groups, eps): two statistics per sample and group."""
    x, batch, groups = call.tensor(0), call.integer(3), call.integer(6)
    if x is None:
        return None
    moved = [x, x, call.tensor(1), call.tensor(2)]
    if batch is None or groups is None:
        return vector(MODEL, moved, exact=False)
    return vector(MODEL, [*moved, *[Tensor((batch, groups), x.dtype)] * 2])


def once(call: Call) -> Cost | None:
    """Operators that are given all inputs and outputs, each touched once: (out, x, weight, …)."""
    return vector(MODEL, call.tensors) if call.tensors and call.complete else None


def returned(call: Call) -> Cost | None:
    """(x, weight, …) with the result returned: x once more."""
    return vector(MODEL, [*call.tensors, call.tensor(0)]) if call.tensor(0) and call.complete else None


def add_in_place(call: Call) -> Cost | None:
    """fused_add_rms_norm (x, residual, weight, eps): both x and the residual are read and written."""
    x, residual, weight = (call.tensor(index) for index in range(3))
    return vector(MODEL, [x, residual, weight, x, residual]) if x and residual and weight else None


OPS: dict[str, Model] = {
    "aten::native_layer_norm": layer_norm,
    "aten::layer_norm": layer_norm,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::_fused_rms_norm": partial(layer_norm, bias=None, saved=1),
    "aten::rms_norm": partial(layer_norm, bias=None, saved=0),
    "aten::_fused_rms_norm_backward": partial(layer_norm_backward, tensors=(0, 1, 3, 4), params=(4,)),
    **{f"aten::{kind}_batch_norm": batch_norm for kind in ("native", "cudnn", "miopen")},
    "aten::native_batch_norm_backward": partial(batch_norm_backward, x=1, gradient=0, saved=(5, 6)),
    "aten::cudnn_batch_norm_backward": partial(batch_norm_backward, x=0, gradient=1, saved=(5, 6)),
    "aten::miopen_batch_norm_backward": partial(batch_norm_backward, x=0, gradient=1, saved=(5, 6)),
    "aten::native_group_norm": group_norm,
    # (out, x, weight, eps): vLLM, SGLang, AITER; AITER's add_rmsnorm is (out, x, residual in, residual out,
    # weight, eps)
    **dict.fromkeys(("_C::rms_norm", "sgl_kernel::rmsnorm", "aiter::rmsnorm", "aiter::add_rmsnorm"), once),
    **dict.fromkeys(("aiter::rmsnorm2d_fwd_with_add", "sgl_kernel::gemma_rmsnorm"), once),
    **dict.fromkeys(("aiter::rmsnorm2d_fwd", "aiter::rms_norm", "aiter::_groupnorm_run"), returned),
    **dict.fromkeys(
        ("_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm", "sgl_kernel::gemma_fused_add_rmsnorm"),
        add_in_place,
    ),
}

WRAPPERS = frozenset({"aten::layer_norm", "aten::rms_norm"})
