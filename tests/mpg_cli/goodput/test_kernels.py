"""Kernel names and rules by summed time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.goodput import activity, kernels
from mpg_cli.goodput.names import NameRules
from tests.mpg_cli.datasets import comm, copy, dataset, op, source

if TYPE_CHECKING:
    import polars as pl

RULES = NameRules.load()


def classified(*ops: Any) -> pl.DataFrame:
    made = dataset(source(ops))
    return activity.load(made, made.scan("sources").collect(), RULES).ops


MIXED = classified(op(0, 10), op(5, 31), op(50, 0), copy(9, 40), op(0, 9, "frobnicate"), comm(7, 10))


def test_by_name_most_time_first() -> None:
    rows = (
        kernels.by_name(MIXED).select("name", "kind", "count", "time_ns", "mean_ns", "max_ns", "share").rows()
    )
    assert rows == [
        ("sgemm_128x64", "kernel", 3, 41, 14, 31, 0.41),
        ("Memcpy HtoD (Pinned -> Device)", "memcpy", 1, 40, 40, 40, 0.40),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 1, 10, 10, 10, 0.10),
        ("frobnicate", "kernel", 1, 9, 9, 9, 0.09),
    ]


def test_names_of_equal_time_come_in_alphabetical_order() -> None:
    names = [op(0, 5, name) for name in ("b", "a", "c")]
    assert kernels.by_name(classified(*names))["name"].to_list() == ["a", "b", "c"]


def test_by_rule() -> None:
    rows = kernels.by_rule(MIXED).select("activity", "count", "time_ns").rows()
    assert rows == [("compute", 3, 41), ("memory", 1, 40), ("comm", 1, 10), ("compute", 1, 9)]
    assert sum(kernels.by_rule(MIXED)["time_ns"]) == sum(MIXED["dur_ns"])


def test_unknown_names() -> None:
    assert kernels.unknown(kernels.by_name(MIXED))["name"].to_list() == ["frobnicate"]


def test_nothing_but_records_without_length() -> None:
    assert kernels.by_name(classified(op(0, 0))).select("time_ns", "mean_ns", "share").rows() == [(0, 0, 0.0)]


def test_nothing_at_all() -> None:
    assert kernels.by_name(MIXED.clear()).is_empty()
    assert kernels.by_rule(MIXED.clear()).is_empty()
