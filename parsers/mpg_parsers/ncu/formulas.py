"""Figures of one launch from Nsight Compute's metrics, by the formulas of its own section files.

All metrics are in base units, fractions from 0 to 1. Nsight Compute locks the clocks by default and replays a kernel
alone: only counts and fractions of the peak at that clock carry over to other runs, rates and durations do not.
"""

from __future__ import annotations

import re
from itertools import product as cells_of
from typing import TYPE_CHECKING, Any

from mpg_parsers.ncu.values import Value, product, weighted_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpg_parsers.ncu.launches import Launch

    Metrics = Mapping[str, Value]

OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
PRECISIONS = {"fp64": "d", "fp32": "f", "fp16": "h"}  # the letter in the names of the instructions
ADD_MUL_FMA = (1.0, 1.0, 2.0)  # operations per instruction and thread
# pipes that would have been busy
PIPES = {
    "fp64": re.compile(r"sm__(?:inst_executed_)?pipe_fp64"),
    "fp16": re.compile(r"sm__inst_executed_pipe_(?:fp16|fma_type_fp16)"),
    "tensor": re.compile(r"sm__(?:inst_executed_)?pipe_tensor"),
}
TENSOR_PIPE = re.compile(rf"sm__pipe_tensor(_\w+)?_cycles_active(?:_v2)?\.{re.escape(OF_PEAK)}")
IDLE = 1e-6  # a zero printed with fewer digits than this may hide something

# sm__ops_path_tensor[_op_hmma]_src_fp16[_bf16…][_dst_fp32][_sparsity_off]
TENSOR = re.compile(
    r"sm__ops_path_tensor(?:_op_(?P<op>[a-z]+))?_src_(?P<src>(?:[a-z]+\d+_)*?[a-z]+\d+)(?:_dst_(?P<dst>[a-z]+\d+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?\.sum(?:\.per_cycle_elapsed|\.per_second)?"
)
OPS = ("hmma", "hgmma", "imma", "igmma", "bmma", "bgmma", "utchmma", "utcimma", "utcqmma", "utcomma", "dmma")
DSTS = ("fp16", "fp32", "fp64", "int32")


