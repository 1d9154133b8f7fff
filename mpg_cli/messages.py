"""Lines on standard error. Names in them may come from a file, so nothing in them can steer a terminal."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """`text` on one line, control characters shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """One line on standard error."""
    print(printable(text), file=sys.stderr)
