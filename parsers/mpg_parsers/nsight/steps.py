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
    """Collects ranges that are named like steps, and chooses those of one kind."""

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
        """The steps; `working`: the processes with device work.

        Ranges of one family (the same name but for the number) on one thread: the family that covers most time,
        on the thread of a process with device work where there is one. So nested families count once.
        """
        if not self._held:
            return STEPS.conform(pl.DataFrame())
        held = pl.concat(self._held).with_columns(family=col.name.str.replace(NUMBER, "#"))
        key = ["process", "thread", "family"]
        ranked = held.group_by(key).agg(ns=col.dur_ns.sum()).with_columns(works=col.process.is_in(working))
        order = ["works", "ns", "process", "thread", "family"]
        ranked = ranked.sort(order, descending=[True, True, False, False, False])
        chosen = held.join(ranked.head(1), on=key, how="semi", nulls_equal=True)
        self._note_others(ranked)
        number = pl.when(col.name.str.starts_with("ProfilerStep#")).then(col.name.str.extract(r"(\d{1,18})"))
        rows = chosen.select("name", "start_ns", step=number.cast(pl.Int64), end_ns=col.start_ns + col.dur_ns)
        return STEPS.conform(rows.sort("start_ns", "end_ns"))

    def _note_others(self, ranked: pl.DataFrame) -> None:
        family = ranked["family"][0]
        others = ranked[1:].filter((col.family == family) & col.works)["process"].unique()
        others = others.filter(others.ne_missing(ranked["process"][0]))
        if others.len():
            message = (
                f"steps are those of process {ranked['process'][0]}; {others.len()} other processes with device work "
                f"have ranges of the same name ({family[:80]!r}), which are not listed"
            )
            self.notices.append(Notice("steps_of_one_process", message, others.len()))
