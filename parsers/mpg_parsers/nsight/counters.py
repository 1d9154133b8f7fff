"""Samples of GPU metrics. What was not sampled is absent, never zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col, lit

from mpg_parsers.errors import Notice
from mpg_parsers.nsight.about import gpu_uuids
from mpg_parsers.nsight.columns import LATEST, Only
from mpg_parsers.tables import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.nsight.columns import Export

SAMPLES, METRICS = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
KEPT = r"(?i)\bsms? active|\bsm issue|tensor|\bdram|clock freq"  # what can witness how busy a device was
CLOCK = r"(?i)clock freq"
SCALED = r"\[[^\]%]*\]\s*$"  # a unit in brackets other than per cent
MAX_CLOCK = 10_000_000_000  # Hz
GPU = 0xFF  # the bits of typeId that number the GPU


class CounterReader:
    """Reads the metrics that tell how busy a GPU was, and drops samples out of range."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._dropped = 0
        self._read = 0

    def read(self) -> Iterator[pl.DataFrame]:
        """Batches of `counters`."""
        metrics = self._metrics()
        if metrics.is_empty():
            return
        uuids = gpu_uuids(self._export).rename({"gpu": "device"})
        only = Only("metricId", tuple(metrics["metricId"].unique().sort().to_list()))
        for batch in self._export.batches(SAMPLES, ("timestamp", "typeId", "metricId", "value"), only=only):
            named = batch.join(metrics, on=["typeId", "metricId"], maintain_order="left")
            good = named.filter(col.timestamp.is_between(-LATEST, LATEST) & col.value.is_between(0, col.most))
            self._read += named.height
            self._dropped += named.height - good.height
            rows = good.select("metric", "value", device=col.typeId & GPU, ts_ns="timestamp")
            yield COUNTERS.conform(rows.join(uuids, on="device", how="left", maintain_order="left"))

    def notices(self) -> list[Notice]:
        """What was left out."""
        if not self._dropped:
            return []
        message = (
            f"{self._dropped} of {self._read} samples of GPU metrics are out of range (below 0, above 100 % or above "
            f"{MAX_CLOCK // 10**9} GHz) and were dropped"
        )
        return [Notice("dropped_samples", message, self._dropped)]

    def _metrics(self) -> pl.DataFrame:
        """typeId, metricId, metric, most (the largest possible value)."""
        found = list(self._export.batches(METRICS, ("typeId", "metricId"), ["metricName"]))
        if not found:
            return pl.DataFrame()
        name = col.metric
        most = (
            pl.when(name.str.contains(CLOCK)).then(lit(MAX_CLOCK))
            .when(name.str.contains(SCALED)).then(lit((1 << 62) - 1))
            .otherwise(lit(100))
        )  # fmt: skip
        known = pl.concat(found).drop_nulls().rename({"metricName": "metric"})
        return (
            known.filter(name.str.contains(KEPT))
            .unique(["typeId", "metricId"])
            .with_columns(most=most.cast(pl.Int64))
        )
