"""Begin and end events: which belong together, and what is said of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.parsers.traces import document, dumps, notices, tables

if TYPE_CHECKING:
    from pathlib import Path

Mark = tuple[str, str | None, int]
PAIRS: dict[str, tuple[list[Mark], list[tuple[str, int, int]], int]] = {
    "one pair": ([("B", "a", 1), ("E", "a", 3)], [("a", 1, 2)], 0),
    "an end without a name": ([("B", "a", 1), ("E", None, 3)], [("a", 1, 2)], 0),
    "nested": ([("B", "a", 1), ("B", "b", 2), ("E", "b", 3), ("E", "a", 5)], [("a", 1, 4), ("b", 2, 1)], 0),
    "nested, without names": (
        [("B", "a", 1), ("B", "b", 2), ("E", None, 3), ("E", None, 5)], [("a", 1, 4), ("b", 2, 1)], 0,
    ),
    "same name twice": ([("B", "a", 1), ("B", "a", 2), ("E", "a", 3), ("E", "a", 5)], [("a", 1, 4), ("a", 2, 1)], 0),
    "crossing": ([("B", "a", 1), ("B", "b", 2), ("E", "a", 3), ("E", "b", 5)], [("a", 1, 2), ("b", 2, 3)], 0),
    "out of order in the file": ([("E", "a", 3), ("B", "a", 1)], [("a", 1, 2)], 0),
    "touching": ([("B", "a", 1), ("E", "a", 2), ("B", "b", 2), ("E", "b", 3)], [("a", 1, 1), ("b", 2, 1)], 0),
    "touching, the second first": (
        [("B", "a", 1), ("B", "b", 2), ("E", "a", 2), ("E", "b", 3)], [("a", 1, 1), ("b", 2, 1)], 0,
    ),
    "no length": ([("B", "a", 1), ("E", "a", 1)], [("a", 1, 0)], 0),
    "a stray end": ([("E", "a", 0), ("B", "a", 1), ("E", "a", 3)], [("a", 1, 2)], 1),
    "an end of another name": ([("B", "a", 1), ("E", "x", 2), ("E", "a", 3)], [("a", 1, 2)], 1),
    "a begin without an end": ([("B", "a", 1), ("B", "b", 2), ("E", "a", 3)], [("a", 1, 2)], 1),
    "nothing fits": ([("B", "a", 1), ("E", "b", 2)], [], 2),
}  # fmt: skip


@pytest.mark.parametrize(("marks", "expected", "unmatched"), PAIRS.values(), ids=PAIRS)
def test_pairs(
    tmp_path: Path, marks: list[Mark], expected: list[tuple[str, int, int]], unmatched: int
) -> None:
    events = []
    for phase, name, ts in marks:
        fields = {"ph": phase, "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts}
        events.append({key: value for key, value in fields.items() if value is not None})
    found = tables(tmp_path, dumps(events).encode())
    rows = found["device_ops"].sort("start_ns").select("name", "start_ns", "dur_ns").rows()
    assert rows == [(name, ts * 1000, dur * 1000) for name, ts, dur in expected]
    assert notices(found) == ([("unmatched_events", unmatched)] if unmatched else [])


def test_threads_do_not_mix(tmp_path: Path) -> None:
    places = [(0, 7), (0, 8), (1, 7), (0, "main"), (0, "loader")]
    events = [
        {"ph": phase, "cat": "cpu_op", "name": "a", "pid": pid, "tid": tid, "ts": ts + i}
        for phase, ts in (("B", 0), ("E", 10))
        for i, (pid, tid) in enumerate(places)
    ]
    found = tables(tmp_path, document(events))
    assert found["host_events"].sort("start_ns")["dur_ns"].to_list() == [10_000] * 5
    assert notices(found) == []


def test_a_pair_has_the_arguments_of_its_begin(tmp_path: Path) -> None:
    begin = {
        "ph": "B",
        "cat": "kernel",
        "name": "a",
        "pid": 3,
        "tid": 7,
        "ts": 1,
        "args": {"stream": 20, "correlation": 5},
    }
    found = tables(
        tmp_path, document([begin, {"ph": "E", "pid": 3, "tid": 7, "ts": 2, "args": {"correlation": 6}}])
    )
    assert found["device_ops"].select("device", "stream", "correlation").row(0) == (3, 20, 5)


def test_marks_without_a_time(tmp_path: Path) -> None:
    events = [
        {"ph": "B", "cat": "kernel", "name": "a", "pid": 0, "tid": 7},
        {"ph": "E", "name": "a", "pid": 0, "tid": 7, "ts": 2},
    ]
    assert notices(tables(tmp_path, document(events))) == [("unmatched_events", 2)]


def test_steps_as_pairs(tmp_path: Path) -> None:
    step = {"cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1, "tid": 1}
    found = tables(tmp_path, document([{"ph": "B", "ts": 1, **step}, {"ph": "E", "ts": 9, **step}]))
    assert found["steps"].select("step", "start_ns", "end_ns").rows() == [(4, 1000, 9000)]
