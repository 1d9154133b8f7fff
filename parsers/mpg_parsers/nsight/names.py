"""Texts behind the numbers: the strings of an export, its enumerations, and who a global id means.

Of StringIds only the strings are read that a row names: others hold environments and command lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.launches import in_file
from mpg_parsers.nsight.columns import Only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_parsers.nsight.columns import Export

STRINGS = "StringIds"
CHUNK = 10_000  # ids asked for at once: SQLite takes 32 766 parameters
NUMBER = (1 << 24) - 1
UNSTATED = (1 << 32) - 1  # how the profiler writes that a call names no stream or no event

# ids and labels as in the ENUM_ tables of exports from 2022 on; older exports have no such tables
COPY_KINDS = {
    0: "Unknown", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
    10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD",
}  # fmt: skip
MIGRATIONS = (11, 12, 13)  # of unified memory
MEMORY_KINDS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static",
    7: "Unknown",
}  # fmt: skip
SYNC_KINDS = {
    0: "Unknown", 1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync",
}  # fmt: skip
OVERHEAD_KINDS = {
    0: "Undefined", 1: "Unknown", 2: "Driver Compiler", 3: "Buffer Flush", 4: "Instrumentation", 5: "Resource",
    6: "Runtime Triggered Module Loading", 7: "Lazy Function Loading", 8: "Command Buffer Full",
}  # fmt: skip


def process(column: str) -> pl.Expr:
    """The process of a global id: its bits 24 to 47."""
    return (col(column) // (1 << 24)) & NUMBER


def thread(column: str) -> pl.Expr:
    """The thread of a global id: its bits 0 to 23."""
    return col(column) & NUMBER


def correlation(column: str, *, several: bool) -> pl.Expr:
    """The id in correlationId, null where it is none; `several`: of the process in the global id `column`."""
    number = col("correlationId")
    return in_file(process(column), number) if several else pl.when(number != 0).then(number)


def labels(export: Export, table: str, built_in: Mapping[int, str]) -> dict[int, str]:
    """The meaning of the ids of an ENUM_ table; `built_in` for what the file does not say."""
    found = dict(built_in)
    for batch in export.batches(table, ["id"], ["label", "name"]):
        for number, label, name in batch.select("id", "label", "name").iter_rows():
            if number is not None and (label or name):
                found[number] = (label or name)[:80]
    return found


class Names:
    """Strings by id, without the directories of private paths unless names are to be kept."""

    def __init__(self, export: Export, *, keep_names: bool) -> None:
        self._export = export
        self._keep = keep_names
        self._known = pl.DataFrame(schema={"id": pl.Int64, "name": pl.String})

    def attach(self, frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
        """`frame` with the strings of the ids in `column` as column `name`; null for an id without one."""
        self._learn(frame[column].unique().drop_nulls())
        known = self._known.rename({"id": column, "name": name})
        return frame.join(known, on=column, how="left", maintain_order="left")

    def clean(self, names: pl.Series) -> pl.Series:
        """Texts as they may be kept."""
        odd = names.str.contains(r"[/\\%]").fill_null(value=False)
        if self._keep or not odd.any():
            return names
        cleaned = {text: strip_directories(text) for text in names.filter(odd).unique()}
        return names.replace(list(cleaned), list(cleaned.values()))

    def _learn(self, ids: pl.Series) -> None:
        new = ids.filter(~ids.is_in(self._known["id"].implode()))
        for chunk in new.to_frame("id").iter_slices(CHUNK):
            found = self._export.batches(
                STRINGS, ["id"], ["value"], only=Only("id", tuple(chunk["id"].to_list()))
            )
            parts = [part.select("id", name=self.clean(part["value"])) for part in found]
            texts = pl.concat([*parts, self._known.clear()]).unique("id", keep="first")
            known = chunk.join(texts, on="id", how="left")  # an id without a string is not asked for again
            self._known = pl.concat([self._known, known])
