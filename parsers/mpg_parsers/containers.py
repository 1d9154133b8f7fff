"""What is inside a zip or a tar: the names of its files, and where their bytes lie. Nothing is extracted.

Whether a file is an archive is decided by its bytes. A compressed tar has to be decompressed once, to where
the caller says; then its members are stretches of a plain file.
"""

from __future__ import annotations

import bz2
import io
import lzma
import stat
import struct
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from mpg_parsers.errors import InputError
from mpg_parsers.paths import check_count, printable, skip_reason
from mpg_parsers.streams import COPY_AGAIN, GZIP_MAGIC, UNSUPPORTED, ByteStream, Extent, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_DIRECTORY = 32 << 20
BLOCK = 512
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
ZIP_END = b"PK\x05\x06"
ZIP_TAIL = 22 + (1 << 16)
# Zips that are one document: a PyTorch checkpoint, an Office file, a Java archive.
DOCUMENT_MEMBERS = {"data.pkl", "[Content_Types].xml", "MANIFEST.MF"}

REPLACED = "earlier files of a name that comes again"

# What zipfile and tarfile are seen to raise on damaged bytes, besides their own errors.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    struct.error,
    ValueError,
    OverflowError,
    EOFError,
    LookupError,
)


@dataclass(slots=True)
class Listing:
    """The files of an archive by name, what was left out as (reason, name), and how it was cut, if it was."""

    members: dict[str, Extent] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    truncated: str = ""

    def add(self, name: str, extent: Extent, path: str) -> None:
        """Add a file, unless its name says that nobody wants it; the last of two of one name counts."""
        if reason := skip_reason(name):
            self.skip(reason, name, path)
            return
        if name in self.members:
            self.skip(REPLACED, name, path)
        self.members[name] = extent
        check_count(len(self.members), path)

    def skip(self, reason: str, name: str, path: str) -> None:
        """Leave out a file."""
        self.skipped.append((reason, name))
        check_count(len(self.skipped), path)


class _BoundedFile(io.FileIO):
    """A file that refuses to be read in one huge piece: a hostile archive states sizes of its own choice."""

    def __init__(self, file: str, path: str) -> None:
        super().__init__(file)
        self.size = self.seek(0, io.SEEK_END)
        self._path = path
        self.seek(0)

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self.size - self.tell() if size is None or size < 0 else size
        if wanted > MAX_DIRECTORY:
            message = f"states a directory or header of {wanted} bytes, above the limit of {MAX_DIRECTORY}"
            raise InputError("unsupported_format", self._path, message, hint="unpack it and name the folder")
        return super().read(wanted)


def is_zip(head: bytes) -> bool:
    """Whether `head` begins a zip."""
    return head.startswith(ZIP_MAGICS)


