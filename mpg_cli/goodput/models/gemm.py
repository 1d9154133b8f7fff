"""Matrix products: an M×K by a K×N matrix takes M·N·K multiply-adds, 2·M·N·K FLOPs.

This is what PyTorch's flop counter (torch/utils/flop_counter.py) counts too. Adding a bias is vector work.
"""

from __future__ import annotations

import math
from functools import partial

from mpg_cli.goodput.models.costs import Cost, Model, matrix
from mpg_cli.goodput.models.elementwise import broadcast
from mpg_cli.goodput.models.shapes import Call, Tensor

MODEL = "gemm"
PACKED_FP4 = "c10::Float4_e2m1fn_x2"


def product(
    a: Tensor | None, b: Tensor | None, added: Tensor | None = None, out: str | None = None
) -> Cost | None:
    """[batch…] × M×K by [batch…] × K×N: 2·batch·M·N·K FLOPs; moves a, b, the matrix added and the result.

    The batch dimensions broadcast (torch.matmul); vectors are matrices with one row or column. `out` is the
    element type of the result where it differs from that of `a`.
    """
    if a is None or b is None or not a.shape or not b.shape:
        return None
    rows, columns = _sides(a, b)
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    inner = a.shape[-1]
    if batch is None or inner != b.shape[-2 if len(b.shape) > 1 else -1]:
        return None
    result = Tensor((*batch, *rows, *columns), out or a.dtype)
    flops = 2 * result.numel * inner * (2 if a.dtype == PACKED_FP4 else 1)
    return matrix(MODEL, flops, a, [a, b, added, result])


