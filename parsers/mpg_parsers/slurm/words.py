"""Lists of names, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())
