"""Lists of nodes as tables have them: JSON, Python, Slurm's n[01-04], or names with something between them."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 100_000  # nodes that one list is expanded to
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_PART = re.compile(r"(?:[^\s,;+|\[\]]|\[[^\]]*\])+")
_RANGE = re.compile(r"\[([^\]]*)\]")


def node_list(text: str) -> list[str]:
    """The names in `text`, each once, in order; what names no node gives none."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]") and _QUOTED.search(text):
        found: Iterator[str] = (first or second for first, second in _QUOTED.findall(text))
    elif text.startswith("[") and text.endswith("]"):
        found = iter(text[1:-1].replace(",", " ").split())
    else:
        found = itertools.chain.from_iterable(map(_expanded, _PART.findall(text)))
    return [name for name in dict.fromkeys(itertools.islice(found, MOST)) if name]


def as_json(text: str) -> str | None:
    """The JSON list of the names; None if there are none."""
    found = node_list(text)
    return json.dumps(found) if found else None


def chips_by_node(nodes: str, each: int) -> str:
    """JSON object of `each` chips on every node of a JSON list."""
    return json.dumps({node: each * count for node, count in Counter(json.loads(nodes)).items()})


def _expanded(part: str) -> Iterator[str]:
    """What n[1-3,7]-ib stands for."""
    pieces = _RANGE.split(part)
    choices = [list(_numbers(piece)) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return map("".join, itertools.product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
    for item in ranges.split(","):
        first, dash, last = item.strip().partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            stop = min(int(last), int(first) + MOST)
            yield from (str(number).zfill(len(first)) for number in range(int(first), stop + 1))
        else:
            yield item.strip()
