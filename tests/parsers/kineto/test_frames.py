"""Columns packed, sent and unpacked: every value, and every nanosecond, is the same."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers.kineto.columns import Packer, first_number, number
from mpg_parsers.kineto.events import FLOAT_LIMIT, NULL, decode
from mpg_parsers.kineto.frames import _from_floats, _from_text, to_frame
from tests.parsers.traces import dumps, event, kernel

VALUES = {
    "integer": (7, 7, 7),
    "text": ("7", 7, 7),
    "padded text": (" -7\n", -7, -7),
    "words": ("stream 7", NULL, 7),
    "unit": ("16 MB", NULL, 16),
    "fraction": ("1.5", NULL, 1),
    "no digits": ("Spans", NULL, NULL),
    "empty": ("", NULL, NULL),
    "null": (None, NULL, NULL),
    "largest": (2**63 - 1, 2**63 - 1, 2**63 - 1),
    "beyond": (2**63, NULL, NULL),
    "below": (-(2**70), NULL, NULL),
    "twenty digits": ("1" * 20, NULL, int("1" * 18)),
}


@pytest.mark.parametrize(("value", "exact", "first"), VALUES.values(), ids=VALUES)
def test_numbers(value: object, exact: int, first: int) -> None:
    assert number(value) == exact
    assert first_number(value) == first


LIMIT = int(FLOAT_LIMIT) * 1000 - 1  # ns
ROUNDS_TWICE = st.integers(2**42 * 1000, 2**52)  # where round(us * 1000) is often one off


def nearest(text: str) -> int:
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.integers(-LIMIT, LIMIT) | ROUNDS_TWICE, min_size=5))
def test_doubles_are_exact(times: list[int]) -> None:
    us = [float(Decimal(ns) / 1000) for ns in times]
    assert _from_floats(struct.pack(f"{len(us)}d", *us), len(us)).to_list() == times


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.decimals(-(10**15), 10**15, places=3), min_size=1))
def test_text_is_exact(times: list[Decimal]) -> None:
    assert _from_text("\n".join(map(str, times)).encode()).to_list() == [nearest(str(time)) for time in times]


@pytest.mark.parametrize(
    "text", ["1.2346", "1e3", "1E-3", "1717.0010e12", "-0", "0.00049", '"77.5"', '" 5 "']
)
def test_text_in_other_forms(text: str) -> None:
    assert _from_text(text.encode()).to_list() == [nearest(text.strip('" '))]


@pytest.mark.parametrize(
    "text", ["", "null", "true", "1e16", "1e400", "1e999999999", "9" * 40, '"soon"', "NaN", "[1]"]
)
def test_text_that_is_no_time(text: str) -> None:
    assert _from_text(text.encode()).to_list() == [None]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -1e300, 4.7e15, 9.3e18])
def test_doubles_that_are_no_time(value: float) -> None:
    assert _from_floats(struct.pack("d", value), 1).to_list() == [None]


def test_a_message_survives_msgpack() -> None:
    packer = Packer()
    packer.take(decode(dumps([kernel(1, 2, correlation=5), event("cpu_op", "op", 3, 4)]).encode()))
    message = packer.pack()
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    for name, table in message["tables"].items():
        assert to_frame(sent["tables"][name]).equals(to_frame(table))
    assert sorted(sent["counts"]) == [["X", "cpu_op", 1], ["X", "kernel", 1]]


def test_rows_of_different_kinds_keep_their_columns_apart() -> None:
    """Integer columns that a kind lacks are null there, wherever it stands."""
    packer = Packer()
    python = event("python_function", "f", 1, 2, **{"Python id": 5})
    call = event("cuda_runtime", "launch", 3, 4, correlation=6)
    for item in (call, python, call, python):
        packer.take(decode(dumps([item]).encode()))
    frame = to_frame(packer.pack()["tables"]["host"])
    assert frame.select("kind", "python_id", "correlation").rows() == [
        ("runtime", None, 6),
        ("python", 5, None),
        ("runtime", None, 6),
        ("python", 5, None),
    ]


def test_times_of_both_forms_in_one_table() -> None:
    packer = Packer()
    for ts in (1.5, 1712195495519791.5, 2):
        packer.take(decode(dumps([kernel(ts, 1)]).encode()))
    frame = to_frame(packer.pack()["tables"]["device"])
    assert frame["start_ns"].to_list() == [1500, 1712195495519791500, 2000]


def test_packing_starts_afresh() -> None:
    packer = Packer()
    packer.take(decode(dumps([kernel(1, 2)]).encode()))
    assert packer.rows == 1
    assert packer.pack()["counts"] == [["X", "kernel", 1]]
    assert packer.rows == 0
    assert packer.pack() == {"tables": {}, "counts": [], "foreign": [], "meta": []}


def test_metadata_is_bounded() -> None:
    names = [
        {"ph": "M", "name": "process_name", "pid": i, "args": {"name": "x" * 999}} for i in range(20_000)
    ]
    packer = Packer()
    packer.take(decode(dumps(names).encode()))
    meta = packer.pack()["meta"]
    assert len(meta) == 10_000
    assert len(meta[0][2]) == 200


def test_texts_in_arguments_are_on_one_line() -> None:
    packer = Packer(lambda text: text.replace("secret", "…"))
    spread = dumps(
        [event("cpu_op", "secret op", 1, 2, **{"Input Dims": [[1, 2]], "Concrete Inputs": ["secret/1"]})],
        indent=2,
    )
    packer.take(decode(spread.encode()))
    frame = to_frame(packer.pack()["tables"]["host"])
    assert frame.select("name", "input_dims", "concrete_inputs").row(0) == ("… op", "[[1, 2]]", '["…/1"]')
