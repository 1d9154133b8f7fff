"""One packed profile of nsys-jax into batches of the canonical tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from polars import col

from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.nsysjax import about, hosts, ranges
from mpg_parsers.nsysjax.layout import TRACE
from mpg_parsers.nsysjax.programs import Dumps
from mpg_parsers.tables import (
    DEVICE_OPS,
    DEVICES,
    HLO_OPS,
    HOST_EVENTS,
    PROGRAM_RUNS,
    PROGRAMS,
    SOURCES,
    STEPS,
)
from mpg_parsers.xla import steps
from mpg_parsers.xla.catalogue import Catalogue
from mpg_parsers.xla.operations import base_name, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.nsysjax.packing import Pack
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.xla.programs import Programs

Batch = tuple[str, pl.DataFrame]
# XLA copies with the driver what it does not fuse into a kernel (xla/service/gpu: DeviceToDeviceCopyThunk)
COPY = "copy"
# a captured graph of kernels that is launched as one thunk: what runs inside does not show
GRAPH = "command_buffer"
BATCH_ROWS = 100_000
NS_PER_MS = 1e6


class Report:
    """Reads one profile once."""

    def __init__(self, pack: Pack, options: ParseOptions) -> None:
        self._pack = pack
        self._keep_names = options.keep_names
        self._clean = str if options.keep_names else strip_directories
        self._notices: list[Notice] = []
        self._dropped: Counter[str] = Counter()
        self._dumps = Dumps(pack)
        self._hlo_ops, self._ran = pl.DataFrame(), pl.DataFrame()

    def batches(self) -> Iterator[Batch]:
        """All tables. Raises InputError: no_device_activity, and what Pack and ranges.read raise."""
        trace = self._trace()
        devices, threads = about.devices(self._pack), about.launchers(self._pack)
        found, _ = about.on_devices(ranges.runs(trace), devices, threads)
        operations, guessed = about.on_devices(
            ranges.operations(trace, found.drop("device")), devices, threads
        )
        if operations.is_empty():
            raise self._nothing(trace)
        self._notices += guessed
        ops = self._device_ops(operations)
        for part in ops.iter_slices(BATCH_ROWS):
            yield "device_ops", DEVICE_OPS.conform(part)
        host, untimed = hosts.read(self._pack, trace.ranges, operations["id"], keep_names=self._keep_names)
        self._dropped["ranges on the host without a usable start or duration"] += untimed
        for part in host.iter_slices(BATCH_ROWS):
            yield "host_events", HOST_EVENTS.conform(part)
        yield from self._programs(found)
        yield "devices", DEVICES.conform(_used(devices, ops))
        yield "steps", self._steps(found)
        self._judge(trace, operations, found)
        yield "sources", self._source_row(trace, devices, host, ops)

    def _trace(self) -> ranges.Trace:
        table = self._pack.table(TRACE)
        if table is None:
            raise InputError("corrupt_input", self._pack.path, "there is no trace.parquet in it")
        trace = ranges.read(table, self._pack.path)
        self._dropped.update(trace.lost)
        return trace

    def _nothing(self, trace: ranges.Trace) -> InputError:
        message = (
            f"no device activity: none of the {trace.ranges.height} ranges in trace.parquet launched GPU work"
        )
        hint = "record with nsys-jax on the machine with the GPU, with --trace=cuda,nvtx"
        return InputError("no_device_activity", self._pack.path, message, hint=hint)

    def _device_ops(self, operations: pl.DataFrame) -> pl.DataFrame:
        """Rows of device_ops by start. The id of the range on the host, which launched the work, is the correlation."""
        catalogue = Catalogue(cast("Programs", self._dumps), self._clean)
        numbered = catalogue.of_kernels(_keys(operations))
        joined = _keys(operations).join(
            numbered,
            on=["program_id", "hlo_module", "hlo_op"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        rows = operations.with_columns(hlo=joined["hlo"]).hstack(joined.select("group", "group_size"))
        self._hlo_ops = _with_framework(catalogue.table(), rows)
        kinds = rows.select("hlo", "op").unique(maintain_order=True)
        what = [_work(catalogue, *row) for row in kinds.iter_rows()]
        schema = {"kind": pl.String, "collective": pl.String}
        kinds = kinds.hstack(pl.DataFrame(what, schema, orient="row"))
        named = rows.join(kinds, on=["hlo", "op"], how="left", nulls_equal=True, maintain_order="left")
        return named.with_columns(
            name=pl.coalesce("op", "range"), correlation="id", process=pl.lit(None, pl.Int64)
        ).sort("start_ns", "id")

    def _programs(self, found: pl.DataFrame) -> Iterator[Batch]:
        ran = found.select("program_id", "program").unique("program_id", keep="first", maintain_order=True)
        self._ran = PROGRAMS.conform(
            pl.DataFrame(self._dumps.rows(ran.iter_rows()), infer_schema_length=None)
        )
        yield "hlo_ops", HLO_OPS.conform(self._hlo_ops)
        yield "programs", self._ran
        runs = found.with_columns(name="program", process=pl.lit(None, pl.Int64))
        yield "program_runs", PROGRAM_RUNS.conform(runs)

    def _steps(self, found: pl.DataFrame) -> pl.DataFrame:
        """The runs of the program that took most time. One that the profiler stopped in the middle of is none."""
        whole = found.filter(~col.cut).rename({"program": "name"})
        nowhere = pl.DataFrame(schema={**steps.SCHEMA, "step_num": pl.Int64, "dur_ns": pl.Int64})
        chosen = steps.find((), nowhere, whole)
        self._notices += chosen.notices
        if cut := found.filter("cut").height:
            message = f"{cut} runs of programs have fewer GPU operations than all before: the profiler stopped in them"
            self._notices.append(Notice("runs_cut", message, cut))
        return STEPS.conform(chosen.table)

    def _judge(self, trace: ranges.Trace, operations: pl.DataFrame, found: pl.DataFrame) -> None:
        """Notices of what the projection leaves open."""
        hulls = operations.filter(col.gpu_ops > 1)
        if hulls.height:
            span, total = int(hulls["dur_ns"].sum()), int(operations["dur_ns"].sum())
            self._notices.append(Notice("projected_hulls", (
                f"{hulls.height} operations launched several kernels: from the first to the last they span "
                f"{span / NS_PER_MS:.1f} ms ({span / max(1, total):.1%} of all operations), gaps in between included"
            ), hulls.height))  # fmt: skip
        if operations["gpu_ops"].null_count() == operations.height:
            message = "this version of Nsight Systems does not say how many kernels a range spans: gaps count as busy"
            self._notices.append(Notice("projected_hulls", message, operations.height))
        lost, counted = ranges.uncovered(trace)
        if lost:
            inside = _uncovered_in(found, operations)
            self._notices.append(Notice("unranged_operations", (
                f"{lost} of {counted} GPU operations are in no XLA operation's range ({inside} of them in runs of "
                "programs): when they ran is not in the archive, and that time counts as idle"
            ), lost))  # fmt: skip
        if trace.repeated:
            message = (
                f"{trace.repeated} ranges have the id of another: work of CUDA graphs may be listed twice"
            )
            self._notices.append(Notice("duplicate_events", message, trace.repeated))
        self._notices += [
            Notice("dropped_events", f"{n} {what} were dropped", n) for what, n in self._dropped.items() if n
        ]
        self._notices += self._dumps.notices()

    def _source_row(
        self, trace: ranges.Trace, devices: pl.DataFrame, host: pl.DataFrame, ops: pl.DataFrame
    ) -> pl.DataFrame:
        """The row of sources. Times count from the start of the session; nsys-jax does not keep its Unix time."""
        spans = pl.concat([part.select(col.start_ns, end=col.start_ns + col.dur_ns) for part in (ops, host)])
        own = about.rank(devices)
        row: dict[str, Any] = {
            "format": "nsys-jax",
            "rank": own,
            "world_size": _world(self._ran, max(1, devices.height), own),
            "first_ns": spans["start_ns"].min(),
            "last_ns": spans["end"].max(),
            "events": trace.ranges.height + host.height,
            "notices": listed(self._notices),
            **about.system(self._pack).fields(keep_names=self._keep_names),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))


def _keys(operations: pl.DataFrame) -> pl.DataFrame:
    """What operations are known by. What the autotuner tries out while it compiles is in no program."""
    op = pl.when(col.program_id.is_not_null()).then("op")
    return operations.select(col.program_id.cast(pl.Int64, strict=False), hlo_module="program", hlo_op=op)


def _work(catalogue: Catalogue, hlo: int | None, op: str | None) -> tuple[str, str | None]:
    """kind and collective of an operation. What is in no thunk is a kernel that XLA ran on its own account."""
    if hlo is None or op is None:
        return "kernel", None
    base = base_name(op)
    if base == GRAPH:
        return "graph", None
    if base == COPY:
        return "memcpy", None
    what = work(catalogue.category(hlo), op)
    return what.kind, what.collective


def _with_framework(table: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`table` (hlo_ops) with the framework's operator from the ranges' names where no program says it."""
    named = rows.drop_nulls(["hlo", "framework_op"]).unique("hlo", keep="first", maintain_order=True)
    joined = table.join(named.select("hlo", said=col.framework_op.str.slice(0, 300)), on="hlo", how="left")
    return joined.with_columns(framework_op=pl.coalesce("framework_op", "said")).drop("said").sort("hlo")


def _used(devices: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The devices, and the number 0 for work of which no device is stated."""
    numbers = ops.select("device").unique()
    return numbers.join(devices, on="device", how="full", coalesce=True).sort("device")


def _uncovered_in(found: pl.DataFrame, operations: pl.DataFrame) -> int:
    """GPU operations of runs of programs that are in no operation's range."""
    inside = operations.join(found.select("run"), on="run", how="semi")
    total, covered = found["gpu_ops"].sum(), inside["gpu_ops"].sum()
    return max(0, int(total or 0) - int(covered or 0))


def _world(programs: pl.DataFrame, devices: int, rank: int | None) -> int | None:
    """Processes of the job: the devices of the program with most of them, by those of this process.

    None where no program reaches beyond this process, or the figures do not fit together.
    """
    most = programs.select((col.partitions * col.replicas).max()).item() if programs.height else None
    if most is None or rank is None or most <= devices or most % devices:
        return None
    processes = int(most // devices)
    return processes if rank < processes else None
