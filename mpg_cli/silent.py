"""Files in which no device does anything: an error where there is no other file, else a notice."""

from __future__ import annotations

from mpg_parsers.errors import InputError, Notice

PROFILE = "nsight-compute"
RECORD = {
    "nsight-systems": "record with `nsys profile --trace=cuda,nvtx` on the machine with the GPU",
    "rocprofv3": "record with `rocprofv3 --kernel-trace --memory-copy-trace` on the machine with the GPU",
}
RECORD_PYTORCH = "profile with ProfilerActivity.CUDA (or XPU) on the machine with the accelerator"
DROPPED = {
    "pytorch": "the profiler dropped them (buffer overflow, wrong times): record fewer steps, upgrade Kineto",
    "nsight-systems": "the profiler dropped them: see what nsys warned of, and record a shorter stretch",
}


def no_activity(path: str, form: str, launches: int, steps: int) -> InputError:
    """What is wrong with a file of format `form` that has `launches` launch calls and no device activity."""
    if form == PROFILE:
        message = "a profile of single kernels, without a timeline"
        hint = "give it together with a trace of the same program: mpg analyze TRACE REPORT.csv"
        return InputError("no_device_activity", path, message, hint=hint)
    if launches:
        message = f"the host made {launches} launch calls, but every device record of them is missing"
        hint = DROPPED.get(form, "the profiler dropped them: record a shorter stretch")
        return InputError("device_records_lost", path, message, hint=hint)
    message = f"no device activity in the trace (host events only, {steps} steps)"
    return InputError("no_device_activity", path, message, hint=RECORD.get(form, RECORD_PYTORCH))


def as_notice(error: InputError) -> Notice:
    """The same beside other files."""
    return Notice(error.kind, f"{reason(error)}; this file is in no figure", 1, error.path)


def reason(error: InputError) -> str:
    """What is wrong, without the path: a notice has that beside it."""
    return error.message.removeprefix(f"{error.path}: ")
