"""Events of a line as columns, against decoding them one by one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.xla import xplane_events, xplane_integers
from mpg_parsers.xla.messages import xspace
from mpg_parsers.xla.xplane_columns import AmbiguousError, Transposed
from mpg_parsers.xla.xplane_events import by_rows, decode, survey
from mpg_parsers.xla.xplane_stats import MARK
from tests.parsers import xplane_oracle as oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMES = {1: "run_id", 2: "device_offset_ps", 3: "hlo_op", 4: "run_id", 5: "other", 300: "name", 0: "flow"}
WANTED = ("run_id", "hlo_op", "name", "device_offset_ps", "flow", "step_num")


@pytest.fixture(autouse=True)
def always_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane_events, "FEW", 0)


def line_of(*events: dict[str, Any] | bytes, padded: bool = False) -> bytes:
    """A line of events, each given by its fields or encoded; padded: with lengths longer than they must be."""
    encoded = [e if isinstance(e, bytes) else oracle.XEvent(**e).SerializeToString() for e in events]
    head = oracle.XLine(id=1, name=b"line").SerializeToString()
    return (
        head
        + b"".join((padded_field if padded else field)(event) for event in encoded)
        + oracle.XLine(display_name=b"x").SerializeToString()
    )


def field(content: bytes) -> bytes:
    return bytes(xspace()["XLine"](events=[content]).SerializeToString())


def padded_field(content: bytes) -> bytes:
    size = len(content)
    return bytes([0x22, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content


def rows(content: bytes, wanted: Sequence[str] = WANTED) -> list[tuple[Any, ...]]:
    view = memoryview(content)
    known = survey(view)
    assert known.damage == ""
    frame = decode(known.parts, NAMES, wanted)
    assert frame.rows() == oracle.events(oracle.XLine.FromString(content), NAMES, wanted)
    return frame.rows()


def stat(number: int, **value: Any) -> dict[str, Any]:
    return {"metadata_id": number, **value}


@pytest.mark.parametrize(
    ("event", "row"),
    [
        ({}, (0, 0, 0)),
        ({"metadata_id": 5}, (5, 0, 0)),
        ({"metadata_id": 5, "offset_ps": 0, "duration_ps": 0}, (5, 0, 0)),
        ({"metadata_id": MARK, "offset_ps": MARK, "duration_ps": MARK}, (MARK, MARK, MARK)),
        ({"metadata_id": -1, "offset_ps": -2, "duration_ps": -3}, (-1, -2, 0)),
        ({"offset_ps": 2**63 - 1, "duration_ps": 2**63 - 1}, (0, 2**63 - 1, 2**63 - 1)),
        (b"\x10" + b"\xff" * 9 + b"\x01", (0, -1, 0)),  # 2**64 - 1 wraps around
        (b"\x08\x05\x08\x07\x18\x01\x18\x02", (7, 0, 2)),  # repeated: the last counts
        (b"\x08\x00\x18\x00", (0, 0, 0)),
        (b"\x18\x02\x10\x03\x08\x04", (4, 3, 2)),  # in another order
        (b"\x10\x85\x00", (0, 5, 0)),  # of more bytes than it needs
        (b"\x10\x05\x28\x02", None),  # a number of occurrences after an offset replaces it
        (b"\x28\x02\x10\x05", (0, 5, 0)),
        ({"metadata_id": 1, "num_occurrences": 3}, None),
    ],
)
def test_times(event: dict[str, Any] | bytes, row: tuple[int, ...] | None) -> None:
    around = {"metadata_id": 9, "offset_ps": 1, "duration_ps": 1}
    found = rows(line_of(around, event, around), ())
    assert found == [(9, 1, 1), *([row] if row else []), (9, 1, 1)]


@pytest.mark.parametrize(
    ("stats", "row"),
    [
        ([stat(1, uint64_value=7)], {"run_id": 7}),
        ([stat(1, uint64_value=2**64 - 1)], {"run_id": -1}),
        ([stat(1, int64_value=-7)], {"run_id": -7}),
        ([stat(1, int64_value=0), stat(2, uint64_value=MARK)], {"run_id": 0, "device_offset_ps": MARK}),
        ([stat(1, uint64_value=1), stat(1, int64_value=2)], {"run_id": 2}),  # the last counts
        ([stat(1, uint64_value=1), stat(4, uint64_value=2)], {"run_id": 2}),  # also of two with one name
        ([stat(1, uint64_value=1), stat(1, str_value=b"x")], {"run_id": None}),
        ([stat(1, str_value=b"7")], {}),  # no integer
        ([stat(1, double_value=7.0)], {}),
        ([stat(1)], {}),
        ([stat(0, uint64_value=3)], {"flow": 3}),
        ([stat(3, str_value=b"add")], {"hlo_op": "add"}),
        ([stat(3, str_value=b"")], {"hlo_op": ""}),
        ([stat(3, str_value=b"\0")], {"hlo_op": "\0"}),
        ([stat(3, str_value=b"\xff\xfe")], {"hlo_op": "��"}),
        ([stat(3, ref_value=5)], {"hlo_op": "other"}),
        ([stat(3, ref_value=999)], {"hlo_op": ""}),
        ([stat(3, ref_value=2**64 - 1)], {"hlo_op": ""}),
        ([stat(3, uint64_value=2**64 - 1)], {"hlo_op": "18446744073709551615"}),
        ([stat(300, int64_value=-1)], {"name": "-1"}),
        ([stat(3, bytes_value=b"add")], {}),
        ([stat(5, uint64_value=7), stat(77, uint64_value=8)], {}),  # not asked for; of no name
        ([stat(300, str_value=b"n"), stat(3, ref_value=3)], {"hlo_op": "hlo_op", "name": "n"}),
    ],
)  # fmt: skip
def test_stats(stats: list[dict[str, Any]], row: dict[str, Any]) -> None:
    want = (1, 2, 3, *(row.get(name) for name in WANTED))
    bare = {"metadata_id": 1, "offset_ps": 2, "duration_ps": 3}
    found = rows(line_of(bare, {**bare, "stats": stats}, {**bare, "stats": stats}, bare))
    assert found == [(1, 2, 3, *[None] * 6), want, want, (1, 2, 3, *[None] * 6)]


def test_an_empty_stat() -> None:
    assert rows(line_of(b"\x08\x01\x22\x00")) == [(1, 0, 0, *[None] * 6)]


def test_no_events() -> None:
    assert rows(line_of()) == []
    assert rows(b"") == []


@pytest.mark.parametrize(
    "value", [{"uint64_value": 5}, {"ref_value": 5}, {"str_value": b"x"}, {"double_value": 0.5}]
)
def test_ordinary_events_are_not_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch, value: dict[str, Any]
) -> None:
    monkeypatch.setattr(xplane_events, "by_rows", None)
    assert (
        len(rows(line_of(*[{"metadata_id": 1, "offset_ps": 2, "stats": [stat(3, **value)]}, {}] * 200)))
        == 400
    )


def test_few_events_are_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane_events, "FEW", 3)
    monkeypatch.setattr(xplane_events, "xplane_integers", None)
    assert rows(line_of({"metadata_id": 1}, {"stats": [stat(1, uint64_value=4)]}), ("run_id",)) == [
        (1, 0, 0, None), (0, 0, 0, 4),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- parts


def many(count: int) -> bytes:
    return line_of(
        *(
            {"metadata_id": 1 + n % 3, "offset_ps": n, "stats": [stat(1, uint64_value=n)]}
            for n in range(count)
        )
    )


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 100_000])
def test_parts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Wherever a line is divided, its parts hold the same events, and its head is whole."""
    monkeypatch.setattr(xplane_events, "PART", size)
    content = many(500)
    known = survey(memoryview(content))
    assert (
        known.count,
        sum(len(part.content) for part in known.parts),
        known.head.id,
        known.head.display_name,
    ) == (
        500,
        len(content),
        1,
        b"x",
    )
    assert (len(known.parts) > 1) == (size < len(content))
    assert len(rows(content)) == 500


