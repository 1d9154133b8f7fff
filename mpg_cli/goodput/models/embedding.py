"""Look-ups in embedding tables: no matrix products, so only bytes. Rows not looked up are not read."""

from __future__ import annotations

import re

from mpg_cli.goodput.models.costs import Cost, Model, unsized, vector
from mpg_cli.goodput.models.shapes import Call, Tensor

MODEL = "embedding"


def lookup(call: Call) -> Cost | None:
    """embedding (table [rows, width], indices): reads and writes a row per index, at most the whole table."""
    table, indices = call.tensor(0), call.tensor(1)
    if table is None or indices is None or len(table.shape) != 2:
        return None
    result = Tensor((*indices.shape, table.shape[1]), table.dtype)
    return vector(MODEL, [_rows(table, indices), indices, result], dtype=table.dtype)


def lookup_backward(call: Call) -> Cost | None:
    """embedding_dense_backward (gradient, indices, rows, …): writes the gradient of the whole table."""
    gradient, indices, rows = call.tensor(0), call.tensor(1), call.integer(2)
    if gradient is None or indices is None or not gradient.shape:
        return None
    if rows is None:
        return vector(MODEL, [gradient, indices], exact=False)
    return vector(MODEL, [gradient, indices, Tensor((rows, gradient.shape[-1]), gradient.dtype)])


def bag(call: Call) -> Cost | None:
    """_embedding_bag (table, indices, offsets, …): sums the rows of each bag; one bag per offset."""
    table, indices, offsets = (call.tensor(index) for index in range(3))
    if table is None or indices is None or offsets is None or len(table.shape) != 2:
        return None
    result = Tensor((offsets.numel, table.shape[1]), table.dtype)
    return vector(MODEL, [_rows(table, indices), indices, offsets, result], dtype=table.dtype)


def _rows(table: Tensor, indices: Tensor) -> Tensor:
    return Tensor((min(indices.numel, table.shape[0]), table.shape[1]), table.dtype)


def batched(call: Call) -> Cost | None:
    """FBGEMM's many tables in one call, and their optimizer in its backward node: no widths are recorded."""
    return unsized(MODEL) if call.tensors else None


OPS: dict[str, Model] = {
    "aten::embedding": lookup,
    "aten::embedding_dense_backward": lookup_backward,
    "aten::_embedding_bag": bag,
    "aten::_embedding_bag_forward_only": bag,
}
PATTERNS: tuple[tuple[re.Pattern[str], Model], ...] = (
    (re.compile(r"fbgemm::(split|dense|ssd)_embedding_\w*lookup_\w+"), batched),
    (
        re.compile(
            r"(?:fbgemm|fb)::(permute|bounds_check|asynchronous|recat|block_bucketize|jagged|offsets_range)_?\w*"
        ),
        batched,
    ),
    (
        re.compile(r"torch::autograd::CppNode<(SplitLookupFunction_\w+|fbgemm_gpu::PermutePooledEmbs\w*.*)>"),
        batched,
    ),
)

WRAPPERS = frozenset({"aten::embedding"})
