"""The ranges on the host: what `nsys stats --report nvtx_pushpop_trace` lists, as host_events."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.nsight.columns import LATEST
from mpg_parsers.nsysjax.layout import RANGES_CSV, RANGES_PARQUET, RANGES_XZ
from mpg_parsers.nsysjax.packing import judging
from mpg_parsers.nsysjax.ranges import THUNK, typed
from mpg_parsers.tables import HOST_EVENTS
from mpg_parsers.xla import private

if TYPE_CHECKING:
    from mpg_parsers.nsysjax.packing import Pack

COLUMNS = {
    "name": "Name", "start_ns": "Start (ns)", "dur_ns": "Duration (ns)", "end_ns": "End (ns)", "process": "PID",
    "thread": "TID", "id": "RangeId",
}  # fmt: skip


def read(
    pack: Pack, ranges: pl.DataFrame, launching: pl.Series, *, keep_names: bool
) -> tuple[pl.DataFrame, int]:
    """Rows of host_events by start, and how many had no usable time.

    `ranges`: of Trace, which has the host's times of those ranges that launched GPU work: they count where the archive
    has no list of all. `launching`: ids of ranges that stand for GPU work: as the calls that launch it, with the id as
    correlation.
    Raises InputError as Pack does.
    """
    found = _listed(pack)
    if found is None:
        found = ranges.select(
            "name", "process", "thread", "id", start_ns="host_start_ns", dur_ns="host_dur_ns"
        )
    known = found.filter(col.name.is_not_null())
    fits = col.start_ns.is_between(-LATEST, LATEST) & col.dur_ns.is_between(0, LATEST)
    good = known.filter(fits.fill_null(value=False)).filter(col.start_ns + col.dur_ns <= LATEST)
    launches = col.id.is_in(launching.implode())
    rows = good.with_columns(
        process=pl.coalesce("process", pl.lit(_only(ranges["process"]), pl.Int64)),
        correlation=pl.when(launches).then("id"),
        kind=pl.when(launches | col.name.str.contains(THUNK))
        .then(pl.lit("runtime"))
        .otherwise(pl.lit("annotation")),
    )
    cleaned = rows if keep_names else private.cleaned(rows)
    return HOST_EVENTS.conform(cleaned.sort("start_ns", "id")), known.height - good.height


def _only(values: pl.Series) -> int | None:
    """The one value of a column; None if there are several. Newer lists leave the process out."""
    distinct = values.drop_nulls().unique()
    return int(distinct[0]) if distinct.len() == 1 else None


def _listed(pack: Pack) -> pl.DataFrame | None:
    """The list of all ranges; None if there is none."""
    table = pack.table(RANGES_PARQUET)
    if table is None:
        name = next((name for name in (RANGES_XZ, RANGES_CSV) if name in pack.names), None)
        if name is None:
            return None
        table = _csv(pack.content(name), name, pack.path)
    return typed(
        table, {ours: theirs if theirs in table.columns else None for ours, theirs in COLUMNS.items()}
    )


def _csv(data: bytes, name: str, path: str) -> pl.DataFrame:
    if not data.strip():
        return pl.DataFrame()
    with judging(name, path):
        header = pl.read_csv(io.BytesIO(data), n_rows=0, infer_schema=False).columns
        wanted = [column for column in COLUMNS.values() if column in header]
        if not wanted:
            return pl.DataFrame()
        return pl.read_csv(io.BytesIO(data), columns=wanted, infer_schema=False, truncate_ragged_lines=True)