def test_texts_that_look_like_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like the start of an event within a text is not taken for one."""
    monkeypatch.setattr(xplane_events, "PART", 16)
    texts = (b'"' * 3000, b"\x22\x00" * 900, many(20))
    content = line_of(*({"metadata_id": 1, "stats": [stat(3, str_value=t)]} for t in texts))
    assert [row[4] for row in rows(content)] == [oracle.text(text) for text in texts]


@pytest.mark.parametrize("size", [64, 1 << 19])
def test_damage_in_a_line(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Events before the damage are counted, as far as parts of the line end before it."""
    monkeypatch.setattr(xplane_events, "PART", size)
    content = many(100)
    known = survey(memoryview(content[:-8]))
    assert known.damage
    assert known.count < 100


# -------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("messages", "column"),
    [
        ([], []),
        ([b""], [None]),
        ([b"\x08\x05", b"", b"\x08\x06\x08\x07"], [5, None, 7]),
        ([b"\x10\x01"], [None]),
    ],
)
def test_transposed(messages: list[bytes], column: list[int | None]) -> None:
    found = Transposed("Tests", {"n": (1, 99), "m": (2, 0)}).decode(messages, ["n"])
    assert found.column("n").to_list() == column
    assert (found.has("n"), found.has("m")) == (any(column), b"\x10\x01" in messages)


def test_a_value_like_the_mark() -> None:
    found = Transposed("Tests", {"n": (1, 99)}).decode([b"\x08\x63"], ["n"])
    with pytest.raises(AmbiguousError):
        found.column("n")


