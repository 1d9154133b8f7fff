"""Short ways to render, for the tests."""

from __future__ import annotations

from io import BytesIO, StringIO, TextIOWrapper
from typing import TYPE_CHECKING

from mpg_cli.report import terminal

if TYPE_CHECKING:
    from mpg_cli.report.model import Report


def text(report: Report, width: int | None, *, color: bool = False, detail: bool = False) -> str:
    file = StringIO()
    terminal.render(report, width=width, color=color, ascii_only=False, file=file, detail=detail)
    return file.getvalue()


def ascii_bytes(report: Report, width: int) -> bytes:
    """What a file in an ASCII locale receives; any other character raises UnicodeEncodeError."""
    buffer = BytesIO()
    file = TextIOWrapper(buffer, encoding="ascii", errors="strict", newline="\n")
    terminal.render(report, width=width, color=False, ascii_only=True, file=file)
    file.flush()
    return buffer.getvalue()
