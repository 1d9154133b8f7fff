"""Any table of jobs: CSV, JSON, Parquet, the Standard Workload Format, Philly's log; and tables of nodes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError
from mpg_parsers.jobtable import formats, node_table, report
from mpg_parsers.jobtable.attempts import requeued
from mpg_parsers.jobtable.choose import choose
from mpg_parsers.jobtable.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.jobtable.choose import Plan
    from mpg_parsers.jobtable.table import Table
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

Batch = tuple[str, pl.DataFrame]


@dataclass(frozen=True)
class JobTableParser:
    """Reads tables in which a row is a job, an attempt of one, or a node."""

    name: str = "job-table"
    description: str = (
        "table of jobs or nodes: CSV, JSON, Parquet, SWF, Philly's log; --map tells what its columns are"
    )
    tables: tuple[str, ...] = ("sources", "attempts", "nodes", "capacity")

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """A header line, or objects some of whose names are those of jobs or nodes. What is missing `parse` tells."""
        return formats.sniff(head, Utf8Stream(io.BytesIO(head)).read(1 << 16))

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of attempts, or of nodes and capacity; then sources. Memory does not grow with the file, but for
        one JSON array, and for tables that number attempts.

        Raises InputError: unsupported_format (columns are missing: says which), no_jobs, truncated_input,
        corrupt_input; UsageError for `options.columns` that mean nothing.
        """
        table = formats.read(source, options)
        if not options.columns and node_table.is_one(table.columns):
            yield from node_table.batches(table, options.tz, source.path)
            return
        plan = choose(table.columns, options.columns, source.path)
        yield from _jobs(table, plan, source, options.tz)


JOB_TABLE = JobTableParser()


def _jobs(table: Table, plan: Plan, source: Source, tz: str) -> Iterator[Batch]:
    rows = Rows(plan, tz, source.head())
    pieces: Iterator[pl.DataFrame] = (rows.take(piece) for piece in table.read(plan.needed))
    if plan.has("attempt"):
        held = list(pieces)
        pieces = iter([requeued(pl.concat(held))] if held else [])
    for piece in pieces:
        yield "attempts", piece
    if not rows.tally.rows:
        raise InputError("no_jobs", source.path, "the table has no rows", hint="was everything exported?")
    yield "sources", report.source_row(plan, rows.tally, rows.clock, table.notices, relative=table.relative)
