"""Events of any shape: the usual ones by the fast way, all others without loss."""

from __future__ import annotations

import gc
import json
from typing import Any

import msgspec
import pytest

from mpg_parsers.chrome.syntax import is_open
from mpg_parsers.kineto.events import NULL, Event, ExactEvent, decode


def one(fields: str) -> Any:
    return decode(b"[{%b}]" % fields.encode())[0]


TEXTS = {
    "text": ('"ph": "X"', "X"),
    "null": ('"ph": null', None),
    "missing": ('"x": 1', None),
    "number": ('"ph": 7', "7"),
    "fraction": ('"ph": 1.50', "1.50"),
    "truth": ('"ph": true', "true"),
    "list": ('"ph": [1, "a"]', '[1, "a"]'),
    "last of two": ('"ph": "B", "ph": "E"', "E"),
}


@pytest.mark.parametrize(("fields", "value"), TEXTS.values(), ids=TEXTS)
def test_texts(fields: str, value: str | None) -> None:
    assert one(fields).ph == value


NUMBERS = {
    "integer": ("7", 7),
    "text": ('"stream 7"', "stream 7"),
    "null": ("null", None),
    "whole float": ("7.0", 7),
    "scientific": ("7e2", 700),
    "fraction": ("7.5", None),
    "truth": ("true", None),
    "list": ("[7]", None),
    "unsigned 64 bits": ("18446744073709551615", 2**64 - 1),
    "beyond any double": ("1e400", None),
}


@pytest.mark.parametrize(("text", "value"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(text: str, value: object) -> None:
    assert one(f'"pid": {text}').pid == value
    assert one(f'"args": {{"correlation": {text}}}').args.correlation == value


def test_missing_numbers() -> None:
    event = one('"ph": "X"')
    assert (event.pid, event.args.stream) == (NULL, NULL)


@pytest.mark.parametrize("args", ["null", "[]", '"x"', "5", "{}", '{"unknown": {"a": [1]}}'])
def test_arguments_of_another_shape(args: str) -> None:
    event = one(f'"ph": "X", "args": {args}')
    assert (event.ph, event.args.correlation) == ("X", NULL)


def test_one_odd_event_leaves_the_others_as_they_are() -> None:
    usual = {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 1,
        "ts": 1.5,
        "dur": 2,
        "args": {"grid": [1, 2, 3]},
    }
    plain = decode(json.dumps([usual]).encode())[0]
    odd = decode(json.dumps([usual, {"pid": 1.5}]).encode())[0]
    assert isinstance(plain, Event)
    assert isinstance(odd, ExactEvent)
    assert (odd.ph, odd.cat, odd.name, odd.pid) == (plain.ph, plain.cat, plain.name, plain.pid)
    assert (bytes(odd.ts), bytes(odd.dur)) == (b"1.5", b"2")
    assert bytes(odd.args.grid) == bytes(plain.args.grid) == b"[1, 2, 3]"


@pytest.mark.parametrize("number", ["8796093022208", "-8796093022208.5", "1712195495519791.567"])
def test_times_that_a_double_cannot_hold_stay_text(number: str) -> None:
    event = one(f'"ts": {number}')
    assert isinstance(event, ExactEvent)
    assert bytes(event.ts) == number.encode()


@pytest.mark.parametrize("number", ["8796093022207.999", "0", "-1.5"])
def test_other_times_are_doubles(number: str) -> None:
    assert one(f'"ts": {number}').ts == float(number)


def test_null_counts_as_an_empty_event() -> None:
    assert [event.ph for event in decode(b'[null, {"ph": "X"}]')] == [None, "X"]


NOT_EVENTS = [
    b"[5]",
    b'["a"]',
    b"[[]]",
    b"{}",
    b"[",
    b"[{}",
    b"[{},]",
    b'[{"a":NaN}]',
    b'[{"a":"\xff"}]',
    b'[{"a":"\x01"}]',
]
NOT_EVENTS += [
    b'[{"pid":1.5,"a":NaN}]',
    b'[{"pid":1.5,"a":"\\ud800"}]',
    b'[{"pid":1.5,"a":01}]',
    b"[{}]\0",
    b"[{}] {}",
]


@pytest.mark.parametrize("data", NOT_EVENTS)
def test_what_is_no_list_of_events(data: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode(data)


def test_nesting() -> None:
    with pytest.raises(RecursionError):
        decode(b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]")


OPEN = {
    b'{"a": 1': True,
    b'{"a": "\xc3': True,
    b'{"a": [1, {"b": tr': True,
    b'{"a": "x\\': True,
    b'{"a": 1, {': False,
    b'{"a": 1}': False,
    b'{"a": 1} ': False,
    b'{"a": "\x01': False,
    b"": True,
}


@pytest.mark.parametrize(("data", "expected"), OPEN.items())
def test_msgspec_tells_cut_from_damaged(data: bytes, expected: bool) -> None:
    """`is_open` goes by a message of msgspec: this fails if a new version words it differently."""
    assert is_open(data) is expected


def test_the_collector_has_no_work_with_events() -> None:
    assert not gc.is_tracked(one('"ph": "X"'))
