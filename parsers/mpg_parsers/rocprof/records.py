"""The JSON that `rocprofv3 --output-format json` writes, as far as it is used.

Names and meaning: ROCprofiler-SDK, source/docs/rocprofv3-schema.json and source/lib/output/generateJSON.cpp. Times
are integer nanoseconds of the machine's monotonic clock. What is not named here is skipped while decoding.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

GPU = 2  # Agent.type
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Handle(msgspec.Struct, gc=False, frozen=True):
    """An id, wrapped."""

    handle: Number = 0


class Correlation(msgspec.Struct, gc=False, frozen=True):
    """`internal` is the same for an API call and for the device work it started."""

    internal: Number = 0


class Extent(msgspec.Struct, gc=False, frozen=True):
    """A size in three dimensions, in work-items."""

    x: Number = 1
    y: Number = 1
    z: Number = 1


class Dispatch(msgspec.Struct, gc=False):
    """What was launched, where."""

    agent_id: Handle
    kernel_id: Number
    queue_id: Handle = Handle()
    workgroup_size: Extent = Extent()
    grid_size: Extent = Extent()


class Kernel(msgspec.Struct, gc=False):
    """One entry of buffer_records.kernel_dispatch; `stream_id` came with ROCm 6.4."""

    start_timestamp: Number
    end_timestamp: Number
    dispatch_info: Dispatch
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Copy(msgspec.Struct, gc=False):
    """One entry of buffer_records.memory_copy; `bytes` came with ROCm 6.3."""

    start_timestamp: Number
    end_timestamp: Number
    src_agent_id: Handle
    dst_agent_id: Handle
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None
    bytes: Number | None = None


class Call(msgspec.Struct, gc=False):
    """One entry of hip_api, hsa_api, rccl_api or marker_api: `kind` and `operation` index strings.buffer_records."""

    start_timestamp: Number
    end_timestamp: Number
    kind: Number
    operation: Number
    thread_id: Number
    correlation_id: Correlation = Correlation()


class Uuid(msgspec.Struct):
    """Sixteen bytes, value0 to value15; the first eight are the GPU's unique id, lowest byte first."""

    bytes: dict[str, Number] = {}


class MemoryBank(msgspec.Struct):
    """One memory of an agent."""

    size_in_bytes: Number = 0


class Agent(msgspec.Struct):
    """A CPU (type 1) or a GPU (type 2); `node_id` is its number on the machine, as rocprofv3's CSV has it."""

    id: Handle
    type: Number
    node_id: Number
    name: str = ""
    product_name: str = ""
    cu_count: Number = 0
    max_engine_clk_fcompute: Number = 0  # MHz
    uuid: Uuid = msgspec.field(default_factory=Uuid)
    mem_banks: list[MemoryBank] = []


class Symbol(msgspec.Struct):
    """A kernel's names: "formatted" is as the user asked for (demangled unless told otherwise)."""

    kernel_id: Number
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class Operations(msgspec.Struct):
    """The names of the operations of one kind of record."""

    kind: str
    operations: list[str] = []


class Message(msgspec.Struct):
    """The text of the ROCTx range whose correlation id is `key`."""

    key: Number
    value: str


class Strings(msgspec.Struct):
    """Names that records refer to."""

    buffer_records: list[Operations] = []
    marker_api: list[Message] = []


class Node(msgspec.Struct):
    """The machine."""

    hostname: str = ""


class Metadata(msgspec.Struct):
    """The profiled process."""

    pid: Number
    node: Node = msgspec.field(default_factory=Node)


class Process(msgspec.Struct):
    """All of one process; the lists of records stay as text until they are needed."""

    metadata: Metadata
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: dict[str, msgspec.Raw] = {}


class Document(msgspec.Struct):
    """The whole file."""

    processes: list[Process] = msgspec.field(name="rocprofiler-sdk-tool")
