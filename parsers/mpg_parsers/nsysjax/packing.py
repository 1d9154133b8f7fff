"""One profile of nsys-jax as one file, and its members read back within bounds.

Everything else in mpg deals with files: `pack` puts what is read of a profile into one tar, the same bytes each time.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from mpg_parsers.errors import InputError
from mpg_parsers.nsysjax.layout import TRACE
from mpg_parsers.streams import COPY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from mpg_parsers.source import Source

PREFIX = "nsys-jax/"
BLOCK = 1 << 20
MAX_MEMBER = 1 << 30  # bytes of one file, as stored and unpacked
MAX_TOTAL = 4 << 30  # bytes of all of them
MAX_UNPACKED = 256 << 20  # bytes of one .xz file, unpacked: the largest seen has 20 MB
MAX_ALL_UNPACKED = 2 << 30  # and of all of them
MAX_ROWS = 20_000_000
MAX_COLUMNS = 500
LZMA_MEMORY = 256 << 20  # xz -9 needs 65 MiB


class Readable(Protocol):
    """What a file is read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...


# what a member is called, its size in bytes, and how to open it
Member = tuple[str, int, "Callable[[], AbstractContextManager[Readable]]"]


def pack(members: Iterable[Member], target: Path, path: str) -> None:
    """Put the members into a tar, the trace first.

    Raises OSError; InputError: unsupported_format (too large), corrupt_input, truncated_input.
    """
    chosen = sorted(members, key=lambda member: (member[0] != TRACE, member[0]))
    _check_sizes([(name, size) for name, size, _ in chosen], path)
    with target.open("wb") as out:
        for name, size, opener in chosen:
            entry = tarfile.TarInfo(PREFIX + name)
            entry.size = size
            out.write(entry.tobuf(tarfile.GNU_FORMAT))
            with opener() as stream:
                _copy(stream, out, name, size, path)
            out.write(b"\0" * (-size % tarfile.BLOCKSIZE))
        out.write(b"\0" * 2 * tarfile.BLOCKSIZE)


def _check_sizes(sizes: Sequence[tuple[str, int]], path: str) -> None:
    for name, size in sizes:
        if size > MAX_MEMBER:
            message = f"member {name} has {size} bytes, above the limit of {MAX_MEMBER}"
            raise InputError("unsupported_format", path, message, hint="profile a shorter stretch")
    if (total := sum(size for _, size in sizes)) > MAX_TOTAL:
        message = f"its members have {total} bytes, above the limit of {MAX_TOTAL}"
        raise InputError("unsupported_format", path, message, hint="profile a shorter stretch")


def _copy(stream: Readable, out: io.BufferedWriter, name: str, size: int, path: str) -> None:
    """Copy to the end of the stream: only there the checksum of a zip's member is looked at."""
    copied = 0
    while block := stream.read(BLOCK):
        copied += len(block)
        if copied > size:
            break
        out.write(block)
    if copied != size:
        message = f"member {name} has {copied} bytes where {size} are stated"
        raise InputError("truncated_input", path, message, hint=COPY_AGAIN)


def is_packed(head: bytes) -> bool:
    """Whether `head` begins what `pack` writes."""
    return head.startswith(f"{PREFIX}{TRACE}\0".encode()) and head[257:262] == b"ustar"


class Pack:
    """The members of a packed profile. One at a time is in memory."""

    def __init__(self, source: Source) -> None:
        """Raises InputError(corrupt_input)."""
        self.path = source.path
        self._file = Path(source.file)
        self._unpacked = 0
        try:
            with tarfile.open(source.file, "r:") as tar:
                self._places = {
                    member.name.removeprefix(PREFIX): (member.offset_data, member.size) for member in tar
                }
        except (tarfile.TarError, OSError, ValueError) as error:
            message = f"the packed profile cannot be read: {str(error)[:200]}"
            raise InputError("corrupt_input", self.path, message, hint=COPY_AGAIN) from error

    @property
    def names(self) -> tuple[str, ...]:
        """What members there are."""
        return tuple(self._places)

    def content(self, name: str) -> bytes:
        """The bytes of a member, unpacked if it is called .xz.

        Raises InputError: corrupt_input, truncated_input, unsupported_format (more than MAX_MEMBER bytes, or
        MAX_UNPACKED, or MAX_ALL_UNPACKED with those before).
        """
        offset, size = self._places[name]
        _check_sizes([(name, size)], self.path)
        with self._file.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(size)
        if not name.endswith(".xz"):
            return data
        content = unpacked(data, name, self.path, min(MAX_UNPACKED, MAX_ALL_UNPACKED - self._unpacked))
        self._unpacked += len(content)
        return content

    def table(self, name: str) -> pl.DataFrame | None:
        """A Parquet file; None if there is none of the name.

        Raises InputError: corrupt_input, unsupported_format (more than MAX_ROWS rows or MAX_COLUMNS columns).
        """
        if name not in self._places:
            return None
        data = self.content(name)
        with judging(name, self.path):
            stored = pl.scan_parquet(io.BytesIO(data))
            rows, columns = stored.select(pl.len()).collect().item(), len(stored.collect_schema())
            if rows > MAX_ROWS or columns > MAX_COLUMNS:
                limits = f"the limits of {MAX_ROWS} and {MAX_COLUMNS}"
                message = f"{name} has {rows} rows and {columns} columns, above {limits}"
                raise InputError("unsupported_format", self.path, message, hint="profile a shorter stretch")
            return pl.read_parquet(io.BytesIO(data))


@contextmanager
def judging(name: str, path: str) -> Iterator[None]:
    """Turn what Polars raises on a damaged table into InputError."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        message = f"{name} cannot be read ({str(error)[:200]})"
        raise InputError("corrupt_input", path, message, hint=COPY_AGAIN) from error


def unpacked(data: bytes, name: str, path: str, limit: int = MAX_UNPACKED) -> bytes:
    """What an .xz file holds. Raises InputError: truncated_input, corrupt_input, unsupported_format (beyond limit)."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LZMA_MEMORY)
    blocks, length = list[bytes](), 0
    fed = data
    try:
        while not decoder.eof and (fed or not decoder.needs_input):
            blocks.append(decoder.decompress(fed, BLOCK))
            fed = b""
            length += len(blocks[-1])
            if length > limit:
                message = f"{name} unpacks to more than {limit} bytes"
                raise InputError("unsupported_format", path, message, hint="profile a shorter stretch")
    except lzma.LZMAError as error:
        message = f"{name} is damaged: {error}"
        raise InputError("corrupt_input", path, message, hint=COPY_AGAIN) from error
    if not decoder.eof:
        message = f"{name} is truncated after {length} unpacked bytes"
        raise InputError("truncated_input", path, message, hint=COPY_AGAIN)
    return b"".join(blocks)
