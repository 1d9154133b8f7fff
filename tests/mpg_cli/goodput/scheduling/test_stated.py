"""What the scheduler says of a wait takes the place of the replay, and nothing else of it."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_cli.goodput.scheduling import stated
from mpg_cli.goodput.scheduling.inventory import Inventory

EMPTY = pl.DataFrame()
PLACED, UNPLACED = (Inventory(EMPTY, EMPTY, EMPTY, placed, "nodes") for placed in (True, False))
ATTEMPTS = pl.DataFrame(
    {"id": [1, 2], "cluster": [None, None], "raw_id": ["w-1", "w-2"]}, schema_overrides={"cluster": pl.String}
)
WAITS = pl.DataFrame({"id": [1, 2], "class": [0, 0], "eligible_ns": [0, 50], "until_ns": [100, 90]})
SEGMENTS = pl.DataFrame(
    {"class": [0, 0], "start_ns": [0, 60], "end_ns": [60, 200], "status": ["shortage", "fits"]}
)


def pending(*rows: tuple[str, int, int | None, str]) -> pl.DataFrame:
    names = {"raw_id": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64, "reason": pl.String}
    return pl.DataFrame(list(rows), schema=names, orient="row").with_columns(cluster=pl.lit(None, pl.String))


def said(rows: pl.DataFrame, inventory: Inventory = PLACED) -> list[tuple[int, int, int, str]]:
    return stated.stretches(rows, ATTEMPTS, WAITS, inventory).rows()


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("WaitingForQuota", "limit"),
        ("ExceedsMaxQuota", "limit"),
        ("TopologyPlacementFailed", "topology"),
        ("WaitingForPreemptedWorkloads", "shortage"),
        ("AdmissionGated", "hold"),
        ("Insufficient nvidia.com/gpu", None),
        ("Resources", None),
    ],
)
def test_reasons(reason: str, cause: str | None) -> None:
    assert said(pending(("w-1", 10, 20, reason))) == ([] if cause is None else [(1, 10, 20, cause)])


def test_without_nodes_too_few_on_a_node_is_a_shortage() -> None:
    assert said(pending(("w-1", 10, 20, "Insufficient nvidia.com/gpu")), UNPLACED) == [
        (1, 10, 20, "shortage")
    ]


def test_what_is_said_next_takes_the_place_of_what_was_said() -> None:
    rows = pending(("w-1", 10, 80, "WaitingForQuota"), ("w-1", 40, 60, "TopologyPlacementFailed"))
    assert said(rows) == [(1, 10, 40, "limit"), (1, 40, 60, "topology")]


def test_only_the_wait_itself_counts() -> None:
    rows = pending(("w-2", 0, 60, "WaitingForQuota"), ("w-9", 0, 60, "WaitingForQuota"))
    assert said(rows) == [(2, 50, 60, "limit")]
    assert said(pending(("w-1", 10, None, "WaitingForQuota"))) == []


def test_the_rest_of_the_wait_is_replayed() -> None:
    rows = stated.stretches(pending(("w-1", 40, 70, "WaitingForQuota")), ATTEMPTS, WAITS, PLACED)
    waits, segments = stated.applied(WAITS, SEGMENTS, rows)
    assert waits["class"].to_list() == [1, 0]
    own = segments.filter(pl.col("class") == 1).rows()
    assert own == [(1, 0, 40, "shortage"), (1, 40, 70, "limit"), (1, 70, 100, "fits")]
    assert segments.filter(pl.col("class") == 0).equals(SEGMENTS)


def test_nothing_said_changes_nothing() -> None:
    none = stated.stretches(pending(), ATTEMPTS, WAITS, PLACED)
    waits, segments = stated.applied(WAITS, SEGMENTS, none)
    assert waits is WAITS
    assert segments is SEGMENTS
