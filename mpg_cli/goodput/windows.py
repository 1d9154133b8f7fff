"""The stretch of each source that the account covers, and its steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
MAX_HINT = 120  # characters of a name that is worth suggesting


@dataclass(frozen=True)
class Windows:
    """by_source: source, start_ns, end_ns, basis, steps (their number); one row per source with activity.

    steps: source, step, name, start_ns, end_ns.
    """

    by_source: pl.DataFrame
    steps: pl.DataFrame


def find_steps(dataset: Dataset, pattern: str | None) -> pl.DataFrame:
    """The steps of all sources: ProfilerStep ranges, or the host ranges whose name `pattern` matches.

    The first number in a matching name is the step's number. Raises UsageError for a bad pattern.
    """
    steps = dataset.scan("steps").collect() if pattern is None else _ranges(dataset, pattern)
    return steps.unique(maintain_order=True).sort("source", "start_ns", "end_ns", "name")


def _ranges(dataset: Dataset, pattern: str) -> pl.DataFrame:
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        hint = "patterns are Rust regular expressions: no look-around and no back-references"
        raise UsageError(f"--step-regex {pattern!r}: {error}", hint=hint) from error
    return (
        dataset.scan("host_events")
        .filter(pl.col("kind").is_in(["annotation", "op", "python"]) & pl.col("dur_ns").is_not_null())
        .filter(pl.col("name").str.contains(pattern))
        .select(
            "source",
            pl.col("name").str.extract(r"(\d+)").cast(pl.Int64, strict=False).alias("step"),
            "name",
            "start_ns",
            (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        )
        .collect()
    )


def find_windows(activity: Activity, steps: pl.DataFrame, choice: str) -> Windows:
    """The window of every source with device activity.

    steps: from the first step's start to the last step's end, where there are steps; device: the hull of the
    source's device activity; all: the hull of all its events. Without steps, `steps` is `device`.
    """
    ends = pl.col("start_ns").min(), pl.col("end_ns").max()
    device = activity.ops.group_by("source").agg(*ends, basis=pl.lit("device activity"))
    chosen = {
        "steps": steps.group_by("source").agg(*ends, basis=pl.lit("steps")),
        "device": device,
        "all": _all_events(activity),
    }[choice]
    known = pl.concat(
        [chosen.join(device, on="source", how="semi"), device.join(chosen, on="source", how="anti")]
    )
    counts = steps.group_by("source").agg(steps=pl.len())
    counted = known.join(counts, on="source", how="left").with_columns(pl.col("steps").fill_null(0))
    return Windows(counted.sort("source"), steps)


def _all_events(activity: Activity) -> pl.DataFrame:
    extents = activity.sources.select("source", start_ns="first_ns", end_ns="last_ns").drop_nulls()
    return extents.with_columns(basis=pl.lit("all events"))


def repeated_ranges(dataset: Dataset, windows: pl.DataFrame) -> dict[int, str]:
    """By source, a pattern for --step-regex: of the host ranges that repeat, the one that covers most time.

    None for a source of `windows` (source, start_ns, end_ns) where no range covers at least half of its window: a
    small module that repeats is no step.
    """
    lengths = windows.lazy().select("source", window_ns=pl.col("end_ns") - pl.col("start_ns"))
    ranges = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "annotation") | pl.col("name").str.starts_with("nn.Module: "))
        .filter(~pl.col("name").str.contains("(?i)dataloader|optimizer|profilerstep"))
        .filter(pl.col("name").str.len_chars() <= MAX_HINT)
        .group_by("source", "name")
        .agg(n=pl.len(), total=pl.col("dur_ns").sum())
        .join(lengths, on="source")
        .filter((pl.col("n") > 1) & (pl.col("total") * 2 >= pl.col("window_ns")))
        .sort("source", "total", "name", descending=[False, True, False])
        .unique("source", keep="first", maintain_order=True)
        .collect()
    )
    found = ranges.select("source", "name").iter_rows()
    return {source: "^" + SPECIAL.sub(r"\\\g<0>", name) + "$" for source, name in found}
