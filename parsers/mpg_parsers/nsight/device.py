"""What ran on the devices: kernels, copies, sets, migrations of unified memory, and graphs recorded as wholes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col, lit

from mpg_parsers import device_records
from mpg_parsers.errors import Notice
from mpg_parsers.launches import MIGRATION
from mpg_parsers.nsight.columns import in_time
from mpg_parsers.nsight.names import (
    COPY_KINDS,
    MEMORY_KINDS,
    MIGRATIONS,
    UNSTATED,
    Names,
    correlation,
    labels,
    process,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.nsight.columns import Export

KERNEL, MEMCPY, MEMSET, GRAPH = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH)
PLACE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
GRID, BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
KERNEL_NAMES = ("demangledName", "shortName", "mangledName")
UNNAMED = "(unnamed)"
NODES_HINT = "record with `nsys profile --cuda-graph-trace=node` to see the kernels inside"


class DeviceReader:
    """Reads device_ops; rows are held (about 100 bytes each), since their clean-up needs all of them."""

    def __init__(self, export: Export, names: Names, *, several: bool) -> None:
        """several: launches of several processes are in the export."""
        self._export = export
        self._names = names
        self._launch = correlation("globalPid", several=several).alias("correlation")
        self.notices: list[Notice] = []
        self.counts: dict[str, int] = {}

    def read(self, host_span: tuple[int, int] | None) -> pl.DataFrame:
        """All device_ops that can be used; host_span: first and last instant of the host's events."""
        readers = {KERNEL: self._kernels, MEMCPY: self._copies, MEMSET: self._sets, GRAPH: self._graphs}
        held: list[pl.DataFrame] = []
        for table, read in readers.items():
            parts = [self._usable(table, part) for part in read()]
            self.counts[table] = sum(part.height for part in parts)
            held += parts
        if not held:
            return pl.DataFrame(schema=_EMPTY).drop("address")
        ops, notices = device_records.usable(pl.concat(held), host_span)
        self.notices += notices
        self._note_graphs()
        return ops.drop("address")

    def _usable(self, table: str, part: pl.DataFrame) -> pl.DataFrame:
        """Rows with a place in time and on a device, in the layout in which they are held."""
        good = part.filter(in_time() & col("dur_ns").is_not_null() & col("device").is_not_null())
        if lost := part.height - good.height:
            self._export.bad.rows[table, "start, end or device"] += lost
        return good.select(
            pl.col(name).cast(dtype) if name in good.columns else lit(None, dtype).alias(name)
            for name, dtype in _EMPTY.items()
        )

    def _kernels(self) -> Iterator[pl.DataFrame]:
        there = self._export.columns(KERNEL)
        naming = [name for name in KERNEL_NAMES if name in there]
        columns = (*PLACE, *naming, *GRID, *BLOCK, "graphNodeId")
        for batch in self._export.batches(KERNEL, columns):
            named = batch.with_columns(name=lit(None, pl.String))
            for column in naming:
                if named["name"].null_count():
                    named = self._names.attach(named, column, "_name")
                    named = named.with_columns(name=pl.coalesce("name", "_name")).drop("_name")
            yield named.select(
                *_place("kernel"),
                self._launch,
                col("name").fill_null(UNNAMED),
                graph_node=col("graphNodeId"),
                grid=_extent(GRID),
                block=_extent(BLOCK),
                blocks=_product(GRID),
            )

    def _copies(self) -> Iterator[pl.DataFrame]:
        memory = _phrases(self._export, "ENUM_CUDA_MEM_KIND", MEMORY_KINDS)
        columns = (*PLACE, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId", "virtualAddress")
        detailed = {"srcKind", "dstKind"} <= self._export.columns(MEMCPY)
        for batch in self._export.batches(MEMCPY, columns):
            yield batch.select(
                *_place("memcpy"),
                self._launch,
                "bytes",
                name=_copy_name(memory, detailed=detailed),
                graph_node=col("graphNodeId"),
                address=col("virtualAddress"),
            )

    def _sets(self) -> Iterator[pl.DataFrame]:
        memory = _phrases(self._export, "ENUM_CUDA_MEM_KIND", MEMORY_KINDS)
        known = "memKind" in self._export.columns(MEMSET)
        name = pl.format("Memset ({})", _phrase("memKind", memory)) if known else lit("Memset (Device)")
        for batch in self._export.batches(MEMSET, (*PLACE, "bytes", "memKind", "graphNodeId")):
            yield batch.select(
                *_place("memset"), self._launch, "bytes", name=name, graph_node=col("graphNodeId")
            )

    def _graphs(self) -> Iterator[pl.DataFrame]:
        for batch in self._export.batches(GRAPH, (*PLACE, "graphId")):
            named = pl.format("CUDA graph {}", col("graphId")).fill_null("CUDA graph")
            yield batch.select(*_place("graph"), self._launch, name=named)

    def _note_graphs(self) -> None:
        if count := self.counts[GRAPH]:
            message = (
                f"{count} graph launches were recorded as wholes: which kernels and how much communication ran "
                f"inside is unknown; {NODES_HINT}"
            )
            self.notices.append(Notice("graph_level_trace", message, count))


_EMPTY = {
    "process": pl.Int64(), "device": pl.Int64(), "stream": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(),
    "kind": pl.Categorical(), "name": pl.Categorical(), "correlation": pl.Int64(), "graph_node": pl.Int64(),
    "grid": pl.Categorical(), "block": pl.Categorical(), "blocks": pl.Int64(), "bytes": pl.Int64(),
    "address": pl.Int64(),
}  # fmt: skip


def _place(kind: str) -> list[pl.Expr]:
    """Where and when a record was; a stream or correlation that is not stated is null."""
    return [
        process("globalPid").alias("process"),
        col("deviceId").alias("device"),
        pl.when(col("streamId") != UNSTATED).then("streamId").alias("stream"),
        col("start").alias("start_ns"),
        (col("end") - col("start")).alias("dur_ns"),
        lit(kind).alias("kind"),
    ]


def _extent(sides: tuple[str, ...]) -> pl.Expr:
    """A grid or block as Kineto writes it: [108, 1, 1]."""
    return pl.format("[{}, {}, {}]", *sides)


def _product(sides: tuple[str, ...]) -> pl.Expr:
    """Blocks of a grid; null where a side is missing or negative, or the product could exceed 63 bits."""
    usable = pl.all_horizontal(col(side).is_between(0, (1 << 31) - 1) for side in sides)
    x, y, z = (col(side) for side in sides)
    return pl.when(usable & (y * z <= 1 << 31)).then(x * y * z)


def _phrases(export: Export, table: str, built_in: dict[int, str]) -> dict[int, str]:
    return {number: label.strip() for number, label in labels(export, table, built_in).items()}


def _phrase(column: str, meanings: dict[int, str]) -> pl.Expr:
    return col(column).replace_strict(meanings, default="Unknown", return_dtype=pl.String)


def _copy_name(memory: dict[int, str], *, detailed: bool) -> pl.Expr:
    """As Kineto names copies, "Memcpy HtoD (Pageable -> Device)"; migrations have a name of their own."""
    direction = _phrase("copyKind", COPY_KINDS)
    kinds = pl.format(" ({} -> {})", _phrase("srcKind", memory), _phrase("dstKind", memory))
    ways = kinds if detailed else lit("")
    moved = pl.format(f"{MIGRATION} {{}}", direction)
    return (
        pl.when(col("copyKind").is_in(MIGRATIONS))
        .then(moved)
        .otherwise(pl.concat_str(lit("Memcpy "), direction, ways))
    )
