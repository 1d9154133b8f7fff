"""The cache of parsed files: one dataset per file content, bounded in size, oldest use first out.

Entries are found by the SHA-256 of the file's bytes, the parser, the versions of mpg and of the tables, and
the options that change the tables; never by name or time. The size in the entry's name only tells early that
a file cannot be there.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpg_cli.store import MANIFEST, TEMPORARY, VERSIONS, ParquetWriter, Tables, open_tables, read_manifest

DEFAULT_LIMIT = 4 << 30
ABANDONED = 86_400.0  # seconds after which an unfinished entry is nobody's
MIN_SIZE = 1 << 20  # smaller files are parsed faster than they are looked up


def default_folder() -> Path | None:
    """$XDG_CACHE_HOME/mpg, else ~/.cache/mpg; None for a user who has no home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with suppress(RuntimeError):
        return (base if base.is_absolute() else Path.home() / ".cache") / "mpg"
    return None


@dataclass(frozen=True, slots=True)
class Key:
    """What an entry is found by; `variant` names the options that change the tables."""

    size: int
    sha256: str
    parser: str
    variant: str

    @property
    def name(self) -> str:
        """The entry's folder name."""
        return f"{self.size}-{self.parser}{self.variant}-{VERSIONS}-{self.sha256}"


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries, at most `limit` bytes together."""

    folder: Path
    limit: int = DEFAULT_LIMIT

    def may_hold(self, size: int) -> bool:
        """Whether any entry is of a file of this size."""
        return self.folder.is_dir() and any(self.folder.glob(f"{size}-*"))

    def get(self, key: Key) -> Tables | None:
        """The tables of an entry that is whole, else None; what is damaged is removed."""
        entry = self.folder / key.name
        manifest = read_manifest(entry)
        if manifest is None:
            _remove(entry)
            return None
        with suppress(OSError):  # a cache that may only be read, or another process removed it
            os.utime(entry / MANIFEST)
        return open_tables(entry, manifest)

    def writer(self) -> ParquetWriter:
        """A writer for a new entry. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return ParquetWriter(self.folder)

    def put(self, writer: ParquetWriter, key: Key) -> Tables:
        """Keep what was written under `key`. Raises OSError."""
        entry = self.folder / key.name
        writer.commit(entry)
        manifest = read_manifest(entry)
        if manifest is None:
            raise FileNotFoundError(f"{entry} did not last")
        return open_tables(entry, manifest)

    def prune(self) -> None:
        """Remove the entries used longest ago until the rest fits `limit`, and what crashed runs left."""
        total = 0
        for manifest in sorted(self.folder.glob(f"[!.]*/{MANIFEST}"), key=_last_use, reverse=True):
            size = sum(_size(file) for file in manifest.parent.rglob("*"))
            if total + size > self.limit:
                _remove(manifest.parent)
            else:
                total += size
        for folder in self.folder.glob(f"{TEMPORARY}*"):
            if _last_use(folder) < time.time() - ABANDONED:
                _remove(folder)


def _remove(entry: Path) -> None:
    """Remove an entry, or a file or link in its place, if that is possible."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # removed by another process
        return 0


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed by another process
        return 0.0
