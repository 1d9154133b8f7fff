"""How much of many spans is covered by disjoint intervals: running totals, looked up at both ends of each span."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from collections.abc import Mapping

LENGTH = col("end_ns") - col("start_ns")


def covered(spans: pl.DataFrame, pieces: pl.DataFrame) -> pl.Series:
    """For each row of `spans` (subject, start_ns, end_ns; they may overlap), the ns of it that `pieces` cover.

    `pieces` has subject, start_ns, end_ns, and is disjoint within each subject.
    """
    return covered_by(spans, pieces, {"ns": pl.lit(value=True)})["ns"]


def covered_by(spans: pl.DataFrame, pieces: pl.DataFrame, kinds: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """One row per span, in order, and one column per kind: the ns of the span that its pieces cover.

    `kinds` says for each name which pieces (a Boolean over the rows of `pieces`, never null) are of that kind.
    """
    length = {name: pl.when(chosen).then(LENGTH).otherwise(0) for name, chosen in kinds.items()}
    running = (length[name].cum_sum().over("subject") - length[name] for name in kinds)
    rows = pieces.filter(LENGTH > 0).sort("start_ns").sort("subject", maintain_order=True)
    rows = rows.select(
        "subject",
        "start_ns",
        *(length[name].alias(name) for name in kinds),
        *(total.alias(f"{name} before") for name, total in zip(kinds, running, strict=True)),
    )
    rows = rows.sort("start_ns")
    upper, lower = (_until(spans, rows, edge, list(kinds)) for edge in ("end_ns", "start_ns"))
    return pl.DataFrame([upper[name] - lower[name] for name in kinds])


def _until(spans: pl.DataFrame, rows: pl.DataFrame, edge: str, names: list[str]) -> pl.DataFrame:
    """The running totals of each span's subject at the instant in column `edge`."""
    at = spans.select("subject", at=edge).with_row_index("row").sort("at")
    found = at.join_asof(
        rows, left_on="at", right_on="start_ns", by="subject", check_sortedness=False, coalesce=False
    ).sort("row")
    inside = col("at") - col("start_ns")
    totals = ((pl.min_horizontal(name, inside) + col(f"{name} before")).fill_null(0) for name in names)
    return found.select(total.alias(name) for name, total in zip(names, totals, strict=True))
