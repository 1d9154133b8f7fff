"""Whatever the file was stored as becomes UTF-8."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers.chrome.text import Utf8Stream

TEXT = '{"name": "é 漢 😀 \ufffd"}'


def recoded(data: bytes, size: int = 1 << 16) -> tuple[str, int]:
    stream = Utf8Stream(io.BytesIO(data))
    out = b"".join(iter(lambda: stream.read(size), b""))
    return out.decode("utf-8", "surrogateescape"), stream.replaced


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "mark + utf-16-be"]
)
def test_encodings(encoding: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpg_parsers.chrome.text.CHUNK", 8)
    mark = "\ufeff" if "mark" in encoding else ""
    assert recoded((mark + TEXT).encode(encoding.removeprefix("mark + ")), size) == (TEXT, 0)


def test_undecodable_characters_are_counted() -> None:
    data = TEXT.encode("utf-16")
    broken = data[:6] + b"\x00\xdc" + data[8:-4] + b"\x00\xd8" + data[-2:] + b"\x7d"
    text, replaced = recoded(broken)
    assert replaced == 3
    assert text.count("\ufffd") == 3 + 1


def test_bad_utf8_is_left_to_the_repair() -> None:
    assert recoded(b'{"name": "\xff"}') == ('{"name": "\udcff"}', 0)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.binary(max_size=64), st.sampled_from([b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b""]))
def test_any_bytes(data: bytes, mark: bytes) -> None:
    text, replaced = recoded(mark + data)
    assert replaced <= len(data)
    assert replaced <= text.count("\ufffd")
