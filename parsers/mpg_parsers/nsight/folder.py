"""A folder of Parquet files, one per table (`nsys export --type parquetdir`), as one file.

Everything else in mpg deals with files: `pack` puts the tables that are read into one tar, the same bytes each time.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from mpg_parsers.nsight import about, counters, device, host, names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

SUFFIX = ".parquet"
ENUMS = ("ENUM_CUDA_MEM_KIND", "ENUM_CUPTI_OVERHEAD_TYPE")
# everything that is read of an export: no environments, processes, command lines or samples of code
TABLES = (
    names.STRINGS, *ENUMS, *host.TABLES, *device.TABLES, counters.SAMPLES, counters.METRICS, *about.META, about.SESSION,
    about.GPU, about.CUDA_DEVICE, about.SYSTEM, about.DIAGNOSTIC,
)  # fmt: skip
EVENTS = frozenset({*host.TABLES, *device.TABLES})


def is_export(files: Collection[Path]) -> bool:
    """Whether the files of one folder are tables of an export."""
    found = {file.name.removesuffix(SUFFIX) for file in files if file.name.endswith(SUFFIX)}
    return names.STRINGS in found and bool(found & EVENTS)


def pack(files: Iterable[Path], target: Path) -> None:
    """Put the tables into a tar, StringIds first. Raises OSError."""
    wanted = {f"{table}{SUFFIX}": n for n, table in enumerate(TABLES)}
    chosen = sorted((f for f in files if f.name in wanted), key=lambda f: wanted[f.name])
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for file in chosen:
            entry = tarfile.TarInfo(file.name)
            entry.size = file.stat().st_size
            with file.open("rb") as stream:
                tar.addfile(entry, stream)


def is_packed(head: bytes) -> bool:
    """Whether `head` begins what `pack` writes."""
    return head.startswith(f"{names.STRINGS}{SUFFIX}\0".encode()) and head[257:262] == b"ustar"
