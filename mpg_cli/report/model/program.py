"""Computing time by operator, against the roofline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """All calls of one operator with the same shapes inside the windows, most recoverable time first.

    `time_ns` sums the durations of its kernels; `flops` are matrix-class, cut at the window's edges like the kernels;
    `efficiency` is the roofline time over the time taken; `bound` is compute, memory or latency; `recoverable_ns` is
    the time above the roofline; `flops_source` is shapes, inferred (all of it from kernels matched by neighbours),
    declared or measured (by Nsight Compute: then `op` is the kernel, and `dims` its grid and block); `count` leaves out
    calls whose launch is not in the file.
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
    """The ceilings of one chip for the operand type that most FLOPs are in; no bandwidth: none is sourced.

    A source that begins with "the trace" is the file itself; all others are those of the catalogue, or yours.
    """

    chip: str
    dtype: str
    peak_tflops: float
    bandwidth_gbps: float | None
    peak_source: str = ""
    bandwidth_source: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """A computing kernel of one launch shape in the windows, most time first, and what Nsight Compute measured of it.

    Fractions are of the peak at the profiler's clock, means over the profiled launches; `flops` are those of one
    launch, as executed; null with `reason`.
    """

    name: str
    grid: str | None
    block: str | None
    count: int
    time_ns: int
    share: float
    launches: int | None
    sm_throughput: float | None
    tensor_pipe: float | None
    dram_fraction: float | None
    achieved_occupancy: float | None
    waves_per_sm: float | None
    flops: float | None
    dtype: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DeviceWitness:
    """GPU metrics of one device over its window, as shares of 0 to 1; null where not sampled.

    `kernels` is what the trace says: the share of the window in which any kernel ran.
    """

    source: str
    rank: int | None
    process: int | None
    device: int
    kernels: float
    coverage: float
    samples: int
    period_ns: int
    sm_active: float | None
    sm_issue: float | None
    tensor_active: float | None
    dram_read: float | None
    dram_write: float | None
    sm_clock_hz: float | None


@dataclass(frozen=True, slots=True)
class Witness:
    """What the hardware counted in the windows: means over the devices with samples, null with a `reason`.

    `coverage` is the share of all windows that samples cover; `disagreements` say where the counters clearly contradict
    the account.
    """

    coverage: float
    kernels: float | None
    sm_active: float | None
    sm_issue: float | None
    tensor_active: float | None
    dram_read: float | None
    dram_write: float | None
    sm_clock_hz: float | None
    disagreements: tuple[str, ...] = ()
    devices: tuple[DeviceWitness, ...] = ()
    reason: str = ""
