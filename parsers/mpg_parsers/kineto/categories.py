"""What the categories of Kineto events are, over the years and the vendors."""

from __future__ import annotations

DEVICE = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
    "mtia_ccp_events": "kernel",
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

# complete events of these categories carry nothing for a table
IGNORED = frozenset({"Trace", "external_correlation", "cuda_profiler_range", "mtia_counters", "cpu_instant_event"})

# device work of accelerators whose rows are not understood: named in the error when nothing else is there
FOREIGN_DEVICE = frozenset({"hpu_op", "mtia_workloadd", "mtia_insight", "glow_runtime", "collective_comm"})
