"""The bytes of a source: read from disk in fixed buffers, gzip recognised by its magic and never by a name.

    Window      a stretch of a file on disk: a whole file, or a member of a tar
    ZipMember   a window, inflated where the zip says so, checked against the zip's CRC
    Gzip        any layer, its gzip members inflated one after the other
    ByteStream  the top of such a pile: what a parser reads

Memory is a few buffers, whatever the size of the file or the ratio of the compression.
"""

from __future__ import annotations

import importlib
import io
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

INPUT = 1 << 16
OUTPUT = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
GZIP_LEVELS = 2
COPY_AGAIN = "copy, download or record it again"
# A damaged stream can make the decoder take its trailer for data: what eight bytes can inflate to, and more.
OVERRUN = 1 << 16

# Magic bytes of what we do not unpack: name, and the command that does.
UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"\xfd7zXZ\x00": ("xz", "xz -dk"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x"),
    b"Rar!\x1a\x07": ("rar", "unrar x"),
} | {b"BZh%d1AY&SY" % level: ("bzip2", "bzip2 -dk") for level in range(1, 10)}


def _inflate_module() -> Any:  # noqa: ANN401 - isal_zlib and zlib have one interface, and isal need not be installed
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


_inflate = _inflate_module()


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a member of an archive lies: `length` bytes at `offset`. Zip only: its content's size and CRC."""

    offset: int
    length: int
    deflated: bool = False
    size: int = 0
    crc: int | None = None


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the operating system's errors while reading `path` into InputError."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("not_found", path, "no such file", hint="check the path") from error
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise InputError("unreadable", path, message, hint="check its permissions and its disk") from error


class Layer:
    """Bytes in order. A subclass gives `_next`; `position` counts the bytes handed on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = 0
        self._ahead = memoryview(b"")

    def _next(self, size: int) -> bytes:
        """At most `size` further bytes, b"" only at the end."""
        raise NotImplementedError

    def peek(self, size: int) -> bytes:
        """The next `size` bytes (fewer at the end) without consuming them."""
        ahead = bytes(self._ahead)
        while len(ahead) < size and (more := self._next(size - len(ahead))):
            ahead += more
        self._ahead = memoryview(ahead)
        return ahead[:size]

    def take(self, size: int) -> bytes:
        """At most `size` bytes, b"" only at the end."""
        data, self._ahead = bytes(self._ahead[:size]), self._ahead[size:]
        data = data or self._next(size)
        self.position += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:
        """Fill the front of `buffer`; 0 only at the end."""
        # Small reads share one inflated chunk: asking zlib for a few bytes at a time is very slow.
        if not self._ahead:
            self._ahead = memoryview(self._next(max(len(buffer), OUTPUT)))
        count = min(len(self._ahead), len(buffer))
        buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
        self.position += count
        return count


class Window(Layer):
    """A file on disk from `offset` on: `length` bytes, or all there are. Read without a copy."""

    def __init__(self, path: str, file: str, offset: int = 0, length: int | None = None) -> None:
        super().__init__(path)
        self._left = length
        with reading(path):
            self._file = io.FileIO(file)
            self._file.seek(offset)

    def _next(self, size: int) -> bytes:
        wanted = self._bounded(size)
        with reading(self.path):
            data = self._file.read(wanted)
        self._account(wanted, len(data))
        return data

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` straight from the file; 0 only at the end."""
        if self._ahead:
            return super().readinto(buffer)
        wanted = self._bounded(len(buffer))
        with reading(self.path):
            count = self._file.readinto(buffer[:wanted])
        self._account(wanted, count)
        self.position += count
        return count

    def _bounded(self, size: int) -> int:
        return size if self._left is None else min(size, self._left)

    def _account(self, wanted: int, count: int) -> None:
        if self._left is None:
            return
        if wanted and not count:
            message = f"the archive ends {self._left} bytes before this member does"
            raise InputError("truncated_input", self.path, message, hint=COPY_AGAIN)
        self._left -= count

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Inflater:
    """One deflate stream out of `inner`: `rest` is input not inflated yet, `tail` the last input seen."""

    def __init__(self, inner: Layer, wbits: int, rest: bytes = b"") -> None:
        self._inner = inner
        self._decoder = _inflate.decompressobj(wbits=wbits)
        self.rest = rest
        self.tail = rest[-4:]

    @property
    def ended(self) -> bool:
        """Whether the stream's own end was reached, and its checksum was right."""
        return bool(self._decoder.eof)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; b"" at the end of the stream, or where its input ends before it."""
        while not self.ended:
            fed = self.rest or self._feed()
            data: bytes = self._decoder.decompress(fed, size)
            self.rest = self._decoder.unused_data if self.ended else self._decoder.unconsumed_tail
            if data or not fed:
                return data
        return b""

    def _feed(self) -> bytes:
        fed = self._inner.take(INPUT)
        self.tail = (self.tail + fed[-4:])[-4:]
        return fed


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2]


class ZipMember(Layer):
    """A member of a zip: stored or deflated, checked against the CRC and size in the zip's directory."""

    def __init__(self, window: Window, extent: Extent) -> None:
        super().__init__(window.path)
        self._inflater = _Inflater(window, -15) if extent.deflated else None
        self._window = window
        self._expected = (extent.size, extent.crc)
        self._found = (0, 0)

    def _next(self, size: int) -> bytes:
        try:
            data = self._inflater.read(size) if self._inflater else self._window.take(size)
        except (zlib.error, _inflate.error) as error:
            raise self._corrupt(_reason(error)) from error
        count, crc = self._found
        self._found = (count + len(data), zlib.crc32(data, crc))
        if self._found[0] > self._expected[0] or (not data and self._found != self._expected):
            raise self._corrupt("checksum or size mismatch")
        return data

    def _corrupt(self, reason: str) -> InputError:
        message = (
            f"damaged zip member: {reason}; no checksum vouches for the {self._found[0]} bytes read so far"
        )
        where = f"offset {self._window.position}"
        return InputError("corrupt_input", self.path, message, where=where, hint=COPY_AGAIN)


