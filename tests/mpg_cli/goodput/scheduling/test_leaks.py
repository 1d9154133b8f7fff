"""Leaked chips: what an inventory counts as in use where nothing runs, and what the controller's log says."""

from __future__ import annotations

import json

import polars as pl
import pytest

from mpg_cli.goodput.scheduling import inventory, leaks
from mpg_cli.goodput.scheduling.inventory import Window
from mpg_parsers.scheduler_tables import CAPACITY, NODES, SCHEDULER_EVENTS

S = 10**9
WINDOW = Window(0, 100 * S)
ATTEMPTS = pl.DataFrame(
    {
        "id": [0, 1, 2],
        "cluster": [None, None, None],
        "raw_id": ["70", "71", "72"],
        "start_ns": [10 * S, 20 * S, 60 * S],
        "end_ns": [30 * S, 100 * S, 70 * S],
        "open": [False, True, False],
        "chips": [8, 2, 4],
        "nodes": ['["n1"]', '["n2"]', '["n1"]'],
        "chips_by_node": [None, None, None],
    },
    schema_overrides={"cluster": pl.String, "chips_by_node": pl.String},
)


def nodes(**allocated: int) -> pl.DataFrame:
    rows = [{"node": name, "chips": 8, "chips_allocated": allocated.get(name)} for name in ("n1", "n2")]
    return NODES.conform(pl.DataFrame(rows, schema_overrides={"chips_allocated": pl.Int64}))


def log(*rows: tuple[str, str, int]) -> pl.DataFrame:
    told = [
        {"event": "leak", "raw_id": job, "nodes": json.dumps([node]), "ts_ns": second * S}
        for job, node, second in rows
    ]
    return SCHEDULER_EVENTS.conform(pl.DataFrame(told))


def leaked(listed: pl.DataFrame, events: pl.DataFrame) -> list[tuple[str, int, int, int]]:
    stock = inventory.build(listed, CAPACITY.conform(pl.DataFrame()), ATTEMPTS, WINDOW)
    found = leaks.added(stock, listed, events, ATTEMPTS, WINDOW).unavailable
    rows = found.join(stock.nodes.select(subject="node", name="name"), on="subject").sort("name")
    return [(name, start // S, end // S, chips) for start, end, chips, name in rows.select(
        "start_ns", "end_ns", "chips", "name").iter_rows()]  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "events", "expected"),
    [
        (nodes(), log(), []),
        (nodes(n1=8), log(), [("n1", 70, 100, 8)]),  # since the last job there
        (nodes(n1=0, n2=2), log(), []),  # what runs on n2 is what is counted
        (nodes(n2=5), log(), [("n2", 20, 100, 3)]),  # since the one that still runs began
        (nodes(), log(("70", "n1", 31)), [("n1", 31, 60, 8)]),  # until the node is used again
        (nodes(), log(("70", "n1", 50)), []),  # too late to be of that job's end
        (nodes(), log(("72", "n1", 70), ("72", "n1", 70)), [("n1", 70, 100, 4)]),
        (nodes(n1=0), log(("72", "n1", 70)), []),  # the inventory knows better
        (nodes(), log(("99", "n1", 31), ("70", "n9", 31)), []),
    ],
)
def test_leaks(listed: pl.DataFrame, events: pl.DataFrame, expected: list[tuple[str, int, int, int]]) -> None:
    assert leaked(listed, events) == expected
