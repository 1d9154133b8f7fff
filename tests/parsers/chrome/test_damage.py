"""Damaged files: repaired where there is one reading and said so, cut ones said to be cut, all others refused."""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers.chrome.syntax import TRACE_SIGN
from mpg_parsers.errors import InputError
from tests.parsers.chrome.reading import is_json, outcome, read
from tests.parsers.chrome.samples import SAMPLES
from tests.parsers.traces import dumps, event

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = {name: read(sample)[0] for name, sample in SAMPLES.items()}
SIZES = [200, 1 << 19]
BYTES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\x00",
    b"\x01",
    b"\x0c",
    b"\xff",
    b"\n",
    b"7",
    b"e",
    b"-",
    b"a",
    b"",
]


def check(name: str, text: bytes, size: int) -> None:
    """What must hold of a sample with one byte changed."""
    found, said = outcome(text, size)
    if all(item[0] is None for item in found):
        return  # an error, or no trace, as PyTorchParser says
    if is_json(text):
        assert not said
        return
    assert said & {"repaired_input", "truncated_input"}, "silently read"
    found = [item for item in found if item[0] is not None]  # others are never counted as anything
    lost, new = Counter(WHOLE[name]) - Counter(found), Counter(found) - Counter(WHOLE[name])
    assert lost.total() <= 1, "events lost"
    assert new.total() <= lost.total(), "events that were not there"


def mutations(text: bytes) -> Iterator[bytes]:
    """Every byte replaced by, deleted, and preceded by each of BYTES."""
    for at, byte in product(range(len(text) + 1), BYTES):
        if at < len(text):
            yield text[:at] + byte + text[at + 1 :]
        yield text[:at] + byte + text[at:]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SAMPLES)
def test_one_byte_sampled(name: str, size: int) -> None:
    every = list(mutations(SAMPLES[name]))
    for text in random.Random(size).sample(every, 1000):
        check(name, text, size)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_one_byte_densely(name: str) -> None:
    for text in list(mutations(SAMPLES[name]))[::4]:
        check(name, text, 200)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data(), st.binary(max_size=3), st.integers(0, 3))
def test_any_bytes_anywhere(name: str, data: st.DataObject, inserted: bytes, deleted: int) -> None:
    """Several bytes may hit two events, so that only silence and crashes are ruled out."""
    text = SAMPLES[name]
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + inserted + text[at + deleted :]
    assert is_json(damaged) or outcome(damaged, 200)[1]


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"[", b'{"traceEvents":[', b"\xff\xfe", b"\x1f\x8b"]))
def test_any_bytes_at_all(data: bytes, start: bytes) -> None:
    said = outcome(start + data, 50)[1]
    assert is_json(start + data) or said


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SAMPLES)
def test_cut_at_any_byte(name: str, size: int) -> None:
    text = SAMPLES[name]
    for at in range(len(text) + 1):
        found, said = outcome(text[:at], size)
        assert found == WHOLE[name][: len(found)]
        if not text[:at].strip():
            assert said == {"empty_input"}
        else:
            kind = "truncated_input" if TRACE_SIGN.search(text[:at]) else "not_a_trace"
            assert said == (set() if is_json(text[:at]) else {kind})


@pytest.mark.parametrize("name", SAMPLES)
def test_cut_and_padded_with_nul(name: str) -> None:
    """As a crash leaves a file whose blocks had been allocated."""
    text = SAMPLES[name]
    for at in range(300, len(text) - 2, 7):
        found, said = outcome(text[:at] + bytes(50), 200)
        assert found == WHOLE[name][: len(found)]
        assert said in ({"truncated_input"}, {"truncated_input", "repaired_input"})


def test_cut_inside_a_damaged_name() -> None:
    events = [event("python_function", 'say "hi"', i, 1) for i in range(20)]
    text = dumps(events).replace("\\", "").encode()
    for at in range(1200, 1400):
        found, said = outcome(text[:at], 300)
        if said == {"corrupt_input"}:  # it may be whole, and its last event beyond repair
            assert text[:at].endswith((b"}", b"]"))
            continue
        assert all(item[2] == 'say "hi"' for item in found)
        assert len(found) >= text[:at].count(b'"ph"') - 1
        assert said == {"truncated_input", "repaired_input"}


X = '{"ph":"X","name":"a"}'
TOLERATED: dict[str, tuple[str, int, set[str]]] = {
    "null between events": (f'{{"traceEvents":[{X},null,{X}]}}', 3, set()),
    "comma at the end": (f'{{"traceEvents":[{X},{X},]}}', 2, {"repaired_input"}),
    "two commas": (f"[{X},,{X}]", 2, {"repaired_input"}),
    "comma at the beginning": (f"[,{X}]", 1, {"repaired_input"}),
    "no comma": (f"[{X}\n{X}]", 2, {"repaired_input"}),
    "NULs at the end": (f"[{X}]\0\0\0", 1, {"repaired_input"}),
    "a bracket too many": (f'{{"traceEvents":[{X}]}}}}', 1, {"repaired_input"}),
    "a line of a log": (f'{{"traceEvents":[{X}]}}\nKilled\n', 1, {"repaired_input"}),
    "array without its end": (f"[{X},\n{X},\n", 2, {"truncated_input"}),
    "half a surrogate pair": (f'[{X},{{"ph":"X","name":"\\ud800"}}]', 2, {"repaired_input"}),
    "nested brackets": (f'[{X},{{"ph":"X","a":{"[" * 500}{"]" * 500}}}]', 2, set()),
    "metadata with NaN": (f'{{"a":NaN,"traceEvents":[{X}]}}', 1, {"repaired_input"}),
    "metadata lost": (f'{{"traceEvents":[{X}],"a":"b', 1, {"truncated_input"}),
    "a damaged event beside an odd one": (
        f'[{X},{{"ph":"X","pid":1.5}},{{"ph":"X","name":"a\x01"}},{X}]', 4, {"repaired_input"},
    ),
    "every name damaged": ("[" + ",".join(['{"ph":"X","name":"a"b"}'] * 3000) + "]", 3000, {"repaired_input"}),
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("text", "count", "noticed"), TOLERATED.values(), ids=TOLERATED)
def test_tolerated(text: str, count: int, noticed: set[str], size: int) -> None:
    found, said = outcome(text.encode(), size)
    assert len(found) == count
    assert said == noticed


