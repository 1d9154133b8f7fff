"""Computing time by operator, against the roofline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """All calls of one operator with the same shapes inside the windows, most recoverable time first.

    `time_ns` sums the durations of its kernels; `flops` are matrix-class, cut at the window's edges like the kernels;
    `efficiency` is the roofline time over the time taken; `bound` is compute, memory or latency; `recoverable_ns` is
    the time above the roofline; `flops_source` is shapes, inferred (all of it from kernels matched by their neighbours)
    or declared; `count` leaves out calls whose launch is not in the file.
    """

    op: str
    dims: str
    dtypes: str
    count: int
    kernels: int
    time_ns: int
    share: float
    flops: int
    bytes: int | None
    tflops: float
    gbps: float | None
    intensity: float | None
    bound: str
    efficiency: float | None
    recoverable_ns: int
    recompute_ns: int
    flops_source: str


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """An operator without a model, or whose shapes do not suffice: computing time that PG cannot judge."""

    op: str
    count: int
    time_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """The ceilings of one chip for the operand type that most FLOPs are in; no bandwidth: none is sourced."""

    chip: str
    dtype: str
    peak_tflops: float
    bandwidth_gbps: float | None
