"""What a call has to do at least: its matrix-class FLOPs and the bytes it has to move.

FLOPs count a multiply-add as two and hold only products of matrices (GEMM, convolution, attention). Adding a
bias, activations, norms and all other element-wise work are vector work and count 0, so that an operator's
ideal time under the basis `peak` is 0 (DESIGN: matrix-class FLOPs only).

Bytes: every input is read once and every output written once, at the element size recorded (of outputs:
inferred). A tensor that is updated in place counts twice. An expanded tensor counts with the shape that was
recorded, and one tensor passed as two arguments counts twice, because shapes do not show either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from mpg_cli.goodput.models.shapes import INT64_MAX, Call, Tensor, canonical

Unit = Literal["matrix", "vector"]


@dataclass(frozen=True, slots=True)
class Cost:
    """flops: matrix-class FLOPs; bytes: None where shapes or types do not tell; dtype: of the operands, as
    recorded; unit: what the work runs on; model: the rule that was used; exact: False where flops and bytes
    are lower bounds.
    """

    flops: int
    bytes: int | None
    dtype: str | None
    unit: Unit | None
    model: str
    exact: bool = True

    @property
    def fits(self) -> bool:
        """Whether both lie in [0, 2^63): damaged shapes do not."""
        return 0 <= self.flops <= INT64_MAX and 0 <= (self.bytes or 0) <= INT64_MAX


Model = Callable[[Call], Cost | None]
Tensors = Iterable[Tensor | None]


def traffic(tensors: Tensors) -> int | None:
    """Bytes of the tensors together (None: an argument not given); None if the size of one is unknown."""
    sizes = [tensor.nbytes for tensor in tensors if tensor is not None]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def matrix(model: str, flops: int, operand: Tensor, moved: Tensors, *, exact: bool = True) -> Cost | None:
    """The cost of a matrix product in the type of `operand`, which moves the tensors `moved`.

    None for complex numbers, whose products are several real ones.
    """
    if (canonical(operand.dtype) or "").startswith("complex"):
        return None
    return Cost(flops, traffic(moved), operand.dtype, "matrix", model, exact)


def vector(model: str, moved: Tensors, *, dtype: str | None = None, exact: bool = True) -> Cost:
    """The cost of vector work that moves the tensors `moved`; its dtype is that of the first unless given."""
    tensors = [tensor for tensor in moved if tensor is not None]
    first = dtype or (tensors[0].dtype if tensors else None)
    return Cost(0, traffic(tensors), first, "vector", model, exact)


def unsized(model: str) -> Cost:
    """The cost of vector work whose bytes the shapes do not tell."""
    return Cost(0, None, None, "vector", model, exact=False)
