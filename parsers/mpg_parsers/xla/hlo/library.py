"""Custom calls: libraries whose work follows from shapes, calls that compute nothing, and those that say nothing.

Sources: xla/service/gpu/cublas_cudnn.h (targets), backend_configs.proto (their configuration, written as JSON),
gpu_conv_runner.cc (which buffer of a backward convolution is which); jax/_src/pallas (cost_estimate).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from mpg_parsers.xla.hlo.cost import Cost, matrix_work
from mpg_parsers.xla.hlo.errors import HloError
from mpg_parsers.xla.hlo.matrix import convolution_flops, dot_flops, kind

if TYPE_CHECKING:
    from mpg_parsers.xla.hlo.module import Computation, Instruction
    from mpg_parsers.xla.hlo.shapes import Shape

# Notes to the compiler, and calls that at most move data.
_NOTHING = frozenset((
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "MoveToHost",
    "MoveToDevice", "X64Combine", "X64SplitLow", "X64SplitHigh", "AllocateBuffer", "CreateBuffer", "LayoutConstraint",
    "PadToStatic", "SliceToDynamic", "AssumeGatherIndicesInBound", "InspectSharding", "shape_assertion", "Pin", "Unpin",
    "PinToDevice", "PinToDeviceSram", "FusedPin",
))  # fmt: skip
# Device work that multiplies no matrices, or work of the host: its other operations are not counted.
_NO_MATRIX = (
    "__cudnn$norm", "__cudnn$convReorderFilter", "__cub$DeviceRadixSort", "__gpu$TopK", "TopK", "ApproxTopK",
    "PartialReduce", "cu_threefry2x32", "hip_threefry2x32", "xla_python_", "xla_ffi_python_",
    "xla_ffi_partitioned_python_",
)  # fmt: skip
_GEMM = ("__cublas$gemm", "__cublas$lt$")
_PRECISION = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2}
_ALGORITHM = {
    "ALG_DOT_BF16_BF16_BF16": 5, "ALG_DOT_BF16_BF16_F32": 6, "ALG_DOT_BF16_BF16_F32_X3": 7,
    "ALG_DOT_BF16_BF16_F32_X6": 8, "ALG_DOT_TF32_TF32_F32": 9, "ALG_DOT_TF32_TF32_F32_X3": 10,
    "ALG_DOT_BF16_BF16_F32_X9": 13,
}  # fmt: skip


Json = Any  # any JSON value


@dataclass(frozen=True, slots=True)
class _Dimensions:
    rhs_contracting_dimensions: tuple[int, ...]
    rhs_batch_dimensions: tuple[int, ...]


def custom_call(computation: Computation, instruction: Instruction) -> Cost:
    """What a custom call costs; if nothing is known it is listed as opaque and costs 0."""
    target = instruction.proto.custom_call_target.decode("utf-8", "replace")
    if target in _NOTHING or target.startswith("xla.sdy."):
        return Cost()
    found = _counted(computation, instruction, target)
    if found is None:
        found = Cost(opaque={target: 1}, uncounted=1)
    elif not found.bytes:
        found.bytes = _traffic(computation, instruction)
    return found


def _counted(computation: Computation, instruction: Instruction, target: str) -> Cost | None:
    if target.startswith(_NO_MATRIX):
        return Cost(uncounted=1)
    config = _config(instruction.proto.backend_config)
    if target.startswith(_GEMM):
        return _gemm(computation, instruction, config)
    if target.startswith("__cudnn$conv"):
        return _convolution(computation, instruction, target)
    if target.startswith("__cudnn$fmha"):
        return _attention(computation, instruction, config, backward="Backward" in target)
    return _stated(computation, instruction, config)


def _config(text: bytes) -> Json:
    try:
        return json.loads(text) if text[:1] == b"{" else {}
    except (ValueError, RecursionError):
        return {}


def _find(config: Json, key: str, depth: int = 4) -> Json:
    """The value of a key anywhere in nested objects, the outermost first; None if there is none."""
    if not isinstance(config, dict):
        return None
    if key in config:
        return config[key]
    inner = (_find(value, key, depth - 1) for value in config.values()) if depth else ()
    return next((value for value in inner if value is not None), None)


def _integers(value: Json) -> tuple[int, ...] | None:
    """Numbers of a JSON list, where 64-bit ones are texts; None if it is something else."""
    try:
        return tuple(int(item) for item in value) if isinstance(value, list) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _gemm(computation: Computation, instruction: Instruction, config: Json) -> Cost | None:
    numbers = _find(config, "dot_dimension_numbers")
    contracting = _integers(_find(numbers, "rhs_contracting_dimensions"))
    batch = _integers(_find(numbers, "rhs_batch_dimensions") or [])
    if contracting is None or batch is None:
        return None
    groups = _integers(_find(config, "rhs_group_dimensions") or []) or ()
    lhs, rhs = (computation.operand(instruction, index).shape for index in (0, 1))
    precision = _find(config, "precision_config") or {}
    wanted = _find(precision, "operand_precision")
    operands = [_PRECISION.get(str(item), 0) for item in wanted] if isinstance(wanted, list) else []
    sort = kind(lhs.dtype, rhs.dtype, operands, _ALGORITHM.get(str(_find(precision, "algorithm")), 0))
    return matrix_work(sort, dot_flops(lhs, rhs, _Dimensions(contracting, batch), groups))


def _convolution(computation: Computation, instruction: Instruction, target: str) -> Cost:
    first, second = (computation.operand(instruction, index).shape for index in (0, 1))
    result = instruction.shape.first()
    image, kernel, output = first, second, result
    if "BackwardInput" in target:
        image, output = result, first
    elif "BackwardFilter" in target:
        kernel, output = result, second
    return matrix_work(
        kind(first.dtype, second.dtype), convolution_flops(instruction.proto, image, kernel, output)
    )


def _attention(
    computation: Computation, instruction: Instruction, config: Json, *, backward: bool
) -> Cost | None:
    """Attention: scores Q·Kᵀ and their product with V; backward the scores again, and four products for gradients.

    A causal mask is not subtracted, as is usual in counting attention. None if the configuration does not state the
    shape of the scores
    """
    scores = _integers(_find(_find(config, "intermediate_tensor_shape"), "dimensions"))
    query, key, value = (computation.operand(instruction, index).shape for index in (0, 1, 2))
    if not scores or len(scores) > 8 or not (query.dims and value.dims):
        return None
    if min(scores) < 0:
        raise HloError(f"attention {instruction.name!r} has a negative size")
    width, width_value = query.dims[-1], value.dims[-1]
    each = 3 * width + 2 * width_value if backward else width + width_value
    return matrix_work(kind(query.dtype, key.dtype), 2 * prod(scores) * each)


def _stated(computation: Computation, instruction: Instruction, config: Json) -> Cost | None:
    """What the kernel's author states (`cost_estimate` of Pallas), as matrix work of the largest operand's type."""
    estimate = _find(config, "cost_estimate")
    flops = _count(_find(estimate, "flops"))
    if flops is None:
        return None
    operands = [computation.at(number).shape for number in instruction.operands]
    arrays = [shape for shape in operands if shape.elements] or [instruction.shape.first()]
    largest = max(arrays, key=lambda shape: shape.elements)
    cost = matrix_work((largest.dtype, 1), flops)
    cost.stated = flops
    cost.transcendentals = _count(_find(estimate, "transcendentals")) or 0
    cost.bytes = _count(_find(estimate, "bytes_accessed")) or 0
    return cost


def _count(value: Json) -> int | None:
    """A number of 64 bits or a text of one (JSON of protobuf); None if it is something else or negative."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return value if type(value) is int and 0 <= value < 2**63 else None


def _traffic(computation: Computation, instruction: Instruction) -> int:
    """Bytes of operands and results; the scratch space that libraries get as a last result is left out."""
    read = sum(computation.at(number).shape.size for number in instruction.operands)
    return read + sum(part.size for part in results(instruction.shape))


def results(shape: Shape) -> tuple[Shape, ...]:
    """The results of a custom call without scratch space: a last, one-dimensional array of bytes."""
    parts = shape.parts or (shape,)
    scratch = len(parts) > 1 and parts[-1].dtype in ("s8", "u8") and len(parts[-1].dims) == 1
    return parts[:-1] if scratch else parts
