"""The canonical tables: the contract between parsers and everything else, and the one place columns are named.

Times are int64 nanoseconds on the clock of their source, intervals are half-open [start, start + dur).
Every table starts with `source`, the number of the file in its dataset (see `sources`); parsers leave that
column out and the store adds it.
"""

from __future__ import annotations

from mpg_parsers.columns import Column, Table
from mpg_parsers.scheduler_tables import SCHEDULER_TABLES, SOURCE

SCHEMA_VERSION = 6

# infeed: the device takes its input from the host
DEVICE_KINDS = ("kernel", "memcpy", "memset", "graph", "infeed")
# os: a call into the operating system's libraries (ioctl, poll, ...), evidence like a Python frame
# device_wait: what a device itself says that it waits for
HOST_KINDS = (
    "op", "annotation", "runtime", "python", "overhead", "sync", "device_annotation", "os", "device_wait",
)  # fmt: skip


SOURCES = Table(
    "sources",
    "one file read",
    (
        SOURCE,
        Column("path", "string", "as given on the command line; a member of an archive is archive!member"),
        Column("sha256", "string", "of the file's bytes, as stored"),
        Column("size", "int64", "of the file as stored", "byte"),
        Column("format", "string", "name of the parser that read it"),
        Column("format_version", "string", "as the file states it", null="not stated"),
        Column("framework", "string", "what wrote it, as far as the file says", null="not stated"),
        Column("rank", "int64", "global rank of the process", null="the file names none"),
        Column("world_size", "int64", "number of ranks in the job", null="not stated"),
        Column("host", "string", "host name, kept only with --keep-names", null="not stated or not kept"),
        Column(
            "node",
            "string",
            "what tells hosts apart without naming them: first 12 hex digits of the host name's SHA-256",
            null="no host name stated, or localhost",
        ),
        Column(
            "base_ns",
            "int64",
            "what to add to a time to get Unix time",
            "ns",
            "times are already absolute, or no clock is stated",
        ),
        Column("profile_start_ns", "int64", "when the profiler was started", "ns", "not stated"),
        Column("profile_end_ns", "int64", "when it was stopped", "ns", "not stated"),
        Column(
            "as_of_ns",
            "int64",
            "latest instant that the file proves",
            "ns",
            "not stated; only of schedulers' files",
        ),
        Column(
            "naive_time",
            "bool",
            "its wall times name no zone and are written as if UTC",
            null="no wall times",
        ),
        Column(
            "zone", "string", "the zone that was given for wall times that name none", null="none was given"
        ),
        Column("first_ns", "int64", "first start of any event", "ns", "no timed event"),
        Column("last_ns", "int64", "last end of any event", "ns", "no timed event"),
        Column("events", "int64", "events in the file, of any kind"),
        Column(
            "notices", "string", "JSON list of {kind, message, count}: what was found wrong while reading"
        ),
    ),
)

DEVICES = Table(
    "devices",
    "one accelerator seen",
    (
        SOURCE,
        Column("process", "int64", "process whose device numbering is meant", null="one process per file"),
        Column("device", "int64", "what the file calls it"),
        Column("uuid", "string", "hardware identity", null="not stated"),
        Column("name", "string", "as reported", null="not stated or empty"),
        Column("memory_bytes", "int64", "device memory", "byte", "not stated"),
        Column("sm_count", "int64", "SMs or compute units", null="not stated"),
        Column("compute_capability", "string", "major.minor", null="not stated"),
        Column("bandwidth", "int64", "peak bandwidth of the device memory", "byte/s", "not stated"),
        Column("clock_hz", "int64", "highest clock of the SMs", "Hz", "not stated"),
        Column(
            "peak_flops", "int64", "peak rate of the matrix unit, of its native type", "FLOP/s", "not stated"
        ),
    ),
)

