"""Where a report goes and in which format."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mpg_cli.config import did_you_mean
from mpg_cli.report.model import Report
from mpg_parsers.errors import UsageError

FORMATS = ("rich", "md", "json")
SUFFIXES = {".md": "md", ".markdown": "md", ".json": "json", ".txt": "rich"}
COLORS = ("auto", "always", "never")


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
        cls, format: str | None, path: Path | None, *, force: bool, width: int | None, color: str, detail: bool  # noqa: A002
    ) -> Target:
        """The target of a command's options. Raises UsageError before any work is done."""
        if color not in COLORS:
            raise UsageError(f"--color: {color!r} is none of {', '.join(COLORS)}")
        if path is not None and path.exists() and not force:
            raise UsageError(f"{path} exists", hint="choose another name, or --force to overwrite it")
        if path is not None and path.is_dir():
            raise UsageError(f"{path} is a folder", hint="name a file, such as report.md")
        return cls(_format(format, path), path, width, color, detail)

    def write(self, report: Report, *, quiet: bool) -> None:
        """Render the report and write it, to a temporary name first where it is a file."""
        data = self._render(report)
        if self.path is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        _replace(self.path, data)
        if not quiet:
            print(f"Wrote {self.path}", file=sys.stderr)

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
            report, width=width, color=self._wants_color(), ascii_only=ascii_only, file=text, detail=self.detail
        )
        encoding = "utf-8" if self.path else sys.stdout.encoding or "utf-8"
        return text.getvalue().encode(encoding, "backslashreplace")

    def _wants_color(self) -> bool:
        if self.color != "auto":
            return self.color == "always"
        return self.path is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _format(name: str | None, path: Path | None) -> str:
    if name is not None:
        if name not in FORMATS:
            raise UsageError(f"--format: {name!r} is none of {', '.join(FORMATS)}{did_you_mean(name, FORMATS)}")
        return name
    if path is not None:
        if path.suffix not in SUFFIXES:
            raise UsageError(f"-o {path}: the suffix names no format", hint="use .md, .json or .txt, or --format")
        return SUFFIXES[path.suffix]
    return "rich" if sys.stdout.isatty() else "md"


def _speaks_unicode() -> bool:
    try:
        "µ█–…─".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _terminal_width() -> int | None:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) >= 40:
        return int(columns)
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return 80


def _replace(path: Path, data: bytes) -> None:
    """Write so that `path` holds all of `data` or what it held before."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
