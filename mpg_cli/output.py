"""Where a report goes and in which format."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpg_cli.config import did_you_mean
from mpg_cli.messages import say
from mpg_cli.store import TEMPORARY, default_mode, writing
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from mpg_cli.report.model import Report

FORMATS = ("rich", "md", "json")
SUFFIXES = {".md": "md", ".markdown": "md", ".json": "json", ".txt": "rich"}
COLORS = ("auto", "always", "never")
MIN_WIDTH, MAX_WIDTH = 40, 1000


@dataclass(frozen=True, slots=True)
class Target:
    """format: one of FORMATS; path: None for standard output."""

    format: str
    path: Path | None
    width: int | None
    color: str
    detail: bool

    @classmethod
    def choose(
        cls, name: str | None, path: Path | None, *, force: bool, width: int | None, color: str, detail: bool
    ) -> Target:
        """The target of a command's options. Raises UsageError before any work is done."""
        if color not in COLORS:
            choices = f"is none of {', '.join(COLORS)}{did_you_mean(color, COLORS)}"
            raise UsageError(f"--color: {color!r} {choices}")
        if path is not None:
            _check_path(path, force=force)
        return cls(_format(name, path), path, width, color, detail)

    def write(self, report: Report, *, quiet: bool) -> None:
        """Render the report and write it. Raises InputError write_failed, BrokenPipeError."""
        data = self._render(report)
        if self.path is None:
            with writing(Path("standard output")):
                sys.stdout.flush()
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            return
        with writing(self.path):
            _write(self.path, data)
        if not quiet:
            say(f"Wrote {self.path}")

    def _render(self, report: Report) -> bytes:
        if self.format == "json":
            from mpg_cli.report import json

            return json.render(report)
        if self.format == "md":
            from mpg_cli.report import markdown

            return markdown.render(report, detail=self.detail).encode("utf-8", "backslashreplace")
        return self._render_rich(report)

    def _render_rich(self, report: Report) -> bytes:
        from mpg_cli.report import terminal

        text = io.StringIO()
        ascii_only = self.path is None and not _speaks_unicode()
        width = self.width or _terminal_width()
        terminal.render(
            report,
            width=width,
            color=self._wants_color(),
            ascii_only=ascii_only,
            file=text,
            detail=self.detail,
        )
        encoding = "utf-8" if self.path else sys.stdout.encoding or "utf-8"
        return text.getvalue().encode(encoding, "backslashreplace")

    def _wants_color(self) -> bool:
        if self.color != "auto":
            return self.color == "always"
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.path is None and sys.stdout.isatty() and not plain


def _check_path(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="name a file, such as report.md")
    if not path.parent.is_dir():
        raise UsageError(f"-o {path}: there is no folder {path.parent}", hint="make it first")
    if path.is_file() and not force:
        raise UsageError(f"{path} exists", hint="choose another name, or --force to overwrite it")


def _format(name: str | None, path: Path | None) -> str:
    if name is not None:
        if name not in FORMATS:
            close = did_you_mean(name, FORMATS)
            raise UsageError(f"--format: {name!r} is none of {', '.join(FORMATS)}{close}")
        return name
    if path is not None:
        if path.suffix.lower() not in SUFFIXES:
            hint = "use .md, .json or .txt, or --format"
            raise UsageError(f"-o {path}: the suffix names no format", hint=hint)
        return SUFFIXES[path.suffix.lower()]
    return "rich" if sys.stdout.isatty() else "md"


def _speaks_unicode() -> bool:
    try:
        "µ█–…─".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _terminal_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    try:
        width = int(columns) if columns.isdecimal() else os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        width = 80
    return min(max(MIN_WIDTH, width), MAX_WIDTH)


def _write(named: Path, data: bytes) -> None:
    """Write so that the file holds all of `data` or what it held before; into a device or pipe directly.

    A link is followed; one to a pipe, such as /dev/stdout, leads to no path.
    """
    if named.exists() and not named.is_file():
        named.write_bytes(data)
        return
    path = named.resolve()
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(default_mode(0o666))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
