"""Bytes of a file on disk, plain or gzip: whole, cut, padded, damaged."""

from __future__ import annotations

import bz2
import contextlib
import lzma
import random
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers import streams
from mpg_parsers.errors import InputError
from mpg_parsers.streams import OUTPUT, ByteStream, Extent
from tests.parsers.archives import gz, read_all

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b'{"traceEvents": [{"ph": "X", "ts": 1.5, "dur": 2, "name": "gemm"}, {"ph": "X", "ts": 9, "dur": 2}]}'
NOISE = random.Random(7).randbytes(300)


@pytest.fixture(autouse=True)
def _zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder that is always there."""
    monkeypatch.setattr(streams, "_inflate", zlib)


def outcome(path: Path) -> tuple[bytes, str | None] | InputError:
    """Content and `truncated`, or the error."""
    try:
        return read_all(path)[:2]
    except InputError as error:
        return error


WHOLE = {
    "plain": (TEXT, TEXT, 0),
    "empty file": (b"", b"", 0),
    "one byte of the magic": (b"\x1f", b"\x1f", 0),
    "gzip": (gz(TEXT), TEXT, 0),
    "gzip of nothing": (gz(b""), b"", 0),
    "stored blocks": (gz(NOISE, 0), NOISE, 0),
    "two members": (gz(TEXT) + gz(NOISE), TEXT + NOISE, 0),
    "an empty member between": (gz(TEXT) + gz(b"") + gz(NOISE), TEXT + NOISE, 0),
    "many members": (b"".join(gz(bytes([n])) for n in range(256)), bytes(range(256)), 0),
    "zero padding": (gz(TEXT) + bytes(512), TEXT, 512),
    "text garbage": (gz(TEXT) + b"upload complete\n", TEXT, 16),
    "one odd byte": (gz(TEXT) + b"x", TEXT, 1),
    "padding, then garbage": (gz(TEXT) + bytes(5) + b"junk", TEXT, 9),
    "padding between members": (gz(TEXT) + bytes(100) + gz(NOISE), TEXT + NOISE, 0),
    "garbage longer than a buffer": (gz(TEXT) + b"j" * 700_000, TEXT, 700_000),
    "gzip in gzip": (gz(gz(TEXT)), TEXT, 0),
    "gzip in gzip in gzip stays packed": (gz(gz(gz(TEXT))), gz(TEXT), 0),
    "padding inside and outside": (gz(gz(TEXT) + bytes(3)) + bytes(4), TEXT, 7),
    "a thousand to one": (gz(bytes(3_000_000)), bytes(3_000_000), 0),
}


@pytest.mark.parametrize("block", [1, 1000, 1 << 20])
@pytest.mark.parametrize(("stored", "data", "trailing"), WHOLE.values(), ids=WHOLE)
def test_whole(tmp_path: Path, stored: bytes, data: bytes, trailing: int, block: int) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(stored)
    if block == 1:
        data = data[:1000]
        with ByteStream.unwrapped("p", str(path)) as stream:
            assert b"".join(stream.read(1) for _ in range(len(data))) == data
    else:
        assert read_all(path, block) == (data, None, trailing)


@pytest.mark.parametrize("members", [[TEXT], [TEXT, NOISE], [b"x"], [b""], [NOISE[:9], b"", TEXT]])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_cut_at_every_byte(tmp_path: Path, members: list[bytes], level: int) -> None:
    parts = [gz(member, level) for member in members]
    stored, data = b"".join(parts), b"".join(members)
    boundaries = {sum(map(len, parts[:n])) for n in range(1, len(parts) + 1)}
    path = tmp_path / "cut.gz"
    for length in range(2, len(stored)):
        path.write_bytes(stored[:length])
        got, truncated, trailing = read_all(path)
        assert data.startswith(got)
        assert trailing == 0
        expected = f"gzip stream is truncated after {len(got)} decompressed bytes"
        assert truncated == (None if length in boundaries else expected)


def test_the_optional_decoder_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isal = pytest.importorskip("isal.isal_zlib", reason="the optional decoder is not installed")
    path = tmp_path / "x"
    stored = [whole for whole, _, _ in WHOLE.values()]
    stored += [gz(TEXT, level)[:length] for level in (0, 6) for length in range(2, len(gz(TEXT, level)))]
    for each in stored:
        path.write_bytes(each)
        results = []
        for decoder in (zlib, isal):
            monkeypatch.setattr(streams, "_inflate", decoder)
            results.append(read_all(path))
        assert results[0] == results[1]


def test_cut_in_a_long_run(tmp_path: Path) -> None:
    """Nearly all-zero compressed bytes can look like a length: then the cut is taken for damage."""
    stored, path = gz(b"a" * 5000), tmp_path / "cut.gz"
    damaged = 0
    for length in range(2, len(stored)):
        path.write_bytes(stored[:length])
        result = outcome(path)
        if isinstance(result, InputError):
            assert result.kind == "corrupt_input"
            damaged += 1
        else:
            assert result[1]
            assert result[0] == b"a" * len(result[0])
    assert damaged <= 3


def test_cut_delivers_all_that_can_be_inflated(tmp_path: Path) -> None:
    data = bytes(2_000_000)  # 1000:1, so that much output is pending when the input ends
    path = tmp_path / "cut.gz"
    path.write_bytes(gz(data)[:-8])
    assert read_all(path, 4096) == (data, "gzip stream is truncated after 2000000 decompressed bytes", 0)


def test_cut_within_and_without(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gz(gz(TEXT)[:-12]))
    got, truncated, _ = read_all(path)
    assert TEXT.startswith(got)
    assert truncated == f"gzip stream is truncated after {len(got)} decompressed bytes"


@pytest.mark.parametrize(
    ("data", "level"),
    [(TEXT, 0), (TEXT, 6), (NOISE, 6), (b"hello world, hello trace", 6), (b"a" * 5000, 6), (b"", 6)],
)
def test_every_byte_flipped(tmp_path: Path, data: bytes, level: int) -> None:
    """The right data, an error, or (behind a header flag that hides the rest) a prefix known to be cut."""
    stored = gz(data, level)
    path = tmp_path / "flipped.gz"
    errors = 0
    for place in range(2, len(stored)):
        for mask in (0x01, 0x04, 0x10, 0x80, 0xFF):
            damaged = bytearray(stored)
            damaged[place] ^= mask
            path.write_bytes(damaged)
            result = outcome(path)
            if isinstance(result, InputError):
                assert result.kind == "corrupt_input"
                assert "checksum" in result.message
                assert result.hint
                errors += 1
            else:
                got, truncated = result
                assert got == data or (truncated and data.startswith(got)), (place, mask)
    assert errors > 5 * (len(stored) - 10 - 4)  # all of deflate and trailer, but for the odd harmless bit


@pytest.mark.parametrize("place", [0, 1])
def test_without_its_magic_it_is_not_gzip(tmp_path: Path, place: int) -> None:
    damaged = bytearray(gz(TEXT))
    damaged[place] ^= 0x20
    path = tmp_path / "x.gz"
    path.write_bytes(damaged)
    assert read_all(path) == (bytes(damaged), None, 0)


def test_damage_in_the_second_member(tmp_path: Path) -> None:
    first, second = gz(TEXT), bytearray(gz(NOISE))
    second[-8] ^= 1
    path = tmp_path / "x.gz"
    path.write_bytes(first + second)
    with ByteStream.unwrapped("ranks/x.gz", str(path)) as stream:
        for _ in range(2):  # who reads on after the error is told again
            with pytest.raises(InputError, match=f"^ranks/x.gz: offset {len(first)}: .*checksum") as caught:
                stream.read(1 << 20)
            assert caught.value.kind == "corrupt_input"


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.binary(max_size=60), min_size=1, max_size=3),
    level=st.integers(0, 9),
    edits=st.lists(st.tuples(st.integers(2, 400), st.integers(0, 255)), max_size=3),
    cut=st.integers(2, 600),
)
def test_any_damage_is_an_input_error(
    tmp_path_factory: pytest.TempPathFactory,
    data: list[bytes],
    level: int,
    edits: list[tuple[int, int]],
    cut: int,
) -> None:
    stored = bytearray(b"".join(gz(part, level) for part in data))
    for place, value in edits:
        stored[place % (len(stored) - 2) + 2] = value
    path = tmp_path_factory.getbasetemp() / "fuzz.gz"
    path.write_bytes(stored[:cut])
    with contextlib.suppress(InputError):
        read_all(path)


UNSUPPORTED = {
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8\x51", "zstd -d"),
    "xz": (lzma.compress(TEXT), "xz -dk"),
    "bzip2": (bz2.compress(TEXT), "bzip2 -dk"),
    "7z": (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z x"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40", "lz4 -d"),
    "rar": (b"Rar!\x1a\x07\x01\x00", "unrar x"),
}


@pytest.mark.parametrize(
    ("name", "stored", "command"), [(k, *v) for k, v in UNSUPPORTED.items()], ids=UNSUPPORTED
)
@pytest.mark.parametrize("wrap", [bytes, gz], ids=["bare", "in gzip"])
def test_other_compression(tmp_path: Path, name: str, stored: bytes, command: str, wrap: type[bytes]) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(wrap(stored))
    with pytest.raises(InputError, match=f"^t.json: {name} data is not read") as caught:
        ByteStream.unwrapped("t.json", str(path))
    assert caught.value.kind == "unsupported_format"
    assert caught.value.hint == f"decompress it first: {command} t.json"


@pytest.mark.parametrize(
    "text", [b"BZh9 is a fine start of a log line", b"7zip", b"Rar!", b"\xfd7zXX", b"PK"]
)
def test_not_compressed_after_all(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(text)
    assert read_all(path) == (text, None, 0)


def test_missing_and_unreadable(tmp_path: Path) -> None:
    for file, kind in ((tmp_path / "none", "not_found"), (tmp_path, "unreadable")):
        with pytest.raises(InputError) as caught:
            ByteStream.unwrapped("x", str(file))
        assert caught.value.kind == kind
        assert caught.value.hint


def test_window_of_a_file_that_shrank(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tar"
    path.write_bytes(TEXT)
    with ByteStream.unwrapped("ranks.tar!a", str(path), Extent(10, 1000)) as stream:
        assert stream.read(20) == TEXT[10:30]
        with pytest.raises(InputError, match="before this member does") as caught:
            stream.read(1000)
    assert caught.value.kind == "truncated_input"


def test_positions(tmp_path: Path) -> None:
    data = NOISE * 3000
    path = tmp_path / "x.gz"
    path.write_bytes(gz(data))
    seen = []
    with ByteStream.unwrapped("x", str(path)) as stream:
        while block := stream.read(100_000):
            seen.append((stream.position, stream.stored_position, len(block)))
    assert [position for position, _, _ in seen] == [100_000 * n for n in range(1, 10)]
    assert sorted(stored for _, stored, _ in seen) == [stored for _, stored, _ in seen]
    assert seen[-1][1] == path.stat().st_size


def test_read_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gz(TEXT))
    with ByteStream.unwrapped("x", str(path)) as stream:
        assert stream.read(0) == b""
        assert stream.read(len(TEXT)) == TEXT


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gz(gz(bytes(50_000_000))))
    buffer = memoryview(bytearray(1 << 16))
    tracemalloc.start()
    try:
        with ByteStream.unwrapped("x", str(path)) as stream:
            while stream.readinto(buffer):
                pass
            assert stream.position == 50_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * OUTPUT
