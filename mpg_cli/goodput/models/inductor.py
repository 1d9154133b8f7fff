"""Triton kernels that TorchInductor generates and records as operators with their tensor arguments.

triton_poi_ (point-wise), triton_red_ and triton_per_ (reductions) hold no matrix products; triton_tem_ is a
template, mostly a GEMM. Every tensor counts once: updates in place and partial reads do not show in the
record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_cli.goodput.models.costs import Cost, Model, matrix, vector
from mpg_cli.goodput.models.gemm import squares

if TYPE_CHECKING:
    from mpg_cli.goodput.models.shapes import Call

MODEL = "inductor"


def fused(call: Call) -> Cost | None:
    """A point-wise or reduction kernel: every recorded tensor once."""
    return vector(MODEL, call.tensors, exact=False) if call.tensors and call.complete else None


def template(call: Call) -> Cost | None:
    """A GEMM template whose only matrices are the two factors and the result: 2·M·N·K FLOPs; else unknown."""
    flops = squares([tensor for tensor in call.tensors if len(tensor.shape) > 1])
    if flops is None or not call.complete:
        return None
    return matrix("inductor gemm", flops, call.tensors[0], call.tensors)


PATTERNS: tuple[tuple[re.Pattern[str], Model], ...] = (
    (re.compile(r"triton_(poi|red|per|for)_\w+"), fused),
    (re.compile(r"triton_tem_\w*mm\w*"), template),
)
