"""The one result of an analysis. Every renderer reads this and nothing else; its JSON form is the public report.

Times are int64 nanoseconds, `chip_ns` is chip-nanoseconds. A null is always explained in `reasons`.
Field names are those of the JSON report and are stable within one `schema`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpg_cli.report.model.account import (
    Device,
    Goodput,
    Kernel,
    LedgerRow,
    NameRule,
    Quality,
    Ratio,
    Source,
    Step,
    Totals,
    Warning,  # noqa: A004 - the field's own word
    Window,
)
from mpg_cli.report.model.attribution import (
    Breakdown,
    Collective,
    Communicator,
    Dashboard,
    Evidence,
    Finding,
    Hotspot,
    InferenceStep,
    Price,
    Segment,
    StepLedger,
    StepOutlier,
    StepSpread,
)
from mpg_cli.report.model.program import (
    DeviceWitness,
    Op,
    ProfiledKernel,
    Roofline,
    Unmodelled,
    Witness,
)
from mpg_cli.report.model.scheduling import (
    Attempt,
    Detection,
    Ending,
    Fragmentation,
    Integrity,
    Job,
    Preemption,
    Reconciled,
    Reliability,
    ScheduleSegment,
    Scheduling,
    Wait,
    WaitCause,
    WaitSpread,
)
from mpg_cli.report.model.xla import (
    Xla,
    XlaAsync,
    XlaIdle,
    XlaOperation,
    XlaProgram,
    XlaTotal,
)

__all__ = [
    "SCHEMA",
    "Attempt",
    "Breakdown",
    "Collective",
    "Communicator",
    "Dashboard",
    "Detection",
    "Device",
    "DeviceWitness",
    "Ending",
    "Evidence",
    "Finding",
    "Fragmentation",
    "Goodput",
    "Hotspot",
    "InferenceStep",
    "Integrity",
    "Job",
    "Kernel",
    "LedgerRow",
    "NameRule",
    "Op",
    "Preemption",
    "Price",
    "ProfiledKernel",
    "Quality",
    "Ratio",
    "Reconciled",
    "Reliability",
    "Report",
    "Roofline",
    "ScheduleSegment",
    "Scheduling",
    "Segment",
    "Source",
    "Step",
    "StepLedger",
    "StepOutlier",
    "StepSpread",
    "Totals",
    "Unmodelled",
    "Wait",
    "WaitCause",
    "WaitSpread",
    "Warning",
    "Window",
    "Witness",
    "Xla",
    "XlaAsync",
    "XlaIdle",
    "XlaOperation",
    "XlaProgram",
    "XlaTotal",
]

SCHEMA = "mpg/report/1"


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
    profiled: tuple[ProfiledKernel, ...] = ()
    witness: Witness | None = None
    findings: tuple[Finding, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    dashboard: Dashboard | None = None
    communicators: tuple[Communicator, ...] = ()
    step_spread: StepSpread | None = None
    outliers: tuple[StepOutlier, ...] = ()
    per_step: tuple[StepLedger, ...] = ()
    inference: tuple[InferenceStep, ...] = ()
    breakdown: tuple[Breakdown, ...] = ()
    segments: tuple[Segment, ...] = ()
    xla: Xla | None = None
    jobs: tuple[Job, ...] = ()
    scheduling: Scheduling | None = None
    price: Price | None = None
    schema: str = SCHEMA
    mpg_version: str = ""
