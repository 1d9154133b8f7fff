"""Optimizer steps over lists of tensors (`_foreach_*`, `_fused_*`): vector work, so only bytes.

Kineto gives the shapes of a list but not its types, and leaves out lists of more than 30 tensors: then the
bytes are unknown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mpg_cli.goodput.models.costs import Cost, Model, unsized, vector

if TYPE_CHECKING:
    from mpg_cli.goodput.models.shapes import Call

MODEL = "optimizer"


def lists(call: Call, written: tuple[int, ...] = (0,)) -> Cost | None:
    """Reads every tensor of every list, writes the lists at `written`, or new ones like the first."""
    given = [argument for argument in call.arguments if isinstance(argument, tuple)]
    if not given:
        return None
    outputs = [call.tensor_list(index) or () for index in written]
    if not given[0] or not call.complete:
        return unsized(MODEL)
    return vector(MODEL, [tensor for each in (*given, *outputs) for tensor in each])


BINARY = "add sub mul div maximum minimum pow copy clamp_min clamp_max addcdiv addcmul lerp"
UNARY = "abs neg sqrt rsqrt exp log reciprocal sign round zero sigmoid tanh"

OPS: dict[str, Model] = {
    **{
        f"aten::_foreach_{name}{suffix}": lists
        for name in f"{BINARY} {UNARY}".split()
        for suffix in ("", "_")
    },
    "aten::_foreach_norm": partial(lists, written=()),
    # (parameters, gradients, first moments, second moments, largest second moments, steps, …)
    **{f"aten::_fused_{name}_": partial(lists, written=(0, 2, 3, 4)) for name in ("adam", "adamw")},
    # (parameters, gradients, momentum buffers, …) and (parameters, gradients, sums, steps, …)
    **{f"aten::_fused_{name}_": partial(lists, written=(0, 2)) for name in ("sgd", "adagrad")},
    "aten::_amp_foreach_non_finite_check_and_unscale_": lists,
}
