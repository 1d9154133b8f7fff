"""The same events and the same metadata from every layout, wherever the blocks are cut."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers.chrome.blocks import BOUNDARY, BlockReader
from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError
from tests.parsers.chrome.reading import read
from tests.parsers.chrome.samples import EVENTS, SAMPLES, TRACE
from tests.parsers.traces import LAYOUTS, PROPERTIES, document, dumps, event, kernel

SIZES = [1, 50, 200, 1000, 1 << 19]
EXPECTED = read(dumps(EVENTS).encode())[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, size: int) -> None:
    found, reader = read(LAYOUTS[layout](TRACE), size)
    assert found == EXPECTED
    assert reader.notices == []
    assert reader.document["distributedInfo"] == {"backend": "nccl", "rank": 0}
    assert reader.document["traceEvents"] == []


@pytest.mark.parametrize("size", SIZES)
def test_arrays(size: int) -> None:
    found, reader = read(SAMPLES["array"], size)
    assert (found, reader.notices, reader.document) == (EXPECTED, [], {})


@pytest.mark.parametrize("size", SIZES)
def test_metadata_larger_than_blocks_after_the_events(size: int) -> None:
    trace = {"traceEvents": EVENTS, "deviceProperties": PROPERTIES * 20, "distributedInfo": {"rank": 3}}
    found, reader = read(dumps(trace).encode(), size)
    assert found == EXPECTED
    assert reader.document == {**trace, "traceEvents": []}


@pytest.mark.parametrize("size", SIZES)
def test_an_event_larger_than_blocks(size: int) -> None:
    """Its nested objects look like the boundaries between events."""
    nested = [{"ph": "X", "name": f"{i}"} for i in range(100)]
    events = [kernel(1, 2, "a", deep={"list": nested}), kernel(3, 4, "b")]
    found, reader = read(dumps(document(events), indent=1).encode(), size)
    assert [item[2] for item in found] == ["a", "b"]
    assert reader.notices == []


@pytest.mark.parametrize("size", [100, 1 << 19])
@pytest.mark.parametrize(
    "name", ["x" * 10_000_000, '"' * 5_000_000, "}, {" * 1_000_000], ids=["x", "quote", "cut"]
)
def test_long_names(name: str, size: int) -> None:
    found, reader = read(dumps(document([kernel(1, 2, name), kernel(3, 4)])).encode(), size)
    assert [item[2] for item in found] == [name, "k"]
    assert reader.notices == []


def test_white_space_without_end() -> None:
    gap = " " * 3_000_000
    text = f'{gap}{{"traceEvents":{gap}[{gap}{{"ph":"X"}}{gap},{gap}{{"ph":"X"}}{gap}]{gap}}}{gap}'
    assert len(read(text.encode())[0]) == 2


def test_nothing_like_a_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpg_parsers.chrome.blocks.MAX_BLOCK", 1 << 20)
    with pytest.raises(InputError, match="no end within"):
        read(dumps(document([kernel(1, 2, "x" * (2 << 20))])).encode() + b" " * (1 << 20))


def test_an_event_that_goes_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpg_parsers.chrome.reader.MAX_PENDING", 10_000)
    nested = [{"ph": "X"}] * 3000
    with pytest.raises(InputError, match="no end within"):
        read(dumps(document([kernel(1, 2, nested=nested)])).encode(), 100)


def test_a_tail_that_goes_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpg_parsers.chrome.reader.MAX_TAIL", 10_000)
    with pytest.raises(InputError, match="follow the events"):
        read(dumps({**document([kernel(1, 2)]), "more": PROPERTIES * 20}).encode(), 100)


# -- cuts ------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text('a"}{][,:\\ ', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "id", '"}']), inner, max_size=3)
    ),
    max_leaves=12,
)
EVENT = st.builds(lambda args: event("cpu_op", "op", 1, 2, x=args), JSON)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(EVENT, max_size=6), st.integers(1, 300), st.sampled_from([None, 1]))
def test_blocks_are_the_document(events: list[Any], size: int, indent: int | None) -> None:
    text = dumps(document(events, after=[{"a": 1}, {"a": 2}]), indent=indent).encode()
    reader = BlockReader(Utf8Stream(io.BytesIO(text)), size)
    found = list(reader)
    assert reader.head + b"".join(block.separator + block.data for block in found) == text
    assert [block.index for block in found] == list(range(len(found)))
    assert [block.last for block in found] == [False] * (len(found) - 1) + [True]
    assert all(text[block.offset :].startswith(block.data) for block in found)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(EVENT, max_size=6), st.integers(1, 300), st.sampled_from([None, 1]))
def test_every_cut_is_survived(events: list[Any], size: int, indent: int | None) -> None:
    text = dumps(document(events), indent=indent).encode()
    found, reader = read(text, size)
    assert len(found) == len(events)
    assert reader.notices == []


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ('{"a":1},{"ph":1}', 1),
        ('{"a":1}\r\n\t ,\n { "ph":1}', 1),
        ('{"a":"}, {\\"ph\\": 1"}', 0),
        ('{"a":1},\x0b{"ph":1}', 0),
        ('{"a":1},{"1":1}', 0),
        ('{"a":1},{}', 0),
    ],
)
def test_boundary(text: str, cuts: int) -> None:
    assert len(BOUNDARY.findall(text.encode())) == cuts
