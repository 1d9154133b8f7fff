"""One reading or none: what is mended, what is left alone, what may go on."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers.chrome.repair import MAX_LENGTH, _Effort, repair_object

MENDED = {
    "control characters": (b'{"name":"a\x01b\nc"}', {"name": "a\x01b\nc"}, {"control character": 2}),
    "quotes": (b'{"name":"say "hi" now","pid":1}', {"name": 'say "hi" now', "pid": 1}, {"unescaped quote": 2}),
    "one quote": (b'{"name":"at"n::mm","pid":3}', {"name": 'at"n::mm', "pid": 3}, {"unescaped quote": 1}),
    "JSON inside a name": (
        b'{"ph":"X","name":"{"device": "cpu", "dtype": "float32"}(12): run","pid":1}',
        {"ph": "X", "name": '{"device": "cpu", "dtype": "float32"}(12): run', "pid": 1},
        {"unescaped quote": 8},
    ),
    "quotes in an argument": (b'{"args":{"k":"v"w","z":1}}', {"args": {"k": 'v"w', "z": 1}}, {"unescaped quote": 1}),
    "quotes in a list": (b'{"args":{"k":["a"b","c"]}}', {"args": {"k": ['a"b', "c"]}}, {"unescaped quote": 1}),
    "Windows path": (b'{"name":"C:\\Data\\dir","pid":1}', {"name": "C:\\Data\\dir", "pid": 1}, {"stray backslash": 2}),
    "backslash at the end": (b'{"name":"C:\\dir\\","pid":1}', {"name": "C:\\dir\\", "pid": 1}, {"stray backslash": 2}),
    "surrogates": (
        b'{"name":"\\ud83d\\ude00 \\ud800x"}', {"name": "😀 \ufffdx"}, {"half of a surrogate pair": 1},
    ),
    "bytes": (b'{"name":"\xff\xc3\xa9"}', {"name": "\ufffdé"}, {"invalid UTF-8": 1}),
    "no numbers": (
        b'{"a":NaN,"b":[-Infinity,nan(ind),1.#INF],"c":N/A,"d":None}',
        {"a": None, "b": [None, None, None], "c": None, "d": None},
        {"NaN or the like": 6},
    ),
    "commas": (b'{"a":[1,,2,],"b":{},,}', {"a": [1, 2], "b": {}}, {"comma": 4}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value", "fixes"), MENDED.values(), ids=MENDED)
@pytest.mark.parametrize("rest", [b"", b', {"ph":"X"}', b"\n]}"])
def test_mended(text: bytes, value: object, fixes: dict[str, int], rest: bytes) -> None:
    found = repair_object(text + rest)
    assert json.loads(found.text) == value
    assert dict(found.fixes) == fixes
    assert found.length == len(text)


NONE = {
    "a quote is missing, and the next field follows": b'{"cat":"kernelx "name":"k","pid":2}',
    "a quote is missing before an argument": b'{"args":{"device":"a, "stream":7,"x":"b"}}',
    "a quote is missing in a list": b'{"args":{"x":["a, "b"]}}',
    "a brace is missing": b'{"ph":"X","args":{"a":1}, {"ph":"X"}',
    "a number with two points": b'{"ts":1.2.3}',
    "leading zero": b'{"ts":01}',
    "hexadecimal": b'{"ts":0x10}',
    "no comma": b'{"a":1 "b":2}',
    "no value": b'{"a":,"b":1}',
    "wrong bracket": b'{"a":[1}}',
    "a word": b'{"a":hello}',
    "no object": b'"a"',
    "too deep": b'{"a":' + b"[" * 70 + b"NaN" + b"]" * 70 + b"}",
    "too long": b'{"a":NaN,"b":"' + b"x" * MAX_LENGTH + b'"}',
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_no_reading(text: bytes) -> None:
    found = repair_object(text)
    assert not found.fixes
    assert not found.open


def test_two_readings_are_none() -> None:
    """The first text is `x`, or `x"},"b":{"tid":"y`; either way there is something to mend."""
    found = repair_object(b'{"args":{"a":"x"},"b\x01":{"tid":"y"}}')
    assert not found.fixes
    assert not found.open


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"na',
        b'{"name"',
        b'{"name":',
        b'{"name":"a\x01',
        b'{"a":NaN',
        b'{"a":[1,',
        b'{"a":tr',
        b'{"a":-',
    ],
)
def test_open(text: bytes) -> None:
    assert repair_object(text).open


HOSTILE = {
    "quotes": b'{"name":"' + b'a",' * 40_000 + b'"}',
    "ends": b'{"args":{' + b'"a":"b"c",' * 10_000 + b"}}",
    "no ends": b'{"args":{' + b'"a":"},' * 15_000 + b"}}",
    "escaped ends": b'{"args":{"a":"' + b'\\"}' * 40_000,
    "keys": b'{"args":{' + b'"a":' * 30_000,
    "brackets": b'{"a":' + b"[" * 100_000,
    "objects": b'{"a":' * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_takes_bounded_time(text: bytes) -> None:
    start = time.process_time()
    repair_object(text)
    assert time.process_time() - start < 3


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.text('{}[]",:\\a1.\x01 ', max_size=40))
def test_what_is_mended_is_json(text: str) -> None:
    found = repair_object(b'{"ph":"X","args":{' + text.encode() + b"}}")
    if found.fixes:
        assert isinstance(json.loads(found.text), dict)


@pytest.mark.parametrize("quotes", range(40))
def test_the_search_may_end_anywhere(quotes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string has fewer ends at a second reading if the effort runs out in between."""
    monkeypatch.setattr("mpg_parsers.chrome.repair._Effort", lambda _: _Effort(quotes))
    assert repair_object(b'{"args":{"x":"p"}q","y":"r"}s"}}').text == b""
