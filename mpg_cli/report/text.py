"""Text from a trace is untrusted: here it is escaped, bounded and shortened. All functions are pure."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 500
NONE = "—"

_COMBINING = frozenset({"Mn", "Me"})
_QUALIFIER = re.compile(r"(?:(?:\b\w+|\(anonymous namespace\)|<unnamed>)::)+")
_ASCII = str.maketrans(
    {"—": "-", "–": "-", "−": "-", "·": "|", "×": "x", "µ": "u", "…": "...", "≤": "<=", "≥": ">=", "›": ">"}
)


def escape(text: str) -> str:
    r"""`text` with every character that could act on a terminal shown as an escape such as ``\x1b``.

    Escaped are control and format characters (C0, C1, bidi overrides, zero width), lone surrogates,
    unassigned code points, unusual spaces and, after NFC, combining marks, which can pile up over a line.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _harmless(c) else _escaped(c) for c in unicodedata.normalize("NFC", text))


def _harmless(char: str) -> bool:
    return char.isprintable() and unicodedata.category(char) not in _COMBINING


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cut(text: str, limit: int = LIMIT, ellipsis: str = "…") -> str:
    """`text` in at most `limit` characters, shortened in the middle: kernel names differ at both ends."""
    if len(text) <= limit:
        return text
    keep = max(limit - len(ellipsis), 0)
    head = (keep + 1) // 2
    return (text[:head] + ellipsis + text[len(text) - (keep - head) :])[:limit]


def abbreviate(name: str) -> str:
    """A C++ function's name without return type, namespaces and parameters: what tells kernels apart stays.

    `void at::f<4, at::g<float>>(int, char*)` becomes `f<4, g<float>>(…)`. Other names stay as they are.
    """
    short = _QUALIFIER.sub("", name.removeprefix("void "))
    if short.endswith(")") and (start := _opening(short)) > 0:
        return f"{short[:start]}(…)"
    return short if short == name else f"{short}…"


def _opening(text: str) -> int:
    """Where the parenthesis opens that the last character closes; -1 if it is not balanced."""
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if not depth:
            return i
    return -1


def clean(text: str, limit: int = LIMIT) -> str:
    """`text` escaped and at most `limit` characters long."""
    return cut(escape(cut(text, limit)), limit)


def to_ascii(text: str) -> str:
    """`text` for an ASCII locale: our own typography spelled out, anything else as a backslash escape."""
    if text.isascii():
        return text
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,234 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as ranges: `0–3, 5`; a long list is cut after eight ranges."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    shown = [f"{a}" if a == b else f"{a}–{b}" for a, b in runs[:8]]
    return ", ".join([*shown, "…"] if len(runs) > 8 else shown)
