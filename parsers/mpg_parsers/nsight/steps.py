"""Training and inference steps among the NVTX ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice
from mpg_parsers.tables import STEPS

if TYPE_CHECKING:
    from collections.abc import Collection

# names that training and serving frameworks and hand-written loops give to a step: words and a number
WORDS = "train|training|global|inference|eval|evaluation|valid|validation|prefill|decode|generation|engine"
NOUNS = "step|iteration|iter|batch"
PATTERNS = (r"^ProfilerStep#\d+$", rf"(?i)^((?:{WORDS})[ _-]?)?({NOUNS})[ _:#=-]{{0,3}}\(?\d+\)?$")
NUMBER = r"\d+"


class Steps:
    """Collects ranges that are named like steps, and chooses those of one kind in each process."""

    def __init__(self) -> None:
        self._held: list[pl.DataFrame] = []
        self.notices: list[Notice] = []

    def take(self, ranges: pl.DataFrame) -> None:
        """Look for steps in rows of host_events."""
        if ranges["name"].dtype != pl.String:
            return
        named = pl.any_horizontal(col.name.str.contains(pattern) for pattern in PATTERNS)
        found = ranges.filter(col.dur_ns.is_not_null() & named)
        if found.height:
            self._held.append(found.select("process", "thread", "start_ns", "dur_ns", "name"))

    def table(self, working: Collection[int | None]) -> pl.DataFrame:
        """The steps of the processes with device work, `working`; null stands for the only process of a file.

        Ranges of one family (the same name but for the number) on one thread: the family that covers most time in
        its process. So nested families count once.
        """
        if not self._held:
            return STEPS.conform(pl.DataFrame())
        held = pl.concat(self._held).with_columns(family=col.name.str.replace(NUMBER, "#"))
        key = ["process", "thread", "family"]
        ranked = held.group_by(key).agg(ns=col.dur_ns.sum())
        ranked = ranked.sort("ns", *key, descending=[True, False, False, False])
        chosen = held.join(self._best(ranked, working), on=key, how="semi", nulls_equal=True)
        number = pl.when(col.name.str.starts_with("ProfilerStep#")).then(col.name.str.extract(r"(\d{1,18})"))
        rows = chosen.select(
            "name",
            "start_ns",
            process=pl.when(not _only(working)).then("process"),
            step=number.cast(pl.Int64),
            end_ns=col.start_ns + col.dur_ns,
        )
        return STEPS.conform(rows.sort("start_ns", "end_ns", "process"))

    def _best(self, ranked: pl.DataFrame, working: Collection[int | None]) -> pl.DataFrame:
        if not working or _only(working):
            return ranked.head(1)
        best = ranked.unique("process", keep="first", maintain_order=True)
        found = best.filter(col.process.is_in([number for number in working if number is not None]))
        if found.is_empty():
            message = (
                f"ranges that are named like steps ({best['family'][0][:80]!r}) are those of {best.height} processes "
                "without device work, and not used"
            )
            self.notices.append(Notice("steps_elsewhere", message, best.height))
        return found


def _only(working: Collection[int | None]) -> bool:
    """Whether the file does not tell processes apart."""
    return set(working) == {None}
