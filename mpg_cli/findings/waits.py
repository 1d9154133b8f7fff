"""Who makes whom wait in collectives, in the chip-time of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from mpg_cli.findings.facts import Facts
    from mpg_cli.report.model import Collective


@dataclass(frozen=True)
class Blame:
    """The collectives that one rank, or one reason, made others wait in.

    waited_ns: the others' exposed waiting there; where it overlaps on one device it counts once.
    """

    collectives: tuple[Collective, ...]
    waited_ns: int


def certain(collective: Collective) -> bool:
    """Whether one rank is to blame: another might have been last in a near tie, and at the start of a
    recording the ranks enter apart."""
    return not (collective.near_tie or collective.transient)


def blame(facts: Facts, fits: Callable[[Collective], bool]) -> Blame:
    """The waiting in the collectives in which one rank is to blame, and which fit."""
    found = tuple(c for c in facts.collectives if certain(c) and fits(c))
    return Blame(found, waited_ns(facts.waits, found))


def waited_ns(waits: pl.DataFrame, collectives: tuple[Collective, ...]) -> int:
    """The chip-ns of `Facts.waits` in these collectives."""
    rows = waits.filter(col("index").is_in([c.index for c in collectives]))
    return int(intervals.total(rows, ["subject"])["length_ns"].sum())
