"""What `sacct -P` or `-p` prints: one row a job, or a step of one, columns and delimiter of the user's choice."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.errors import InputError
from mpg_parsers.scheduler_tables import ATTEMPTS
from mpg_parsers.slurm import tres
from mpg_parsers.slurm.about import HINT, About
from mpg_parsers.slurm.attempts import Attempts
from mpg_parsers.slurm.delimited import DASHES, Header, Table, header, tell_table
from mpg_parsers.slurm.fields import NAMES
from mpg_parsers.slurm.lines import Block, blocks
from mpg_parsers.slurm.repair import Columns
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

KNOWN = frozenset(NAMES)
FORMAT = "slurm-sacct"
USED = words(
    "jobid jobidraw jobname user account partition qos reservation state exitcode failednode submit eligible start "
    "end elapsedraw elapsed suspended totalcpu timelimitraw timelimit alloctres reqtres allocgres reqgres nnodes "
    "allocnodes reqnodes nodelist reason priority constraints comment submitline cluster restarts wckey"
)
NEEDED = ("Submit", "Start", "End")
COUNTS = ("alloctres", "allocgres")
MANY = 1000  # rows without a good one
BANNER = 50  # lines that may precede the header
READ = 4 << 20


def find_header(lines: list[str]) -> tuple[Header, int] | None:
    """The header among the first lines, and its place."""
    for at, line in enumerate(lines[:BANNER]):
        found = header(line, KNOWN)
        if found and ({"jobid", "jobidraw"} & set(found.names) or len(found.names) > 3):
            return found, at
    return None


def is_cut(lines: list[str]) -> bool:
    """Whether they are the table that sacct prints without -P, with columns of fixed width."""
    return bool(_cut_header(lines))


def _cut_header(lines: list[str]) -> set[str]:
    """The columns of such a table."""
    for line, under in pairwise(lines[:BANNER]):
        names = set(line.split())
        if DASHES.fullmatch(under) and len(names & KNOWN) >= max(2, 0.7 * len(names)):
            return names
    return set()


def refuse_cut(source: Source) -> None:
    """Raise InputError for a table whose columns are cut."""
    lines = source.head().decode("utf-8", "replace").splitlines()
    missing = [name for name in NEEDED if name not in _cut_header(lines)]
    without = f" and without {', '.join(missing)}" if missing else ""
    message = f"a table of sacct with columns of fixed width, which cut names and states,{without}"
    raise InputError("unsupported_format", source.path, message.rstrip(","), hint=HINT)


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of attempts, then the row of sources. Raises InputError: unsupported_format, corrupt_input."""
    about = About(FORMAT)
    reading: tuple[Table, Attempts] | None = None
    for block in blocks(source, options, about.notices):
        if reading is None:
            found = find_header(block.lines)
            if found is None:
                continue
            reading = _begin(source, found[0], options)
            lines = block.lines[found[1] + 1 :]
            block = Block(block.first + found[1] + 1, lines, block.last, block.open)  # noqa: PLW2901
        table, attempts = reading
        rows = attempts.batch(table.frame(block)) if block.lines else ATTEMPTS.conform(pl.DataFrame())
        if not attempts.rows and (block.last or attempts.bad.count > MANY) and attempts.bad.count:
            _refuse_times(source, attempts)
        yield "attempts", rows
    if reading is None:
        raise InputError("corrupt_input", source.path, "the header line has no end", hint=HINT)
    tell_table(about, reading[0])
    tell(about, reading[1], "alloctres" in reading[0].header.names)
    yield "sources", about.row()


def _begin(source: Source, found: Header, options: ParseOptions) -> tuple[Table, Attempts]:
    names = set(found.names)
    missing = [name for name in NEEDED if name.lower() not in names]
    if not names & {"jobid", "jobidraw"}:
        missing.insert(0, "JobID")
    if missing:
        message = f"no column {', '.join(missing)}: when jobs waited and ran cannot be told"
        raise InputError("unsupported_format", source.path, message, hint=HINT)
    wanted = tuple(name for name in USED if name in names)
    counted = "allocgres" in names or (bool(names & set(COUNTS)) and counts(source))
    return Table(found, Columns(found.names, found.delimiter), wanted), Attempts(options.tz, counted=counted)


def counts(source: Source) -> bool:
    """Whether accelerators are counted anywhere in the file. It reads up to the first."""
    with source.open() as stream:
        rest = b""
        while more := stream.read(READ):
            if tres.SIGN.search(rest + more.replace(b"\0", b"")):
                return True
            rest = more[-100:]
    return False


def _refuse_times(source: Source, attempts: Attempts) -> None:
    line, job = attempts.bad.first[0]
    name, text = attempts.bad_time or ("", "")
    message = f"{name} of job {job} is {text}: without its date, or of a form that is not read"
    raise InputError("unsupported_format", source.path, message, where=f"line {line}", hint=HINT)


def tell(about: About, attempts: Attempts, columns: bool = True) -> None:  # noqa: FBT001, FBT002 - is there AllocTRES
    """What was found in the records: into the row of sources."""
    about.events, about.naive, about.as_of_ns = attempts.rows, attempts.naive, attempts.as_of_ns
    if attempts.rows and not attempts.counted:
        why = (
            "AccountingStorageTRES in slurm.conf lists no gres/gpu"
            if columns
            else "there is no column AllocTRES"
        )
        about.notice("no_chips", f"no record counts accelerators: {why}")
    attempts.bad.left_out(about, "a time that is none")
    attempts.nameless.left_out(about, "no id of a job")
    if attempts.moved:
        message = f"a change of clocks (DST) lies within {attempts.moved} jobs of the file: give --tz"
        about.notice("naive_time", message, attempts.moved)
