"""Frames of collectives and communicators into the report's rows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from mpg_cli.goodput import collectives
from mpg_cli.report.model import Collective, Communicator
from mpg_cli.rows.communication import collective_rows, communicator_rows
from tests.mpg_cli.goodput.collectives.ranks import MS, busy_of, load, reduce, spans_of, windows_of

if TYPE_CHECKING:
    from tests.mpg_cli.datasets import Row


def rows(*ranks: list[Row]) -> tuple[tuple[Collective, ...], tuple[Communicator, ...]]:
    loaded = load(*ranks)
    matched, _ = collectives.match(loaded)
    windows, busy = windows_of(loaded), busy_of(loaded)
    summary = collectives.summarise(loaded, matched, busy, windows)
    table = collectives.communicators(loaded, matched, summary, busy, spans_of(loaded, windows))
    return collective_rows(summary), communicator_rows(table)


def test_rows() -> None:
    about = {"in_elements": 250_000, "element_type": "Float", "group_size": 2}
    (one,), (group,) = rows([reduce(10, 5, 1, **about)], [reduce(13, 2, 1, **about)])
    assert one == Collective(
        index=0, name="allreduce", group="0", seq=1, matched_by="sequence", transfer_ns=2 * MS,
        wait_ns={"0": 3 * MS, "1": 0}, last_rank=1, margin_ns=3 * MS, bytes=1_000_000, exposed_ns=7 * MS,
        algo_gbps=0.5, bus_gbps=0.5,
    )  # fmt: skip
    assert group == Communicator(
        name="allreduce", group="0", size=2, ranks=(0, 1), count=1, time_ns=7 * MS, hidden_ns=0, exposed_ns=7 * MS,
        transfer_ns=4 * MS, wait_ns=3 * MS, last={"1": 1}, bytes=1_000_000, bus_gbps=0.5, scope="unknown",
    )  # fmt: skip
    assert {type(getattr(one, field.name)) for field in fields(one)} <= {int, str, bool, float, dict}


def test_one_rank_has_no_collectives_and_a_communicator() -> None:
    found, (group,) = rows([reduce(10, 5, 1)])
    assert (found, group.last, group.transfer_ns) == ((), {}, None)
