"""Reports on fleets: with everything a scheduler's records tell, without the capacity, beside traces, and hostile.

The window is one hour of 64 chips: 64 chip-h, of which 40 were allocated as asked.
"""

from __future__ import annotations

from dataclasses import replace

from mpg_cli.report.model import (
    Attempt,
    Ending,
    Fragmentation,
    Goodput,
    Integrity,
    Job,
    LedgerRow,
    Preemption,
    Quality,
    Ratio,
    Reconciled,
    Reliability,
    Report,
    ScheduleSegment,
    Scheduling,
    Source,
    Totals,
    Wait,
    WaitCause,
    WaitSpread,
    Warning,  # noqa: A004
)
from tests.mpg_cli.report.reports import two_ranks

S = 10**9
H = 3_600 * S
CAPACITY = 64 * H
NOT_RUNTIME = "needs the jobs' own logs or profiles; only a scheduler's records were given"
NO_CAPACITY = "the capacity is not known: give `sacctmgr show event`, or --capacity"
LEDGER = {
    "unobserved": ("runtime", "not observed", 40 * H),
    "no_demand": ("scheduling", "idle, no demand", 12 * H),
    "shortage": ("scheduling", "idle, too few chips free", 6 * H),
    "leaked": ("scheduling", "leaked", 4 * H),
    "down": ("scheduling", "down", 2 * H),
}
LABELS = {
    "shortage": "too few chips free",
    "priority": "fits, others before it",
    "requeue_delay": "delay after a requeue",
}
SACCT = (
    "TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -X -P -S 2026-11-29T14:00:00 -E 2026-11-29T15:00:00 "
    "-o JobIDRaw,JobID,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End,JobName > sacct.psv"
)  # fmt: skip
PHANTOM = "chips that count as in use, though nothing runs there (h2, h4)"
TWICE = "job 37 was resized: sreport counts it twice"
SOURCES = tuple(
    Source(f"logs/{name}", "slurm", "cd" * 32, 4_096, framework="Slurm")
    for name in ("sacct.psv", "sacctmgr_events.psv", "scontrol_show_node.txt")
)


def ledger(amounts: dict[str, tuple[str, str, int]] = LEDGER) -> tuple[LedgerRow, ...]:
    whole = sum(ns for _, _, ns in amounts.values()) or 1
    return tuple(
        LedgerRow(layer, cause, label, ns, ns / whole, "observed")
        for cause, (layer, label, ns) in amounts.items()
    )


