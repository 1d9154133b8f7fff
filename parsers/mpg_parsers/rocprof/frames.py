"""Records of one process into rows of the canonical tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.ranges import operators
from mpg_parsers.rocprof.records import GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mpg_parsers.rocprof.records import Agent, Call, Copy, Extent, Kernel, Process, Symbol

LATEST = (1 << 62) - 1  # ns
DISASSEMBLER_SUFFIXES = (" [clone .kd]", ".kd")  # the kernel descriptor's symbol, not the kernel's
DIRECTIONS = {
    (False, True): "Memcpy HtoD (Host -> Device)",
    (True, False): "Memcpy DtoH (Device -> Host)",
    (True, True): "Memcpy DtoD (Device -> Device)",
}
PEER = "Memcpy PtoP (Device -> Device)"


class Namer:
    """What the numbers in the records of one process stand for."""

    def __init__(self, process: Process, clean: Callable[[str], str]) -> None:
        self._agents = {agent.id.handle: agent for agent in process.agents}
        self._kernels = {symbol.kernel_id: clean(_kernel_name(symbol)) for symbol in process.kernel_symbols}
        self._operations = [kind.operations for kind in process.strings.buffer_records]
        self._messages = {message.key: clean(message.value) for message in process.strings.marker_api}

    def gpu(self, handle: int) -> Agent | None:
        """The GPU with this handle."""
        agent = self._agents.get(handle)
        return agent if agent and agent.type == GPU else None

    def device(self, handle: int) -> int | None:
        """The node id of a GPU."""
        gpu = self.gpu(handle)
        return None if gpu is None else gpu.node_id

    def kernel(self, kernel_id: int) -> str:
        """The kernel's name, or one that says its number."""
        return self._kernels.get(kernel_id) or f"kernel {kernel_id}"

    def call(self, call: Call) -> str:
        """The function's name."""
        if 0 <= call.kind < len(self._operations) and 0 <= call.operation < len(self._operations[call.kind]):
            return self._operations[call.kind][call.operation]
        return f"operation {call.operation} of kind {call.kind}"

    def message(self, call: Call) -> str | None:
        """The text of a ROCTx range or mark."""
        return self._messages.get(call.correlation_id.internal)


def _kernel_name(symbol: Symbol) -> str:
    name = symbol.formatted_kernel_name or symbol.kernel_name
    for suffix in DISASSEMBLER_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def kernel_rows(records: Sequence[Kernel], namer: Namer) -> pl.DataFrame:
    """Columns of device_ops, with queue and hip_stream in place of stream; `device` is null for no known GPU."""
    infos = [record.dispatch_info for record in records]
    return pl.DataFrame(
        {
            "device": [namer.device(info.agent_id.handle) for info in infos],
            "queue": [info.queue_id.handle for info in infos],
            "hip_stream": [record.stream_id.handle if record.stream_id else None for record in records],
            "name": [namer.kernel(info.kernel_id) for info in infos],
            "grid": [_blocks(info.grid_size, info.workgroup_size) for info in infos],
            "block": [_listed(_sides(info.workgroup_size)) for info in infos],
            **_times(records),
        },
        schema_overrides={**_INTEGERS, "name": pl.String, "grid": pl.String, "block": pl.String},
    ).with_columns(kind=pl.lit("kernel"))


def copy_rows(records: Sequence[Copy], namer: Namer) -> pl.DataFrame:
    """The same of copies that a GPU takes part in; between two, of the one that is read.

    That is whose engine copies: ROCr, Runtime::CopyMemory (core/runtime/runtime.cpp).
    """
    ends = [(namer.gpu(r.src_agent_id.handle), namer.gpu(r.dst_agent_id.handle)) for r in records]
    kept = [
        (r, source, target) for r, (source, target) in zip(records, ends, strict=True) if source or target
    ]
    copies = [record for record, _, _ in kept]
    return pl.DataFrame(
        {
            "device": [(source or target).node_id for _, source, target in kept],  # type: ignore[union-attr]
            "hip_stream": [record.stream_id.handle if record.stream_id else None for record in copies],
            "name": [_direction(source, target) for _, source, target in kept],
            "bytes": [record.bytes for record in copies],
            **_times(copies),
        },
        schema_overrides={**_INTEGERS, "name": pl.String},
    ).with_columns(kind=pl.lit("memcpy"), queue=pl.lit(None, pl.Int64))


