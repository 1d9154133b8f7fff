"""Kernels without a launch call in the file, recognised by their neighbours on the stream.

Work launched before the profile began repeats what the profile saw later: a static model runs the same kernels in the
same order. A kernel takes the value of linked kernels that have its name and the same k names before and after it on
the stream, for the smallest k at which all of those agree.
"""

from __future__ import annotations

import polars as pl

DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12)
STREAM = ("subject", "stream")


def infer(kernels: pl.DataFrame, value: str) -> pl.Series:
    """Column `value` with the nulls of unlinked kernels filled in where the neighbours leave one choice.

    kernels: subject, stream, start_ns, name, linked (bool) and `value` (any type; null also for linked kernels that
    have none, which then teach that there is none). Rows keep their order.
    """
    rows = kernels.select(*STREAM, "start_ns", "name", "linked", value).with_row_index("at")
    rows = rows.sort(*STREAM, "start_ns", "at").with_columns(
        code=pl.col("name").hash(), key=pl.col("name").hash()
    )
    unknown = rows.filter(~pl.col("linked")).select("at")
    found = []
    for depth in range(DEPTHS[-1] + 1):
        if unknown.is_empty():
            break
        if depth:
            rows = rows.with_columns(key=_wider(depth))
        if depth in DEPTHS:
            settled = _settle(rows, unknown, value)
            found.append(settled)
            unknown = unknown.join(settled, on="at", how="anti")
    return _filled(kernels, value, found)


def _wider(depth: int) -> pl.Expr:
    """The hash of the names up to `depth` away, from that of one less; null where the stream does not reach so far."""
    before, after = (pl.col("code").shift(k).over(STREAM) for k in (depth, -depth))
    reaches = pl.col("key").is_not_null() & before.is_not_null() & after.is_not_null()
    return pl.when(reaches).then(pl.struct("key", before.alias("before"), after.alias("after")).hash())


def _settle(rows: pl.DataFrame, unknown: pl.DataFrame, value: str) -> pl.DataFrame:
    """at and `value` of the unknown kernels whose surroundings have one value among the linked ones."""
    asked = rows.join(unknown, on="at").filter(pl.col("key").is_not_null()).select("at", "key")
    lessons = (
        rows.filter("linked")
        .join(asked.select("key").unique(), on="key", how="semi")
        .group_by("key")
        .agg(choices=pl.col(value).n_unique(), lesson=pl.col(value).first())
        .filter(pl.col("choices") == 1)
    )
    return asked.join(lessons, on="key").select("at", pl.col("lesson").alias(value))


def _filled(kernels: pl.DataFrame, value: str, found: list[pl.DataFrame]) -> pl.Series:
    own = kernels.select(pl.when("linked").then(value).alias(value)).with_row_index("at")
    if not found:
        return own[value]
    lessons = pl.concat(found).rename({value: "lesson"})
    joined = own.join(lessons, on="at", how="left", maintain_order="left")
    return joined.select(pl.coalesce(value, "lesson").alias(value))[value]