INTEGER = st.sampled_from([0, 1, 5, MARK, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
UNSIGNED = st.sampled_from([0, 1, 3, MARK, 2**64 - 1]) | st.integers(0, 2**64 - 1)
VALUES = st.one_of(
    st.none(),
    st.tuples(st.just("uint64_value"), UNSIGNED),
    st.tuples(st.just("int64_value"), INTEGER),
    st.tuples(st.just("ref_value"), st.sampled_from(list(NAMES)) | UNSIGNED),
    st.tuples(st.just("str_value"), st.binary(max_size=4) | st.just("é".encode())),
    st.tuples(st.just("bytes_value"), st.binary(max_size=4)),
    st.tuples(st.just("double_value"), st.floats(allow_nan=False)),
)


@st.composite
def an_event(draw: Any) -> dict[str, Any]:
    event = {name: draw(INTEGER) for name in ("metadata_id", "duration_ps") if draw(st.booleans())}
    data = draw(st.sampled_from(["offset_ps", "offset_ps", "offset_ps", "num_occurrences", ""]))
    if data:
        event[data] = draw(INTEGER)
    values = draw(st.lists(st.tuples(st.sampled_from([*NAMES, 77]), VALUES), max_size=3))
    event["stats"] = [stat(number, **dict([value] if value else [])) for number, value in values]
    return event


@given(
    st.lists(an_event(), max_size=12),
    st.sampled_from([4, 40, 4000]),
    st.sets(st.sampled_from(WANTED)),
    st.booleans(),
)
def test_any_events(events: list[dict[str, Any]], size: int, wanted: set[str], padded: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xplane_events, "PART", size)
        patch.setattr(xplane_events, "FEW", 0)
        content = line_of(*events, padded=padded)
        assert len(rows(content, sorted(wanted))) == sum("num_occurrences" not in event for event in events)
        encoded = [oracle.XEvent(**event).SerializeToString() for event in events]
        whole = oracle.XLine.FromString(content)
        assert by_rows(encoded, NAMES, WANTED).rows() == oracle.events(whole, NAMES, WANTED)


# ------------------------------------------------------------------------------------------------- integers

NUMBERS = st.integers(0, 300) | st.integers(0, 2**63 - 1)
PLAIN_STAT = st.builds(
    lambda number, kind, value: stat(number, **{kind: value}),
    st.sampled_from([*NAMES, 77]), st.sampled_from(["uint64_value", "int64_value", "ref_value"]), NUMBERS,
)  # fmt: skip
PLAIN = st.fixed_dictionaries(
    {"metadata_id": NUMBERS, "offset_ps": NUMBERS, "stats": st.lists(PLAIN_STAT, max_size=3)},
    optional={"duration_ps": NUMBERS},
)


def in_bulk(content: bytes) -> list[tuple[Any, ...]]:
    timed, stats = xplane_integers.events(content)
    found = timed.with_columns(stats.columns(WANTED, NAMES, timed.height))
    missing = [pl.lit(None).alias(name) for name in WANTED if name not in found.columns]
    return found.with_columns(missing).select("metadata", "offset_ps", "dur_ps", *WANTED).rows()


@given(st.lists(PLAIN, min_size=1, max_size=12))
def test_events_of_integers_are_decoded_in_bulk(events: list[dict[str, Any]]) -> None:
    content = b"".join(field(oracle.XEvent(**event).SerializeToString()) for event in events)
    assert in_bulk(content) == oracle.events(oracle.XLine.FromString(content), NAMES, WANTED)


@given(st.lists(PLAIN, min_size=1, max_size=4), st.data())
def test_what_is_decoded_in_bulk_is_no_guess(events: list[dict[str, Any]], data: st.DataObject) -> None:
    content = bytearray(b"".join(field(oracle.XEvent(**event).SerializeToString()) for event in events))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255) | st.sampled_from([0x22, 8, 16, 24])
        )
    with contextlib.suppress(AmbiguousError):
        assert in_bulk(bytes(content)) == oracle.events(
            oracle.XLine.FromString(bytes(content)), NAMES, WANTED
        )


def damaged(content: bytes) -> Iterator[bytes]:
    for at in range(len(content)):
        yield content[:at]
        yield content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :]


@pytest.mark.parametrize("padded", [False, True])
def test_damaged_events_are_seen(padded: bool) -> None:
    """An event that cannot be decoded is an error, although its bytes run on into those of the next one."""
    good = oracle.XEvent(metadata_id=1, offset_ps=300, stats=[stat(1, uint64_value=300)]).SerializeToString()
    for bad in damaged(good):
        content = line_of(good, bad, good, padded=padded)
        try:
            want = oracle.events(oracle.XLine.FromString(content), NAMES, WANTED)
        except oracle.DecodeError:
            view = memoryview(content)
            with pytest.raises(oracle.DecodeError):
                decode(survey(view).parts, NAMES, WANTED)
        else:
            assert len(rows(content)) == len(want)
