"""Who makes whom wait in collectives, in the chip-time of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_cli.findings.facts import Facts
    from mpg_cli.report.model import Collective


@dataclass(frozen=True)
class Blame:
    """The collectives that one rank, or one reason, made others wait in, and the others' exposed waiting there.

    waits: as `Facts.waits`; waited_ns: all of it; saved_ns: what of it would go if the last rank alone were in time,
    since then the next-to-last holds the others up. Waits that overlap on one device count once.
    """

    collectives: tuple[Collective, ...]
    waits: pl.DataFrame

    @property
    def waited_ns(self) -> int:
        """The exposed waiting of the others."""
        return _total(self.waits)

    @property
    def saved_ns(self) -> int:
        """What of it lies after the arrival of the next-to-last rank."""
        return _total(after_next(self.waits, self.collectives))

    @property
    def margins(self) -> tuple[int, int]:
        """The shortest and the longest time by which the next-to-last rank came before the last."""
        margins = [c.margin_ns for c in self.collectives]
        return min(margins), max(margins)


def certain(collective: Collective) -> bool:
    """Whether one rank is to blame: another might have been last in a near tie, and at the start of a
    recording the ranks enter apart."""
    return not (collective.near_tie or collective.transient)


def blame(facts: Facts, fits: Callable[[Collective], bool]) -> Blame:
    """The waiting in the collectives in which one rank is to blame, and which fit."""
    found = tuple(c for c in facts.collectives if certain(c) and fits(c))
    return Blame(found, facts.waits.filter(col("index").is_in([c.index for c in found])))


def after_next(waits: pl.DataFrame, collectives: tuple[Collective, ...]) -> pl.DataFrame:
    """The pieces of `waits` cut to the last `margin_ns` before their collective's transfer."""
    margins = pl.DataFrame(
        [(c.index, c.margin_ns) for c in collectives],
        schema={"index": waits.schema["index"], "margin_ns": pl.Int64},
        orient="row",
    )
    came = pl.max_horizontal("start_ns", col("met_ns") - col("margin_ns"))
    return waits.join(margins, on="index", maintain_order="left").with_columns(start_ns=came)


def _total(waits: pl.DataFrame) -> int:
    return int(intervals.total(waits, ["subject"])["length_ns"].sum())
