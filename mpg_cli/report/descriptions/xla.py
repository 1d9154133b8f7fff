"""What XLA's own tools show: operations of compiled programs over the whole profile."""

from __future__ import annotations

_SHARE = "of the self time of all operations, from 0 to 1."
_PROGRAM = "The program's module, or null where the file names none."
_PROGRAM_ID = "The program's fingerprint or number, or null where the file has none."
_CATEGORY = "The kind of operation as XLA names it."

XLA: dict[str, dict[str, str]] = {
    "Xla": {
        "time_ns": "The self time of all operations on all devices over the whole profile, in nanoseconds.",
        "idle_between": "Time without an operation from the first to the last operation of each core, as xprof's "
        "overview counts it; null with a reason.",
        "idle_in_profile": "The same of the time the profiler was on, times the cores; null with a reason.",
        "opaque_ns": "Self time of custom calls whose work XLA does not know, in nanoseconds.",
        "opaque_share": f"Its part {_SHARE}",
        "recompute_ns": "Self time of operations that repeat one of the forward pass, in nanoseconds.",
        "recompute_share": f"Its part {_SHARE}",
        "infeed_ns": "Self time of operations that take input from the host, waiting included, in nanoseconds.",
        "outfeed_ns": "Self time of operations that hand results to the host (outfeed), in nanoseconds.",
        "operations": "The operations, most self time first.",
        "categories": "The same by category; over all of them it sums to time_ns.",
        "asynchronous": "Operations that run beside these, most time first; in none of the sums.",
        "opaque": "The largest of the custom calls in opaque_ns, by the framework's operator.",
        "programs": "The programs, most self time of operations first.",
        "left_out": "For each list that was cut, how many rows it lacks.",
        "reasons": "For each null figure, by name, why it is null.",
    },
    "XlaOperation": {
        "program": _PROGRAM,
        "program_id": _PROGRAM_ID,
        "op": "Its name in the program.",
        "category": _CATEGORY,
        "framework_op": "The framework's operator it came from, or null where the file names none.",
        "location": "Source file and line, or null where the file names none.",
        "activity": "What it counts as in the account: compute, comm, memory or one of the others.",
        "count": "How often it ran, on all devices together; on a GPU how many kernels it launched.",
        "time_ns": "Its self time: without operations that ran inside of it, in nanoseconds.",
        "share": f"Its part {_SHARE}",
        "flops": "FLOPs of matrix products and convolutions of one execution, or null where they are not known.",
        "all_flops": "FLOPs of any kind of one execution as XLA counts them, or null where they are not known.",
        "dtype": "The operand type of the matrix products, or null where there are none or it is not known.",
        "bytes": "Bytes moved to and from device memory by one execution, or null where they are not known.",
        "tflops": "flops of all executions over time_ns, in 10^12 FLOP/s, or null where either is not known.",
        "gbps": "The same of bytes, in 10^9 bytes/s, or null. Both are null for the ends of a transfer that runs "
        "beside the operations.",
        "flops_source": "Whence flops are: hlo (the program), custom_call (stated by the call), model_flops or flops "
        "(the profiler's figures); null where flops is.",
        "opaque": "Whether it is a custom call whose work XLA does not know.",
        "recompute": "Whether it repeats an operation of the forward pass (rematerialisation).",
    },
    "XlaTotal": {
        "name": "The category; in `opaque` the framework's operator, or the operation where the file names none.",
        "count": "How often its operations ran, on all devices together.",
        "time_ns": "Their self time, in nanoseconds.",
        "share": f"Their part {_SHARE}",
    },
    "XlaAsync": {
        "program": _PROGRAM,
        "op": "Its name in the program.",
        "category": _CATEGORY,
        "count": "How often it ran, on all devices together.",
        "time_ns": "How long it was under way, summed, in nanoseconds: hidden_ns plus exposed_ns.",
        "hidden_ns": "The part with an operation computing on the same device, in nanoseconds.",
        "exposed_ns": "The part without one, in nanoseconds.",
    },
    "XlaProgram": {
        "program": _PROGRAM,
        "program_id": _PROGRAM_ID,
        "runs": "The number of its runs on all devices together, or null where the file records none.",
        "time_ns": "The sum of their lengths, in nanoseconds, or null likewise.",
        "gap_ns": "The part of that in which no operation ran, in nanoseconds, or null likewise.",
        "operations_ns": "The self time of its operations, in nanoseconds.",
        "share": f"operations_ns as a part {_SHARE}",
    },
    "XlaIdle": {
        "value": "numerator_ns / denominator_ns.",
        "numerator_ns": "Time in which no operation ran, summed over the cores, in nanoseconds.",
        "denominator_ns": "The time looked at, summed over the cores, in nanoseconds.",
    },
}
