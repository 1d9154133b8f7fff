"""What XLA's own tools show of a profile: operations of compiled programs, over all of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class XlaOperation:
    """An operation of a compiled program, on all devices. `time_ns` is self time, `count` how often it ran: on a GPU
    the kernels it launched. `flops` (matrix products and convolutions), `all_flops` and `bytes` are of one execution;
    `tflops` and `gbps` what was reached, null where not known, or where the time is not that of whole executions."""

    program: str | None
    program_id: str | None
    op: str
    category: str
    framework_op: str | None
    location: str | None
    activity: str
    count: int
    time_ns: int
    share: float
    flops: int | None
    all_flops: int | None
    dtype: str | None
    bytes: int | None
    tflops: float | None
    gbps: float | None
    flops_source: str | None
    opaque: bool
    recompute: bool


@dataclass(frozen=True, slots=True)
class XlaTotal:
    """Self time of all operations of one category or name."""

    name: str
    count: int
    time_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class XlaAsync:
    """An operation that runs beside those of the program: a copy or collective under way.

    hidden_ns (an operation computed on the same device meanwhile) + exposed_ns = time_ns; in no other sum.
    """

    program: str | None
    op: str
    category: str
    count: int
    time_ns: int
    hidden_ns: int
    exposed_ns: int


@dataclass(frozen=True, slots=True)
class XlaProgram:
    """A program: `time_ns` sums its runs over the devices, `gap_ns` what of that passed without an operation.

    `operations_ns` is the self time of its operations, `share` its part of all. Null where the file has no runs.
    """

    program: str | None
    program_id: str | None
    runs: int | None
    time_ns: int | None
    gap_ns: int | None
    operations_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class XlaIdle:
    """value = numerator_ns / denominator_ns, summed over the cores: time in which no operation ran."""

    value: float
    numerator_ns: int
    denominator_ns: int


@dataclass(frozen=True, slots=True)
class Xla:
    """Operations of XLA programs over the whole profile, not cut to the windows of the account.

    `time_ns` is the self time of all operations, of which the shares are. `idle_between` is that of xprof's overview:
    from each core's first operation to its last; `idle_in_profile` that of the time the profiler was on; null with a
    reason. Lists have 1,000 rows at most, `opaque` 10; `left_out` counts what they lack, by list.
    """

    time_ns: int
    idle_between: XlaIdle | None
    idle_in_profile: XlaIdle | None
    opaque_ns: int
    opaque_share: float
    recompute_ns: int
    recompute_share: float
    infeed_ns: int
    outfeed_ns: int
    operations: tuple[XlaOperation, ...]
    categories: tuple[XlaTotal, ...]
    asynchronous: tuple[XlaAsync, ...]
    opaque: tuple[XlaTotal, ...]
    programs: tuple[XlaProgram, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
