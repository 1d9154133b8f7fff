"""What is worth fixing, what it costs, and what fixing it is worth at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.findings.rules import communication, device, idle
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report.model import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpg_cli.findings.facts import Facts, Found
    from mpg_cli.report.model import Goodput, Price

RULES: tuple[Callable[[Facts], Iterable[Found]], ...] = (
    idle.input_starvation,
    communication.straggler,
    communication.waiting,
    communication.imbalance,
    communication.exposed,
    idle.checkpoint,
    idle.restore,
    idle.compilation,
    idle.allocator,
    idle.synchronisation,
    idle.launch_bound,
    idle.host_code,
    idle.dependency,
    device.small_kernels,
    device.pageable_copies,
    device.memory_copies,
    device.below_roofline,
    device.unfilled,
    device.memory_bound,
    device.recomputation,
    device.padding,
    device.graph_rows,
    idle.profiler_overhead,
    idle.start_of_recording,
    idle.unexplained,
)
THRESHOLD = 0.01  # of the capacity
EVIDENCE = 5
SEVERITIES = ((0.10, "high"), (0.03, "medium"), (0.0, "low"))  # by share of the capacity
NS_PER_HOUR = 3_600_000_000_000
FIRST = ("communication_wait", "data_starvation")  # looked at first where goodput is under LOW
LOW = 0.5


def find(facts: Facts, price: Price | None = None, threshold: float = THRESHOLD) -> tuple[Finding, ...]:
    """The findings of at least `threshold` of the capacity, by what fixing them gains at most.

    A finding may cover chip-time of several rows of the ledger and share it with others: they do not add up. Those
    whose gain is not bounded come last. Where RG times PG (RG alone where PG is null) is under one half, findings on
    communication and input come first.
    """
    if not facts.capacity_ns:
        return ()
    least = max(1, threshold * facts.capacity_ns)
    found = [each for rule in RULES for each in rule(facts) if each.chip_ns >= least]
    low = _product(facts.goodput) < LOW
    ordered = sorted(found, key=lambda each: _place(each, low=low))
    return tuple(_finding(each, facts, price) for each in ordered)


def _finding(found: Found, facts: Facts, price: Price | None) -> Finding:
    cause = load_taxonomy().cause(found.cause)
    share = found.chip_ns / facts.capacity_ns
    return Finding(
        id=found.id,
        severity=next(name for least, name in SEVERITIES if share >= least),
        cause=found.cause,
        killer=cause.killer,
        title=found.title,
        chip_ns=found.chip_ns,
        share=share,
        gain=amdahl(found.chip_ns, facts.capacity_ns) if found.bounded else None,
        where=found.where,
        evidence=found.evidence[:EVIDENCE],
        fix=found.fix or cause.fixes,
        cost=None if price is None else cost(found.chip_ns, facts.chips, price),
    )


def amdahl(chip_ns: int, capacity_ns: int) -> float | None:
    """The speed-up if `chip_ns` of `capacity_ns` took no time, 1 / (1 - f) (Amdahl 1967); None if nothing is left."""
    return capacity_ns / (capacity_ns - chip_ns) if chip_ns < capacity_ns else None


def cost(chip_ns: int, chips: int, price: Price) -> float:
    """The money that `chip_ns` took on `chips`, as if all chips of the job had spent their time alike."""
    scale = 1.0 if price.chips is None else price.chips / chips
    return chip_ns / NS_PER_HOUR * price.per_chip_hour * scale


def _product(goodput: Goodput) -> float:
    """RG times PG, RG where PG is null, its upper bound where that is all that is known, else 1."""
    if goodput.rg is None:
        return 1.0 if goodput.rg_max is None else goodput.rg_max
    return goodput.rg.value * (1.0 if goodput.pg is None else goodput.pg.value)


def _place(found: Found, *, low: bool) -> tuple[bool, bool, int, str, str]:
    """Sorting key: the group, then those with a bound on the gain; a larger gain is a larger amount."""
    later = low and load_taxonomy().cause(found.cause).killer not in FIRST
    return later, not found.bounded, -found.chip_ns, found.id, found.where
