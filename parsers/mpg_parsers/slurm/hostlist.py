"""Slurm's lists of host names, e.g. gpu[01-03,07],login1 or r[1-2]n[01-04]."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import product

LIMIT = 200_000  # names; the largest clusters have a tenth of it
NOBODY = frozenset({"", "none", "none assigned", "(null)", "null", "n/a", "unknown"})
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")


class HostlistError(ValueError):
    """Text that is no list of hosts, or one of more than LIMIT names."""


def expand(text: str) -> list[str]:
    """The names, in the order written, zeros kept. Raises HostlistError."""
    names: list[str] = []
    for item in _items(text.strip()):
        names += _names(item)
        if len(names) > LIMIT:
            raise HostlistError(f"more than {LIMIT} hosts")
    return names


@lru_cache(maxsize=2048)
def as_json(text: str) -> str | None:
    """The names as a JSON list; None for a word that says there are none, and for what is no list."""
    if text.strip().lower() in NOBODY:
        return None
    try:
        return json.dumps(expand(text))
    except HostlistError:
        return None


def is_hostlist(text: str) -> bool:
    """Whether the text is a list of hosts, or a word for none."""
    return text.strip().lower() in NOBODY or as_json(text) is not None


def _items(text: str) -> list[str]:
    """The text cut at the commas outside of brackets."""
    items, start, depth = [], 0, 0
    for at, char in enumerate(text):
        if char in "[]":
            depth += 1 if char == "[" else -1
            if depth not in (0, 1):
                raise HostlistError("brackets do not match")
        elif char == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    if depth:
        raise HostlistError("a bracket is not closed")
    return [*items, text[start:]]


def _names(item: str) -> list[str]:
    """The names of one item: the product over its brackets."""
    parts: list[list[str]] = []
    at, count = 0, 1
    for match in _PART.finditer(item):
        if match.start() != at:
            break
        at = match.end()
        parts.append([match[2]] if match[1] is None else _numbers(match[1]))
        count *= len(parts[-1])
    if at != len(item) or not parts or count > LIMIT:
        raise HostlistError(f"not a list of hosts: {item[:60]!r}")
    return ["".join(pieces) for pieces in product(*parts)]


def _numbers(text: str) -> list[str]:
    """The numbers of a bracket, as wide as their first is written."""
    numbers: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None or len(item) > 40:
            raise HostlistError(f"not a range of numbers: {item[:60]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < LIMIT - len(numbers):
            raise HostlistError(f"not a range of numbers: {item[:60]!r}")
        numbers += [str(n).zfill(len(match[1])) for n in range(first, last + 1)]
    return numbers