DEEP = "[" * 100_000 + "]" * 100_000
REFUSED = {
    "two lists of events": f'{{"traceEvents":[{X}],"traceEvents":[{X}]}}',
    "an empty list, then events": f'{{"traceEvents":[],"traceEvents":[{X}]}}',
    "events in a nested object": f'{{"a":{{"traceEvents":[{X}]}}}}',
    "events in a nested object and outside": f'{{"a":{{"traceEvents":[{X}]}},"traceEvents":[{X}]}}',
    "events in a nested object, none outside": f'{{"a":{{"traceEvents":[{X}]}},"traceEvents":[]}}',
    "events in a nested object, and a name with an escape outside":
        f'{{"a":{{"traceEvents":[{X}]}},"trace\\u0045vents":[{X}]}}',
    "two documents": f'{{"traceEvents":[{X}]}}{{"traceEvents":[{X}]}}',
    "two arrays": f"[{X}][{X}]",
    "something before the document": f'{{"a":1}}\n{{"traceEvents":[{X}]}}',
    "array closed too early": f"[{X}],{X}]",
    "a number between events": f"[{X},5,{X}]",
    "a text between events": f'[{X},"a",{X}]',
    "an array of arrays": f"[[{X}],[{X}]]",
    "a word between events": f"[{X},oops,{X}]",
    "vertical tab between events": f"[{X},\x0b{X}]",
    "NULs between events": f"[{X},\0\0{X}]",
    "brace lost": f'[{X},{{"ph":"X","args":{{"a":1}},{X},{X}]',
    "quote lost": f'[{X},{{"ph":"X","name":"a}},{X},{X}]',
    "quote lost in the last event": f'[{X},{{"ph":"X","name":"a,"cat":"b"}}]',
    "bracket of the events lost": f'{{"traceEvents":[{X},"a":1}}',
    "number that is none": f'[{X},{{"ph":"X","ts":0x10}}]',
    "leading zero": f'[{X},{{"ph":"X","ts":01}}]',
    "absurd nesting": f'[{X},{{"ph":"X","a":{DEEP}}}]',
    "absurd nesting in the metadata": f'{{"a":{DEEP},"traceEvents":[{X}]}}',
    "metadata damaged": f'{{"a" 1,"traceEvents":[{X}]}}',
    "a number of thousands of digits in damaged metadata": f'{{"a":NaN,"b":{"9" * 5000},"traceEvents":[{X}]}}',
    "a number of thousands of digits in the metadata": f'{{"b":{"9" * 5000},"traceEvents":[{X}]}}',
    "metadata open and the file cut": f'{{"a":{{"b":1,"traceEvents":[{X},',
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str, size: int) -> None:
    with pytest.raises(InputError) as caught:
        read(text.encode(), size)
    assert caught.value.kind == "corrupt_input"
    assert len(caught.value.message) < 200


def test_errors_name_the_place() -> None:
    text = dumps([event("cpu_op", "a", i, 1) for i in range(100)]).encode()
    at = text.index(b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 10, "tid": 11, "ts": 57,')
    damaged = text[:at] + b'{"ph": oops' + text[at + 10 :]
    for size in (100, 1000, 1 << 19):
        with pytest.raises(InputError, match=f"offset {at}: "):
            read(damaged, size)


@pytest.mark.parametrize("size", [50, 100, 1 << 19])
def test_errors_name_the_place_of_an_event_in_several_blocks(size: int) -> None:
    events = [event("cpu_op", f"op{i}", i, 1, nested=[{"id": 1}, {"id": 2}, {"id": 3}]) for i in range(5)]
    text = dumps(events, indent=3).encode()
    at = text.rindex(b"{", 0, text.index(b"op2"))
    last = text.rindex(b'"id": 3', 0, text.index(b"op3"))
    damaged = text[:last] + b'"id": 03' + text[last + 7 :]
    with pytest.raises(InputError, match=f"offset {at}: "):
        read(damaged, size)


def test_undecodable_utf16_is_noticed() -> None:
    text = f"[{X}]".encode("utf-16-le").replace(
        'a"}'.encode("utf-16-le"), b"\x00\xd8" + '"}'.encode("utf-16-le")
    )
    found, said = outcome(text)
    assert found[0][2] == "\ufffd"
    assert said == {"repaired_input"}


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents":[' + '{"ph":"X",' * 200_000,
        "[" + "[" * 3_000_000,
        '[{"ph":"X","name":"' + '},{\\"name ' * 500_000,
        "[" + '{"ph":"X","name":"a,"b":1},' * 20_000,
    ],
)
def test_hostile_files_take_bounded_time(text: str) -> None:
    start = time.process_time()
    outcome(text.encode())
    assert time.process_time() - start < 5