def attempt(number: int, state: str, waits: dict[str, float], run_s: float, **more: object) -> Attempt:
    pieces = tuple(Wait(cause, 0, round(seconds * S)) for cause, seconds in waits.items())
    base = Attempt(
        number, state, "2026-11-29T14:00:00Z", "2026-11-29T14:00:00Z", "2026-11-29T14:10:00Z", "2026-11-29T14:50:00Z",
        sum(waits.values()), run_s, 0.0, 16, ("h1", "h2"), None, None, open=False, waits=waits, wait_pieces=pieces,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def job(name: str, user: str | None, chips: int, *attempts: Attempt) -> Job:
    wait, ran = sum(a.queue_wait_s or 0 for a in attempts), sum(a.run_s for a in attempts)
    return Job(
        job=name, kind="job", name=f"train-{name}", cluster="alpha", user=user, account="ml", partition="batch",
        qos="normal", chip_type="h100", submit="2026-11-29T14:00:00Z", state=attempts[-1].state, queue_wait_s=wait,
        queue_wait_bounds_s=None, run_s=ran, suspended_s=0.0, start_to_end_s=ran,
        run_s_in_failed_attempts=sum(a.run_s for a in attempts[:-1]), run_s_in_last_attempt=attempts[-1].run_s,
        timelimit_s=7_200.0, total_cpu_s=None, chips=chips, chips_requested=chips, chip_seconds=chips * ran,
        sg=ran / (ran + wait) if ran + wait else None, nodes=("h1", "h2"), ended_by=None, cancelled_by=None, open=False,
        failed_scheduling_count=None, schedule_to_start_s=None, attempts=attempts,
    )  # fmt: skip


JOBS = (
    job("101", "alice", 16, attempt(1, "COMPLETED", {"shortage": 540.0, "priority": 60.0}, 1_800.0)),
    job(
        "102", "bob", 32,
        attempt(1, "PREEMPTED", {}, 300.0, preempted_by="104"),
        attempt(2, "COMPLETED", {"requeue_delay": 121.0}, 900.0),
    ),
    job("103_4", "carol", 8, attempt(1, "COMPLETED", {}, 45.0)),
    job("104", "alice", 64, attempt(1, "NODE_FAIL", {}, 10.0), attempt(2, "RUNNING", {"shortage": 4.5}, 60.0)),
    *(job(str(200 + i), "dave", 1, attempt(1, "COMPLETED", {"priority": 60.0 - i}, 30.0)) for i in range(12)),
)  # fmt: skip
SCHEDULING = Scheduling(
    clusters=("alpha",),
    window_start="2026-11-29T14:00:00Z",
    window_end="2026-11-29T15:00:00Z",
    window_ns=H,
    as_of="2026-11-29T15:18:09Z",
    naive=False,
    chips=64,
    capacity_basis="8 nodes listed, for as long as registered",
    jobs=20_180,
    attempts=20_191,
    jobs_listed=10_000,
    claimed_ns=41 * H,
    outside_ns=H // 2,
    excess_ns=H // 2,
    integrity=(
        Integrity("repaired_input", "a row that contains the delimiter was put together again", 1),
        Integrity("lost_attempts", "attempts that only the controller's log has (job 70)", 1, 816 * S),
        Integrity("phantom_allocation", PHANTOM, 2, 4 * H),
    ),
    waits=(
        WaitCause("requeue_delay", LABELS["requeue_delay"], 1, 121 * S, 3_872 * S, 0.2),
        WaitCause("shortage", LABELS["shortage"], 2, 600 * S, 2 * H, 0.5),
        WaitCause("priority", LABELS["priority"], 13, 700 * S, H, 0.25),
        WaitCause("unknown", "not known", 6, 60 * S, 0, 0.0),
    ),
    wait_spread=(
        WaitSpread("S", 150, 76.2, 8.0, 268.0, 660.0),
        WaitSpread("M", 32, 158.0, 54.5, 3_600.0, 187_200.0),
    ),
    endings=(
        Ending("COMPLETED", 129, 30 * H, 0.75, finished=True),
        Ending("PREEMPTED", 8, 6 * H, 0.15, finished=False),
        Ending("NODE_FAIL", 3, 2 * H, 0.05, finished=False),
        Ending("RUNNING", 2, H, 0.025, finished=False),
        Ending("RESIZING", 1, H, 0.025, finished=False),
        Ending("PENDING", 1, 0, 0.0, finished=False),
    ),
    preemptions=(
        Preemption("104", ("102",), 1, 2 * H, second_order=True),
        Preemption("90", tuple(str(i) for i in range(110, 118)), 8, 4 * H, second_order=False),
        Preemption("", ("77",), 1, H // 4, second_order=False),
    ),
    reliability=(
        Reliability("S", 151, 2, 1_590.4, 795.2, 220.1, 6_566.0, 0.892, 0.871),
        Reliability("M", 32, 0, 31.0, None, 8.4, None, 0.655, None, "no failures: nothing to expect from"),
    ),
    fragmentation=(
        Fragmentation("a100", 32, 5.2, 0.0, 0.0),
        Fragmentation("h100", 32, 4.5, 0.31, 0.875, ((0, 0.0), (60 * S, 0.875))),
    ),
    segments=(
        ScheduleSegment("pool", "a100", "fleet", 0, 32 * H, 22 * H, 22 / 32, {"no_demand": 9 * H, "down": H}),
        ScheduleSegment(
            "pool", "h100", "fleet", 0, 32 * H, 18 * H, 18 / 32,
            {"no_demand": 3 * H, "shortage": 6 * H, "leaked": 4 * H, "down": H},
        ),
        ScheduleSegment("size", "S", "jobs", 105, 20 * H, 15 * H, 0.75, {"shortage": 4 * H, "priority": H}),
        ScheduleSegment("size", "M", "jobs", 23, 40 * H, 25 * H, 0.625, {"shortage": 5 * H, "requeue_delay": 10 * H}),
        ScheduleSegment("account", "ml", "jobs", 128, 60 * H, 40 * H, 40 / 60, {"shortage": 20 * H}),
    ),
    reconciled=(
        Reconciled("gres/gpu", "Allocated", None, None, 28_147, 28_103.0, 44.0, TWICE),
        Reconciled("gres/gpu", "Down", None, None, 2_096, 2_096.0, 0.0, ""),
        Reconciled("gres/gpu", "Used", "ml", "alice", 6_095, 6_095.0, 0.0, ""),
        Reconciled("gres/gpu", "Used", "ml", "bob", 13_236, 13_192.0, 44.0, TWICE),
        Reconciled("gres/gpu", "Used", "ml", "carol", 8_816, 8_826.5, -10.5, ""),
    ),
    remarks=(
        "SG rose from 58.0 % to 62.5 %, though it fell in every pool: the mix moved to a100 (Simpson's paradox)",
        "small and extra-large jobs are near 95 %, as in a healthy fleet",
    ),
    next_command=SACCT,
)  # fmt: skip


def slurm() -> Report:
    """Everything a scheduler's records tell."""
    basis = "fleet capacity within the window (8 nodes listed, for as long as registered)"
    reasons = dict.fromkeys(("rg", "pg", "mpg", "mfu", "hfu"), NOT_RUNTIME)
    return Report(
        sources=SOURCES,
        warnings=(Warning("repaired_input", "a row was put together again", 1, "logs/sacct.psv"),),
        devices=(),
        steps=(),
        collectives=(),
        goodput=Goodput(Ratio(40 / 64, 40 * H, CAPACITY, basis, 1.0), None, None, None, reasons=reasons),
        ledger=ledger(),
        kernels=(),
        name_rules=(),
        totals=Totals(64, CAPACITY, 0, 40 * 3_600.0, 0),
        quality=Quality("B", ("damaged rows were repaired",), (), 0, 0, 0.0, None, 0.0, 0.0, (), 0, None),
        jobs=JOBS,
        scheduling=SCHEDULING,
        mpg_version="0.1.0",
    )


def changed(**parts: object) -> Report:
    """The same with other parts of `scheduling`."""
    return replace(slurm(), scheduling=replace(SCHEDULING, **parts))  # type: ignore[arg-type]


def no_capacity() -> Report:
    """One file of accounting and nothing else: no capacity, no account, no zone."""
    base = slurm()
    found = replace(
        SCHEDULING, clusters=(), naive=True, chips=None, capacity_basis="", outside_ns=0, excess_ns=0, preemptions=(),
        fragmentation=(), reconciled=(), remarks=(),
        window_start="2026-11-29T14:00:00", window_end="2026-11-29T15:00:00",
        as_of="2026-11-29T15:18:09", integrity=SCHEDULING.integrity[:2],
        segments=tuple(one for one in SCHEDULING.segments if one.basis == "jobs"),
        next_command="mpg cannot know the capacity: ask for `sacctmgr show event` too",
    )  # fmt: skip
    reasons = base.goodput.reasons | dict.fromkeys(("sg", "mpg"), NO_CAPACITY)
    return replace(
        base,
        sources=base.sources[:1],
        goodput=Goodput(None, None, None, None, reasons=reasons),
        ledger=(),
        totals=Totals(0, 0, 0, 41 * 3_600.0, 0),
        scheduling=found,
    )


def mixed() -> Report:
    """Traces beside the records: the account is that of the traces, SG the fleet's."""
    traces, fleet = two_ranks(), slurm()
    reasons = {**traces.goodput.reasons, "mpg": "SG is of the fleet, RG of the profiled time only"}
    reasons.pop("sg")
    return replace(
        traces,
        sources=traces.sources + fleet.sources,
        goodput=replace(traces.goodput, sg=fleet.goodput.sg, reasons=reasons),
        jobs=fleet.jobs,
        scheduling=fleet.scheduling,
    )


def year() -> Report:
    """10,000 chips for a year: 3.2e20 chip-ns, more than 64 bits hold."""
    times = 10_000 * 8_760 // 64
    amounts = {cause: (layer, label, ns * times) for cause, (layer, label, ns) in LEDGER.items()}
    base = slurm()
    sg = Ratio(40 / 64, 40 * H * times, CAPACITY * times, "fleet capacity within the window", 1.0)
    found = replace(
        SCHEDULING,
        window_start="2025-01-01T00:00:00Z",
        window_ns=8_760 * H,
        claimed_ns=40 * H * times,
        chips=10_000,
        waits=tuple(replace(wait, chip_ns=wait.chip_ns * times) for wait in SCHEDULING.waits),
        endings=tuple(replace(ending, chip_ns=ending.chip_ns * times) for ending in SCHEDULING.endings),
    )
    return replace(
        base,
        goodput=replace(base.goodput, sg=sg),
        ledger=ledger(amounts),
        totals=replace(base.totals, chips=10_000, capacity_ns=CAPACITY * times),
        scheduling=found,
    )


def named(*names: str) -> Report:
    """The given strings wherever a string comes from the input."""
    text, name = names[0], names[-1]
    waits = dict.fromkeys(names, 1.0)
    jobs = tuple(
        replace(
            job(n, n, 1, attempt(1, n, waits, 1.0, submit=n, nodes=(n,), ended_by=n, preempted_by=n)),
            kind=n, name=n, cluster=n, account=n, partition=n, qos=n, chip_type=n, submit=n, cancelled_by=n,
        )
        for n in names
    )  # fmt: skip
    found = Scheduling(
        names, text, name, H, text, True, 3, text, len(names) + 1, len(names), len(names), 40 * H, H, H,
        tuple(Integrity(n, n, 2, H) for n in names),
        tuple(WaitCause(n, n, 1, S, H, 0.1) for n in names),
        tuple(WaitSpread(n, 1, 1.0, 1.0, 1.0, 1.0) for n in names),
        tuple(Ending(n, 1, H, 0.1, finished=False) for n in names),
        tuple(Preemption(n, names, 1, H, second_order=True) for n in names),
        tuple(Reliability(n, 1, 1, 1.0, 1.0, 0.5, None, 0.5, None, n) for n in names),
        tuple(Fragmentation(n, 1, 1.0, 0.5, 0.5) for n in names),
        tuple(ScheduleSegment(text, n, b, 1, 2 * H, H, 0.5, {n: H}) for b in ("fleet", *names) for n in names),
        tuple(Reconciled(n, n, n, n, 1, 2.0, 1.0, n) for n in names),
        names, text,
    )  # fmt: skip
    base = slurm()
    return replace(
        base,
        sources=tuple(Source(n, n, n, 0, framework=n, host=n) for n in names),
        warnings=tuple(Warning(n, n, 2, n) for n in names),
        goodput=replace(base.goodput, reasons={"rg": text, "pg": name, "mpg": text}),
        ledger=(*base.ledger[:1], *(LedgerRow("scheduling", n, n, H, 0.1, n) for n in names)),
        jobs=jobs,
        scheduling=found,
        mpg_version=text,
    )  # fmt: skip


def zeros() -> Report:
    """Everything there, everything zero or missing, and not a number where one may be."""
    nan = float("nan")
    empty = job("", None, 0, attempt(0, "", {"": 0.0}, 0.0, queue_wait_s=None, chips=None, nodes=()))
    found = Scheduling(
        (), "", "", 0, "", False, 0, "", 0, 0, 0, 0, 1, 1,
        (Integrity("", "", 0, 0),), (WaitCause("", "", 0, 0, 0, nan),), (WaitSpread("", 0, nan, nan, nan, nan),),
        (Ending("", 0, 0, nan, finished=False),), (Preemption("", (), 0, 0, second_order=False),),
        (Reliability("", 0, 0, nan, nan, nan, nan, nan, nan),), (Fragmentation("", 0, nan, None, nan),),
        (ScheduleSegment("", "", "", 0, 0, 0, None), ScheduleSegment("", "", "", 0, 0, 0, nan, {"": 0})),
        (Reconciled("", "", None, None, 0, nan, nan, ""),), ("",), " ",
    )  # fmt: skip
    base = no_capacity()
    return replace(
        base,
        sources=(Source("", "", "", 0),),
        warnings=(),
        goodput=Goodput(Ratio(nan, 0, 0, "", nan), None, None, None),
        ledger=ledger({cause: (layer, label, 0) for cause, (layer, label, _) in LEDGER.items()}),
        totals=Totals(0, 0, 0, 0.0, 0),
        jobs=(empty, replace(empty, queue_wait_s=None, attempts=(), state=None)),
        scheduling=found,
    )
