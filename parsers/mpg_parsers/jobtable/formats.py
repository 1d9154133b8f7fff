"""Which kind of table a file is, and its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.jobtable import node_table, objects, parquet, philly_log, swf, text
from mpg_parsers.jobtable.choose import plan_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_parsers.jobtable.table import Table
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

HEAD = 1 << 16
TIMES = ("submit", "start", "end", "run", "wait")
CHROME = {"ph", "traceEvents"}


def sniff(raw: bytes, head: bytes) -> str:
    """Why a file that begins with the bytes `raw`, as UTF-8 `head`, is no table; empty if it may be one."""
    if raw.startswith(parquet.MAGIC) or swf.is_swf(head):
        return ""
    if found := objects.start(head):
        return "" if _takes(found.keys) else "its first object names nothing of a job or node"
    return "" if text.header(head) else "its first line names no columns"


def read(source: Source, options: ParseOptions) -> Table:
    """The table of a file that `sniff` takes. Raises InputError."""
    if source.head(len(parquet.MAGIC)) == parquet.MAGIC:
        return parquet.read(source, options)
    with source.open() as stream:
        head = Utf8Stream(stream).read(HEAD)
    if swf.is_swf(head):
        return swf.read(source, options)
    found = objects.start(head)
    if found is None:
        return text.read(source, options)
    if philly_log.is_log(found.keys):
        return philly_log.read(source, options, found)
    return objects.read(source, options, found)


def _takes(keys: Sequence[str]) -> bool:
    """Objects are taken if they are jobs or nodes, or name a job and a time of it: the rest --map may tell."""
    if CHROME & set(keys):
        return False
    if philly_log.is_log(keys) or node_table.is_one(keys):
        return True
    plan = plan_for(keys)
    return not plan.lacks() or (plan.has("job") and any(plan.has(name) for name in TIMES))
