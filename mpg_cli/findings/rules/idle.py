"""Rules on idle devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_cli.findings import text
from mpg_cli.findings.debt import debt_ns
from mpg_cli.findings.facts import Found
from mpg_cli.findings.waits import Blame, blame
from mpg_cli.goodput.windows import OWNER
from mpg_cli.report.model import Evidence
from mpg_cli.report.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.findings.facts import Facts

PROFILE = (
    "Do not read RG from this recording: the overhead is absent when nobody profiles",
    "Profile fewer steps after a warm-up, and without stacks, shapes and memory where they are not needed",
)


def input_starvation(facts: Facts) -> Iterator[Found]:
    """No next batch: the device's own idle time, and what others wait for a rank that has none."""
    own = facts.of("input")
    late = blame(facts, lambda collective: collective.reason == "input")
    title = "The input pipeline starves the chips"
    rows = [text.amount(facts, own, "idle for want of a batch"), *text.hotspots(facts, "input")]
    if late.waited_ns:
        title = "The input pipeline starves the chips; other ranks wait in collectives for the batch"
        rows.insert(1, _waits(late))
    rows += text.longest(facts, "input")
    yield Found("input", "input", title, own + late.saved_ns, text.where(facts, "input"), tuple(rows))


def _waits(late: Blame) -> Evidence:
    """The part of a finding that the ledger has under communication_wait."""
    ranks = ", ".join(str(rank) for rank in sorted({c.last_rank for c in late.collectives}))
    number = text.plural(len(late.collectives), "collective")
    said = (
        f"in {number} the last rank ({ranks}) was late because of its input: the others waited "
        f"{duration(late.waited_ns)} of chip-time, which the ledger has under communication_wait"
    )
    if late.saved_ns < late.waited_ns:
        said += f"; {duration(late.saved_ns)} of it counts here: the rank before it comes {text.margins(late)} earlier"
    return Evidence(said)


def checkpoint(facts: Facts) -> Iterator[Found]:
    """A save that training waits for."""
    yield _idle(facts, "checkpoint", "The chips wait while a checkpoint is saved")


def restore(facts: Facts) -> Iterator[Found]:
    """A load that training waits for."""
    yield _idle(facts, "restore", "The chips wait while a checkpoint is loaded")


def compilation(facts: Facts) -> Iterator[Found]:
    """Compilation, capture, module loading; after the first step it recurs, or comes with new shapes."""
    total, later = facts.of("compile"), _after_first_step(facts)
    when = Evidence(
        f"{duration(later)} of it after the first step, {duration(total - later)} before or in it"
    )
    title = "The chips wait for compilation and first use"
    if later * 2 > total:
        title = "Programs are compiled or loaded again after the first step"
    yield _idle(facts, "compile", title, *([when] if facts.device_steps else []))


def _after_first_step(facts: Facts) -> int:
    """The chip-ns of compile that start after the end of their process's first step."""
    first = facts.steps.sort("start_ns").group_by(OWNER, maintain_order=True).first()
    ends = facts.subjects.join(first.select(*OWNER, first_ns="end_ns"), on=OWNER, nulls_equal=True)
    pieces = facts.pieces("compile").join(ends, on="subject")
    late = pieces.filter(col("start_ns") >= col("first_ns"))
    return int((late["end_ns"] - late["start_ns"]).sum())


def allocator(facts: Facts) -> Iterator[Found]:
    """Driver allocations in the measured stretch."""
    yield _idle(facts, "allocator", "Device memory is allocated or freed while the chips wait")


def host_code(facts: Facts) -> Iterator[Found]:
    """Code on the launching thread that launches nothing."""
    yield _idle(facts, "host_code", "Host code keeps the launching thread from launching")


def dependency(facts: Facts) -> Iterator[Found]:
    """One stream waits for another."""
    yield _idle(facts, "dependency", "Streams wait for each other with nothing to fill the time")


def launch_bound(facts: Facts) -> Iterator[Found]:
    """The host issues kernels more slowly than they run."""
    kernels = facts.ops.filter(pl.col("kind") == "kernel")
    rows = []
    if kernels.height:
        mean = int((kernels["end_ns"] - kernels["start_ns"]).sum()) // kernels.height
        steps = facts.device_steps
        each = f"{text.plural(round(kernels.height / steps), 'kernel')} {text.per(facts)}, " if steps else ""
        rows = [
            Evidence(f"{each}{text.plural(kernels.height, 'kernel')} in all, {duration(mean)} on average")
        ]
    yield _idle(facts, "launch_bound", "The host launches kernels more slowly than the chips run them", *rows)