DEVICE_OPS = Table(
    "device_ops",
    "one kernel, copy, set or graph launch on a device",
    (
        SOURCE,
        Column("process", "int64", "as in devices", null="one process per file"),
        Column("device", "int64", "as in devices"),
        Column("stream", "int64", "stream or queue", null="not stated"),
        Column("start_ns", "int64", "start", "ns"),
        Column("dur_ns", "int64", "duration, >= 0", "ns"),
        Column("kind", "string", "what ran", values=DEVICE_KINDS),
        Column("name", "string", "kernel or copy name"),
        Column(
            "correlation",
            "int64",
            "joins the launch call in host_events; unique in the file: where it has several processes, which count "
            "their own, (process << 32) | id",
            null="not recorded",
        ),
        Column(
            "external_id", "int64", "joins the operator in host_events", null="no operator, or not recorded"
        ),
        Column("graph_node", "int64", "node of a replayed graph", null="not a replay, or not recorded"),
        Column("grid", "string", "launch grid, JSON list", null="not recorded"),
        Column("block", "string", "launch block, JSON list", null="not recorded"),
        Column(
            "blocks_per_sm",
            "float64",
            "blocks of the grid per SM of the device",
            null="not recorded or infinite",
        ),
        Column(
            "occupancy",
            "float64",
            "achieved occupancy as the profiler estimates it from the launch, 0 to 100",
            "%",
            "not recorded",
        ),
        Column("bytes", "int64", "bytes moved by a copy or set", "byte", "not recorded"),
        Column("collective", "string", "collective's name, e.g. allreduce", null="no collective arguments"),
        Column("group", "string", "process group's name", null="no collective arguments"),
        Column(
            "group_ranks",
            "string",
            "ranks of the group, JSON list as recorded (may be cut)",
            null="not recorded",
        ),
        Column("group_size", "int64", "ranks in the group", null="no collective arguments"),
        Column("seq", "int64", "sequence number of the collective in its group", null="not recorded"),
        Column("in_elements", "int64", "elements sent per rank", null="no collective arguments"),
        Column("out_elements", "int64", "elements received per rank", null="no collective arguments"),
        Column("element_type", "string", "type of the elements", null="no collective arguments"),
        Column(
            "hlo", "int64", "the operation of an XLA program that ran: joins hlo_ops", null="none or not told"
        ),
        Column(
            "part",
            "int64",
            "which piece of an operation that others ran inside of, from 0: a loop between its passes",
            null="whole",
        ),
        Column(
            "asynchronous",
            "bool",
            "an XLA operation that runs beside those of the program: a copy or collective under way",
            null="not an XLA operation of a TPU",
        ),
    ),
)

HOST_EVENTS = Table(
    "host_events",
    "one host-side slice that can explain device idleness",
    (
        SOURCE,
        Column("process", "int64", "process id", null="not a number in the file"),
        Column(
            "thread",
            "int64",
            "thread id; the stream for sync and device_annotation, the device for device_wait",
            null="not a number in the file",
        ),
        Column("start_ns", "int64", "start", "ns"),
        Column("dur_ns", "int64", "duration, >= 0", "ns", "still open when the profiler stopped"),
        Column("kind", "string", "what it is", values=HOST_KINDS),
        Column(
            "name", "string", "operator, runtime call, frame or range; directories of private paths removed"
        ),
        Column("correlation", "int64", "joins device_ops, as there", null="not a launch"),
        Column("external_id", "int64", "operator id", null="none"),
        Column("sequence", "int64", "autograd sequence number, joins forward to backward", null="none"),
        Column("forward_thread", "int64", "thread that ran the forward operator", null="none"),
        Column(
            "input_dims",
            "string",
            "JSON list of shapes, as recorded (lists over 30 are cut by PyTorch)",
            null="not recorded",
        ),
        Column("input_types", "string", "JSON list of dtypes", null="not recorded"),
        Column("concrete_inputs", "string", "JSON list of scalar arguments as text", null="not recorded"),
        Column("python_id", "int64", "id of a Python frame", null="not a Python frame"),
        Column("python_parent", "int64", "id of the calling frame", null="root or not a Python frame"),
    ),
)