class Gzip(Layer):
    """The members of a gzip stream, inflated. A cut one gives what can be inflated and sets `truncated`."""

    def __init__(self, inner: Layer) -> None:
        super().__init__(inner.path)
        self.truncated: str | None = None
        self.trailing = 0
        self._inner = inner
        self._member = _Inflater(inner, 31)
        self._start = 0
        self._total = self._length = 0
        self._done = False

    def _next(self, size: int) -> bytes:
        while not self._done:
            try:
                data = self._member.read(size)
            except (zlib.error, _inflate.error) as error:
                raise self._corrupt(_reason(error)) from error
            if data:
                self._total += len(data)
                self._length += len(data)
                return data
            if self._member.ended:
                self._begin_member()
            else:
                self._cut()
        return b""

    def _begin_member(self) -> None:
        """After a member: another one (maybe after zero padding), or bytes that are not gzip."""
        rest, padding = self._member.rest, 0
        while True:
            kept = rest.lstrip(b"\0")
            padding += len(rest) - len(kept)
            if len(kept) >= len(GZIP_MAGIC) or not (more := self._inner.take(INPUT)):
                break
            rest = kept + more
        if kept and GZIP_MAGIC.startswith(kept[:2]):
            self._member = _Inflater(self._inner, 31, kept)
            self._start = self._inner.position - len(kept)
            self._length = 0
            return
        self.trailing = padding + len(kept) + self._drain()
        self._done = True

    def _drain(self) -> int:
        count = 0
        while more := self._inner.take(OUTPUT):
            count += len(more)
        return count

    def _cut(self) -> None:
        # A complete stream ends in its length, a cut one in anything. If the decoder ran past the length that
        # stands there and found no end, the stream is whole but damaged, and what was inflated is wrong.
        stated = int.from_bytes(self._member.tail, "little")
        if 0 < self._length - stated <= OVERRUN:
            raise self._corrupt(f"{self._length} bytes and no end, where it states {stated}")
        self.truncated = f"gzip stream is truncated after {self._total} decompressed bytes"
        self._done = True

    def _corrupt(self, reason: str) -> InputError:
        message = (
            f"damaged gzip member: {reason}; no checksum vouches for the {self._length} bytes of it so far"
        )
        return InputError("corrupt_input", self.path, message, where=f"offset {self._start}", hint=COPY_AGAIN)


class ByteStream:
    """The decompressed bytes of a source; a context manager.

    `truncated` and `trailing` are known once the end was reached (a read that gave nothing).
    """

    def __init__(self, path: str, file: str, extent: Extent | None = None) -> None:
        self._window = Window(path, file, extent.offset, extent.length) if extent else Window(path, file)
        self._gzip: list[Gzip] = []
        self._top: Layer = self._window
        if extent and extent.crc is not None:
            self._top = ZipMember(self._window, extent)

    @classmethod
    def unwrapped(cls, path: str, file: str, extent: Extent | None = None) -> Self:
        """A stream with up to two levels of gzip taken off.

        Raises InputError: not_found, unreadable, unsupported_format (other compression), corrupt_input.
        """
        stream = cls(path, file, extent)
        try:
            stream._unwrap()
        except InputError:
            stream.close()
            raise
        return stream

    def _unwrap(self) -> None:
        while len(self._gzip) < GZIP_LEVELS and self._top.peek(2) == GZIP_MAGIC:
            self._gzip.append(Gzip(self._top))
            self._top = self._gzip[-1]
        head = self._top.peek(10)
        for magic, (name, command) in UNSUPPORTED.items():
            if head.startswith(magic):
                path = self._window.path
                hint = f"decompress it first: {command} {path}"
                raise InputError("unsupported_format", path, f"{name} data is not read", hint=hint)

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` (of bytes); short only before the end, 0 at the end. Raises InputError on damage."""
        filled = 0
        while filled < len(buffer) and (count := self._top.readinto(buffer[filled:])):
            filled += count
        return filled

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end."""
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def read_before_damage(self, size: int) -> bytes:
        """At most `size` bytes, fewer at the end and where the compressed data are damaged. Slow."""
        found = bytearray()
        try:
            # one by one: zlib gives nothing of a call in which it comes upon damage
            while len(found) < size and (byte := self._top.take(1)):
                found += byte
        except InputError as error:
            if error.kind != "corrupt_input":
                raise
        return bytes(found)

    @property
    def position(self) -> int:
        """Decompressed bytes handed out so far."""
        return self._top.position

    @property
    def stored_position(self) -> int:
        """Bytes of the stored file or member taken so far, out of Source.size: for a progress bar."""
        return self._window.position

    @property
    def truncated(self) -> str | None:
        """Why the bytes end early, e.g. "gzip stream is truncated after 123 decompressed bytes"."""
        return next((layer.truncated for layer in self._gzip if layer.truncated), None)

    @property
    def trailing(self) -> int:
        """Bytes after the last gzip member that were ignored: zero padding, or anything that is not gzip."""
        return sum(layer.trailing for layer in self._gzip)

    def close(self) -> None:
        """Close the file underneath."""
        self._window.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
