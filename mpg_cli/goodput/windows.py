"""The stretch of each source that the account covers, and its steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import patterns
from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

# what a window and a step belong to; process is null in files that do not tell processes apart
OWNER = ["source", "process"]
RANGES = {"nsight-systems": "NVTX", "rocprofv3": "ROCTx"}  # how a format calls what a program marks
MARKED = "no step was marked (jax.profiler.StepTraceAnnotation does that), and "
PROGRAMS = {"xla": MARKED, "nsys-jax": ""}  # formats where else the runs of a program are the steps
SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
MAX_HINT = 120  # characters of a name that is worth suggesting


@dataclass(frozen=True)
class Windows:
    """by_source: source, process, start_ns, end_ns, basis, steps (their number); one row per source with activity, or
    per process of a source that numbers its devices by process.

    steps: source, process, step, name, start_ns, end_ns; those of processes without devices are left out.
    """

    by_source: pl.DataFrame
    steps: pl.DataFrame

    def of(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """The window of each device (subject, source, process): subject, source, start_ns, end_ns, basis, steps."""
        devices = subjects.select("subject", *OWNER)
        found = devices.join(self.by_source, on=OWNER, nulls_equal=True)
        return found.drop("process").sort("subject")


def find_steps(dataset: Dataset, pattern: str | None) -> pl.DataFrame:
    """The steps of all sources: those that the parser found, or the host ranges whose name `pattern` matches.

    Columns: source, process, step, name, start_ns, end_ns. The first number in a matching name is the step's number.
    Raises UsageError for a bad pattern.
    """
    steps = dataset.scan("steps").collect() if pattern is None else _ranges(dataset, pattern)
    return steps.unique(maintain_order=True).sort("source", "start_ns", "end_ns", "name", "process")


def _ranges(dataset: Dataset, pattern: str) -> pl.DataFrame:
    patterns.check(pattern, "--step-regex")
    return (
        dataset.scan("host_events")
        .filter(pl.col("kind").is_in(["annotation", "op", "python"]) & pl.col("dur_ns").is_not_null())
        .filter(pl.col("name").str.contains(pattern))
        .select(
            *OWNER,
            pl.col("name").str.extract(r"(\d+)").cast(pl.Int64, strict=False).alias("step"),
            "name",
            "start_ns",
            (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        )
        .collect()
    )


def find_windows(activity: Activity, steps: pl.DataFrame, choice: str) -> Windows:
    """The window of every process with device activity.

    steps: from the first step's start to the last step's end, where the process has steps; device: the hull of the
    source's device activity; all: the hull of all its events, or the profile's own bounds. Without
    steps, `steps` is `device`.
    """
    ends = pl.col("start_ns").min(), pl.col("end_ns").max()
    owners = activity.subjects.select(OWNER).unique()
    steps = _owned(steps, owners)
    device = activity.ops.group_by("source").agg(*ends, basis=pl.lit("device activity"))
    device = owners.join(device, on="source")
    chosen = {
        "steps": steps.group_by(OWNER).agg(*ends, basis=pl.lit("steps")),
        "device": device,
        "all": owners.join(_all_events(activity), on="source"),
    }[choice]
    rest = device.join(chosen, on=OWNER, how="anti", nulls_equal=True)
    counts = steps.group_by(OWNER).agg(steps=pl.len())
    counted = pl.concat([chosen, rest]).join(counts, on=OWNER, how="left", nulls_equal=True)
    return Windows(counted.with_columns(pl.col("steps").fill_null(0)).sort(OWNER), steps)


def _owned(steps: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """The steps of processes with devices; in files that number devices for one process, of any."""
    apart = owners.filter(pl.col("process").is_not_null())["source"].unique()
    process = pl.when(pl.col("source").is_in(apart.implode())).then("process")
    known = steps.with_columns(process).unique(maintain_order=True)
    return known.join(owners, on=OWNER, how="semi", nulls_equal=True, maintain_order="left")


def _all_events(activity: Activity) -> pl.DataFrame:
    """From the first event to the last; where the file says when the profiler was on, from then to then."""
    profiled = (pl.col("profile_start_ns") < pl.col("profile_end_ns")).fill_null(value=False)
    ends = (("profile_start_ns", "first_ns"), ("profile_end_ns", "last_ns"))
    start, end = (pl.when(profiled).then(stated).otherwise(seen) for stated, seen in ends)
    basis = pl.when(profiled).then(pl.lit("profile")).otherwise(pl.lit("all events"))
    extents = activity.sources.select("source", start_ns=start, end_ns=end, basis=basis)
    return extents.drop_nulls()


def missing_steps(
    dataset: Dataset, windows: Windows, sources: pl.DataFrame, pattern: str | None
) -> list[Notice]:
    """What to say of each source without steps, or with processes without; sources: source, path, format."""
    counts = windows.by_source.group_by("source").agg(
        (pl.col("steps") == 0).sum().alias("without"), pl.len().alias("of"), *_HULL
    )
    lacking = counts.filter(pl.col("without") > 0).join(sources, on="source").sort("source")
    hints = repeated_ranges(dataset, lacking)
    return [
        _missing(row, _said(dataset, row, pattern), hints.get(row["source"]))
        for row in lacking.rows(named=True)
    ]


_HULL = (pl.col("start_ns").min(), pl.col("end_ns").max())


def _missing(row: Mapping[str, Any], missing: str, found: str | None) -> Notice:
    if row["without"] < row["of"]:
        message = (
            f"{row['without']} of {row['of']} processes with device work have no steps of their own: their window is "
            "the hull of the device activity"
        )
        return Notice("no_steps", message, row["without"], row["path"])
    hint = f"; a range that repeats could serve: --step-regex '{found}'" if found else ""
    message = f"{missing}: the window is the hull of the device activity{hint}"
    return Notice("no_steps", message, 1, row["path"])


def _said(dataset: Dataset, row: Mapping[str, Any], pattern: str | None) -> str:
    """That no range is named like a step, and why, as far as the format tells."""
    if pattern:
        return f"no host range matches {pattern!r}"
    if row["format"] in PROGRAMS:
        return f"{PROGRAMS[row['format']]}no program is seen to run twice and take most of the time"
    ranges = RANGES.get(row["format"])
    if ranges is None:
        return "no ProfilerStep ranges"
    events = dataset.scan("host_events", row["source"]).filter(pl.col("kind").is_in(["annotation", "op"]))
    if events.head(1).collect().height:
        return f"no {ranges} range is named like a step, such as `step 3`"
    hint = "was it traced, with a version of the package that the profiler knows?"
    return f"no {ranges} ranges at all ({hint})"


def repeated_ranges(dataset: Dataset, windows: pl.DataFrame) -> dict[int, str]:
    """By source, a pattern for --step-regex: of the host ranges that repeat, the one that covers most time.

    None for a source of `windows` (source, start_ns, end_ns; one row each) where no range covers at least half of its
    window: a small module that repeats is no step.
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
