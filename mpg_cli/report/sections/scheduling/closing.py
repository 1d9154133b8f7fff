"""What the figures say together, and what to run next time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Code, Line, Section
from mpg_cli.report.sections.common import EMPTY, more
from mpg_cli.report.sections.scheduling.common import plain

if TYPE_CHECKING:
    from mpg_cli.report.model import Report

_MOST, _MOST_IN_DETAIL = 5, 50
_WIDTH = 76
# A command of printable ASCII without a backtick, which could end the block in Markdown.
_SHELL = re.compile(
    r"(?:[A-Z_]+=\S* +)*(?:sacct|sacctmgr|scontrol|sreport|squeue|sinfo|kubectl|mpg|sudo) [ -_a-~]{1,2000}"
)


def remarks(report: Report, *, detail: bool) -> Section:
    """Sentences."""
    found = report.scheduling.remarks if report.scheduling else ()
    if not found:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = [Line(_sentence(text)) for text in found[:most]]
    return Section("Remarks", (*blocks, *more(len(found), most, "remark")))


def _sentence(text: str) -> str:
    text = plain(text)
    return text[:1].upper() + text[1:]


def next_time(report: Report, *, detail: bool) -> Section:
    """The command to copy, or a sentence where it is none."""
    del detail
    wanted = (report.scheduling.next_command if report.scheduling else "").strip()
    if not wanted:
        return EMPTY
    lines = [line.strip() for line in wanted.split("\n") if line.strip()]
    if all(_SHELL.fullmatch(line) for line in lines):
        folded = tuple(part for line in lines for part in fold(line))
        return Section(
            "To know more next time",
            (Line("Run this next time, and give mpg what comes out:"), Code("sh", folded)),
        )
    return Section("To know more next time", tuple(Line(plain(line)) for line in lines[:_MOST]))


def fold(command: str, width: int = _WIDTH) -> list[str]:
    r"""A command in lines of about `width`, which a shell reads as one: cut at spaces and commas outside quotes.

    A cut inside a word has no indentation after it, for backslash and newline vanish where they are.
    """
    lines, begin, last, quote, indent = [], 0, 0, "", ""
    for i, char in enumerate(command):
        if quote or char in "'\"":
            quote = "" if char == quote else quote or char
        elif char in " ,":
            last = i + 1
        if i - begin + len(indent) >= width - 2 and last > begin:
            piece = command[begin:last]
            lines.append(f"{indent}{piece.rstrip(' ')}{' ' if piece.endswith(' ') else ''}\\")
            indent = "  " if piece.endswith(" ") else ""
            begin = last
    return [*lines, indent + command[begin:]]
