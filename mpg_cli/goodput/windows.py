"""The stretch of each source that the account covers, and its steps."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mpg_cli.goodput.activity import Activity
from mpg_cli.store import Dataset
from mpg_parsers.errors import UsageError

CHOICES = ("steps", "device", "all")


@dataclass(frozen=True)
class Windows:
    """by_source: source, start_ns, end_ns, basis, steps (number); steps: source, step, name, start_ns, end_ns."""

    by_source: pl.DataFrame
    steps: pl.DataFrame


def find_steps(dataset: Dataset, pattern: str | None) -> pl.DataFrame:
    """The steps of all sources: ProfilerStep ranges, or the host ranges whose name `pattern` matches.

    The first number in a matching name is the step's number. Raises UsageError for a bad pattern.
    """
    if pattern is None:
        steps = dataset.scan("steps").collect()
    else:
        steps = _ranges(dataset, pattern)
    return steps.unique(maintain_order=True).sort("source", "start_ns", "end_ns")


def _ranges(dataset: Dataset, pattern: str) -> pl.DataFrame:
    named = (
        dataset.scan("host_events")
        .filter(pl.col("kind").is_in(["annotation", "op", "python"]) & pl.col("dur_ns").is_not_null())
        .filter(pl.col("name").str.contains(pattern))
    )
    try:
        return named.select(
            "source",
            pl.col("name").str.extract(r"(\d+)").cast(pl.Int64, strict=False).alias("step"),
            "name",
            "start_ns",
            (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        ).collect()
    except pl.exceptions.ComputeError as error:
        raise UsageError(f"--step-regex: {error}", hint="patterns are Rust regular expressions") from error


def find_windows(activity: Activity, steps: pl.DataFrame, choice: str) -> Windows:
    """The window of every source with device activity.

    steps: from the first step's start to the last step's end, where there are steps; device: the hull of the source's
    device activity; all: the hull of all its events.
    """
    device = activity.ops.group_by("source").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    hull = device.with_columns(basis=pl.lit("device activity"), steps=pl.lit(0, pl.UInt32))
    stepped = (
        steps.group_by("source")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max(), steps=pl.len())
        .with_columns(basis=pl.lit("steps"))
        .join(hull, on="source", how="semi")
    )
    counts = stepped.select("source", "steps")
    if choice == "steps":
        chosen = stepped
    elif choice == "all":
        chosen = _all_events(activity).join(counts, on="source", how="left")
    else:
        chosen = hull.drop("steps").join(counts, on="source", how="left")
    columns = ["source", "start_ns", "end_ns", "basis", "steps"]
    rest = hull.join(chosen, on="source", how="anti").select(columns)
    whole = pl.concat([chosen.select(columns).with_columns(pl.col("steps").fill_null(0).cast(pl.UInt32)), rest])
    return Windows(whole.sort("source"), steps)


def _all_events(activity: Activity) -> pl.DataFrame:
    extents = activity.sources.select("source", start_ns="first_ns", end_ns="last_ns").drop_nulls()
    return extents.with_columns(basis=pl.lit("all events"))