def figures(launch: Launch) -> dict[str, Any]:
    """The columns of kernel_counters that are computed; null where the metrics for it were not collected."""
    metrics = launch.metrics
    time = duration(metrics)
    work = {name: flops(metrics, name) for name in PRECISIONS}
    tensor, tensor_type = tensor_work(metrics)
    memory = dram_bytes(metrics)
    total = _total([*work.values(), tensor])
    row: dict[str, Any] = {
        "duration_ns": None if time is None else round(time.amount * 1e9),
        "clock_hz": _amount(clock(metrics)),
        "sm_throughput": _amount(metrics.get(f"sm__throughput.{OF_PEAK}")),
        "memory_throughput": _amount(metrics.get(f"gpu__compute_memory_throughput.{OF_PEAK}")),
        "dram_fraction": _amount(dram_fraction(metrics)),
        "tensor_pipe": _amount(tensor_pipe(metrics)),
        "sm_active": _ratio(metrics.get("sm__cycles_active.avg"), metrics.get("sm__cycles_elapsed.max")),
        "achieved_occupancy": _amount(metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")),
        "waves_per_sm": _amount(metrics.get("launch__waves_per_multiprocessor"))
        or None,  # 0.00 is a small grid
        "tensor_ops": _amount(tensor),
        "tensor_type": tensor_type,
        "dram_bytes": _amount(memory),
        "flops": _amount(total),
        "flops_error": _relative_error(total),
        "arithmetic_intensity": _ratio(total, memory),
    }
    for name in PRECISIONS:
        rate, peak = flop_rate(metrics, name), peak_rate(metrics, name)
        row[f"{name}_flops"] = _amount(work[name])
        row[f"{name}_flops_per_s"] = _amount(rate)
        row[f"{name}_peak_flops_per_s"] = _amount(peak)
        row[f"{name}_fraction"] = _ratio(rate, peak)
    return row


def duration(metrics: Metrics) -> Value | None:
    """gpu__time_duration.sum, in seconds."""
    return _in_unit(metrics, "gpu__time_duration.sum", "s")


def clock(metrics: Metrics) -> Value | None:
    """The SMs' clock in cycle/s: sm__cycles_elapsed.avg.per_second, or that of the GPCs, which is the same."""
    names = (f"{unit}__cycles_elapsed.avg.per_second" for unit in ("sm", "smsp", "gpc"))
    return _first(_in_unit(metrics, name, "cycle/s") for name in names)


def flops(metrics: Metrics, precision: str) -> Value | None:
    """Operations of a launch outside the tensor cores: add + mul + 2·fma thread instructions that were not masked.

    (smsp|sm)__sass_thread_inst_executed_op_{d,f,h}{add,mul,fma}_pred_on, as counts (.sum), or as rates times the
    duration. Zero if they were not collected, but the pipe was and stood still.
    """
    for stem in _stems(precision):
        counts = [_count(metrics, name) for name in stem]
        if None not in counts:
            return weighted_sum(ADD_MUL_FMA, [count for count in counts if count is not None])
    return _idle(metrics, precision)


def flop_rate(metrics: Metrics, precision: str) -> Value | None:
    """FLOP/s at the profiled clock: (add + mul + 2·fma).sum.per_cycle_elapsed · smsp__cycles_elapsed.avg.per_second."""
    for stem in _stems(precision):
        rates = [_rate(metrics, name) for name in stem]
        if None not in rates:
            return weighted_sum(ADD_MUL_FMA, [rate for rate in rates if rate is not None])
    work, time = flops(metrics, precision), duration(metrics)
    return None if work is None else _quotient(work, time)


def peak_rate(metrics: Metrics, precision: str) -> Value | None:
    """FLOP/s at the profiled clock, at most: 2 · sm__sass_thread_inst_executed_op_{d,f,h}fma_pred_on.sum.peak_sustained
    · sm__cycles_elapsed.avg.per_second (SpeedOfLight_RooflineChart.section).
    """
    stem = f"sm__sass_thread_inst_executed_op_{PRECISIONS[precision]}fma_pred_on"
    doubled, single = metrics.get(f"derived__{stem}_x2"), metrics.get(f"{stem}.sum.peak_sustained")
    per_cycle = doubled or (None if single is None else product(Value(2.0, ""), single))
    hertz = _in_unit(metrics, "sm__cycles_elapsed.avg.per_second", "cycle/s")
    return None if per_cycle is None or hertz is None else product(per_cycle, hertz)


def dram_bytes(metrics: Metrics) -> Value | None:
    """Bytes to and from device memory: dram__bytes.sum, or read and written, or the rate times the duration."""
    whole = _amount_of_bytes(metrics, "dram__bytes")
    if whole is not None:
        return whole
    for read, written in (("read", "write"), ("op_read", "op_write")):
        parts = [_amount_of_bytes(metrics, f"dram__bytes_{part}") for part in (read, written)]
        if None not in parts:
            return weighted_sum((1.0, 1.0), [part for part in parts if part is not None])
    return None


def dram_fraction(metrics: Metrics) -> Value | None:
    """gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed, or what it is made of:

    dram__bytes.sum.per_second ÷ (dram__bytes.sum.peak_sustained · dram__cycles_elapsed.avg.per_second)
    """
    stated = metrics.get(f"gpu__dram_throughput.{OF_PEAK}") or metrics.get(f"dram__throughput.{OF_PEAK}")
    if stated is not None:
        return stated
    rate, hertz = (
        _in_unit(metrics, name, unit)
        for name, unit in (
            ("dram__bytes.sum.per_second", "byte/s"),
            ("dram__cycles_elapsed.avg.per_second", "cycle/s"),
        )
    )
    peak = metrics.get("dram__bytes.sum.peak_sustained")
    if rate is None or hertz is None or peak is None:
        return None
    return _quotient(rate, product(peak, hertz))


def tensor_pipe(metrics: Metrics) -> Value | None:
    """Share of the elapsed cycles in which the tensor pipe was active: of all kinds of it, or of the busiest."""
    whole = [metrics[name] for name in metrics if (match := TENSOR_PIPE.fullmatch(name)) and not match[1]]
    kinds = [metrics[name] for name in metrics if (match := TENSOR_PIPE.fullmatch(name)) and match[1]]
    return max(whole or kinds, key=lambda value: value.amount, default=None)


def tensor_work(metrics: Metrics) -> tuple[Value | None, str | None]:
    """Operations of the tensor cores (2 per multiply-add, also on padding), and their type if it is one only.

    Sums sm__ops_path_tensor_src_*, each operation once: several of these metrics contain one another. Null if none
    was collected, if they overlap in part, or if all are zero although the pipe was active: then the type that ran
    was not collected (on Hopper the HMMA counters know nothing of wgmma).
    """
    found = {name: match for name in metrics if (match := TENSOR.fullmatch(name)) is not None}
    chosen, covered = list[str](), set[tuple[str, ...]]()
    for name in sorted(found, key=lambda name: (-len(_cells(found[name])), name)):
        cells = _cells(found[name])
        if cells <= covered:
            continue
        if cells & covered:
            return None, None
        chosen.append(name)
        covered |= cells
    stems = dict.fromkeys(name.partition(".sum")[0] for name in chosen)
    counts = {stem: count for stem in stems if (count := _count(metrics, stem)) is not None}
    total = weighted_sum([1.0] * len(counts), list(counts.values()))
    if not counts or total.amount == 0:
        return _idle(metrics, "tensor"), None
    return total, _only_type(stem for stem, count in counts.items() if count.amount)


def _cells(match: re.Match[str]) -> set[tuple[str, ...]]:
    """The kinds of operation a metric counts: (instruction, source type, destination type, sparsity)."""
    return set(
        cells_of(
            (match["op"],) if match["op"] else OPS,
            match["src"].split("_"),
            (match["dst"],) if match["dst"] else DSTS,
            (match["sparsity"],) if match["sparsity"] else ("on", "off"),
        )
    )


def _only_type(stems: Iterable[str]) -> str | None:
    types = {match["src"] for stem in stems if (match := TENSOR.fullmatch(f"{stem}.sum"))}
    return types.pop() if len(types) == 1 else None


def _idle(metrics: Metrics, pipe: str) -> Value | None:
    """Zero if all that was collected of a pipe says it stood still; fp32 has no pipe of its own."""
    witnesses = [value for name, value in metrics.items() if pipe in PIPES and PIPES[pipe].match(name)]
    still = bool(witnesses) and all(value.amount == 0 and value.error < IDLE for value in witnesses)
    return Value(0.0, "") if still else None


def _stems(precision: str) -> list[list[str]]:
    letter = PRECISIONS[precision]
    return [
        [f"{unit}__sass_thread_inst_executed_op_{letter}{op}_pred_on" for op in ("add", "mul", "fma")]
        for unit in ("smsp", "sm")
    ]


def _count(metrics: Metrics, stem: str) -> Value | None:
    """How often in a launch: .sum, or the rate times the duration."""
    count, rate, time = metrics.get(f"{stem}.sum"), _rate(metrics, stem), duration(metrics)
    if count is not None or rate is None or time is None:
        return count
    return product(rate, time)


def _rate(metrics: Metrics, stem: str) -> Value | None:
    """How often per second, at the profiled clock."""
    unit = "smsp" if stem.startswith("smsp__") else "sm"
    per_cycle = metrics.get(f"{stem}.sum.per_cycle_elapsed")
    hertz = _in_unit(metrics, f"{unit}__cycles_elapsed.avg.per_second", "cycle/s")
    if per_cycle is not None and hertz is not None:
        return product(per_cycle, hertz)
    return metrics.get(f"{stem}.sum.per_second")


def _amount_of_bytes(metrics: Metrics, stem: str) -> Value | None:
    whole = _in_unit(metrics, f"{stem}.sum", "byte")
    rate, time = _in_unit(metrics, f"{stem}.sum.per_second", "byte/s"), duration(metrics)
    if whole is not None or rate is None or time is None:
        return whole
    return product(rate, time)


def _in_unit(metrics: Metrics, name: str, unit: str) -> Value | None:
    value = metrics.get(name)
    return value if value is not None and value.unit == unit else None


def _first(values: Iterable[Value | None]) -> Value | None:
    return next((value for value in values if value is not None), None)


def _total(parts: list[Value | None]) -> Value | None:
    known = [part for part in parts if part is not None]
    return weighted_sum([1.0] * len(known), known) if len(known) == len(parts) else None


def _quotient(above: Value, below: Value | None) -> Value | None:
    if below is None or below.amount == 0:
        return None
    amount = above.amount / below.amount
    return Value(amount, "", abs((above.error + amount * below.error) / below.amount))


def _ratio(above: Value | None, below: Value | None) -> float | None:
    return None if above is None else _amount(_quotient(above, below))


def _amount(value: Value | None) -> float | None:
    return None if value is None else value.amount


def _relative_error(value: Value | None) -> float | None:
    """Null of a value that may be zero or not, as far as its digits tell."""
    if value is None or (value.amount == 0 and value.error):
        return None
    return value.error / value.amount if value.error else 0.0
