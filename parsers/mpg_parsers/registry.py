"""Which parser reads a file: decided by its first bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from mpg_parsers.source import Source


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """keep_names: keep host and user names and private paths; progress: called with bytes of the file done."""

    keep_names: bool = False
    progress: Callable[[int], None] | None = None


class Parser(Protocol):
    """One format. `tables` names the tables it can fill."""

    @property
    def name(self) -> str:
        """Short name, e.g. "pytorch"."""
        ...

    @property
    def description(self) -> str:
        """One line for `mpg formats`."""
        ...

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables it fills."""
        ...

    def sniff(self, head: bytes, path: str) -> str:
        """Why it does not take a file that starts with `head` (unpacked); "" if it does. No input or output."""
        ...

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """(table, rows) batches in bounded memory, without the `source` column. Raises InputError."""
        ...


@cache
def parsers() -> tuple[Parser, ...]:
    """All parsers, most specific first; other distributions add theirs in the entry-point group "mpg.parsers"."""
    from mpg_parsers.pytorch import PYTORCH

    others = tuple(entry.load() for entry in sorted(entry_points(group="mpg.parsers"), key=lambda e: e.name))
    return (*others, PYTORCH)


def verdicts(source: Source) -> list[tuple[Parser, str]]:
    """Every parser with its reason not to take the file, "" for the ones that would."""
    head = source.head()
    return [(parser, parser.sniff(head, source.path)) for parser in parsers()]


def detect(source: Source) -> Parser:
    """The first parser that takes the file. Raises InputError: empty_input, unsupported_format."""
    if not source.head(1):
        hint = "was the job killed before the profiler wrote it, or the disk full?"
        raise InputError("empty_input", source.path, "the file is empty (0 bytes)", hint=hint)
    reasons = verdicts(source)
    for parser, reason in reasons:
        if not reason:
            return parser
    tried = "; ".join(f"{parser.name}: {reason}" for parser, reason in reasons)
    hint = "run `mpg formats` for the list of formats"
    raise InputError("unsupported_format", source.path, f"no parser takes this file ({tried})", hint=hint)
