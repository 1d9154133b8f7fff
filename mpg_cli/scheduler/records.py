"""What schedulers' files say, from all of them, on one clock: the input of stitching."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl
from polars import col

from mpg_cli.scheduler import zones
from mpg_parsers.scheduler_tables import SCHEDULER_TABLES

if TYPE_CHECKING:
    from mpg_cli.store import Dataset
    from mpg_parsers.errors import Notice

# what the formats of schedulers' files are called begins so
PATTERN = "^(?:slurm|kubernetes|job-table)"


@dataclass(frozen=True)
class Records:
    """The rows of the canonical tables of schedulers, with `cluster` filled in where only one is named.

    sources: source, path, format, as_of_ns, naive_time, and scheduler (bool): whether it is a scheduler's file.
    naive: the zone of all times is not known.
    """

    sources: pl.DataFrame
    attempts: pl.DataFrame
    pending: pl.DataFrame
    capacity: pl.DataFrame
    nodes: pl.DataFrame
    topology: pl.DataFrame
    scheduler_events: pl.DataFrame
    rollups: pl.DataFrame
    naive: bool = False
    notices: list[Notice] = field(default_factory=list)

    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables by name."""
        return {table.name: getattr(self, table.name) for table in SCHEDULER_TABLES}

    def with_frames(self, frames: dict[str, pl.DataFrame]) -> Self:
        """The records with other rows in the tables named."""
        changed: dict[str, Any] = dict(frames)
        return replace(self, **changed)

    def with_sources(self, sources: pl.DataFrame, notices: list[Notice]) -> Self:
        """The records with other sources and notices."""
        return replace(self, sources=sources, notices=notices)


def kinds(dataset: Dataset) -> tuple[bool, bool]:
    """Whether any file of the dataset comes from a scheduler, and whether any is of devices."""
    ours = dataset.scan("sources").select("format").collect()["format"].str.contains(PATTERN)
    return bool(ours.any()), not ours.all()


def load(dataset: Dataset, *, tz: str, cut: bool) -> Records:
    """The records of a dataset, on one clock.

    tz: zone of wall times that name none, "" for unknown; cut: whether absolute times will be held against them.
    Raises InputError naive_time where the zone of wall times would decide a figure and is not known.
    """
    sources = dataset.scan("sources").collect().sort("source")
    sources = sources.with_columns(scheduler=col.format.str.contains(PATTERN))
    tables: dict[str, Any] = {
        table.name: _on_one_cluster(dataset.scan(table.name).collect()) for table in SCHEDULER_TABLES
    }
    records = Records(sources, **tables)
    named = _clusters(records)
    if len(named) == 1:
        records = _with_cluster(records, named[0])
    given = sources["zone"].drop_nulls()  # when the files were read, which decides
    return zones.on_one_clock(records, tz=given[0] if given.len() else tz, cut=cut)


def _on_one_cluster(rows: pl.DataFrame) -> pl.DataFrame:
    """An empty name is none. Columns without any value are kept as one null, not as one for each row."""
    empty = [name for name in rows.columns if rows[name].null_count() == rows.height]
    nulls = [pl.lit(None, rows.schema[name]).alias(name) for name in empty]
    return rows.with_columns(nulls).with_columns(cluster=pl.when(col.cluster != "").then("cluster"))


def _clusters(records: Records) -> list[str]:
    """The names of the clusters, in order."""
    frames = [rows.select("cluster") for rows in records.frames().values()]
    return sorted(pl.concat(frames)["cluster"].drop_nulls().unique())


def _with_cluster(records: Records, name: str) -> Records:
    """Where the files name one cluster, those that name none are of it too."""
    frames = records.frames().items()
    return records.with_frames({key: rows.with_columns(col.cluster.fill_null(name)) for key, rows in frames})
