"""Progress bars on standard error, with bytes and rate; only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]


@contextmanager
def progress_on(*, quiet: bool) -> Iterator[Progress | None]:
    """A function to call with (path, bytes done, bytes in all); None where no bar is wanted."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    console = Console(stderr=True, _environ=environment)  # Rich fails where those are no numbers to Python
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(path: str, done: int, total: int) -> None:
            if path not in tasks:
                tasks[path] = bars.add_task(_short(path), total=total)
            bars.update(tasks[path], completed=min(done, total))

        yield advance


def _short(path: str) -> str:
    name = "".join(char if char.isprintable() else "?" for char in path)
    return name if len(name) <= 40 else "…" + name[-39:]
