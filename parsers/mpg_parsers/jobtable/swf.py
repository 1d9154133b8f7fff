"""The Standard Workload Format of the Parallel Workloads Archive.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html: 18 numbers a line, -1 for what is unknown, remarks after `;`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import Notice
from mpg_parsers.jobtable.table import BROKEN, LINE, Table
from mpg_parsers.jobtable.text import Header, blocks, frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

COLUMNS = (
    "job_number", "submit_time", "wait_time", "run_time", "allocated_processors", "average_cpu_time", "used_memory",
    "requested_processors", "requested_time", "requested_memory", "status", "user_id", "group_id", "executable",
    "queue_number", "partition_number", "preceding_job", "think_time",
)  # fmt: skip
START = "start_time"  # of our making: where only the start is known
PARTIAL = ("2", "3", "4")  # statuses of the pieces of a job that was swapped out; its own line has their sum
_NUMBER = rb"[-+]?\d+(?:\.\d+)?"
_ROW = re.compile(rb"[ \t]*(?:" + _NUMBER + rb"[ \t]+){17}" + _NUMBER + rb"[ \t]*\r?\Z")
_REMARK = re.compile(rb"^[ \t]*;[ \t]*(\w+)[ \t]*:[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)


def is_swf(head: bytes) -> bool:
    """The first line that is no remark has 18 numbers; or remarks alone, among them the format's version."""
    lines = head.split(b"\n")
    whole = lines[:-1] if len(lines) > 1 else lines
    first = next((line for line in whole if line.strip() and not line.lstrip().startswith(b";")), None)
    if first is None:
        return any(key == b"Version" for key, _ in _REMARK.findall(head))
    return bool(_ROW.match(first))


def read(source: Source, options: ParseOptions) -> Table:
    """The table; times are Unix seconds if UnixStartTime is given, else they are relative."""
    with source.open() as stream:
        remarks = {
            key.decode(): value.decode("utf-8", "replace")
            for key, value in _REMARK.findall(Utf8Stream(stream).read(1 << 16))
        }
    began = remarks.get("UnixStartTime", "").split(maxsplit=1)[:1]
    base = int(began[0]) if began and began[0].isdecimal() else 0
    notices: list[Notice] = []
    columns = (*COLUMNS, START)
    return Table(
        columns, lambda needed: _pieces(source, options, base, needed, notices), notices, relative=not base
    )


def _pieces(
    source: Source, options: ParseOptions, base: int, needed: Sequence[str], notices: list[Notice]
) -> Iterator[pl.DataFrame]:
    line, partial, starts = 1, 0, 0
    header = Header(" ", COLUMNS, 0, 0)
    for block in blocks(source, options, notices, quotes=False):
        rows = frame(_plain(block), header, COLUMNS, line)
        line += block.count(b"\n")
        whole = rows.filter(~col("status").is_in(list(PARTIAL)).fill_null(value=False))
        partial += rows.height - whole.height
        told = _told(whole, base)
        starts += int(told[START].is_not_null().sum())
        yield told.select(*needed, LINE, BROKEN)
    if partial:
        message = (
            f"pieces of jobs that were swapped out, left out as the jobs' own lines have their sum: {partial}"
        )
        notices.append(Notice("partial_executions", message, partial))
    if starts:
        message = f"jobs with a submission but no wait, which is taken for their start, with the wait unknown: {starts}"
        notices.append(Notice("start_unknown", message, starts))


def _plain(block: bytes) -> bytes:
    """One blank between the fields, remarks empty: the lines keep their numbers."""
    lines = (line.split() for line in block.split(b"\n"))
    return b"\n".join(b"" if fields and fields[0].startswith(b";") else b" ".join(fields) for fields in lines)


def _told(rows: pl.DataFrame, base: int) -> pl.DataFrame:
    """Nulls for -1, and what the archive's own definitions say of the times."""
    unknown = [pl.when(~col(name).is_in(["-1", "-1.0"])).then(name).alias(name) for name in COLUMNS]
    rows = rows.with_columns(*unknown)
    numbers = {
        name: col(name).cast(pl.Decimal(38, 9), strict=False)
        for name in ("submit_time", "wait_time", "run_time")
    }
    submit = pl.coalesce((numbers["submit_time"] + base).cast(pl.String), "submit_time")
    ran = col("run_time").is_not_null()
    only_start = ran & col("wait_time").is_null() & col("submit_time").is_not_null()
    return rows.with_columns(
        submit_time=pl.when(~only_start).then(submit),
        start_time=pl.when(only_start).then(submit),
        # without a run the wait is one for nothing: the job was cancelled in the queue
        wait_time=pl.when(ran | (col("status") == "1")).then("wait_time"),
    )
