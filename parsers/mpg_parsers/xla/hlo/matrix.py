"""Matrix multiplications and convolutions: how many operations, and of which element type.

Source of the formulas: GetDotFlops and GetConvolutionFlops of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo.cost import Cost, Kind, matrix_work
from mpg_parsers.xla.hlo.errors import HloError
from mpg_parsers.xla.hlo.shapes import BITS, MAX_RANK, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpg_parsers.xla.hlo.messages import Message
    from mpg_parsers.xla.hlo.module import Computation, Instruction

MAX_POSITIONS = 2 * 10**4

# Algorithms that replace one multiplication of wide numbers by several of narrow ones: enum PrecisionConfig.Algorithm
# of xla/xla_data.proto.
_ALGORITHMS: dict[int, Kind] = {
    5: ("bf16", 1), 6: ("bf16", 1), 7: ("bf16", 3), 8: ("bf16", 6), 9: ("tf32", 1), 10: ("tf32", 3),
    13: ("bf16", 9),
}  # fmt: skip
# Passes of f32 operands over units for bf16 by operand precision DEFAULT, HIGH, HIGHEST, as TPUs do it.
_PASSES = {0: 1, 1: 3, 2: 6}


def kind(lhs: str, rhs: str, precision: Iterable[int] = (), algorithm: int = 0) -> Kind:
    """Element type and passes of a multiplication of two element types: the wider type decides.

    precision: one number of enum PrecisionConfig.Precision per operand; algorithm: of PrecisionConfig.Algorithm
    """
    dtype = rhs if BITS.get(rhs, 0) > BITS.get(lhs, 0) else lhs
    if dtype != "f32":
        return dtype, 1
    return _ALGORITHMS.get(algorithm) or (dtype, max((_PASSES.get(item, 1) for item in precision), default=1))


def _size(dims: tuple[int, ...], index: int) -> int:
    if not 0 <= index < len(dims):
        raise HloError(f"dimension {index} of a shape with {len(dims)} is used")
    return dims[index]


def dot_flops(lhs: Shape, rhs: Shape, dimensions: Message, groups: Iterable[int] = ()) -> int:
    """2·M·N·K, batches included: every element of lhs meets every free element of rhs once.

    dimensions: has rhs_contracting_dimensions and rhs_batch_dimensions
    groups: dimensions of rhs of which each row of lhs meets one index only (ragged dot)
    """
    bound = {*dimensions.rhs_contracting_dimensions, *dimensions.rhs_batch_dimensions, *groups}
    for index in bound:
        _size(rhs.dims, index)
    return 2 * lhs.elements * prod(size for index, size in enumerate(rhs.dims) if index not in bound)


def dot(computation: Computation, instruction: Instruction) -> Cost:
    """Cost of dot, ragged-dot and scaled-dot. Of a ragged dot an upper bound: groups may leave rows out."""
    lhs, rhs = (computation.operand(instruction, index).shape for index in (0, 1))
    proto = instruction.proto
    ragged = instruction.opcode == "ragged-dot"
    dimensions = proto.dot_dimension_numbers
    if ragged:
        dimensions = proto.ragged_dot_dimension_numbers.dot_dimension_numbers
    groups = proto.ragged_dot_dimension_numbers.rhs_group_dimensions if ragged else ()
    precision = proto.precision_config
    sort = kind(lhs.dtype, rhs.dtype, precision.operand_precision, precision.algorithm)
    return matrix_work(sort, dot_flops(lhs, rhs, dimensions, groups))


def convolution(computation: Computation, instruction: Instruction) -> Cost:
    """Cost of a convolution operation."""
    lhs, rhs = (computation.operand(instruction, index).shape for index in (0, 1))
    precision = instruction.proto.precision_config
    sort = kind(lhs.dtype, rhs.dtype, precision.operand_precision, precision.algorithm)
    return matrix_work(sort, convolution_flops(instruction.proto, lhs, rhs, instruction.shape))


def convolution_flops(proto: Message, lhs: Shape, rhs: Shape, result: Shape) -> int:
    """Two per multiply-add at positions where the window meets an element of the input, not padding or a gap.

    proto: has window, convolution_dimension_numbers and the numbers of groups; lhs, rhs, result: input, kernel, output.
    """
    numbers = proto.convolution_dimension_numbers
    window = proto.window.dimensions
    spatial = [
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
    ]
    if len(window) > MAX_RANK or any(len(item) < len(window) for item in spatial):
        raise HloError("a convolution has a window of more dimensions than its operands")
    positions = prod(
        valid_positions(item, _size(lhs.dims, i), _size(rhs.dims, k), _size(result.dims, o))
        for item, i, k, o in zip(window, *spatial, strict=False)
    )
    inputs = _size(lhs.dims, numbers.input_feature_dimension) // (proto.feature_group_count or 1)
    batches = _size(lhs.dims, numbers.input_batch_dimension) // (proto.batch_group_count or 1)
    outputs = _size(result.dims, numbers.output_feature_dimension)
    return 2 * inputs * batches * outputs * positions


def valid_positions(window: Message, inputs: int, kernel: int, outputs: int) -> int:
    """Pairs of a kernel index k and an output index o that meet an element of the input, along one dimension.

    That is where o·stride + k·window_dilation - padding_low is a multiple of base_dilation within inputs·base_dilation.
    window: a WindowDimension; a 0 for a stride or dilation is read as 1. Raises HloError where both are too many
    """
    stride, dilation, base = (
        max(1, value) for value in (window.stride, window.window_dilation, window.base_dilation)
    )
    # the condition is the same in k and o: walk over the shorter one, count the other without a loop
    if outputs < kernel:
        kernel, outputs, stride, dilation = outputs, kernel, dilation, stride
    if kernel > MAX_POSITIONS:
        raise HloError(f"a convolution has a window of {kernel} positions")
    return _pairs(kernel, outputs, (stride, dilation, window.padding_low), base, (inputs - 1) * base)


@lru_cache(maxsize=1024)
def _pairs(kernel: int, outputs: int, moves: tuple[int, int, int], base: int, last: int) -> int:
    """moves: stride, dilation, padding. The same windows come many times in a program."""
    stride, dilation, padding = moves
    return sum(_multiples(stride, k * dilation - padding, base, last, outputs) for k in range(kernel))


def _multiples(step: int, start: int, base: int, last: int, count: int) -> int:
    """Numbers x in [0, count) for which step·x + start is a multiple of base in [0, last]."""
    common = gcd(step, base)
    if start % common:
        return 0
    period = base // common
    first = -start // common * pow(step // common, -1, period) % period if period > 1 else 0
    low = max(0, -(start // step))  # ceil(-start / step)
    low += (first - low) % period
    high = min(count - 1, (last - start) // step)
    return (high - low) // period + 1 if high >= low else 0
