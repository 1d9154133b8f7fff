"""Files that say the same as another beside them, and less or less readily: only the other is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_parsers.source import Source


@dataclass(frozen=True, slots=True)
class Twin:
    """A file ending in one of `endings` gives way to the one of the same name that ends in `better`."""

    endings: tuple[str, ...]
    better: str
    what: str


TWINS = (
    # nsys writes its export beside the report
    Twin((".nsys-rep", ".qdrep"), ".sqlite", "its export"),
    # the trace viewer's copy of an XLA profile lacks the devices' figures, and events beyond a million
    Twin((".trace.json.gz", ".trace.json"), ".xplane.pb", "the profile it was made from,"),
)


def without_twins(sources: Sequence[Source], notices: list[Notice]) -> list[Source]:
    """`sources` without those that give way to another of them; a notice for each."""
    paths = {source.path for source in sources}
    kept = []
    for source in sources:
        if found := _better(source, paths):
            message = f"{found[0].what} {PurePath(found[1]).name} is read in its place (skipped)"
            notices.append(Notice("skipped_files", message, 1, source.path))
        else:
            kept.append(source)
    return kept


def _better(source: Source, paths: set[str]) -> tuple[Twin, str] | None:
    for twin in TWINS:
        for ending in twin.endings:
            if source.path.lower().endswith(ending):
                other = source.path[: -len(ending)] + twin.better
                return (twin, other) if other in paths else None
    return None
