"""Operator tables as rows of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.report.model import Op, Unmodelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

MOST = 200  # rows in the report; the rest is in none of its tables


def operator_rows(ops: pl.DataFrame) -> tuple[Op, ...]:
    """Rows of `judging.Judged.ops`, most recoverable time first."""
    if ops.is_empty():
        return ()
    return tuple(_op(row) for row in ops.head(MOST).iter_rows(named=True))


def _op(row: dict[str, Any]) -> Op:
    whole = {name: None if row[name] is None else round(row[name]) for name in ("flops", "bytes")}
    plain = ("count", "kernels", "time_ns", "share", "tflops", "gbps", "intensity", "bound", "efficiency")
    return Op(
        op=row["operator"],
        dims=row["input_dims"] or "",
        dtypes=row["input_types"] or "",
        flops=whole["flops"] or 0,
        bytes=whole["bytes"],
        **{name: row[name] for name in (*plain, "recoverable_ns", "recompute_ns", "flops_source")},
    )


def unmodelled_rows(table: pl.DataFrame) -> tuple[Unmodelled, ...]:
    """Rows of `judging.Judged.unmodelled`, most time first."""
    return tuple(_unmodelled(table)) if table.height else ()


def _unmodelled(table: pl.DataFrame) -> Iterator[Unmodelled]:
    for op, count, time_ns, share in table.head(MOST).select("op", "count", "time_ns", "share").iter_rows():
        yield Unmodelled(op, count, time_ns, share)
