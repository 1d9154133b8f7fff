"""Lines on standard error. Names in them may come from a file, so nothing in them can steer a terminal."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """`text` on one line, control characters shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """One line on standard error. Raises BrokenPipeError; where it cannot be written otherwise, it is lost."""
    say_as_is(printable(text))


def say_as_is(text: str) -> None:
    """Lines of our own on standard error, such as a traceback. Raises as `say` does."""
    try:
        print(text, file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:  # a full disk: no reason to give the run another status
        pass
