"""Everything the runtime account needs of a dataset of traces: classified device activity, windows, steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput.names import COLLECTIVE_OPERATOR, NameRules

if TYPE_CHECKING:
    from mpg_cli.store import Dataset

OPS_COLUMNS = (
    "source", "process", "device", "stream", "start_ns", "dur_ns", "kind", "name", "correlation",
    "external_id", "graph_node", "collective", "group", "group_ranks", "group_size", "seq", "in_elements",
    "element_type", "bytes", "blocks_per_sm",
)  # fmt: skip
XLA = ("hlo", "part", "asynchronous")  # read only where there are operations of XLA
LAUNCH_SHAPE = ("grid", "block")  # what kernel_counters are joined by: read only where there are some


@dataclass(frozen=True)
class Activity:
    """Device activity of all sources.

    ops: device_ops with subject (number of the device over all sources), end_ns, activity, family and rule; XLA and
    category (of the operation) where there are operations of XLA; grid and block where there are profiles of kernels
    subjects: subject, source, process, device, name, uuid, rank; one row per device with activity. Where no file states
        a rank, the devices of the only file are ranks to one another, by their numbers
    sources: the sources table, with ranks
    """

    ops: pl.DataFrame
    subjects: pl.DataFrame
    sources: pl.DataFrame


def load(dataset: Dataset, sources: pl.DataFrame, rules: NameRules) -> Activity:
    """Read and classify all device activity."""
    # few distinct texts, many rows: as categories they take a tenth of the memory
    profiled = not dataset.scan("kernel_counters").head(1).collect().is_empty()
    operations = dataset.scan("hlo_ops").select("source", "hlo", "category").collect()
    columns = (*OPS_COLUMNS, *(LAUNCH_SHAPE if profiled else ()), *(() if operations.is_empty() else XLA))
    ops = dataset.scan("device_ops").select(columns).cast({pl.String: pl.Categorical}).collect()
    keys = ["source", "process", "device"]
    subjects = ops.select(keys).unique().sort(keys).with_row_index("subject").cast({"subject": pl.Int64})
    ops = ops.join(subjects, on=keys, nulls_equal=True, maintain_order="left")
    ops = ops.with_columns(end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    ops = rules.classify(_with_category(_with_linked_operator(ops, dataset), operations))
    devices = dataset.scan("devices").select(*keys, "name", "uuid").unique(keys).collect()
    subjects = subjects.join(devices, on=keys, how="left", nulls_equal=True).sort("subject")
    return Activity(ops, _ranked(subjects, sources), sources)


def _ranked(subjects: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """`subjects` with rank: that of their file; without any, of one XLA program on several devices, the device."""
    known = subjects.join(sources.select("source", "rank"), on="source", how="left", maintain_order="left")
    single = sources.height == 1 and sources["format"][0] == "xla" and sources["rank"][0] is None
    return known.with_columns(rank=pl.col("device")) if single and known.height > 1 else known


def _with_category(ops: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """`ops` with the category of their XLA operation (`operations`: source, hlo, category)."""
    if operations.is_empty():
        return ops
    known = operations.cast({"category": pl.Categorical})
    return ops.join(known, on=["source", "hlo"], how="left", maintain_order="left")


def _with_linked_operator(ops: pl.DataFrame, dataset: Dataset) -> pl.DataFrame:
    """`ops` with linked_op: the communication operator its external id names, null for all others.

    Some traces write the correlation id as external id; such an id is no link.
    """
    operators = (
        dataset.scan("host_events")
        .filter((pl.col("kind") == "op") & pl.col("name").str.contains(COLLECTIVE_OPERATOR))
        .filter(pl.col("external_id").is_not_null())
        .select("source", "external_id", linked_op="name")
        .unique(["source", "external_id"])
        .collect()
    )
    if operators.is_empty():
        return ops.with_columns(linked_op=pl.lit(None, pl.String))
    real = pl.when(pl.col("external_id").ne_missing(pl.col("correlation"))).then("external_id")
    linked = ops.with_columns(_id=real).join(
        operators,
        left_on=["source", "_id"],
        right_on=["source", "external_id"],
        how="left",
        maintain_order="left",
    )
    return linked.drop("_id")