STEPS = Table(
    "steps",
    "one training or inference step, on the host clock",
    (
        SOURCE,
        Column("process", "int64", "process whose devices it concerns", null="one process per file"),
        Column("step", "int64", "number of the step", null="the range has a name without a number"),
        Column("name", "string", "name of the range, e.g. ProfilerStep#12"),
        Column("start_ns", "int64", "start", "ns"),
        Column("end_ns", "int64", "end", "ns"),
    ),
)

COUNTERS = Table(
    "counters",
    "one sample of a hardware metric of one GPU; where there is none, nothing was measured",
    (
        SOURCE,
        Column("process", "int64", "process whose device numbering is meant", null="samples are of the GPU"),
        Column(
            "device", "int64", "the GPU's number in the file, which need not be a process's device number"
        ),
        Column("uuid", "string", "hardware identity, joins devices", null="not stated"),
        Column("metric", "string", "as the profiler names it"),
        Column("ts_ns", "int64", "end of the sampled period", "ns"),
        Column("value", "int64", "as sampled: per cent of the peak, or Hz for clocks", "% or Hz"),
    ),
)

_NOT_COLLECTED = "the metrics for it were not collected"
_CLOCKED = "at the profiler's clock, which is not that of other runs"

KERNEL_COUNTERS = Table(
    "kernel_counters",
    "one kernel launch as Nsight Compute measured it: replayed alone, as a rule at the base clock",
    (
        SOURCE,
        Column("launch", "int64", "number of the launch in its report"),
        Column("process", "int64", "process id", null="not stated"),
        Column("device", "int64", "what the process calls the device", null="not stated"),
        Column("device_name", "string", "as reported", null="not stated"),
        Column("compute_capability", "string", "major.minor", null="not stated"),
        Column("name", "string", "kernel name as exported: demangled, mangled or the function's name alone"),
        Column("grid", "string", "launch grid, JSON list", null="not stated"),
        Column("block", "string", "launch block, JSON list", null="not stated"),
        Column("duration_ns", "int64", f"duration, {_CLOCKED}", "ns", _NOT_COLLECTED),
        Column("clock_hz", "float64", "clock of the SMs meanwhile", "Hz", _NOT_COLLECTED),
        Column("sm_throughput", "float64", "of the busiest unit of the SMs, 0 to 1", null=_NOT_COLLECTED),
        Column("memory_throughput", "float64", "of the busiest unit of memory, 0 to 1", null=_NOT_COLLECTED),
        Column("dram_fraction", "float64", "of the peak of device memory, 0 to 1", null=_NOT_COLLECTED),
        Column("tensor_pipe", "float64", "cycles with the tensor pipe active, 0 to 1", null=_NOT_COLLECTED),
        Column("sm_active", "float64", "cycles with the average SM active, 0 to 1", null=_NOT_COLLECTED),
        Column("achieved_occupancy", "float64", "warps of the most that fit, 0 to 1", null=_NOT_COLLECTED),
        Column("waves_per_sm", "float64", "rounds of blocks it takes to run the grid", null=_NOT_COLLECTED),
        *(
            column
            for kind in ("fp64", "fp32", "fp16")
            for column in (
                Column(f"{kind}_flops", "float64", f"{kind} operations", "FLOP", _NOT_COLLECTED),
                Column(f"{kind}_flops_per_s", "float64", f"their rate, {_CLOCKED}", "FLOP/s", _NOT_COLLECTED),
                Column(
                    f"{kind}_peak_flops_per_s",
                    "float64",
                    f"highest rate, {_CLOCKED}",
                    "FLOP/s",
                    _NOT_COLLECTED,
                ),
                Column(f"{kind}_fraction", "float64", "rate by highest rate, 0 to 1", null=_NOT_COLLECTED),
            )
        ),
        Column(
            "tensor_ops",
            "float64",
            "operations of the tensor cores, 2 per multiply-add, on padding too; of the types collected",
            "FLOP",
            "not collected, or none of the type that ran",
        ),
        Column(
            "tensor_type", "string", "source type of all of tensor_ops, e.g. bf16", null="none or several"
        ),
        Column("flops", "float64", "fp64, fp32, fp16 and tensor operations", "FLOP", "one of them is null"),
        Column(
            "flops_error",
            "float64",
            "by how much flops may be off, relatively, because of the digits that were printed",
            null="flops is null, or may be zero or not",
        ),
        Column("dram_bytes", "float64", "read from and written to device memory", "byte", _NOT_COLLECTED),
        Column("arithmetic_intensity", "float64", "flops by dram_bytes", "FLOP/byte", "one of them is null"),
    ),
)

