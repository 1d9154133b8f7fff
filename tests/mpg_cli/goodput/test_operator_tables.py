"""Operators of the computing time, with and without a model, on rows for paper."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput.operator_tables import ABOVE, NO_OPERATOR, modelled, unmodelled

SCHEMA = {
    "operator": pl.String, "input_dims": pl.String, "input_types": pl.String, "around": pl.String,
    "charged": pl.UInt32, "dur_ns": pl.Int64, "flops": pl.Float64, "bytes": pl.Float64, "peak_ps": pl.Float64,
    "bytes_ps": pl.Float64, "ideal_ps": pl.Int64, "roofline_ps": pl.Int64, "inferred": pl.Boolean,
    "recompute": pl.Boolean, "model": pl.String, "fault": pl.Boolean,
}  # fmt: skip


def kernel(dur: int, op: str | None = "aten::mm", **more: Any) -> dict[str, Any]:
    """A kernel of a product of 2 ns and 6 ns of bytes, unless told otherwise; times in nanoseconds."""
    row = {"operator": op, "input_dims": "[[2]]", "input_types": '["float"]', "charged": 1, "dur_ns": dur}
    row |= {"flops": 2000.0, "bytes": 600.0, "inferred": False, "recompute": False, "fault": False}
    row |= {"model": "gemm", "peak": 2, "moving": 6} | more
    peak, moving = row.pop("peak"), row.pop("moving")
    row |= {"peak_ps": peak * 1000, "bytes_ps": None if moving is None else moving * 1000}
    return row | {"ideal_ps": peak * 1000, "roofline_ps": max(peak, moving or 0) * 1000}


def without(dur: int, around: str | None, **more: Any) -> dict[str, Any]:
    return {"dur_ns": dur, "around": around, "inferred": False, "recompute": False, "fault": False} | more


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], SCHEMA)


def one(*rows: dict[str, Any]) -> dict[str, Any]:
    return modelled(frame(*rows)).row(0, named=True)


def test_a_row() -> None:
    row = one(kernel(30), kernel(10), kernel(10, charged=2), kernel(50, "aten::add", moving=49))
    assert {key: row[key] for key in ("operator", "count", "kernels", "time_ns", "flops", "bytes")} == {
        "operator": "aten::mm", "count": 2, "kernels": 3, "time_ns": 50, "flops": 6000, "bytes": 1800,
    }  # fmt: skip
    assert (row["share"], row["tflops"], row["gbps"], row["intensity"]) == (0.5, 0.12, 36, 2000 / 600)
    assert (row["roofline_ns"], row["efficiency"], row["recoverable_ns"]) == (18, 0.36, 32)


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        (kernel(9_000, peak=2, moving=6), "memory"),
        (kernel(9_000, peak=7, moving=6), "compute"),
        (kernel(9_000, peak=7, moving=None), "compute"),
        (kernel(9_000, peak=0, moving=None, flops=0.0, bytes=None), "memory"),
        (kernel(4_999, peak=6, moving=2), "latency"),
        (kernel(5_000, peak=6, moving=2), "compute"),
        (kernel(4_000, peak=2_000, moving=2), "compute"),
        (kernel(4_000, peak=1_999, moving=2), "latency"),
    ],
)
def test_what_bounds_an_operator(row: dict[str, Any], bound: str) -> None:
    assert one(row)["bound"] == bound


@pytest.mark.parametrize(
    ("rows", "flops_source"),
    [
        ([kernel(5)], "shapes"),
        ([kernel(5, model="declared")], "declared"),
        ([kernel(5), kernel(5, charged=None, inferred=True)], "shapes"),
        ([kernel(5, charged=None, inferred=True)], "inferred"),
    ],
)
def test_where_flops_come_from(rows: list[dict[str, Any]], flops_source: str) -> None:
    assert one(*rows)["flops_source"] == flops_source


def test_calls_that_are_not_in_the_file_are_not_counted() -> None:
    row = one(kernel(5), kernel(5, charged=None, inferred=True))
    assert (row["count"], row["kernels"], row["inferred_ns"], row["recompute_ns"]) == (1, 2, 5, 0)
    assert one(kernel(5, charged=None, inferred=True))["count"] == 0


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        (kernel(5, bytes=None, moving=None), ("gbps", "intensity", "bytes")),
        (kernel(5, flops=0.0, peak=0), ("intensity",)),
        (kernel(0), ("gbps", "share", "efficiency")),
        (kernel(5, flops=0.0, peak=0, moving=0), ("intensity", "efficiency")),
    ],
)
def test_what_is_not_known_is_null(row: dict[str, Any], missing: tuple[str, ...]) -> None:
    found = one(row)
    columns = ("gbps", "intensity", "bytes", "share", "efficiency")
    assert tuple(name for name in columns if found[name] is None) == tuple(n for n in columns if n in missing)


def test_faster_than_the_roofline_there_is_nothing_to_recover() -> None:
    row = one(kernel(4, moving=8))
    assert (row["efficiency"], row["recoverable_ns"]) == (2, 0)


def test_shapes_tell_operators_apart_and_most_recoverable_time_comes_first() -> None:
    table = modelled(
        frame(kernel(10), kernel(30, input_dims="[[3]]"), kernel(20, "aten::bmm"), without(99, "x"))
    )
    assert table.select("operator", "input_dims", "recoverable_ns").rows() == [
        ("aten::mm", "[[3]]", 24), ("aten::bmm", "[[2]]", 14), ("aten::mm", "[[2]]", 4),
    ]  # fmt: skip


def test_unmodelled() -> None:
    rows = [without(10, "acme::x"), without(20, None), without(5, "acme::x"), kernel(65)]
    rows.append(kernel(25, fault=True) | {"ideal_ps": None, "around": "aten::conv2d"})
    assert unmodelled(frame(*rows)).rows() == [
        ("aten::mm" + ABOVE, 1, 25, 0.2), (NO_OPERATOR, 1, 20, 0.16), ("acme::x", 2, 15, 0.12),
    ]  # fmt: skip
    assert unmodelled(frame()).rows() == []
    assert unmodelled(frame(without(0, None))).rows() == [(NO_OPERATOR, 1, 0, 0.0)]
