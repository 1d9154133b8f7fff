"""Placing the operations of a TPU core by its own clock."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_parsers.xla import clock

US = 1_000_000  # picoseconds
RUNS = {
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "device_offset_ps": pl.Int64,
    "device_duration_ps": pl.Int64,
}


def runs(*rows: tuple[int, int, int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), RUNS, orient="row")


def events(*rows: tuple[int, int, int | None, int | None]) -> pl.DataFrame:
    names = ("offset_ps", "dur_ps", "device_offset_ps", "device_duration_ps")
    return pl.DataFrame(list(rows), dict.fromkeys(names, pl.Int64), orient="row")


# three runs of 100 us, 5 us apart by the core's clock, which is 7 us behind the profile's; in the second the profiler
# was off by 40 us from its second operation on, and so was the start of the third
TRUE = [(0, 60), (60, 40), (105, 50), (155, 50), (210, 100)]
CONVERTED = [(7, 60), (67, 40), (112, 50), (202, 10), (257, 60)]
EVENTS = events(*((a * US, b * US, c * US, d * US) for (c, d), (a, b) in zip(TRUE, CONVERTED, strict=True)))
CONVERTED_RUNS = runs(
    (7_000, 107_000, None, None), (112_000, 252_000, None, None), (257_000, 317_000, None, None)
)


def test_operations_follow_the_cores_clock() -> None:
    core = clock.compare(EVENTS, 0, CONVERTED_RUNS)
    assert core is not None
    assert core.shift_ps == 7 * US
    assert core.begins["begins"].to_list() == [0, 105 * US, 210 * US]
    placed = clock.aligned(EVENTS, core)
    assert placed["offset_ps"].to_list() == [(start + 7) * US for start, _ in TRUE]
    assert placed["dur_ps"].to_list() == [length * US for _, length in TRUE]
    assert placed["at_run"].to_list() == [0, 0, 1, 1, 2]
    assert placed.columns == ["offset_ps", "dur_ps", "at_run"]


def test_runs_follow_their_operations() -> None:
    core = clock.compare(EVENTS, 0, CONVERTED_RUNS)
    assert core is not None
    placed = clock.aligned(EVENTS, core)
    operations = placed.select("at_run", start_ns=pl.col.offset_ps // 1000, dur_ns=pl.col.dur_ps // 1000)
    found = clock.corrected(CONVERTED_RUNS, 0, core, operations)
    assert found.select("start_ns", "end_ns").rows() == [
        (7_000, 107_000),
        (112_000, 212_000),
        (217_000, 317_000),
    ]


def test_runs_with_times_of_their_own_keep_their_length() -> None:
    own = runs((7_000, 109_000, 0, 102 * US))
    core = clock.compare(EVENTS.head(2), 0, own)
    assert core is not None
    operations = pl.DataFrame({"at_run": [0, 0], "start_ns": [7_000, 67_000], "dur_ns": [60_000, 40_000]})
    assert clock.corrected(own, 0, core, operations).row(0)[:2] == (7_000, 109_000)


def test_no_clock_of_its_own() -> None:
    assert clock.compare(events((0, 5, None, None)), 0, CONVERTED_RUNS) is None


def test_without_runs_there_is_one_shift() -> None:
    core = clock.compare(EVENTS.head(2), 0, CONVERTED_RUNS.clear())
    assert core is not None
    placed = clock.aligned(EVENTS.head(2), core)
    assert placed["offset_ps"].to_list() == [7 * US, 67 * US]
    assert placed["at_run"].null_count() == 2


def test_an_event_without_own_times_stays() -> None:
    mixed = pl.concat([EVENTS.head(1), events((500 * US, 3, None, None))])
    core = clock.compare(mixed, 0, CONVERTED_RUNS)
    assert core is not None
    assert clock.aligned(mixed, core).row(1)[:2] == (500 * US, 3)


def test_relative_to_the_lines_time() -> None:
    core = clock.compare(EVENTS, 1_000, CONVERTED_RUNS.with_columns(pl.col("start_ns", "end_ns") + 1_000))
    assert core is not None
    assert core.shift_ps == 7 * US


ASYNC = {"name": pl.String, "hlo_op": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64}
OPS = {"name": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64}


@pytest.mark.parametrize(
    ("started", "operations", "expected"),
    [
        # from the start of its start to the end of its done
        ([("copy-start", "copy-done", 900, 5)], [("copy-start", 10, 1), ("copy-done", 50, 20)], [(10, 60)]),
        # the n-th belong together
        (
            [("a-start", "a-done", 0, 1), ("a-start", "a-done", 100, 1)],
            [("a-start", 5, 1), ("a-done", 20, 5), ("a-start", 105, 1), ("a-done", 120, 5)],
            [(5, 20), (105, 20)],
        ),
        # another number of ends: where it was
        ([("a-start", "a-done", 7, 3)], [("a-start", 5, 1), ("a-start", 9, 1), ("a-done", 20, 5)], [(7, 3)]),
        # an end before the start: where it was
        ([("a-start", "a-done", 7, 3)], [("a-start", 50, 1), ("a-done", 20, 5)], [(7, 3)]),
        ([("a-start", None, 7, 3)], [("a-start", 5, 1), ("a-done", 20, 5)], [(7, 3)]),
    ],
)
def test_asynchronous_operations_lie_between_their_ends(
    started: list[tuple[str, str | None, int, int]],
    operations: list[tuple[str, int, int]],
    expected: list[tuple[int, int]],
) -> None:
    found = clock.paired(
        pl.DataFrame(started, ASYNC, orient="row"), pl.DataFrame(operations, OPS, orient="row")
    )
    assert found.select("start_ns", "dur_ns").rows() == expected
