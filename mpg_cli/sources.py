"""The files of a dataset: what was found wrong in each, and the ranks they are of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson
import polars as pl

from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

RANK_IN_NAME = re.compile(r"(?:([a-z]+)[-_ ]?)?(?<![a-z])rank[-_ ]?(\d{1,7})(?!\d)", re.IGNORECASE)
# ranks within one of several groups, or on one of several nodes: no global rank
PARTIAL = frozenset({"tp", "pp", "dp", "ep", "cp", "sp", "local", "node", "group"})
LISTED = 8


def load_sources(dataset: Dataset) -> tuple[pl.DataFrame, list[Notice]]:
    """The sources table with ranks from file names where the file states none, and what deserves a notice.

    Raises InputError duplicate_rank.
    """
    sources = dataset.scan("sources").collect().sort("source")
    notices = source_notices(sources)
    stated, paths = sources["rank"], sources["path"]
    ranks = [rank_from_name(path) if rank is None else rank for rank, path in zip(stated, paths, strict=True)]
    sources = sources.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
    notices += _guessed_ranks(sources.filter(stated.is_null() & pl.col("rank").is_not_null()))
    _refuse_duplicates(sources)
    return sources, notices + _missing_ranks(sources)


class Repeats:
    """Finds files with the content of an earlier one, such as a copy or a hard link.

    Two files that differ in rank by their names are not taken for one; files of one rank are refused later.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int | None]] = {}

    def notice(self, sources: pl.DataFrame) -> Notice | None:
        """What to say of the file in `sources` (one row) where it is not to be counted, else None."""
        path, digest, stated = sources.select("path", "sha256", "rank").row(0)
        rank = rank_from_name(path) if stated is None else stated
        if digest not in self._first:
            self._first[digest] = path, rank
            return None
        first, other = self._first[digest]
        if rank is not None and other is not None:
            return None
        return Notice("skipped_files", f"has the same content as {first} (skipped)", 1, path)


def _guessed_ranks(sources: pl.DataFrame) -> list[Notice]:
    message = "the file states no rank (no distributedInfo): rank{} is taken from its name"
    rows = sources.select("rank", "path").iter_rows()
    return [Notice("rank_from_name", message.format(rank), 1, path) for rank, path in rows]


def source_notices(sources: pl.DataFrame) -> list[Notice]:
    """What the parsers noticed, by source path."""
    return [
        Notice(item["kind"], item["message"], item["count"], path)
        for path, text in sources.select("path", "notices").iter_rows()
        for item in orjson.loads(text)
    ]


def rank_from_name(path: str) -> int | None:
    """The rank in a file name such as tp1_rank3.json; None if it names none, or several."""
    name = path.rsplit("!", 1)[-1].rsplit("/", 1)[-1]
    found = {int(number) for of, number in RANK_IN_NAME.findall(name) if of.lower() not in PARTIAL}
    return found.pop() if len(found) == 1 else None


def _refuse_duplicates(sources: pl.DataFrame) -> None:
    twice = sources.filter(pl.col("rank").is_not_null() & (pl.len().over("rank") > 1)).sort("rank", "source")
    if twice.is_empty():
        return
    rank = twice["rank"][0]
    files = twice.filter(pl.col("rank") == rank)
    first, *others = files["path"]
    same = " (the same content)" if files["sha256"].n_unique() == 1 else ""
    message = f"rank {rank} is also in {', '.join(others[:3])}{', …' if others[3:] else ''}{same}"
    hint = "give each rank once, or analyse the files one at a time"
    raise InputError("duplicate_rank", first, message, hint=hint)


def _missing_ranks(sources: pl.DataFrame) -> list[Notice]:
    world = sources["world_size"].max()
    have = set(sources["rank"].drop_nulls())
    if not have or not isinstance(world, int) or len(have) >= world:
        return []
    listed: list[str] = []
    for rank in range(world):
        if len(listed) == LISTED:
            break
        if rank not in have:
            listed.append(str(rank))
    lost = world - len(have)
    message = f"{lost} of {world} ranks are not among the files: {', '.join(listed)}"
    return [Notice("missing_rank", message + (", …" if lost > LISTED else ""), lost)]
