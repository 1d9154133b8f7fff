"""Which parser reads a file: decided by its first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, NoReturn, Protocol

from mpg_parsers.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from mpg_parsers.source import Source


GROUP = "mpg.parsers"
HEAD = 1 << 16
NO_PARSER = "no parser takes this file"


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How to parse.

    keep_names  keep host and user names and private paths
    progress    called with the bytes of the stored file that are done
    jobs        processes that may share the work on one large file
    nsys        NVIDIA's nsys, for reports that only it can read; empty: the one on the PATH
    tz          zone (an IANA name, or UTC) of wall times that name none; empty: unknown
    columns     (canonical column, column of the file) pairs for job tables, before what is recognised
    """

    keep_names: bool = False
    progress: Callable[[int], None] | None = None
    jobs: int = 1
    nsys: str = ""
    tz: str = ""
    columns: tuple[tuple[str, str], ...] = ()


class NotParallelError(Exception):
    """Raised by `parse` with several jobs: parse again with one; the batches so far are void."""


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
        """Why it does not take a file that starts with `head` (unpacked); "" if it does."""
        ...

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """(table, rows) batches in bounded memory, without the `source` column. Raises InputError."""
        ...


@cache
def parsers() -> tuple[Parser, ...]:
    """All parsers, most specific first; other distributions add theirs to the entry-point group.

    Raises UsageError if one of those cannot be loaded.
    """
    from mpg_parsers.job_table import JOB_TABLE
    from mpg_parsers.kubernetes_objects import KUBERNETES
    from mpg_parsers.nsight_compute import NSIGHT_COMPUTE
    from mpg_parsers.nsight_systems import NSIGHT_SYSTEMS
    from mpg_parsers.nsys_jax import NSYS_JAX
    from mpg_parsers.pytorch import PYTORCH
    from mpg_parsers.rocprofv3 import ROCPROFV3
    from mpg_parsers.slurm_files import SLURM
    from mpg_parsers.xla_profile import XLA_PROFILE

    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    own = (
        NSYS_JAX,
        NSIGHT_SYSTEMS,
        NSIGHT_COMPUTE,
        ROCPROFV3,
        XLA_PROFILE,
        SLURM,
        KUBERNETES,
        JOB_TABLE,
        PYTORCH,
    )
    return (*(_load(entry) for entry in entries), *own)


def _load(entry: EntryPoint) -> Parser:
    """The parser of another distribution. Raises UsageError if its code fails."""
    try:
        parser: Parser = entry.load()
    except Exception as error:
        origin = entry.dist.name if entry.dist else "unknown distribution"
        message = f"the parser {entry.name!r} of {origin} cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(message, hint="repair or uninstall that distribution") from error
    return parser


def verdicts(source: Source) -> list[tuple[Parser, str]]:
    """Every parser with its reason not to take the file, "" for the ones that would."""
    return verdicts_on(_head(source), source.path)


def verdicts_on(head: bytes, path: str) -> list[tuple[Parser, str]]:
    """The same for the first bytes of what is, or will be, a source."""
    return [(parser, parser.sniff(head, path)) for parser in parsers()]


def _head(source: Source) -> bytes:
    """The first bytes; of damaged compressed data, what precedes the damage. Raises if that is nothing."""
    try:
        return source.head()
    except InputError as error:
        if error.kind != "corrupt_input":
            raise
        with source.open() as stream:
            head = stream.read_before_damage(HEAD)
        if not head:
            raise
        return head


def _refuse_empty(source: Source) -> NoReturn:
    hint = (
        "was the job killed before the profiler wrote it, or the disk full? XLA's profiler writes an empty file where "
        "a profile is over 2 GB: record fewer steps"
    )
    with source.open() as stream:
        stream.read(1)
        if stream.truncated:
            raise InputError(
                "truncated_input", source.path, f"{stream.truncated}: nothing is left", hint=hint
            )
    raise InputError("empty_input", source.path, "the file is empty (0 bytes)", hint=hint)


def detect(source: Source) -> Parser:
    """The first parser that takes the file. Raises InputError: empty_input, truncated_input, unsupported_format."""
    head = _head(source)
    if not head:
        _refuse_empty(source)
    return chosen(head, source.path)


def chosen(head: bytes, path: str) -> Parser:
    """The first parser that takes what starts with `head`. Raises InputError(unsupported_format)."""
    reasons = verdicts_on(head, path)
    for parser, reason in reasons:
        if not reason:
            return parser
    tried = "; ".join(f"{parser.name}: {reason}" for parser, reason in reasons)
    hint = "run `mpg formats` for the list of formats"
    raise InputError("unsupported_format", path, f"{NO_PARSER} ({tried})", hint=hint)
