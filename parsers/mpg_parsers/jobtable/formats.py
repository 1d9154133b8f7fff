"""Which kind of table a file is, and its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.jobtable import text

if TYPE_CHECKING:
    from mpg_parsers.jobtable.table import Table
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source


def sniff(head: bytes, raw: bytes) -> str:
    """Why a file that begins with `head` (as UTF-8; `raw` as stored) is no table; empty if it is one."""
    return "" if text.header(head) else "its first line names no columns"


def read(source: Source, options: ParseOptions) -> Table:
    """The table of a file that `sniff` takes. Raises InputError."""
    return text.read(source, options)