def _sides(a: Tensor, b: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(M,) and (N,); () for a vector on that side."""
    return a.shape[-2:-1] if len(a.shape) > 1 else (), b.shape[-1:] if len(b.shape) > 1 else ()


def plain(call: Call, out: str | None = None) -> Cost | None:
    """mm, bmm, mv, dot, matmul (a, b): a·b. Signatures as in PyTorch's native_functions.yaml."""
    return product(call.tensor(0), call.tensor(1), out=out)


def added(call: Call) -> Cost | None:
    """addmm, baddbmm, addmv (c, a, b, beta, alpha): beta·c + alpha·a·b; c is not read where beta is 0."""
    c = None if call.text(3) in {"0", "0."} else call.tensor(0)
    return product(call.tensor(1), call.tensor(2), c)


def addbmm(call: Call) -> Cost | None:
    """addbmm (c, a, b, beta, alpha): the products of a batch summed into one matrix; 2·batch·M·N·K FLOPs."""
    c, a, b = (call.tensor(index) for index in range(3))
    whole = product(a, b)
    if whole is None or a is None or b is None or len(a.shape) != 3 or len(b.shape) != 3:
        return None
    result = Tensor((a.shape[1], b.shape[2]), a.dtype)
    return matrix(MODEL, whole.flops, a, [None if call.text(3) in {"0", "0."} else c, a, b, result])


def linear(call: Call) -> Cost | None:
    """linear (x, weight N×K, bias): x·weightᵀ + bias, x being [rows…, K]; 2·rows·N·K FLOPs."""
    x, weight = call.tensor(0), call.tensor(1)
    if x is None or weight is None or len(weight.shape) != 2:
        return None
    return product(x, Tensor(weight.shape[::-1], weight.dtype), call.tensor(2))


def scaled(call: Call) -> Cost | None:
    """_scaled_mm (a, b, scale_a, scale_b, bias, scale_result, out_dtype): a·b in fp8 or fp4."""
    extra = [call.tensor(index) for index in (2, 3, 4, 5)]
    found = product(call.tensor(0), call.tensor(1), out=call.dtype_argument(6))
    return found and _with_extra(found, extra)


def _with_extra(found: Cost, extra: list[Tensor | None]) -> Cost:
    sizes = [tensor.nbytes for tensor in extra if tensor]
    known = [size for size in sizes if size is not None]
    total = None if found.bytes is None or len(known) != len(sizes) else found.bytes + sum(known)
    return Cost(found.flops, total, found.dtype, found.unit, found.model, found.exact)


def into(call: Call) -> Cost | None:
    """cutlass_scaled_mm (out, a, b, …) of vLLM: a·b into out."""
    out = call.tensor(0)
    found = product(call.tensor(1), call.tensor(2), out=out.dtype if out else None)
    return found if out and found and out.numel * 2 * _inner(call.tensor(1)) == found.flops else None


def _inner(a: Tensor | None) -> int:
    return a.shape[-1] if a and a.shape else 0


def grouped(call: Call, offsets: int = 2, out_dtype: int = 4, default: str | None = None) -> Cost | None:
    """_grouped_mm (a, b, offsets, bias, out_dtype): one product per group, whose sizes in one dimension
    differ.

    Rows M·K by groups G·K·N: 2·M·K·N; G·M·K by K·N: 2·M·K·N; M·K by K·N with K cut into groups: 2·M·K·N;
    G·M·K by G·K·N: 2·G·M·K·N. M, N or K is the total over the groups; elements past the last offset, which
    the offsets hide, count as work. The scales of the fp8 form are not counted in the bytes.
    """
    a, b, groups = call.tensor(0), call.tensor(1), call.tensor(offsets)
    if a is None or b is None or not {len(a.shape), len(b.shape)} <= {2, 3} or a.shape[-1] != b.shape[-2]:
        return None
    out = call.dtype_argument(out_dtype) or default or a.dtype
    lead = _groups(a, b, groups)
    if lead is None:
        return None
    scale = a.shape[0] if len(a.shape) == len(b.shape) == 3 else 1
    flops = 2 * scale * a.shape[-2] * a.shape[-1] * b.shape[-1] * (2 if a.dtype == PACKED_FP4 else 1)
    return matrix("grouped gemm", flops, a, [a, b, groups, Tensor((*lead, a.shape[-2], b.shape[-1]), out)])


def _groups(a: Tensor, b: Tensor, offsets: Tensor | None) -> tuple[int, ...] | None:
    """The leading dimension of the result; None if the shapes do not fit."""
    if len(a.shape) == len(b.shape) == 3:
        return (a.shape[0],) if a.shape[0] == b.shape[0] else None
    if len(a.shape) == len(b.shape) == 2:
        return (offsets.numel,) if offsets else None
    return ()


def squares(shapes: list[Tensor]) -> int | None:
    """2·M·N·K from the three matrices of a product, whichever way each of them lies; None if they are not
    such.

    Of M·K, K·N and M·N every size occurs twice.
    """
    sizes = sorted(size for tensor in shapes for size in tensor.shape)
    three_matrices = len(shapes) == 3 and all(len(tensor.shape) == 2 for tensor in shapes)
    if not three_matrices or sizes[::2] != sizes[1::2] or sizes[0] == 0:
        return None
    m, n, k = sizes[::2]
    sides = {(m, n), (m, k), (n, k)}
    return 2 * math.prod((m, n, k)) if sides == {tuple(sorted(t.shape)) for t in shapes} else None


OPS: dict[str, Model] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::vdot", "aten::matmul"), plain),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::_addmm_activation"), added),
    **dict.fromkeys(("aten::addmm_", "aten::baddbmm_", "aten::addmv_"), added),
    "aten::addbmm": addbmm,
    "aten::linear": linear,
    "aten::_int_mm": partial(plain, out="int"),
    "aten::_scaled_mm": scaled,
    "aten::_grouped_mm": grouped,
    "aten::_scaled_grouped_mm": partial(grouped, offsets=4, out_dtype=7, default="c10::BFloat16"),
    # x, weight N×K, bias: vLLM on ROCm, and AITER
    "vllm::rocm_unquantized_gemm": linear,
    "aiter::gemm_a16w16": linear,
    "_C::cutlass_scaled_mm": into,
}

WRAPPERS = frozenset({"aten::linear", "aten::matmul", "vllm::rocm_unquantized_gemm", "aiter::gemm_a16w16"})
