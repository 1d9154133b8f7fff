"""What the categories of Kineto events are, over the years and the vendors.

The names are those of libkineto's ActivityType; capitalised ones were written until 2021.
"""

from __future__ import annotations

DEVICE = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}

HOST = {
    "cpu_op": "op",
    "Operator": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "Runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "python_function": "python",
    "overhead": "overhead",
    "cuda_sync": "sync",
    "xpu_sync": "sync",
    "gpu_user_annotation": "device_annotation",
}

# not device work, and of no use for a table
IGNORED = frozenset(
    {
        "Trace",
        "external_correlation",
        "cpu_instant_event",
        "cuda_event",
        "cuda_profiler_range",
        "xpu_scope_profiler",
        "mtia_counters",
    }
)

# activity of accelerators whose device rows are not understood; so are unknown categories that name a stream
FOREIGN = frozenset({"hpu_op", "mtia_workloadd", "mtia_insight", "glow_runtime", "collective_comm"})
