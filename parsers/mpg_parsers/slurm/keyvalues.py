"""Records of Key=Value pairs, as scontrol prints them, on one line or several, and as configuration files have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpg_parsers.slurm.lines import Block

Pairs = dict[str, str]
NONE = frozenset({"", "(null)", "N/A", "n/a", "None", "none", "Unknown", "NONE"})
LONGEST = 1 << 18  # characters of a record; the rest of it is not looked at
MOST_LINES = 2000  # of a record
# a key begins a line or follows a blank; CPUs/Task=, ReqB:S:C:T= and AllocNode:Sid= are keys, too
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:]*)=")
_REASON = re.compile(r"(?:^|\s)Reason=(.*?)\s+\[(\S+?)@(\d{4}-\d\d-\d\dT[\d:]+\S*|\d{9,11})\]")


def pairs(text: str) -> Pairs:
    """The pairs of a record, keys in lower case; a later one of the same key does not count."""
    found: Pairs = {}
    text = text[:LONGEST]
    reason = _REASON.search(text)
    if reason:  # it is prose, in which there may be such pairs
        found = {"reason": reason[1], "reasonby": reason[2], "reasontime": reason[3]}
        text = text[: reason.start()] + " " + text[reason.end() :]
    matches = list(_KEY.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    for match, end in zip(matches, ends, strict=False):  # without a match, there is an end too many
        found.setdefault(match[1].lower(), text[match.end() : end].strip())
    return found


def stated(record: Pairs, *names: str) -> str | None:
    """The first of these values that says something."""
    return next(
        (record[name] for name in names if record.get(name) is not None and record[name] not in NONE), None
    )


def records(blocks: Iterable[Block], first: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text on one line) of records that begin with the key `first`."""
    start, parts = 0, list[str]()
    for block in blocks:
        for number, line in enumerate(block.lines, block.first):
            text = line.strip()
            if text.startswith(f"{first}="):
                if parts:
                    yield start, " ".join(parts)
                start, parts = number, [text]
            elif parts and text and len(parts) < MOST_LINES:
                parts.append(text)
    if parts:
        yield start, " ".join(parts)


def logical_lines(blocks: Iterable[Block]) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines of a configuration file, without comments, continued lines in one."""
    start, text = 0, ""
    for block in blocks:
        for number, line in enumerate(block.lines, block.first):
            bare = re.sub(r"(?<!\\)#.*", "", line).rstrip()
            start = start or number
            if bare.endswith("\\") and len(text) < LONGEST:
                text += bare[:-1] + " "
                continue
            text = (text + bare).strip()
            if text:
                yield start, text
            start, text = 0, ""
    if text.strip():
        yield start, text.strip()
