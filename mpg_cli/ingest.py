"""Files into a dataset: expand what was named, choose parsers, use the cache, number the sources."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import polars as pl

from mpg_cli.cache import MIN_SIZE, Cache, Key
from mpg_cli.store import Dataset, MemoryWriter, ParquetWriter, Tables, read_manifest
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.registry import ParseOptions, Parser, detect
from mpg_parsers.source import Source, expand

RANK_IN_NAME = re.compile(r"(?<![a-z])rank[-_ ]?(\d{1,7})(?!\d)", re.IGNORECASE)
# what a folder may hold beside traces: skipped with a notice unless named
NOT_OURS = frozenset({"not_a_trace", "unsupported_format", "empty_input", "unsupported_encoding"})
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class IngestOptions:
    """keep_names: see ParseOptions; progress: called with (path, bytes done, bytes in all) of a file."""

    keep_names: bool = False
    cache: Cache | None = None
    progress: Progress | None = None


@dataclass
class Ingested:
    """The dataset and what was noticed on the way; `folder` holds spilled tables until it is closed."""

    dataset: Dataset = field(default_factory=Dataset)
    notices: list[Notice] = field(default_factory=list)


@contextmanager
def ingest(paths: Sequence[str], options: IngestOptions) -> Iterator[Ingested]:
    """Read everything named into one dataset, which lasts as long as the context.

    Raises InputError for the first file that was named and cannot be used, or if nothing could be.
    """
    with tempfile.TemporaryDirectory(prefix="mpg-") as folder, expand(paths) as expansion:
        reading = _Reading(options, Path(folder))
        result = Ingested(notices=list(expansion.notices))
        for source in expansion.sources:
            try:
                tables = reading.read(source)
            except InputError as error:
                if source.named or error.kind not in NOT_OURS:
                    raise
                result.notices.append(Notice("skipped_files", f"{error.message} (skipped)", 1, source.path))
                continue
            result.dataset.add(tables)
        if not result.dataset.count:
            _refuse_nothing(paths, result.notices)
        if options.cache:
            options.cache.prune()
        yield result


def _refuse_nothing(paths: Sequence[str], notices: Sequence[Notice]) -> None:
    reasons = "; ".join(notice.message for notice in notices[:3]) or "no files"
    message = f"nothing that mpg can read: {reasons}"
    raise InputError("not_a_trace", ", ".join(paths)[:400], message, hint="run `mpg formats` for what mpg reads")


@dataclass
class _Reading:
    options: IngestOptions
    scratch: Path
    spilled: int = 0

    def read(self, source: Source) -> Tables:
        """The tables of one source, from the cache or the file."""
        parser = detect(source)
        cache = self.options.cache
        if cache is None or source.size < MIN_SIZE:
            return self._parse(source, parser, None)
        variant = "-names" if self.options.keep_names else ""
        if cache.may_hold(source.size):
            key = Key(source.size, source.sha256(), parser.name, variant)
            if (tables := cache.get(key)) is not None:
                return _renamed(tables, source)
        return self._parse(source, parser, variant)

    def _parse(self, source: Source, parser: Parser, variant: str | None) -> Tables:
        """Parse; into the cache if `variant` is given, else into memory or, if large, the scratch folder."""
        writer = self._writer(source, cached=variant is not None)
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(source.sha256)
            try:
                self._fill(writer, source, parser, digest)
            except BaseException:
                writer.discard()
                raise
            if isinstance(writer, MemoryWriter):
                return writer.finish()
            return self._commit(writer, source, parser, variant, digest.result())

    def _writer(self, source: Source, *, cached: bool) -> MemoryWriter | ParquetWriter:
        if cached and self.options.cache:
            return self.options.cache.writer()
        return MemoryWriter() if source.size < 4 * MIN_SIZE else ParquetWriter(self.scratch)

    def _fill(
        self, writer: MemoryWriter | ParquetWriter, source: Source, parser: Parser, digest: Future[str]
    ) -> None:
        progress = self.options.progress
        report = (lambda done: progress(source.path, done, source.size)) if progress else None
        for table, frame in parser.parse(source, ParseOptions(self.options.keep_names, report)):
            batch = frame
            if table == "sources":
                batch = frame.with_columns(
                    path=pl.lit(source.path), size=pl.lit(source.size), sha256=pl.lit(digest.result())
                )
            writer.add(table, batch)

    def _commit(
        self, writer: ParquetWriter, source: Source, parser: Parser, variant: str | None, sha256: str
    ) -> Tables:
        from mpg_cli.store import open_tables

        if variant is not None and self.options.cache:
            target = self.options.cache.folder / Key(source.size, sha256, parser.name, variant).name
        else:
            self.spilled += 1
            target = self.scratch / f"source-{self.spilled}"
        writer.commit(target, {"sources": 1})
        manifest = read_manifest(target)
        assert manifest is not None
        return open_tables(target, manifest)


def _renamed(tables: Tables, source: Source) -> Tables:
    """Tables of the same content under the path they were found at this time."""
    return {**tables, "sources": tables["sources"].with_columns(path=pl.lit(source.path))}


def rank_from_name(path: str) -> int | None:
    """The rank in a file name such as tp1_rank3.json; None if it names none, or several."""
    found = {int(number) for number in RANK_IN_NAME.findall(path.rsplit("!", 1)[-1].rsplit("/", 1)[-1])}
    return found.pop() if len(found) == 1 else None


def source_notices(sources: pl.DataFrame) -> list[Notice]:
    """What the parsers noticed, by source path."""
    return [
        Notice(item["kind"], item["message"], item["count"], path)
        for path, text in sources.select("path", "notices").iter_rows()
        for item in orjson.loads(text)
    ]
