"""Which files on disk an argument names: a file, a folder, a glob, each maybe with a label."""

from __future__ import annotations

import difflib
import re
import stat
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError, Notice
from mpg_parsers.patterns import MAGIC, is_pattern, matches

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES = 100_000
SHOWN = 3
SPECIAL = "devices, pipes, sockets and broken links"


def natural_key(name: str) -> tuple[tuple[tuple[int, str] | str, ...], ...]:
    """Sort key of a path: folder by folder, runs of digits by their value (rank2 before rank10)."""
    return tuple(_natural_part(part) for part in name.split("/"))


def _natural_part(part: str) -> tuple[tuple[int, str] | str, ...]:
    pieces = re.split(r"([0-9]+)", part)
    return tuple(_number(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def _number(digits: str) -> tuple[int, str]:
    # By length, then as text: int() refuses very long ones, and names in archives are not ours.
    value = digits.lstrip("0")
    return len(value), value


def printable(name: str | Path) -> str:
    """A name as UTF-8 text: file names may hold other bytes, which become question marks."""
    return str(name).encode("utf-8", "replace").decode()


def skip_reason(name: str) -> str:
    """Why a file of this name is left out of a folder or archive; empty if it is not."""
    parts = PurePosixPath(name).parts
    if "__MACOSX" in parts or any(part.startswith("._") for part in parts):
        return "macOS resource forks"
    if any(part.startswith(".") and part != ".." for part in parts):
        return "hidden files"
    return ""


def check_count(count: int, path: str) -> None:
    """Raise InputError when a folder or archive holds more files than we are willing to list."""
    if count > MAX_FILES:
        message = f"holds more than {MAX_FILES} files"
        raise InputError(
            "unsupported_format", path, message, hint="name fewer files, e.g. with a narrower glob"
        )


@dataclass(slots=True)
class LeftOut:
    """What was not read, though the user did not ask for that: files skipped, and files with a problem."""

    problems: list[InputError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _skipped: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def skip(self, reason: str, name: str | Path, place: str) -> None:
        """Leave out file `name` of the folder or archive `place`, on purpose."""
        self._skipped[reason, place].append(printable(name))

    def problem(self, error: InputError) -> None:
        """Leave out a file that cannot be used and that the user did not name."""
        self.problems.append(error)
        kind = error.kind if error.kind == "truncated_input" else "skipped_files"
        reason = error.message.removeprefix(f"{error.path}: ")
        self.notices.append(Notice(kind, f"not read: {reason}", source=error.path))

    def all_notices(self) -> list[Notice]:
        """The notices, with one for each reason and place of skipped files."""
        return self.notices + [
            Notice("skipped_files", f"{reason} are not read: {_shown(names)}", len(names), place)
            for (reason, place), names in self._skipped.items()
        ]


def _shown(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if names[SHOWN:] else "")


def split_label(text: str) -> tuple[str, str]:
    """`label=path` as (path, label); the label is empty where the text as a whole names something."""
    label, equals, path = text.partition("=")
    if not (label and equals) or "/" in label or _exists(text) or _matches_any(text):
        return text, ""
    return path, label


def _exists(text: str) -> bool:
    try:
        Path(text).stat()
    except PermissionError as error:
        raise InputError(
            "unreadable", text, "permission denied", hint="check the folder's permissions"
        ) from error
    except (OSError, ValueError):
        return False
    return bool(text)


def _matches_any(text: str) -> bool:
    return is_pattern(text) and next(matches(text), None) is not None


def _matches(pattern: str) -> list[Path]:
    """What a pattern matches, in natural order. Raises InputError when that is too much."""
    found: list[Path] = []
    for path in matches(pattern) if is_pattern(pattern) else ():
        found.append(path)
        check_count(len(found), printable(pattern))
    return sorted(found, key=lambda path: natural_key(str(path)))


def _missing(path: str) -> InputError:
    if MAGIC.search(path):
        hint = "hidden files are matched only by a pattern that begins with a dot; ** enters folders"
        return InputError("not_found", printable(path), "no file matches this pattern", hint=hint)
    near = difflib.get_close_matches(Path(path).name, _siblings(path), n=1)
    hint = f"did you mean {Path(path).parent / near[0]}?" if near else "check the path"
    return InputError("not_found", printable(path), "no such file or folder", hint=printable(hint))


def _siblings(path: str) -> list[str]:
    try:
        return [entry.name for entry in Path(path).parent.iterdir()]
    except (OSError, ValueError):
        return []


def _kind(path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except OSError:
        return "broken"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "special"


class Finder:
    """Finds the files that arguments name. Links are followed, but no folder is entered twice."""

    def __init__(self, left_out: LeftOut) -> None:
        self._left_out = left_out
        self._entered: set[Path] = set()

    def find(self, path: str) -> Iterator[tuple[Path, bool]]:
        """The files behind a file, folder or glob, each with whether it was named itself.

        Raises InputError: not_found, unreadable, unsupported_format (not a regular file; too many files).
        """
        if _exists(path):
            yield from self._named(Path(path))
        elif found := _matches(path):
            for match in found:
                yield from self._matched(match, path)
        else:
            raise _missing(path)

    def _named(self, path: Path) -> Iterator[tuple[Path, bool]]:
        kind = _kind(path)
        if kind == "special":
            hint = f"pipe it in: cat {printable(path)} | mpg analyze -"
            raise InputError("unsupported_format", printable(path), "this is not a regular file", hint=hint)
        if kind == "file":
            yield path, True
        else:
            yield from ((file, False) for file in self._walk(path))

    def _matched(self, path: Path, pattern: str) -> Iterator[tuple[Path, bool]]:
        kind = _kind(path)
        if kind == "folder":
            yield from ((file, False) for file in self._walk(path))
        elif kind == "file":
            yield path, False
        else:
            self._left_out.skip(SPECIAL, path, pattern)

    def _walk(self, root: Path) -> list[Path]:
        """The files below a folder, in natural order."""
        if root.resolve() in self._entered:
            return []
        files: list[Path] = []
        folders, count = [root], 0
        while folders:
            for path in self._enter(folders.pop(), root):
                count += 1
                check_count(count, printable(root))
                self._sort_in(path, root, files, folders)
        if not files:
            message, hint = "no files in this folder", "check the path; hidden files are not read"
            self._left_out.problem(InputError("not_found", printable(root), message, hint=hint))
        return sorted(files, key=lambda file: natural_key(str(file)))

    def _sort_in(self, path: Path, root: Path, files: list[Path], folders: list[Path]) -> None:
        kind = _kind(path)
        if reason := skip_reason(path.name):
            self._left_out.skip(reason, path, printable(root))
        elif kind == "folder":
            folders.append(path)
        elif kind == "file":
            files.append(path)
        else:
            self._left_out.skip(SPECIAL, path, printable(root))

    def _enter(self, folder: Path, root: Path) -> list[Path]:
        real = folder.resolve()
        if real in self._entered:
            self._left_out.skip("links to folders that are read anyway", folder, printable(root))
            return []
        self._entered.add(real)
        try:
            return list(folder.iterdir())
        except OSError as error:
            self._refuse(folder, root, error)
            return []

    def _refuse(self, folder: Path, root: Path, error: OSError) -> None:
        message, hint = f"this folder cannot be read: {error.strerror}", "check its permissions"
        refusal = InputError("unreadable", printable(folder), message, hint=hint)
        if folder == root:
            raise refusal from error
        self._left_out.problem(refusal)