def synchronisation(facts: Facts) -> Iterator[Found]:
    """The host waits for the device and then starts late: bounded by the time it was blocked."""
    if facts.blocked.is_empty():
        yield _idle(facts, "synchronisation", "The host waits for the chips, which then wait for the host")
        return
    debt = debt_ns(facts.segments, facts.blocked)
    always = _every_step(facts)
    title = f"The host waits for the chips{' in every step' if always else ''}"
    asked = _who_asked(facts)
    rows = (_covered(facts, debt), *map(_evidence, asked), *text.longest(facts, "synchronisation"))
    yield Found(
        "sync_per_step" if always else "synchronisation",
        "synchronisation",
        title,
        debt,
        asked[0]["label"],
        rows,
    )


def _covered(facts: Facts, debt: int) -> Evidence:
    """How often the host waited, and which rows of the ledger the bound is over."""
    count, steps = facts.blocked.height, facts.device_steps
    each = f"{count / steps:,.1f} {text.per(facts)}, " if steps else ""
    return Evidence(
        f"{each}{text.plural(count, 'wait')} in all; without them the host would be further ahead and cover at most "
        f"{duration(debt)} of the idle time under launch_bound, host_code and synchronisation "
        f"({duration(facts.of('synchronisation'))} of it is under synchronisation)"
    )


def _every_step(facts: Facts) -> bool:
    """Whether a wait starts in each step of each device."""
    steps = facts.subjects.join(facts.steps, on=OWNER, nulls_equal=True)
    steps = steps.select("subject", "end_ns", at_ns="start_ns")
    waits = facts.blocked.select("subject", at_ns="start_ns", wait_ns="start_ns").sort("at_ns")
    near = steps.sort("at_ns").join_asof(
        waits, on="at_ns", by="subject", strategy="forward", check_sortedness=False
    )
    return bool(near.height and (near["wait_ns"] < near["end_ns"]).fill_null(value=False).all())


def _who_asked(facts: Facts) -> list[dict[str, Any]]:
    """The operators, or else calls, that the host waited longest in, each with its longest wait."""
    waits = facts.blocked.with_columns(length_ns=col("end_ns") - col("start_ns"))
    waits = waits.sort("length_ns", "subject", "start_ns", descending=[True, False, False])
    waits = waits.join(facts.subjects, on="subject", maintain_order="left")
    asked = pl.coalesce("op", "name")
    label = pl.when(col("frame").is_null()).then(asked).otherwise(pl.format("{} in {}", asked, "frame"))
    groups = waits.group_by(label=label, maintain_order=True).agg(
        count=pl.len(), blocked_ns=col("length_ns").sum(), path=col("source").first().replace_strict(facts.paths),
        name=col("name").first(), thread=col("thread").first(), start_ns=col("start_ns").first(),
        dur_ns=col("length_ns").first(),
    )  # fmt: skip
    return groups.sort("blocked_ns", descending=True, maintain_order=True).head(2).to_dicts()


def _evidence(row: dict[str, Any]) -> Evidence:
    said = f"{row['label']}: {text.plural(row['count'], 'wait')}, {duration(row['blocked_ns'])} blocked"
    return Evidence(said, row["path"], row["name"], row["thread"], row["start_ns"], row["dur_ns"])


def profiler_overhead(facts: Facts) -> Iterator[Found]:
    """Idle time that is the profiler's own: no gain, but RG is too low by it."""
    yield _idle(
        facts, "profiler_overhead", "The profiler itself makes the chips wait", fix=PROFILE, bounded=False
    )


def start_of_recording(facts: Facts) -> Iterator[Found]:
    """A gap that belongs to work from before the recording."""
    title = "The start of the recording is part of the account"
    what = "idle or waiting, because of what came before the recording"
    yield _idle(facts, "transient", title, what=what, bounded=False)


def unexplained(facts: Facts) -> Iterator[Found]:
    """Idle time that nothing in the file explains."""
    yield _idle(facts, "unknown", "The chips were idle, and nothing in the file says why", bounded=False)


def _idle(
    facts: Facts,
    cause: str,
    title: str,
    *rows: Evidence,
    what: str = "idle",
    fix: tuple[str, ...] = (),
    bounded: bool = True,
) -> Found:
    """A finding that is exactly one row of the ledger."""
    total = facts.of(cause)
    first = text.amount(facts, total, what)
    evidence = (first, *rows, *text.hotspots(facts, cause), *text.longest(facts, cause))
    return Found(cause, cause, title, total, text.where(facts, cause), evidence, fix, bounded)
