"""The account of a report: what was read, the devices, steps and ratios, the ledger, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass, field


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
class Ratio:
    """value = numerator / denominator. `basis` says over what; `coverage` is the share of it observed."""

    value: float
    numerator_ns: int
    denominator_ns: int
    basis: str
    coverage: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """SG, RG, PG and MPG, each null or a ratio; `reasons` explains every null; bounds where only those are known.

    mfu_step: MFU of a step of median length that does the mean work of a step; null without steps.
    """

    sg: Ratio | None
    rg: Ratio | None
    pg: Ratio | None
    mpg: Ratio | None
    mfu: Ratio | None = None
    hfu: Ratio | None = None
    mfu_step: float | None = None
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
