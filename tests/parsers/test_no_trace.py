"""Files that are no trace, and damaged ones that are: told apart by what precedes the damage."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING

import pytest

from mpg_parsers.errors import InputError
from mpg_parsers.pytorch import PYTORCH
from tests.parsers.traces import tables

if TYPE_CHECKING:
    from pathlib import Path

NO_TRACE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "empty_input"),
    "white space": (b" \n", "empty_input"),
    "NULs": (b"\0" * 100, "empty_input"),
    "no events": (b'{"traceEvents": []}', "empty_input"),
    "null for events": (b'{"traceEvents": null}', "empty_input"),
    "empty array": (b"[]", "empty_input"),
    "only metadata": (
        b'[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]',
        "empty_input",
    ),
    "only flows": (b'[{"ph": "s", "name": "x", "ts": 1, "id": 1}]', "empty_input"),
    "another object": (b'{"items": []}', "not_a_trace"),
    "another array": (b'[{"a": 1}, {"a": 2}]', "not_a_trace"),
    "an object for events": (b'{"traceEvents": {"ph": "X"}}', "not_a_trace"),
    "an array around a trace": (b'[{"traceEvents": [{"ph": "X", "ts": 1}]}]', "not_a_trace"),
    "execution trace": (b'{"schema": "1.1.0", "nodes": [{"id": 1}]}', "not_a_trace"),
    "words": (b"hello", "not_a_trace"),
    "cut before the events": (b'{"schemaVersion": 1, "dev', "truncated_input"),
    "another object, cut": (b'{"step": 1, "loss"', "not_a_trace"),
    "another array, cut": (b'[{"step": 1, "loss"', "not_a_trace"),
    "another array, damaged": (b'[{"step": 1}, {"step": oops}]', "not_a_trace"),
    "another array, damaged after it": (b'[{"step": 1}] {"step": 2}', "not_a_trace"),
    "numbers": (b"[1, 2, 3]", "not_a_trace"),
    "a log": (b"[rank0]:[W123] warning", "not_a_trace"),
    "settings": (b"[main]\na=1", "not_a_trace"),
    "a trace, damaged": (b'{"traceEvents": [{"name": oops}]}', "corrupt_input"),
    "an array of events, damaged": (b'[{"ph": "X", "ts": oops}]', "corrupt_input"),
}


@pytest.mark.parametrize(("data", "kind"), NO_TRACE.values(), ids=NO_TRACE)
def test_no_trace(tmp_path: Path, data: bytes, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        tables(tmp_path, data)
    assert caught.value.kind == kind
    assert caught.value.hint


@pytest.mark.parametrize("padding", [0, 400_000])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"step": 1, "a": "%s"}', "not_a_trace"),
        ('{"traceEvents": [{"ph": "X", "a": "%s"}]}', "corrupt_input"),
    ],
)
def test_damaged_gzip(tmp_path: Path, text: str, kind: str, padding: int) -> None:
    noise = random.Random(1).randbytes(padding).hex()
    packed = gzip.compress((text % noise).encode())
    with pytest.raises(InputError, match="damaged gzip member") as caught:
        tables(tmp_path, packed[:-8] + bytes(8))
    assert caught.value.kind == kind
    assert caught.value.hint


@pytest.mark.parametrize("head", [b" \n{", b"[", b"\xef\xbb\xbf{", "\ufeff{}".encode("utf-16-le"), b"[\0",
                                  b"[\n {", b"[]", b"[ null, {", b"[,{"])  # fmt: skip
def test_sniff_takes_json(head: bytes) -> None:
    assert PYTORCH.sniff(head, "x") == ""


@pytest.mark.parametrize("head", [b"", b"hello", b"SQLite format 3\0", b"\x0a\x0b", b"\0\0\0\0",
                                  b"[rank0]:[W123] warning", b"[main]\na=1", b"[1,2,3]", b'["a"]',
                                  b"[nullable]"])  # fmt: skip
def test_sniff_gives_a_reason(head: bytes) -> None:
    assert PYTORCH.sniff(head, "x.json")
