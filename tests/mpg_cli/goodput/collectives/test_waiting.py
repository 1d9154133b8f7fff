"""Which part of communication waits: tables by hand, and counting nanoseconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import collectives
from tests.mpg_cli.datasets import Row, comm, copy, op
from tests.mpg_cli.goodput.collectives.ranks import SEND_RECV, load

COMMUNICATION, WAIT, TRANSIENT = "communication", "communication_wait", "transient"


def reduce(start: int, dur: int, seq: int | None, **more: Any) -> Row:
    return comm(start, dur, collective="allreduce", group="0", seq=seq, **more)


def claimed(*ranks: list[Row], names: list[int | None] | None = None) -> list[tuple[int, str, int, int]]:
    loaded = load(*ranks, names=names)
    found = collectives.claims(loaded, collectives.match(loaded)[0])
    assert found.columns == ["subject", "start_ns", "end_ns", "cause"]
    return sorted(found.select("subject", "cause", "start_ns", "end_ns").rows())


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        pytest.param(
            [[reduce(10, 30, 1)], [reduce(32, 8, 1)]],
            [(0, COMMUNICATION, 32, 40), (0, WAIT, 10, 32), (1, COMMUNICATION, 32, 40)],
            id="the last ns are the transfer",
        ),
        pytest.param(
            [[reduce(10, 30, 1)], [reduce(132, 8, 1)]],
            [(0, COMMUNICATION, 32, 40), (0, WAIT, 10, 32), (1, COMMUNICATION, 132, 140)],
            id="on each rank's own clock",
        ),
        pytest.param([[reduce(10, 30, 1)]], [(0, COMMUNICATION, 10, 40)], id="one rank"),
        pytest.param(
            [[reduce(10, 30, 1), reduce(50, 5, 2)], [reduce(32, 8, 1)]],
            [(0, COMMUNICATION, 32, 40), (0, COMMUNICATION, 50, 55), (0, WAIT, 10, 32), (1, COMMUNICATION, 32, 40)],
            id="one is matched and one is not",
        ),
        pytest.param(
            [[comm(0, 30, SEND_RECV)], [comm(5, 9, SEND_RECV)]],
            [(0, COMMUNICATION, 0, 30), (1, COMMUNICATION, 5, 14)],
            id="sends and receives",
        ),
        pytest.param(
            [[reduce(10, 10, 1), reduce(25, 15, 1)], [reduce(32, 8, 1)]],
            [(0, COMMUNICATION, 32, 40), (0, WAIT, 10, 20), (0, WAIT, 25, 32), (1, COMMUNICATION, 32, 40)],
            id="several kernels of one collective",
        ),
        pytest.param(
            [[reduce(10, 30, 1), reduce(20, 15, 2, stream=8)], [reduce(32, 8, 1), reduce(30, 5, 2, stream=8)]],
            [
                (0, COMMUNICATION, 30, 40), (0, WAIT, 10, 32), (1, COMMUNICATION, 30, 40),
            ],
            id="two at a time claim once per cause",
        ),
        pytest.param([[op(0, 9), copy(3, 4)], [op(0, 9)]], [], id="no communication"),
        pytest.param([[reduce(10, 0, 1)], [reduce(10, 0, 1)]], [], id="no length"),
    ],
)  # fmt: skip
def test_claims(ranks: list[list[Row]], expected: list[Any]) -> None:
    assert claimed(*ranks) == expected


def test_waits_of_ranks_that_entered_apart_are_transient() -> None:
    ms = 1_000_000
    waits = [reduce(0, 60 * ms, 0), reduce(100 * ms, 10 * ms, 1), reduce(200 * ms, 10 * ms, 2)]
    last = [reduce(50 * ms, 10 * ms, 0), reduce(100 * ms, 10 * ms, 1), reduce(199 * ms, 11 * ms, 2)]
    assert [row for row in claimed(waits, last) if row[1] != COMMUNICATION] == [
        (0, TRANSIENT, 0, 50 * ms),
        (1, WAIT, 199 * ms, 200 * ms),
    ]


records = st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 2))
rank = st.lists(records, max_size=3, unique_by=lambda record: record[2])


@settings(max_examples=30, deadline=None)
@given(st.tuples(rank, rank))
def test_as_counted(ranks: tuple[list[tuple[int, int, int]], ...]) -> None:
    """Two ranks, collectives 0 to 2: one is matched where both have it, and length."""
    lengths = [{seq: dur for _, dur, seq in rows if dur} for rows in ranks]
    expected = Counter[tuple[int, str]]()
    for subject, rows in enumerate(ranks):
        moments = set()
        for start, dur, seq in rows:
            others = lengths[1 - subject]
            matched = dur > 0 and seq in others
            cut = start + dur - min(dur, others[seq]) if matched else start
            moments |= {(WAIT if t < cut else COMMUNICATION, t) for t in range(start, start + dur)}
        expected.update((subject, cause) for cause, _ in moments)
    files = [[op(0, 1, device=0), *(reduce(a, dur, seq) for a, dur, seq in rows)] for rows in ranks]
    found = Counter[tuple[int, str]]()
    for subject, cause, start, end in claimed(*files):
        found[subject, cause] += end - start
    assert found == expected
