"""Profiled kernels as rows of kernel_counters, beside traces small enough for paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mpg_cli.datasets import Row, source
from tests.mpg_cli.goodput.judged import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID, BLOCK = "[4, 2, 1]", "[64, 1, 1]"
GEMM, CUSTOM, ADD = "sgemm", "mine", "void at::native::vectorized_elementwise_kernel<4>(int)"


def launched(start: int, dur: int, name: str = GEMM, grid: str = GRID, **more: Any) -> Row:
    """A kernel with a launch shape, which no operator of the trace launched."""
    return kernel(start, dur, name=name, grid=grid, block=BLOCK, **more)


def counted(name: str = GEMM, grid: str = GRID, **more: Any) -> Row:
    """A profiled launch of which all kinds of operations were counted; there were none but those in `more`."""
    kinds = dict.fromkeys(("fp64_flops", "fp32_flops", "fp16_flops", "tensor_ops"), 0.0) | more
    flops = None if None in kinds.values() else sum(kinds[kind] for kind in list(kinds)[:4])
    row = {"launch": 0, "name": name, "grid": grid, "block": BLOCK, "flops": flops, "flops_error": 0.0}
    return row | kinds | more


def bf16(ops: float, name: str = GEMM, **more: Any) -> Row:
    return counted(name, tensor_ops=ops, tensor_type="bf16", **more)


def profile(*launches: Row) -> dict[str, list[Row]]:
    """A report of Nsight Compute."""
    made = source(path="kernels.csv", format="nsight-compute", framework="Nsight Compute")
    return made | {"kernel_counters": list(launches)}


def nsight(ops: Sequence[Row], chip: str | None = "Tiny", **about: Any) -> dict[str, list[Row]]:
    """A trace of Nsight Systems; about: what the file states of its device."""
    made = source(ops, path="report.sqlite", format="nsight-systems", framework="Nsight Systems")
    for row in made["devices"]:
        row.update({"name": chip} | about)
    return made
