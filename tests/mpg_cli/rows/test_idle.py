"""Idle time grouped by what the host did: sums by hand."""

from __future__ import annotations

from typing import Any

import polars as pl

from mpg_cli.goodput.idle import evidence
from mpg_cli.rows.idle import EACH, MOST, hotspot_rows

PATHS, RANKS = {0: "a.json", 1: "b.json"}, {0: 4, 1: None}
SEGMENTS = {
    "subject": pl.Int64,
    "source": pl.Int32,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "cause": pl.String,
    "evidence": pl.Int64,
}


def segments(*rows: tuple[int, int, int, str, int | None]) -> pl.DataFrame:
    """source, start, end, cause, evidence."""
    return pl.DataFrame([(source, source, *row) for source, *row in rows], SEGMENTS, orient="row")


def events(*rows: dict[str, Any]) -> pl.DataFrame:
    about = {"source": 0, "before": False, "thread": 9, "start_ns": 100, "dur_ns": 50, "kind": "op"}
    return pl.DataFrame([{"evidence": i} | about | row for i, row in enumerate(rows)], schema=evidence.SCHEMA)


def test_pieces_of_one_place_add_up_and_the_longest_event_is_shown() -> None:
    told = events(
        {"name": "aten::item", "op": "aten::item", "frame": "train.py(3): log"},
        {"name": "aten::item", "op": "aten::item", "frame": "train.py(3): log", "start_ns": 700, "thread": 8},
    )
    rows = hotspot_rows(
        segments((0, 0, 10, "host_code", 0), (0, 20, 40, "host_code", 1), (0, 50, 51, "host_code", 0)),
        told,
        310,
        PATHS,
        RANKS,
    )
    (row,) = rows
    assert (row.cause, row.name, row.frame, row.chip_ns, row.count) == (
        "host_code",
        "aten::item",
        "train.py(3): log",
        31,
        3,
    )
    assert (row.source, row.rank, row.thread, row.start_ns, row.dur_ns, row.share) == (
        "a.json",
        4,
        8,
        700,
        50,
        0.1,
    )


def test_what_the_host_was_in() -> None:
    told = events(
        {"kind": "runtime", "name": "cudaMalloc", "op": "aten::empty"},
        {"kind": "runtime", "name": None, "op": "aten::mm", "before": True},
        {"kind": "runtime", "name": "## forward ##", "op": None, "before": True},
        {"kind": "python", "name": "a.py(1): f", "frame": "a.py(1): f"},
        {"kind": "python", "name": "<built-in method f of X object at 0x7ff0>", "frame": "a.py(1): f"},
    )
    causes = ("allocator", "host_code", "host_code", "host_code", "host_code")
    rows = hotspot_rows(
        segments(
            *((1, 10 * i, 10 * i + 9 - i, cause, i) for i, cause in enumerate(causes)), (1, 80, 81, "kernel_gap", None)
        ),
        told, 100, PATHS, RANKS,
    )  # fmt: skip
    assert [(row.name, row.frame) for row in rows] == [
        ("aten::empty › cudaMalloc", None),
        ("host code, before aten::mm", None),
        ("## forward ##, before a launch", None),
        ("a.py(1): f", None),
        ("<built-in method f of X object>", "a.py(1): f"),
        ("between two activities of a stream", None),
    ]
    assert {row.source for row in rows} == {"b.json"}
    assert [(row.start_ns, row.dur_ns) for row in rows] == [
        (100, 50), (100, None), (100, None), (100, 50), (100, 50), (None, None),
    ]  # fmt: skip


def test_objects_of_a_builtin_are_one_place() -> None:
    told = events(
        *({"kind": "python", "name": f"<built-in method f of X object at 0x{i:x}>"} for i in range(3))
    )
    rows = hotspot_rows(segments(*((0, i, i + 1, "host_code", i) for i in range(3))), told, 3, PATHS, RANKS)
    assert [(row.name, row.count) for row in rows] == [("<built-in method f of X object>", 3)]


def test_the_list_is_bounded_but_every_cause_is_in_it() -> None:
    many = MOST + 20
    told = events(*({"name": f"aten::op{i}"} for i in range(many + EACH + 2)))
    rows = hotspot_rows(
        segments(
            *((0, 100 * i, 100 * i + 50, "launch_bound", i) for i in range(many)),
            *((0, 100 * i, 100 * i + 1, "input", i) for i in range(many, many + EACH + 2)),
        ),
        told, 10**6, PATHS, RANKS,
    )  # fmt: skip
    assert [sum(row.cause == cause for row in rows) for cause in ("launch_bound", "input")] == [MOST, EACH]


def test_no_idle_time() -> None:
    assert hotspot_rows(segments(), events(), 1, PATHS, RANKS) == ()
