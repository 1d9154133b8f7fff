"""Files into a dataset: expand what was named, choose parsers, use the cache, number the sources."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from threading import Thread
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.cache import MIN_SIZE, Cache, Key
from mpg_cli.silent import as_notice, reason
from mpg_cli.sources import Repeats
from mpg_cli.store import (
    MANIFEST,
    Dataset,
    MemoryWriter,
    ParquetWriter,
    Tables,
    open_tables,
    read_manifest,
    writing,
)
from mpg_cli.twins import without_twins
from mpg_parsers.errors import InputError, Notice, UsageError
from mpg_parsers.registry import NO_PARSER, NotParallelError, ParseOptions, Parser, detect
from mpg_parsers.source import Source, expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IN_MEMORY = 4 * MIN_SIZE  # larger files are spilled to disk where there is no cache
# what no parser takes: skipped with a notice where anything else can be read
NOT_TAKEN = frozenset({"not_a_trace", "unsupported_format"})
# what a folder may hold besides, and is an error only in a file that was named
NOT_OURS = NOT_TAKEN | {"empty_input", "unsupported_encoding"}
SILENT = "no_device_activity"  # a trace, but of the host alone: an error only if nothing else can be read
PROFILE = ".ncu-rep"  # of single kernels: no figure of time lacks it
SHARED, SHARED_GZIP = 32 << 20, 4 << 20  # stored sizes from which several processes pay off
MAX_JOBS = 4
GZIP = b"\x1f\x8b"
Progress = Callable[[str, int, int], None]


def _say_nothing(_: str) -> None:
    pass


@dataclass(frozen=True)
class IngestOptions:
    """keep_names: see ParseOptions; progress: called with (path, bytes done, bytes in all) of a file; warn:
    called with what deserves a line on standard error, but says nothing of the figures; jobs: processes that may
    share one large file, 0: as many as there are cores, up to MAX_JOBS; output: a file that will be written, which
    can be none of those that are read; nsys, tz, columns: see ParseOptions.
    """

    keep_names: bool = False
    cache: Cache | None = None
    progress: Progress | None = None
    warn: Callable[[str], None] = _say_nothing
    jobs: int = 0
    output: Path | None = None
    nsys: str = ""
    tz: str = ""
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def variant(self) -> str:
        """What besides a file's bytes decides its tables."""
        said = ("names" if self.keep_names else "", self.tz, repr(self.columns) if self.columns else "")
        if not any(said):
            return ""
        return (
            "-names" if said[1:] == ("", "") else f"-{hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"
        )


@contextmanager
def ingest(paths: Sequence[str], options: IngestOptions) -> Iterator[Dataset]:
    """Read everything named into one dataset, which lasts as long as the context.

    Raises InputError for the first file that cannot be used, or if none can; UsageError if one is to be written
    over. A file that no parser takes, or that is known to be of the host alone, is a notice, if there is any other;
    so is one with the content of another.
    """
    with tempfile.TemporaryDirectory(prefix="mpg-") as folder, expand(paths) as expansion:
        _refuse_output(expansion.sources, options.output)
        reading = _Reading(options, Path(folder), options.cache)
        dataset = Dataset(notices=list(expansion.notices))
        refused: list[InputError] = []
        repeats = Repeats()
        sources = _outside_datasets(expansion.sources, dataset.notices)
        for source in without_twins(sources, dataset.notices):
            try:
                tables = reading.read(source)
                if notice := repeats.notice(tables["sources"].collect()):
                    dataset.notices.append(notice)
                else:
                    dataset.add(tables)
            except InputError as error:
                dataset.notices.append(_skipped(error, source))
                refused += [error] if source.named or error.kind == SILENT else []
        if not dataset.count:
            raise refused[0] if refused else _nothing(paths, dataset.notices)
        try:
            yield dataset
        finally:
            reading.close()


def _skipped(error: InputError, source: Source) -> Notice:
    """What to say of a file that is left out. Raises the error if it may not be."""
    if error.kind == SILENT:
        return as_notice(error)
    profile = error.kind == "needs_export" and _ends(source, PROFILE) and not source.named
    if error.kind not in (NOT_TAKEN if source.named else NOT_OURS) and not profile:
        raise error
    # of a file that nobody named, why each parser does not take it would drown everything else
    said = reason(error)
    told = NO_PARSER if said.startswith(NO_PARSER) and not source.named else said
    return Notice("skipped_files", f"{told} (skipped)", 1, source.path)


def _refuse_output(sources: Sequence[Source], output: Path | None) -> None:
    if output is None or not output.is_file():
        return
    for source in sources:
        if os.path.samefile(source.file, output):  # noqa: PTH121 - the other one needs a Path of each source
            raise UsageError(f"-o {output}: is one of the files to read", hint="choose another name")


def _outside_datasets(sources: Sequence[Source], notices: list[Notice]) -> list[Source]:
    """The sources that are no parts of a dataset that `mpg ingest` wrote into a folder of traces."""
    taken, parts = [], dict[str, int]()
    for source in sources:
        folder = None if source.named or source.member else _dataset_around(source)
        if folder is None:
            taken.append(source)
        else:
            parts[folder] = parts.get(folder, 0) + 1
    message = "the files of an mpg dataset are not read again (mpg report does that)"
    notices += [Notice("skipped_files", message, count, folder) for folder, count in parts.items()]
    return taken


def _ends(source: Source, *suffixes: str) -> bool:
    return PurePath(source.path).suffix.lower() in suffixes


