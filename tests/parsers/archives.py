"""Small archives and gzip streams for the tests of sources."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

from mpg_parsers.streams import ByteStream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def gz(data: bytes, level: int = 6) -> bytes:
    """One gzip member, the same bytes on every run."""
    return gzip.compress(data, level, mtime=0)


def zip_of(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these files, in this order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def tar_of(members: Mapping[str, bytes], mode: str = "w", fmt: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of these files; `mode` as in tarfile, e.g. "w:gz"."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=fmt) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below `folder`; returns the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def read_all(path: Path, block: int = 1 << 16) -> tuple[bytes, str | None, int]:
    """Content, `truncated` and `trailing` of a file read to its end."""
    data = b""
    buffer = memoryview(bytearray(block))
    with ByteStream.unwrapped(str(path), str(path)) as stream:
        while count := stream.readinto(buffer):
            data += buffer[:count]
        assert stream.position == len(data)
        return data, stream.truncated, stream.trailing