def is_tar(head: bytes) -> bool:
    """Whether `head` (512 bytes) begins a tar: by its magic or, for old ones, a right header checksum."""
    if head[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(head[:BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def tar_opener(file: str, path: str, head: bytes) -> Callable[[], BinaryIO | ByteStream] | None:
    """How to open the tar inside a compressed file; None if there is none inside."""
    openers: dict[bytes, Callable[[], Any]] = {
        GZIP_MAGIC: partial(ByteStream.unwrapped, path, file),
        b"BZh": partial(bz2.open, file),
        b"\xfd7zXZ\x00": partial(lzma.open, file),
    }
    opener = next((opener for magic, opener in openers.items() if head.startswith(magic)), None)
    if opener is None:
        return None
    try:
        with opener() as stream:
            return opener if is_tar(stream.read(BLOCK)) else None
    except (InputError, OSError, EOFError, lzma.LZMAError):
        return None  # whoever opens the file for its own sake is told what is wrong with it


def unpack_tar(opener: Callable[[], BinaryIO | ByteStream], target: Path, path: str) -> str:
    """Decompress a tar to `target`; returns how it was cut, where the compression says so.

    Raises InputError: corrupt_input, write_failed (full disk).
    """
    with opener() as stream, writing(path, target.parent), target.open("wb") as out:
        while block := _next_block(stream, path):
            out.write(block)
        return (stream.truncated or "") if isinstance(stream, ByteStream) else ""


def _next_block(stream: BinaryIO | ByteStream, path: str) -> bytes:
    try:
        return stream.read(1 << 20)
    except EOFError:
        return b""  # cut: the tar that comes out is cut as well, and found to be
    except (OSError, lzma.LZMAError) as error:
        message = f"damaged compressed data: {error}"
        raise InputError("corrupt_input", path, message, hint=COPY_AGAIN) from error


@contextmanager
def writing(path: str, folder: Path) -> Iterator[None]:
    """Turn a full disk or a forbidden folder, while copying `path` there, into InputError."""
    try:
        yield
    except OSError as error:
        message = f"cannot be copied to {folder}: {error.strerror}"
        raise InputError("write_failed", path, message, hint="free some space there, or unpack it") from error


def spool(head: bytes, stream: BinaryIO, target: Path, path: str) -> None:
    """Copy a stream that cannot be read twice, `head` having been read, to `target`.

    Raises InputError: write_failed (full disk), unreadable.
    """
    with writing(path, target.parent), target.open("wb") as out:
        block = head
        while block:
            out.write(block)
            with reading(path):
                block = stream.read(1 << 20)


def is_packed(head: bytes) -> bool:
    """Whether `head` begins an archive or compressed data: what is inside does not show."""
    magics = (GZIP_MAGIC, *ZIP_MAGICS, *UNSUPPORTED)
    return head.startswith(magics) or is_tar(head)


@contextmanager
def _listing(file: str, path: str, kind: str) -> Iterator[_BoundedFile]:
    try:
        with reading(path), _BoundedFile(file, path) as handle:
            yield handle
    except NotImplementedError as error:
        raise InputError("unsupported_format", path, f"{kind}: {error}", hint="unpack it yourself") from error
    except _DAMAGE as error:
        message = f"this {kind} is damaged: {error}"
        raise InputError("corrupt_input", path, message, hint=COPY_AGAIN) from error


def list_zip(file: str, path: str) -> Listing | None:
    """The files in a zip, or None if the zip is one document, such as a PyTorch checkpoint or a NumPy file.

    Raises InputError: truncated_input (no directory at the end), corrupt_input, unsupported_format
    (encrypted, or packed by a rare method).
    """
    with _listing(file, path, "zip") as handle:
        _refuse_cut_zip(handle, path)
        infos = zipfile.ZipFile(handle).infolist()
        check_count(len(infos), path)
        if _is_document([info.filename for info in infos]):
            return None
        listing = Listing()
        for info in infos:
            _add_zip_member(listing, info, handle, path)
        return listing


def _refuse_cut_zip(handle: _BoundedFile, path: str) -> None:
    handle.seek(max(0, handle.size - ZIP_TAIL))
    if ZIP_END not in handle.read(ZIP_TAIL):
        message = "this zip is truncated: the directory at its end is missing"
        raise InputError("truncated_input", path, message, hint=COPY_AGAIN)


def _is_document(names: list[str]) -> bool:
    marked = any(name.rpartition("/")[2] in DOCUMENT_MEMBERS for name in names)
    return marked or (bool(names) and all(name.endswith(".npy") for name in names))


def _add_zip_member(listing: Listing, info: zipfile.ZipInfo, handle: _BoundedFile, path: str) -> None:
    if info.is_dir():
        return
    if stat.S_ISLNK(info.external_attr >> 16):
        listing.skip("links", info.filename, path)
        return
    if not skip_reason(info.filename):
        _refuse_unreadable(info, path)
    offset = _data_offset(info, handle)
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    extent = Extent(offset, info.compress_size, deflated=deflated, size=info.file_size, crc=info.CRC)
    listing.add(info.filename, extent, path)


def _refuse_unreadable(info: zipfile.ZipInfo, path: str) -> None:
    if info.flag_bits & 1:
        message = f"member {printable(info.filename)} is encrypted"
        raise InputError("unsupported_format", path, message, hint="unpack it with its password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        message = (
            f"member {printable(info.filename)} is packed by method {info.compress_type}, which is not read"
        )
        raise InputError("unsupported_format", path, message, hint="unpack it yourself and name the folder")


def _data_offset(info: zipfile.ZipInfo, handle: _BoundedFile) -> int:
    """Where a member's data begin: after its local header, which has a name and extra field of its own."""
    handle.seek(max(0, info.header_offset))
    header = handle.read(30)
    if info.header_offset < 0 or header[:4] != ZIP_MAGICS[0] or len(header) < 30:
        raise zipfile.BadZipFile(f"no header for member {info.filename} at offset {info.header_offset}")
    name, extra = struct.unpack_from("<HH", header, 26)
    offset = int(info.header_offset + 30 + name + extra)
    if offset + info.compress_size > handle.size:
        raise zipfile.BadZipFile(f"member {info.filename} reaches beyond the end of the file")
    return offset


def list_tar(file: str, path: str) -> Listing:
    """The files in an uncompressed tar; a member that is cut is left out and named in `truncated`.

    Raises InputError: truncated_input when no member is whole, corrupt_input.
    """
    listing = Listing()
    with _listing(file, path, "tar") as handle:
        listing.truncated = _read_tar(handle, listing, path)
    if listing.truncated and not listing.members:
        message = "this tar is truncated: no member of it is whole"
        raise InputError("truncated_input", path, message, hint=COPY_AGAIN)
    return listing


def _read_tar(handle: _BoundedFile, listing: Listing, path: str) -> str:
    """Fill `listing`; returns how the tar is cut, if it is."""
    end = 0
    try:
        tar = tarfile.TarFile(fileobj=handle)
        for info in tar:
            end = tar.offset
            usable = info.isreg() and not info.issparse()
            if usable and info.offset_data + info.size > handle.size:
                return f"this tar is truncated: member {printable(info.name)} is cut and left out"
            if usable:
                listing.add(info.name, Extent(info.offset_data, info.size), path)
            elif not info.isdir():
                listing.skip("links, devices and sparse files", info.name, path)
    except tarfile.ReadError:
        pass  # _check_end tells a cut from damage
    return _check_end(handle, end)


def _check_end(handle: _BoundedFile, offset: int) -> str:
    """What is wrong where tarfile stopped: it takes a damaged header, or a missing end, for the end."""
    handle.seek(offset)
    block = handle.read(BLOCK)
    if len(block) < BLOCK:
        return "this tar is truncated: its end marker is missing, and maybe files before it"
    if not any(block):
        return ""
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise tarfile.ReadError(f"{error} at offset {offset}") from error
    if offset + BLOCK + header.size + BLOCK > handle.size:
        return "this tar is truncated in the header of a member, which is left out"
    raise tarfile.ReadError(f"no valid member at offset {offset}")
