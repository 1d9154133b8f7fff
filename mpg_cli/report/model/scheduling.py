"""Scheduling: jobs and their attempts, why they waited, and what became of the fleet's capacity."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wait:
    """A stretch of one attempt's wait, by cause; times are Unix ns."""

    cause: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One allocation of a job, or the wait for one that never came. `run_s` is without suspension.

    `waits`: seconds by cause, which add up to queue_wait_s; `wait_pieces`: the same in order, null where too many
    attempts are listed. `open`: not over at `as_of`.
    """

    attempt: int
    state: str | None
    submit: str | None
    eligible: str | None
    start: str | None
    end: str | None
    queue_wait_s: float | None
    run_s: float
    suspended_s: float
    chips: int | None
    nodes: tuple[str, ...]
    ended_by: str | None
    preempted_by: str | None
    open: bool
    waits: dict[str, float] = field(default_factory=dict)
    wait_pieces: tuple[Wait, ...] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a user submitted: sums over its attempts. `chip_seconds` is within the window, `sg` over the job's life:
    the time it ran as it asked to, of the time from its first submission to its end (null where that is unknown or 0).
    """

    job: str
    kind: str
    name: str | None
    cluster: str | None
    user: str | None
    account: str | None
    partition: str | None
    qos: str | None
    chip_type: str | None
    submit: str | None
    state: str | None
    queue_wait_s: float | None
    queue_wait_bounds_s: tuple[float, float] | None
    run_s: float
    suspended_s: float
    start_to_end_s: float
    run_s_in_failed_attempts: float
    run_s_in_last_attempt: float
    timelimit_s: float | None
    total_cpu_s: float | None
    chips: int | None
    chips_requested: int | None
    chip_seconds: float
    sg: float | None
    nodes: tuple[str, ...]
    ended_by: str | None
    cancelled_by: str | None
    open: bool
    failed_scheduling_count: int | None
    schedule_to_start_s: float | None
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class WaitCause:
    """All waiting of one cause within the window: of how many attempts, how long, and times the chips asked for."""

    cause: str
    label: str
    attempts: int
    wait_ns: int
    chip_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class WaitSpread:
    """Waits of the attempts of one size class that started: half of them waited at most `median_s`."""

    size: str
    attempts: int
    mean_s: float
    median_s: float
    p90_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Ending:
    """Attempts by how they ended, with their chip-time in the window; `finished` where the work was completed, null
    where the records do not say how they ended."""

    state: str
    attempts: int
    chip_ns: int
    share: float
    finished: bool | None


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who was preempted by whom. `second_order`: the one that preempted had itself been requeued."""

    preemptor: str
    victims: tuple[str, ...]
    count: int
    chip_ns: int
    second_order: bool


@dataclass(frozen=True, slots=True)
class Reliability:
    """Failures of hardware by size class: MTTF in hours of job time with its 95 % interval (Poisson), and the effective
    training time ratio, measured (an upper bound: allocated time of the run) and expected; null with a reason."""

    size: str
    attempts: int
    failures: int
    job_hours: float
    mttf_h: float | None
    mttf_low_h: float | None
    mttf_high_h: float | None
    ettr_measured: float | None
    ettr_expected: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Free chips of a pool that the usual jobs cannot use, as a share of the free ones, over the window."""

    pool: str
    chips: int
    free_mean: float
    index_mean: float | None
    index_max: float | None
    series: tuple[tuple[int, float], ...] = ()
    kind: str = "nodes"


@dataclass(frozen=True, slots=True)
class Detection:
    """How long an attempt kept its chips after its node fell silent: `delay_s` until the scheduler ended it."""

    job: str
    attempt: int
    node: str
    delay_s: float
    chip_ns: int


@dataclass(frozen=True, slots=True)
class Integrity:
    """Something about the records that bears on the figures: counted, with the chip-time at stake (null: unknown)."""

    kind: str
    message: str
    count: int
    chip_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """One figure of the scheduler's own roll-up beside ours, and why they differ. Seconds of the resource."""

    resource: str
    measure: str
    account: str | None
    user: str | None
    theirs_s: int
    ours_s: float
    difference_s: float
    explanation: str


@dataclass(frozen=True, slots=True)
class ScheduleSegment:
    """Part of the fleet or of the jobs: `basis` fleet (of its capacity) or jobs (of chips × first submission to end).

    `capacity_ns` is that whole, `allocated_ns` what was allocated as asked; `causes` add up to the rest.
    """

    by: str
    key: str
    basis: str
    jobs: int
    capacity_ns: int
    allocated_ns: int
    sg: float | None
    causes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the scheduler's records tell of a fleet, within the window."""

    clusters: tuple[str, ...]
    window_start: str
    window_end: str
    window_ns: int
    as_of: str
    naive: bool
    chips: int | None
    capacity_basis: str
    jobs: int
    attempts: int
    jobs_listed: int
    claimed_ns: int
    outside_ns: int
    excess_ns: int
    integrity: tuple[Integrity, ...]
    waits: tuple[WaitCause, ...]
    wait_spread: tuple[WaitSpread, ...]
    endings: tuple[Ending, ...]
    preemptions: tuple[Preemption, ...]
    reliability: tuple[Reliability, ...]
    fragmentation: tuple[Fragmentation, ...]
    segments: tuple[ScheduleSegment, ...]
    reconciled: tuple[Reconciled, ...]
    remarks: tuple[str, ...]
    next_command: str
    detections: tuple[Detection, ...] = ()
    recovery: str = ""