def _dataset_around(source: Source) -> str | None:
    for above in (0, 1):  # the manifest itself, the parts of a table
        if (Path(source.file).parents[above] / MANIFEST).is_file():
            return str(PurePath(source.path).parents[above])
    return None


def _nothing(paths: Sequence[str], notices: Sequence[Notice]) -> InputError:
    reasons = "; ".join(f"{notice.source}: {notice.message}" for notice in notices[:3])
    more = f"; and {len(notices) - 3} more" if notices[3:] else ""
    message = f"nothing that mpg can read: {reasons or 'no files'}{more}"
    return InputError(
        "not_a_trace", ", ".join(paths)[:400], message, hint="run `mpg formats` for what mpg reads"
    )


class _Digest(Thread):
    """The SHA-256 of a source, computed meanwhile. A daemon: nobody waits for it after an error."""

    def __init__(self, source: Source) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._value = ""
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        """What the thread does."""
        try:
            self._value = self._source.sha256()
        except Exception as error:  # noqa: BLE001 - raised again by `result`
            self._error = error

    def result(self) -> str:
        """The digest, when it is there. Raises what reading the file raised."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._value


@dataclass
class _Reading:
    options: IngestOptions
    scratch: Path
    cache: Cache | None
    spilled: int = 0
    _used_cache: bool = field(default=False, init=False)

    def read(self, source: Source) -> Tables:
        """The tables of one source, from the cache or the file."""
        parser = detect(source)
        digest = _Digest(source)
        if self.cache is not None and source.size >= MIN_SIZE:
            try:
                return self._cached(self.cache, source, parser, digest)
            except OSError as error:
                self.options.warn(f"the cache {self.cache.folder} is not used: {error.strerror or error}")
                self.cache = None
        return self._parse(source, parser, digest)

    def _cached(self, cache: Cache, source: Source, parser: Parser, digest: _Digest) -> Tables:
        """The tables from the cache, after putting them there if need be. Raises OSError if that fails."""
        self._used_cache = True
        variant = self.options.variant
        if cache.may_hold(source.size):
            found = cache.get(Key(source.size, digest.result(), parser.name, variant))
            if found is not None:
                return _renamed(found, source)
        writer = cache.writer()
        try:
            self._fill(writer, source, parser, digest)
            return cache.put(writer, Key(source.size, digest.result(), parser.name, variant))
        except BaseException:
            writer.discard()
            raise

    def _parse(self, source: Source, parser: Parser, digest: _Digest) -> Tables:
        """The tables, in memory or, if large, in the scratch folder."""
        if source.size < IN_MEMORY:
            memory = MemoryWriter()
            self._fill(memory, source, parser, digest)
            return memory.finish()
        self.spilled += 1
        target = self.scratch / f"source-{self.spilled}"
        with writing(target):
            writer = ParquetWriter(self.scratch)
            self._fill(writer, source, parser, digest)
            writer.commit(target)
            manifest = read_manifest(target)
        if manifest is None:
            raise InputError("write_failed", str(target), "what was written cannot be read back")
        return open_tables(target, manifest)

    def _fill(
        self, writer: MemoryWriter | ParquetWriter, source: Source, parser: Parser, digest: _Digest
    ) -> None:
        before = _stamp(source)
        try:
            self._copy(writer, source, parser, digest, _jobs(source, self.options.jobs))
        except NotParallelError:
            writer.restart()
            self._copy(writer, source, parser, digest, 1)
        if _stamp(source) != before:
            raise _changed(source)

    def _copy(
        self, writer: MemoryWriter | ParquetWriter, source: Source, parser: Parser, digest: _Digest, jobs: int
    ) -> None:
        given = self.options
        options = ParseOptions(
            given.keep_names, self._progress(source), jobs, given.nsys, given.tz, given.columns
        )
        for table, frame in parser.parse(source, options):
            batch = frame
            if table == "sources":
                size, sha256 = pl.lit(source.size), pl.lit(digest.result())
                zone = pl.lit(self.options.tz or None, pl.String)
                batch = frame.with_columns(path=pl.lit(source.path), size=size, sha256=sha256, zone=zone)
            writer.add(table, batch)

    def _progress(self, source: Source) -> Callable[[int], None] | None:
        progress = self.options.progress
        return None if progress is None else lambda done: progress(source.path, done, source.size)

    def close(self) -> None:
        """Keep the cache within its bounds: not before the tables have been used, which may lie there."""
        if self.options.cache and self._used_cache:
            self.options.cache.prune()


def _jobs(source: Source, wanted: int) -> int:
    """How many processes decode a file: one unless it is large, and none more than wanted."""
    try:
        with Path(source.file).open("rb") as file:
            packed = source.member is None and file.read(2) == GZIP
    except FileNotFoundError as error:
        raise _changed(source) from error
    if source.size < (SHARED_GZIP if packed else SHARED):
        return 1
    return wanted or min(MAX_JOBS, _cores())


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _stamp(source: Source) -> tuple[int, int]:
    try:
        about = Path(source.file).stat()
    except FileNotFoundError as error:
        raise _changed(source) from error
    return about.st_size, about.st_mtime_ns


def _changed(source: Source) -> InputError:
    message, hint = (
        "the file changed or vanished while it was read",
        "wait until it is written, and run again",
    )
    return InputError("truncated_input", source.path, message, hint=hint)


def _renamed(tables: Tables, source: Source) -> Tables:
    """Tables of the same content under the path they were found at this time."""
    return {**tables, "sources": tables["sources"].with_columns(path=pl.lit(source.path))}
