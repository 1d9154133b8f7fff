"""Why the chips waited: findings, causes of idle time, communication over the ranks, steps, modules."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepLedger:
    """One step on one device, by cause: the `chip_ns` of `causes` sum to the step's wall time exactly."""

    source: str
    rank: int | None
    device: int
    step: int | str
    wall_ns: int
    causes: dict[str, int]


@dataclass(frozen=True, slots=True)
class StepOutlier:
    """A step that took longer than the others of its device, and the cause whose time grew most.

    `excess_ns` is its wall time above the median step's, `cause_excess_ns` the cause's time above that cause's median.
    """

    source: str
    rank: int | None
    device: int
    step: int | str
    wall_ns: int
    excess_ns: int
    cause: str
    cause_excess_ns: int


@dataclass(frozen=True, slots=True)
class StepSpread:
    """Wall times of all steps on all devices; `mad_ns` is the median absolute deviation from the median."""

    count: int
    median_ns: int
    mad_ns: int
    min_ns: int
    p95_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class InferenceStep:
    """One step of an inference engine, by its annotation. `phase` is prefill, decode, mixed or diffusion.

    Engines run ahead of the device: `host_ns` is the annotation's length, `device_ns` the hull of the device activity
    launched inside it (null: none is linked), of which `busy_ns` has any activity and `compute_ns` computes.
    """

    source: str
    rank: int | None
    device: int
    name: str
    phase: str
    requests: int | None
    tokens: int | None
    host_ns: int
    device_ns: int | None
    busy_ns: int | None
    compute_ns: int | None


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over its ranks: transfer = the shortest duration, wait = a rank's duration - transfer.

    `near_tie`: the last two ranks came so close together (`margin_ns`) that either may have been last. `reason` says
    why the last rank was late: compute, input, host, copy, communication, other or unknown; `late_ns` by how much it
    exceeded the median of the others there. `hidden_ns` and `exposed_ns` sum the ranks' time with and without
    computing beside it. Bandwidths are bytes per transfer time, in GB/s (10^9); null where bytes are unknown.
    """

    index: int
    name: str
    group: str | None
    seq: int | None
    matched_by: str
    transfer_ns: int
    wait_ns: dict[str, int]
    last_rank: int
    margin_ns: int
    bytes: int | None = None
    near_tie: bool = False
    transient: bool = False
    reason: str = "unknown"
    late_ns: int = 0
    hidden_ns: int = 0
    exposed_ns: int = 0
    algo_gbps: float | None = None
    bus_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Communicator:
    """All communication of one kind in one process group, over the ranks given.

    `time_ns` sums the kernels in the windows; hidden + exposed = time. transfer and wait are null where the ranks could
    not be matched (`reason` says why). `last` counts by rank how often it arrived last. `scope` is intra-node,
    inter-node or unknown. For one rank alone `bus_gbps` is a lower bound from its shortest equal collective.
    """

    name: str
    group: str | None
    size: int | None
    ranks: tuple[int, ...]
    count: int
    time_ns: int
    hidden_ns: int
    exposed_ns: int
    transfer_ns: int | None
    wait_ns: int | None
    last: dict[str, int]
    bytes: int | None
    bus_gbps: float | None
    scope: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Hotspot:
    """Idle device time of one cause by what was behind it: `name` is the operator, call, frame or range that the host
    was in, the call whose waiting had emptied the device, or what came next (`…, before aten::mm`).

    `count` is the number of idle pieces; thread, start_ns and dur_ns are of the host event with most of it, as the
    trace viewer shows it (null: the evidence is on the device). Where `name` is what came next, start_ns is that of
    the launch call that ended the gap, and dur_ns is null.
    """

    cause: str
    name: str
    frame: str | None
    chip_ns: int
    share: float
    count: int
    source: str
    rank: int | None
    thread: int | None
    start_ns: int | None
    dur_ns: int | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a finding rests on: a sentence with numbers, and where it is an event, where the trace viewer shows it."""

    text: str
    source: str = ""
    name: str = ""
    thread: int | None = None
    start_ns: int | None = None
    dur_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth fixing. `chip_ns` is what it took; `gain` the speed-up at most (Amdahl) if all of it went;
    `cost` of it per `price` (null without --price); `where`: ranks, steps, operators, kernels or frames."""

    id: str
    severity: str
    cause: str
    killer: str
    title: str
    chip_ns: int
    share: float
    gain: float | None
    where: str
    evidence: tuple[Evidence, ...]
    fix: tuple[str, ...]
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What --price and --chips state: money per chip-hour, and the job's chips (null: those in the traces)."""

    per_chip_hour: float
    chips: int | None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What a utilisation dashboard would have shown over the windows, as shares of 0 to 1; null with a reason.

    `gpu_util`: time with any kernel resident (nvidia-smi's GPU-Util); `waiting`: time in which nothing but collectives
    ran; `sm_activity`: sum of duration x min(blocks per SM, 1), estimated from launch grids; `occupancy`:
    duration-weighted achieved occupancy as the profiler estimates it. `known` and `occupancy_known`: share of kernel
    time whose blocks per SM are known, and whose occupancy is.
    """

    gpu_util: float
    waiting: float
    sm_activity: float | None
    occupancy: float | None
    known: float
    occupancy_known: float
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Device time in the windows by module, range, op, kernel, stream, category or rank (`by`).

    `incl_ns` sums the durations of all device activity under the key, children included, `excl_ns` without them;
    `compute_ns` + `comm_ns` + `memory_ns` + `other_ns` = incl_ns. `depth` and `parent` place a module in its tree.
    `share` is incl_ns of the summed duration of all device activity in the windows.
    """

    by: str
    key: str
    parent: str | None
    depth: int
    count: int
    kernels: int
    incl_ns: int
    excl_ns: int
    compute_ns: int
    comm_ns: int
    memory_ns: int
    other_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the account, e.g. one rank: the ratios are quotients of these, and the parts sum to the whole."""

    by: str
    key: str
    capacity_ns: int
    allocated_ns: int
    productive_ns: int
    ideal_ns: int | None
    causes: dict[str, int]
