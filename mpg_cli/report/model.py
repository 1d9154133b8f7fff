"""The one result of an analysis. Every renderer reads this and nothing else; its JSON form is the public report.

Times are int64 nanoseconds, `chip_ns` is chip-nanoseconds. A null is always explained in `reasons`.
Field names are those of the JSON report and are stable within one `schema`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = "mpg/report/1"


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read."""

    path: str
    format: str
    sha256: str
    size: int
    rank: int | None = None
    world_size: int | None = None
    framework: str | None = None
    host: str | None = None
    events: int = 0


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001 - the field's own word
    """A caveat: `kind` is stable, `count` says how many, `source` is the path it concerns ("" for all)."""

    kind: str
    message: str
    count: int = 1
    source: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator over all its recorded activity: span = compute + exposed comm, memory, other + idle."""

    source: str
    process: int | None
    rank: int | None
    device: int
    uuid: str | None
    name: str | None
    span_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    comm_ns: int
    memory_ns: int
    other_ns: int
    exposed_comm_ns: int
    exposed_memory_ns: int
    exposed_other_ns: int
    kernel_count: int
    memcpy_count: int
    memset_count: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step on one device: `wall_ns` on the host clock, the others clipped to it."""

    source: str
    rank: int | None
    device: int
    step: int | str
    wall_ns: int
    busy_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memory_ns: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over its ranks: transfer = the shortest duration, wait = a rank's duration - transfer."""

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


@dataclass(frozen=True, slots=True)
class Ratio:
    """value = numerator / denominator. `basis` says over what; `coverage` is the share of it observed."""

    value: float
    numerator_ns: int
    denominator_ns: int
    basis: str
    coverage: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """SG, RG, PG and MPG, each null or a ratio; `reasons` explains every null; bounds where only those are known."""

    sg: Ratio | None
    rg: Ratio | None
    pg: Ratio | None
    mpg: Ratio | None
    mfu: Ratio | None = None
    hfu: Ratio | None = None
    rg_min: float | None = None
    rg_max: float | None = None
    pg_min: float | None = None
    pg_max: float | None = None
    view: str = "default"
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One cause's share of the account. The rows sum to `totals.capacity_ns`, exactly."""

    layer: str
    cause: str
    label: str
    chip_ns: int
    share: float
    origin: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """All runs of one kernel name inside the window. `time_ns` sums durations; overlaps count twice, so shares of
    busy time need not add up to one. `share` is of the summed duration of all device activity in the window."""

    name: str
    kind: str
    family: str
    count: int
    time_ns: int
    mean_ns: int
    max_ns: int
    share: float


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


@dataclass(frozen=True, slots=True)
class NameRule:
    """How much summed device time in the window one recognition rule matched."""

    rule: str
    kind: str
    count: int
    time_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of one source that the ledger covers, on the source's clock."""

    source: str
    basis: str
    start_ns: int
    end_ns: int
    chips: int
    steps: int
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class Quality:
    """How far the figures can be trusted. Shares are of the summed device time in the window.

    carry_over: launched before the profile began (no launch call in the file, and a correlation id below the first);
    unlinked: no launch call found; graph: launched by a graph replay; unknown: name matched no rule.
    """

    grade: str
    grade_reasons: tuple[str, ...]
    windows: tuple[Window, ...]
    outside_window_ns: int
    carry_over_ns: int
    carry_over_share: float
    unlinked_share: float | None
    graph_share: float
    unknown_name_share: float
    unknown_names: tuple[Kernel, ...]
    profiler_overhead_ns: int
    shape_coverage: float | None
    linked_coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """capacity_ns = sum over windows of length x chips = sum of the ledger."""

    chips: int
    capacity_ns: int
    device_busy_ns: int
    chip_seconds: float
    steps: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `mpg analyze` found."""

    sources: tuple[Source, ...]
    warnings: tuple[Warning, ...]
    devices: tuple[Device, ...]
    steps: tuple[Step, ...]
    collectives: tuple[Collective, ...]
    goodput: Goodput
    ledger: tuple[LedgerRow, ...]
    kernels: tuple[Kernel, ...]
    name_rules: tuple[NameRule, ...]
    totals: Totals
    quality: Quality
    ops: tuple[Op, ...] = ()
    unmodelled: tuple[Unmodelled, ...] = ()
    rooflines: tuple[Roofline, ...] = ()
    schema: str = SCHEMA
    mpg_version: str = ""
