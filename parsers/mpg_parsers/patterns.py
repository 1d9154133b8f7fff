"""The paths that a pattern matches: `*`, `?` and `[…]` within a name, `**` for any number of folders.

As in a shell, a name that begins with a dot is matched only by a part that does. Links are followed, but for
each part of the pattern a folder is entered once, so that links to a folder above end somewhere.
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import translate
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = re.compile(r"[*?\[]")
ANY_FOLDERS = "**"
Identity = tuple[int, int]


def is_pattern(text: str) -> bool:
    """Whether `text` has a character that stands for others."""
    return "\0" not in text and MAGIC.search(text) is not None


def matches(pattern: str) -> Iterator[Path]:
    """What exists and matches, in no certain order; only folders if the pattern ends in a slash."""
    parts = PurePath(pattern).parts
    folders_only = pattern.endswith("/")
    entered: set[tuple[Identity, int]] = set()
    todo = [(Path(), 0)]
    while todo:
        path, done = todo.pop()
        if done == len(parts):
            if path.parts and (path.is_dir() if folders_only else os.path.lexists(path)):
                yield path
        elif not MAGIC.search(parts[done]):
            todo.append((path / parts[done], done + 1))
        else:
            todo += _below(path, parts, done, entered)


def _below(
    path: Path, parts: tuple[str, ...], done: int, entered: set[tuple[Identity, int]]
) -> list[tuple[Path, int]]:
    """(path, number of parts that matched) of what may match from `path` on."""
    any_folders = parts[done] == ANY_FOLDERS
    folder = _identity(path)
    if folder is None:
        return [(path, done + 1)] if any_folders and done + 1 == len(parts) else []
    if (folder, done) in entered:
        return []
    entered.add((folder, done))
    after = done if any_folders else done + 1
    found = [(path / name, after) for name in sorted(_names(path, parts[done]), reverse=True)]
    return [*found, (path, done + 1)] if any_folders else found


def _identity(path: Path) -> Identity | None:
    """What tells a folder from all others, whatever links lead to it; None for anything else."""
    try:
        about = path.stat()
    except OSError:
        return None
    return (about.st_dev, about.st_ino) if stat.S_ISDIR(about.st_mode) else None


def _names(folder: Path, part: str) -> Iterator[str]:
    """The names in a folder that one part of a pattern matches; none if it may not be read."""
    match = re.compile(translate("*" if part == ANY_FOLDERS else part)).match
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return
    yield from (name for name in names if match(name) and (part[0] == "." or name[0] != "."))