def call_rows(records: Sequence[Call], namer: Namer, kind: str) -> pl.DataFrame:
    """Columns of host_events: functions called."""
    return _host_rows(records, [namer.call(record) for record in records], kind)


def range_rows(records: Sequence[Call], namer: Namer) -> pl.DataFrame:
    """The same of ROCTx ranges and marks; PyTorch's operators among them are of kind "op".

    Marker calls without a text (naming a thread, pausing the profiler) are no ranges.
    """
    named = [(record, text) for record in records if (text := namer.message(record)) is not None]
    rows = _host_rows([record for record, _ in named], [text for _, text in named], "annotation")
    return operators(rows)


def device_rows(process: Process, used: Mapping[int, int | None]) -> list[dict[str, object]]:
    """Rows of devices for the GPUs in `used`: node id → what stands in the column process."""
    return [
        {
            "process": used[agent.node_id],
            "device": agent.node_id,
            "uuid": _uuid(agent),
            "name": agent.product_name or agent.name or None,
            "memory_bytes": sum(bank.size_in_bytes for bank in agent.mem_banks) or None,
            "sm_count": agent.cu_count or None,
            "clock_hz": agent.max_engine_clk_fcompute * 1_000_000 or None,
        }
        for agent in process.agents
        if agent.type == GPU and agent.node_id in used
    ]


_INTEGERS = dict.fromkeys(
    ("device", "queue", "hip_stream", "bytes", "start_ns", "dur_ns", "correlation", "thread"), pl.Int64
)


def _times(records: Sequence[Kernel | Copy | Call]) -> dict[str, list[int | None]]:
    """start_ns (null if it cannot be a time), dur_ns (null if negative) and correlation (0 is none)."""
    return {
        "start_ns": [r.start_timestamp if 0 < r.start_timestamp <= LATEST else None for r in records],
        "dur_ns": [_length(r.start_timestamp, r.end_timestamp) for r in records],
        "correlation": [r.correlation_id.internal or None for r in records],
    }


def _length(start: int, end: int) -> int | None:
    return end - start if 0 < start <= end <= LATEST else None


def _host_rows(records: Sequence[Call], names: list[str], kind: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"thread": [record.thread_id for record in records], "name": names, **_times(records)},
        schema_overrides={**_INTEGERS, "name": pl.String},
    ).with_columns(kind=pl.lit(kind))


def _direction(source: Agent | None, target: Agent | None) -> str:
    if source and target and source is not target:
        return PEER
    return DIRECTIONS[source is not None, target is not None]


def _sides(extent: Extent) -> tuple[int, int, int]:
    return extent.x, extent.y, extent.z


def _blocks(grid: Extent, block: Extent) -> str:
    """The grid in blocks: the dispatch packet has it in work-items, and the last block may be partial."""
    return _listed(
        tuple(-(-items // max(size, 1)) for items, size in zip(_sides(grid), _sides(block), strict=True))
    )


def _listed(sides: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, sides))}]"


def _uuid(agent: Agent) -> str | None:
    """As rocminfo writes it: GPU- and the unique id in hexadecimal digits."""
    digits = [agent.uuid.bytes.get(f"value{index}", 0) for index in range(8)]
    if not any(digits) or not all(0 <= digit < 256 for digit in digits):
        return None
    return f"GPU-{int.from_bytes(bytes(digits), 'little'):016x}"
