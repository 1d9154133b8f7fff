"""The cache of parsed files: one dataset per file content, bounded in size, oldest use first out.

Entries are found by the SHA-256 of the file's bytes, the parser, the schema version and the options that change the
tables; never by name or time. The size in the entry's name only tells early that a file cannot be there.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from mpg_cli.store import MANIFEST, TEMPORARY, ParquetWriter, Tables, open_tables, read_manifest
from mpg_parsers.tables import SCHEMA_VERSION

DEFAULT_LIMIT = 4 << 30
ABANDONED = 86_400.0  # seconds after which an unfinished entry is nobody's
MIN_SIZE = 1 << 20  # smaller files are parsed faster than they are looked up


def default_folder() -> Path:
    """$XDG_CACHE_HOME/mpg, else ~/.cache/mpg."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mpg"


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
        return f"{self.size}-{self.parser}{self.variant}-v{SCHEMA_VERSION}-{self.sha256}"


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries, at most `limit` bytes together."""

    folder: Path
    limit: int = DEFAULT_LIMIT

    def may_hold(self, size: int) -> bool:
        """Whether any entry is of a file of this size."""
        return self.folder.is_dir() and any(self.folder.glob(f"{size}-*"))

    def get(self, key: Key) -> Tables | None:
        """The tables of an entry that is whole, else None; a damaged entry is removed."""
        entry = self.folder / key.name
        manifest = read_manifest(entry)
        if manifest is None:
            if entry.exists():
                shutil.rmtree(entry, ignore_errors=True)
            return None
        os.utime(entry / MANIFEST)
        return open_tables(entry, manifest)

    def writer(self) -> ParquetWriter:
        """A writer for a new entry."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return ParquetWriter(self.folder)

    def prune(self) -> None:
        """Remove the entries used longest ago until the rest fits into `limit`, and what crashed runs left."""
        entries = sorted(self.folder.glob(f"[!.]*/{MANIFEST}"), key=_last_use, reverse=True)
        total = 0
        for manifest in entries:
            total += sum(_size(file) for file in manifest.parent.rglob("*"))
            if total > self.limit:
                shutil.rmtree(manifest.parent, ignore_errors=True)
        for folder in self.folder.glob(f"{TEMPORARY}*"):
            if _last_use(folder) < time.time() - ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)


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
