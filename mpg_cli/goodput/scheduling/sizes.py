"""Classes of jobs by size, S, M, L and XL, and what scheduling goodput by class says of how a fleet is scheduled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("S", "M", "L", "XL")
# A choice, not a standard: within one node of eight chips, then a factor of eight each. Fleets differ.
DEFAULT_BOUNDS = (8, 64, 512)
# Scheduling goodput that the paper reports for its largest and smallest jobs, and how far off still counts as near it.
HEALTHY, SLACK = Fraction(95, 100), Fraction(2, 100)
LEAST_JOBS = 10


@dataclass(frozen=True)
class Sizes:
    """bounds: the most chips of a job in S, in M and in L; what has more is XL."""

    bounds: tuple[int, int, int] = DEFAULT_BOUNDS

    def of(self, chips: int) -> str | None:
        """The class of a job of so many chips; None if it has none."""
        return NAMES[sum(chips > bound for bound in self.bounds)] if chips > 0 else None

    def expression(self, chips: str) -> pl.Expr:
        """As `of`, for a column of integers: a string, null where the number is null or not positive."""
        small, medium, large = self.bounds
        column = pl.col(chips)
        return (
            pl.when(column <= 0)
            .then(None)
            .when(column <= small)
            .then(pl.lit("S"))
            .when(column <= medium)
            .then(pl.lit("M"))
            .when(column <= large)
            .then(pl.lit("L"))
            .when(column > large)
            .then(pl.lit("XL"))
        )

    def describe(self) -> dict[str, str]:
        """What each class is, in words, in order of size."""
        lows = (1, *(bound + 1 for bound in self.bounds[:2]))
        words = (_range(low, high) for low, high in zip(lows, self.bounds, strict=True))
        return dict(zip(NAMES, (*words, f"more than {self.bounds[-1]} chips"), strict=True))


def _range(low: int, high: int) -> str:
    return f"{low}–{high} chips" if low < high else f"{low} chip{'s' if low > 1 else ''}"


def parse_sizes(text: str) -> Sizes:
    """The setting: the most chips in S, M and L, as in "8,64,512". Raises UsageError."""
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) == len(DEFAULT_BOUNDS) and all(re.fullmatch(r"[0-9]{1,9}", part) for part in numbers):
        small, medium, large = map(int, numbers)
        if 0 < small < medium < large:
            return Sizes((small, medium, large))
    raise UsageError(
        f"sizes {shown(text)}: expected the most chips of a job in S, M and L, rising, as in 8,64,512",
        hint="three whole numbers with commas between them; more chips than the last is XL",
    )


@dataclass(frozen=True)
class ClassGoodput:
    """Scheduling goodput of the jobs of one class: chip-nanoseconds allocated of those between submission and end."""

    jobs: int
    allocated_ns: int
    wanted_ns: int

    @property
    def value(self) -> Fraction:
        """The ratio. Raises ZeroDivisionError where there was no chip-time."""
        return Fraction(self.allocated_ns, self.wanted_ns)


@dataclass(frozen=True)
class Pattern:
    """holds: whether scheduling goodput by class is as in a well-scheduled fleet; None if too little is known.

    why: one sentence with the figures.
    """

    holds: bool | None
    why: str


def healthy_pattern(goodputs: Mapping[str, ClassGoodput], least_jobs: int = LEAST_JOBS) -> Pattern:
    """Whether the smallest and the largest jobs are near 95 %, and what gives way is in the middle.

    Source: Wongpanich et al., "Machine Learning Fleet Efficiency: … ML Productivity Goodput", arXiv 2502.06982, on
    scheduling goodput by size (and MLSys 2026: above 95 % for every size after the preemption policy was tuned):
    extra-large jobs are not preempted, because starting them again is dear, and small ones find room at once, so
    medium and large ones are what the scheduler moves. That M or L is lower is therefore no fault; that S or XL is,
    is one. How much they may give way the paper does not say, and nothing is refused for it here. "Near" is our word
    for up to two points below 95 %.

    goodputs: by name of class. None where S, M or XL has fewer than `least_jobs` jobs or no chip-time; L may be absent.
    """
    for name in ("S", "M", "XL"):
        reason = _too_little(goodputs.get(name), least_jobs)
        if reason:
            return Pattern(None, f"{name} has {reason}")
    known = {n: goodputs[n].value for n in NAMES if not _too_little(goodputs.get(n), least_jobs)}
    low = [name for name in ("S", "XL") if known[name] < HEALTHY - SLACK]
    return _unhealthy(low, known) if low else _healthy(known)


def _too_little(goodput: ClassGoodput | None, least_jobs: int) -> str:
    jobs = goodput.jobs if goodput else 0
    if jobs < least_jobs:
        return f"{jobs or 'no'} job{'' if jobs == 1 else 's'}: fewer than {least_jobs}"
    return "" if goodput and goodput.wanted_ns > 0 else "no chip-time"


def _unhealthy(low: list[str], known: Mapping[str, Fraction]) -> Pattern:
    """The class in the middle that does better than what is low is what room is made for, at its cost."""
    better = [n for n in ("M", "L") if n in known and known[n] > max(known[name] for name in low)]
    instead = f", while {_figures(better, known)}" if better else ""
    verb = "is" if len(low) == 1 else "are"
    return Pattern(holds=False, why=f"{_figures(low, known)}: {verb} to be near 95 %{instead}")


def _healthy(known: Mapping[str, Fraction]) -> Pattern:
    ends = f"{_figures(['S', 'XL'], known)}: near 95 %"
    gives = [n for n in ("M", "L") if n in known and known[n] < HEALTHY - SLACK]
    rest = f"; what gives way is {_figures(gives, known)}" if gives else ", and so is what lies between"
    return Pattern(holds=True, why=ends + rest)


def _figures(names: list[str], known: Mapping[str, Fraction]) -> str:
    return " and ".join(f"{name} {float(100 * known[name]):.1f} %" for name in names)