HLO_OPS = Table(
    "hlo_ops",
    "one operation of a compiled XLA program that ran",
    (
        SOURCE,
        Column("hlo", "int64", "number of the operation in its file"),
        Column("program_id", "string", "the program's fingerprint or number", null="not stated"),
        Column("program", "string", "name of its module, e.g. jit_train_step", null="not stated"),
        Column("name", "string", "of the operation in its program, e.g. fusion.12"),
        Column("category", "string", "kind of operation as XLA's own tools name it, e.g. loop fusion"),
        Column("framework_op", "string", "the operator of the framework it came from", null="not stated"),
        Column("location", "string", "source file and line", null="not stated"),
        Column("shape", "string", "of the result", null="not stated"),
        Column(
            "flops", "int64", "operations of matrix products and convolutions, per run", "FLOP", "not known"
        ),
        Column(
            "all_flops", "int64", "operations of any kind as XLA counts them, per run", "FLOP", "not known"
        ),
        Column("dtype", "string", "operand type of the matrix products", null="none, or not known"),
        Column("bytes", "int64", "moved to and from device memory, per run", "byte", "not known"),
        Column(
            "flops_source",
            "string",
            "where flops are from: the program (hlo), a custom call's own statement, or the profiler's figure",
            null="not known",
            values=("hlo", "custom_call", "model_flops", "flops"),
        ),
        Column("opaque", "bool", "what it computes is not visible to XLA: a custom call without a cost"),
        Column("recompute", "bool", "repeats an operation of the forward pass (rematerialisation)"),
    ),
)

PROGRAMS = Table(
    "programs",
    "one compiled XLA program",
    (
        SOURCE,
        Column("program_id", "string", "as in hlo_ops"),
        Column("name", "string", "of its module"),
        Column("partitions", "int64", "devices that one replica is spread over", null="not stated"),
        Column("replicas", "int64", "copies that run side by side", null="not stated"),
        Column(
            "flops",
            "int64",
            "operations of matrix products and convolutions of the whole program before optimisation, all devices",
            "FLOP",
            "the program before optimisation is not in the file",
        ),
        Column("all_flops", "int64", "operations of any kind as XLA counts them", "FLOP", "as flops"),
        Column(
            "repeated_flops",
            "int64",
            "of them, what the program computes again: rematerialised, or the same as elsewhere in it",
            "FLOP",
            "as flops",
        ),
        Column("dtype", "string", "operand type of most of flops", null="none, or not known"),
        Column("opaque", "string", "JSON list of custom calls in it that have no known cost", null="none"),
        Column(
            "unknown_loops",
            "int64",
            "loops whose number of passes is not known, counted once",
            null="not known",
        ),
    ),
)

PROGRAM_RUNS = Table(
    "program_runs",
    "one run of an XLA program on a device",
    (
        SOURCE,
        Column("process", "int64", "as in devices", null="one process per file"),
        Column("device", "int64", "as in devices"),
        Column("program_id", "string", "as in programs", null="not stated"),
        Column("name", "string", "of its module"),
        Column("run", "int64", "number of the run", null="not stated"),
        Column("start_ns", "int64", "start", "ns"),
        Column("end_ns", "int64", "end", "ns"),
    ),
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        SOURCES, DEVICES, DEVICE_OPS, HOST_EVENTS, STEPS, COUNTERS, KERNEL_COUNTERS, HLO_OPS, PROGRAMS, PROGRAM_RUNS,
        *SCHEDULER_TABLES,
    )
}  # fmt: skip
