"""Several exports of one database count once: one row per record of an allocation."""

from __future__ import annotations

import polars as pl
from polars import col

from mpg_cli.scheduler.states import OPEN

KEY = ("cluster", "raw_id", "submit_ns")
# what changes together: from the record that knows best, never mixed from several
TOGETHER = ("source", "state", "start_ns", "end_ns", "line", "ended_by")


def merged(attempts: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """The records of jobs, each once, sorted by cluster, raw_id and submission.

    attempts: rows of the table of kind job; sources: source, as_of_ns, format. Where several files hold one record
    (key: cluster, raw id, submission), its state and times are those of the record that is final, then of an
    accounting database before a controller, then of the latest file; all else is what the first of them that states
    it says.
    """
    attempts = _with_raw_ids(attempts)
    # a table without submissions has its own keys: start times
    keyed = attempts.with_columns(_submit="submit_ns", submit_ns=col.submit_ns.fill_null(col.start_ns))
    if attempts.select(pl.struct("source").n_unique()).item() > 1 or _repeated(keyed):
        keyed = _once(_ranked(keyed, sources))
    done = keyed.with_columns(submit_ns="_submit").drop("_submit")
    return done.select(attempts.columns).sort("cluster", "raw_id", "submit_ns", "start_ns")


def _with_raw_ids(attempts: pl.DataFrame) -> pl.DataFrame:
    """Raw ids for records that only have the printed one (2_4, 3+1), where another file has both.

    The components of a heterogeneous job have consecutive ids.
    """
    printed = col.raw_id.str.contains(r"^\d+[_+]\d+$")
    if not attempts.select(printed.any()).item():
        return attempts
    parts = col.raw_id.str.split("+").list
    of_parts = pl.when(col.raw_id.str.contains("+", literal=True)).then(
        parts.first().cast(pl.Int64, strict=False) + parts.last().cast(pl.Int64, strict=False)
    )
    tasks = attempts.filter(~printed, col.array.is_not_null()).unique(["cluster", "job"], keep="first")
    met = attempts.join(
        tasks.select("cluster", "job", _raw="raw_id"), on=["cluster", "job"], how="left", nulls_equal=True,
        maintain_order="left",
    )  # fmt: skip
    known = pl.coalesce(pl.when(printed).then(pl.coalesce("_raw", of_parts.cast(pl.String))), "raw_id")
    return met.with_columns(raw_id=known).drop("_raw")


def _repeated(keyed: pl.DataFrame) -> bool:
    return bool(keyed.select(pl.struct(KEY).is_duplicated().any()).item())


def _ranked(rows: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """The rows, those that know best first."""
    about = sources.select(
        "source", _as_of=col.as_of_ns.fill_null(0), _accounting=col.format.str.contains("sacct", literal=True)
    )
    final = ~col.state.is_in(OPEN).fill_null(value=False)
    ranked = rows.join(about, on="source", how="left").with_columns(_final=final)
    order = ("_final", "_accounting", "_as_of")
    return ranked.sort(order, descending=True, maintain_order=True).drop(order)


def _once(ranked: pl.DataFrame) -> pl.DataFrame:
    rest = [name for name in ranked.columns if name not in {*KEY, *TOGETHER}]
    first = [col(name).first() for name in TOGETHER if name in ranked.columns]
    stated = [col(name).drop_nulls().first() for name in rest]
    return ranked.group_by(KEY, maintain_order=True).agg(*first, *stated).select(ranked.columns)
