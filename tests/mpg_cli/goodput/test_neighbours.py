"""Kernels without a launch, told by the names around them on their stream."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput.neighbours import DEPTHS, infer

SCHEMA = {
    "subject": pl.Int64, "stream": pl.Int64, "start_ns": pl.Int64, "name": pl.String, "linked": pl.Boolean,
    "value": pl.String,
}  # fmt: skip
Kernel = tuple[str, str]


def values(*streams: str) -> str:
    """The values that are found, one letter each, "." for none.

    A stream is a text of kernels, "name" followed by its value in capitals, "-" for a linked one without, "?" for one
    that is not linked.
    """
    rows = [
        (0, stream, at, text[2 * at], text[2 * at + 1] != "?", text[2 * at + 1].strip("?-") or None)
        for stream, text in enumerate(streams)
        for at in range(len(text) // 2)
    ]
    found = infer(pl.DataFrame(rows, SCHEMA, orient="row"), "value")
    return "".join(value or "." for value in found)


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        pytest.param("a?aX", "XX", id="by name"),
        pytest.param("a?bX", ".X", id="no such name"),
        pytest.param("aXaX", "XX", id="linked ones keep their own"),
        pytest.param("a?aXaX", "XXX", id="two agree"),
        pytest.param("a?aXaY", ".XY", id="two do not"),
        pytest.param("a?aXa-", ".X.", id="none is a value too"),
        pytest.param("a?a-", "..", id="none is taught"),
        # bac and cab tell the two a apart, one neighbour on either side
        pytest.param("bBa?cCbBaXcCaYbB", "BXCBXCYB", id="one neighbour"),
        pytest.param("bBaXcCcCaYbBcCa?bB", "BXCCYBCYB", id="the other way round"),
        pytest.param("a?cCbBaXcCaYbB", ".CBXCYB", id="the stream's edge tells nothing"),
        # only the second neighbours differ
        pytest.param("dDbBa?bBeEdDbBaXbBeEeEbBaYbBdD", "DBXBEDBXBEEBYBD", id="two neighbours"),
        pytest.param("bBa?bBaXbBaYbB", "B.BXBYB", id="never clear"),
        pytest.param("?", "", id="nothing"),
    ],
)
def test_one_stream(stream: str, found: str) -> None:
    assert values(stream) == found


def test_neighbours_are_those_of_the_stream() -> None:
    assert values("bBa?cC", "bBaXcC", "bBaYdD") == "BXC" + "BXC" + "BYD"


def test_devices_are_apart_but_teach_each_other() -> None:
    rows = [
        *((0, 7, at, name, True, name.upper()) for at, name in enumerate("bac")),
        *((1, 7, at, name, name != "a", name.upper()) for at, name in enumerate("bac")),
    ]
    found = infer(pl.DataFrame(rows, SCHEMA, orient="row"), "value")
    assert found.to_list() == [*"BAC", *"BAC"]


def test_rows_keep_their_order_and_start_decides_the_sequence() -> None:
    frame = pl.DataFrame(
        [(0, 7, 20, "c", True, "C"), (0, 7, 10, "a", False, None), (0, 7, 0, "b", True, "B"),
         (0, 8, 0, "b", True, "B"), (0, 8, 1, "a", True, "X"), (0, 8, 2, "c", True, "C"),
         (0, 9, 1, "a", True, "Y")], SCHEMA, orient="row",
    )  # fmt: skip
    assert infer(frame, "value").to_list() == ["C", "X", "B", "B", "X", "C", "Y"]


def test_any_type_can_be_asked_for() -> None:
    rows = [(0, 7, 0, "a", False, None), (0, 7, 1, "a", True, True)]
    frame = pl.DataFrame(rows, SCHEMA | {"value": pl.Boolean}, orient="row")
    assert infer(frame, "value").to_list() == [True, True]


def slow(stream: list[Kernel]) -> list[str | None]:
    """The rule of the module, kernel by kernel."""
    names = [name for name, _ in stream]

    def around(at: int, depth: int) -> list[str] | None:
        reaches = at >= depth and at + depth < len(names)
        return names[at - depth : at + depth + 1] if reaches else None

    found: list[str | None] = []
    for at, (_, value) in enumerate(stream):
        choice = None if value in "?-" else value
        for depth in DEPTHS if value == "?" else ():
            here = around(at, depth)
            taught = {v for i, (_, v) in enumerate(stream) if v != "?" and here and around(i, depth) == here}
            if len(taught) == 1:
                choice = taught.pop().strip("-") or None
                break
        found.append(choice)
    return found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("XY?-")), max_size=24))
def test_against_the_rule(stream: list[Kernel]) -> None:
    want = "".join(value or "." for value in slow(stream))
    assert values("".join(name + value for name, value in stream)) == want
