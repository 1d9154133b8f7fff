"""Program Goodput: operators, what was measured of kernels, ceilings, and the counters of the hardware."""

from __future__ import annotations

from mpg_cli.report.descriptions.common import DEVICE, RANK, SHARE_OF_COMPUTING, SOURCE

_COUNTED = {
    "sm_active": "SMs with at least one warp, of all SMs and the sampled time, or null.",
    "sm_issue": "Cycles in which SMs issued an instruction, of the sampled ones, or null.",
    "tensor_active": "Cycles in which tensor pipes were active, of the sampled ones, or null.",
    "dram_read": "Bytes read from device memory, of those possible at its peak, or null.",
    "dram_write": "Bytes written to device memory, of those possible at its peak, or null.",
    "sm_clock_hz": "The mean clock of the SMs (GPC clock) in Hz, or null.",
}

PROGRAM: dict[str, dict[str, str]] = {
    "Op": {
        "op": "The operator's name; the kernel's where the FLOPs are measured.",
        "dims": "The shapes of its arguments as the trace has them, a JSON list with one entry per argument; "
        "grid and block where the FLOPs are measured.",
        "dtypes": "The types of its arguments as the trace has them: a JSON list.",
        "count": "How many times it was called; calls whose launch is not in the file are left out.",
        "kernels": "The number of its kernels.",
        "time_ns": "The sum of its kernels' durations, in nanoseconds.",
        "share": f"Its part {SHARE_OF_COMPUTING}",
        "flops": "FLOPs of matrix operations; element-wise arithmetic counts as none.",
        "bytes": "The least bytes it must read and write, or null where the model does not tell.",
        "tflops": "flops over time_ns, in 10^12 FLOP/s.",
        "gbps": "bytes over time_ns, in 10^9 bytes/s, or null.",
        "intensity": "flops over bytes, in FLOP/byte, or null.",
        "bound": "What limits it: compute, memory, or latency where its kernels are too short for either.",
        "efficiency": "The time at the chip's roofline over time_ns; null where no roofline is known.",
        "recoverable_ns": "time_ns less the time at the roofline, in nanoseconds.",
        "recompute_ns": "The part of time_ns that is recomputation, in nanoseconds.",
        "flops_source": "Whence the FLOPs are: shapes, inferred (from neighbouring kernels), declared or measured.",
    },
    "Unmodelled": {
        "op": "The operator's name, or that the kernels belong to none.",
        "count": "The number of its kernels.",
        "time_ns": "The sum of their durations, in nanoseconds.",
        "share": f"Their part {SHARE_OF_COMPUTING}",
    },
    "Roofline": {
        "chip": "The chip's name in the hardware catalogue; as reported if its rates are from the trace.",
        "dtype": "The operand type that most FLOPs are in.",
        "peak_tflops": "The dense peak for that type, in 10^12 FLOP/s.",
        "bandwidth_gbps": "The memory bandwidth in 10^9 bytes/s, or null where none is sourced.",
        "peak_source": "Where the peak comes from; begins with `the trace` if the file states it.",
        "bandwidth_source": "Where the bandwidth comes from, likewise; empty where there is none.",
    },
    "ProfiledKernel": {
        "name": "The kernel's full name in the trace.",
        "grid": "Its launch grid, a JSON list, or null where the trace has none.",
        "block": "Its launch block, likewise.",
        "count": "How many times it ran in the windows.",
        "time_ns": "The sum of its durations in the trace, in nanoseconds.",
        "share": f"Its part {SHARE_OF_COMPUTING}",
        "launches": "How many launches of it were profiled, or null if none.",
        "sm_throughput": "Of the busiest unit of the SMs, of its peak, from 0 to 1, or null.",
        "tensor_pipe": "Cycles with the tensor pipe active, from 0 to 1, or null.",
        "dram_fraction": "Throughput of device memory of its peak, from 0 to 1, or null.",
        "achieved_occupancy": "Warps resident of those that fit, from 0 to 1, or null.",
        "waves_per_sm": "Rounds of blocks it takes to run the grid, or null.",
        "flops": "FLOPs of one launch as executed, tile padding included; 0 for element-wise work; null with a reason.",
        "dtype": "The operand type of these FLOPs, or null.",
        "reason": "Why flops is null, or null.",
    },
    "DeviceWitness": {
        "source": SOURCE,
        "rank": RANK,
        "process": "The process that used the device, or null where the file names none.",
        "device": DEVICE,
        "kernels": "The share of the window in which the trace has a kernel on it, from 0 to 1.",
        "coverage": "The share of the window that samples cover, from 0 to 1.",
        "samples": "The number of samples in the window.",
        "period_ns": "The median distance of two samples, in nanoseconds.",
        **_COUNTED,
    },
    "Witness": {
        "coverage": "The share of all windows that samples cover, from 0 to 1.",
        "kernels": "The share of the devices' windows in which the trace has a kernel, from 0 to 1, or null.",
        **_COUNTED,
        "disagreements": "Where the counters clearly contradict the account, in words.",
        "devices": "The same for every device with samples.",
        "reason": "Why nothing was counted; empty if something was.",
    },
}
