"""GPU metrics as a second witness: what the hardware counted in the windows, beside what the trace says.

Nsight Systems samples them at a fixed rate, as means over the period before each sample. A mean is weighted by the time
each sample stands for inside the window; where there was no sample, nothing is known, which is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

_OF_PEAK = r"(?: \[[^\]]*%\])?$"
PATTERNS = {  # names are stable, ids are not
    "sm_active": rf"(?i)^sms? active{_OF_PEAK}",
    "sm_issue": rf"(?i)^sm issue{_OF_PEAK}",
    "tensor_active": rf"(?i)^tensor active{_OF_PEAK}",
    "dram_read": rf"(?i)^dram read bandwidth{_OF_PEAK}",
    "dram_write": rf"(?i)^dram write bandwidth{_OF_PEAK}",
    "sm_clock_hz": r"(?i)^gpc clock frequency\b",  # in Hz, whatever unit the name has
}
FIGURES = tuple(PATTERNS)
CLOCK, LOWEST_CLOCK = "sm_clock_hz", 1e6  # Hz: a mean below it is in another unit
GAP = 1.5  # periods without a sample are unsampled time
NEEDED = 0.9  # share of the windows that samples must cover for a comparison
RESIDENT = ("compute", "comm", "other")  # activities that occupy SMs; copies do not
DEVICE = ("subject", "source", "process", "device")

NO_SAMPLES = "the files hold no samples of GPU metrics (Nsight Systems: --gpu-metrics-devices=all)"
NO_GPU = "the file does not state which GPU the samples are of"
OUTSIDE = "no sample lies in the windows"


@dataclass(frozen=True)
class Witness:
    """devices: DEVICE, window_ns, kernels_ns (with a kernel resident), covered_ns, samples, period_ns, and FIGURES.

    FIGURES are shares of 0 to 1, and Hz, null where not sampled; only devices with samples in their window. means: by
    figure over these devices; covered: share of all windows that is sampled; kernels: share of the windows of `devices`
    with a kernel; shared: whether two of the devices are one GPU; reason: why there are no devices.
    """

    devices: pl.DataFrame
    means: dict[str, float] = field(default_factory=dict)
    covered: float = 0.0
    kernels: float = 0.0
    shared: bool = False
    reason: str = ""


def measure(dataset: Dataset, loaded: Activity, spans: pl.DataFrame, busy: pl.DataFrame) -> Witness:
    """What was counted over `spans` (subject, start_ns, end_ns); busy: `runtime.busy_intervals`."""
    samples = _samples(dataset)
    if samples.is_empty():
        return Witness(pl.DataFrame(), reason=NO_SAMPLES)
    owners = loaded.subjects.select(*DEVICE, "uuid").drop_nulls("uuid")
    mine = samples.join(owners.select("subject", "source", "uuid"), on=["source", "uuid"])
    if mine.is_empty():
        return Witness(pl.DataFrame(), reason=NO_GPU)
    windows = spans.select("subject", "start_ns", "end_ns")
    figures = _figures(intervals.clip(_with_starts(mine), windows, ["subject"]))
    if figures.is_empty():
        return Witness(pl.DataFrame(), reason=OUTSIDE)
    return _witness(figures.join(_beside(busy, windows), on="subject"), owners, windows)


def _samples(dataset: Dataset) -> pl.DataFrame:
    """source, uuid, figure, ts_ns, value of the metrics in PATTERNS, each instant once."""
    rows = dataset.scan("counters").drop_nulls("uuid")
    names = dataset.scan("counters").select("metric").unique().collect()["metric"].sort()
    known = [
        names.to_frame().filter(col.metric.str.contains(pattern)).head(1).with_columns(figure=pl.lit(figure))
        for figure, pattern in PATTERNS.items()
    ]
    named = pl.concat(known) if known else pl.DataFrame()
    if named.is_empty():
        return pl.DataFrame()
    key = ["source", "uuid", "figure", "ts_ns"]
    found = rows.join(named.lazy(), on="metric").select(*key, "value").sort(key)
    return found.unique(key, keep="first", maintain_order=True).collect()


def _with_starts(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples (of one series sorted by ts_ns) as stretches start_ns, end_ns, with period_ns: the median distance.

    A series of one sample has no period, and is left out.
    """
    series = ["subject", "source", "uuid", "figure"]
    gap = (col.ts_ns - col.ts_ns.shift(1)).over(series)
    known = samples.sort(*series, "ts_ns").with_columns(gap=gap)
    known = known.with_columns(period_ns=col.gap.median().over(series).floor().cast(pl.Int64))
    start = (
        pl.when(col.gap <= GAP * col.period_ns).then(col.ts_ns - col.gap).otherwise(col.ts_ns - col.period_ns)
    )
    timed = known.drop_nulls("period_ns").with_columns(start_ns=start, end_ns="ts_ns")
    return timed.select("subject", "figure", "start_ns", "end_ns", "period_ns", "value")


def _figures(inside: pl.DataFrame) -> pl.DataFrame:
    """subject, FIGURES, covered_ns (least of the figures), samples, period_ns; of stretches inside the windows."""
    length = col.end_ns - col.start_ns
    sums = (
        inside.filter(length > 0)
        .group_by("subject", "figure")
        .agg(
            average=(length * col.value.cast(pl.Float64)).sum() / length.sum(),
            covered_ns=length.sum(),
            samples=pl.len().cast(pl.Int64),
            period_ns=col.period_ns.max(),
        )
    )
    share = pl.when(col.figure != CLOCK).then(col.average / 100)
    known = share.when(col.average >= LOWEST_CLOCK).then("average")
    one = ((col.figure == figure, figure) for figure in FIGURES)
    return (
        sums.with_columns(average=known)
        .group_by("subject")
        .agg(
            col.covered_ns.min(),
            col.samples.min(),
            col.period_ns.max(),
            *(col.average.filter(condition).first().alias(name) for condition, name in one),
        )
    )


def _beside(busy: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """subject, window_ns, kernels_ns: the window, and the part of it in which the trace has a kernel."""
    resident = busy.filter(col.activity.cast(pl.String).is_in(RESIDENT))
    merged = intervals.union(resident.select("subject", "start_ns", "end_ns"), ["subject"])
    lengths = intervals.total(intervals.clip(merged, windows, ["subject"]), ["subject"])
    known = windows.select("subject", window_ns=col.end_ns - col.start_ns)
    joined = known.join(lengths, on="subject", how="left")
    return joined.select("subject", "window_ns", kernels_ns=col.length_ns.fill_null(0))


def _witness(figures: pl.DataFrame, owners: pl.DataFrame, windows: pl.DataFrame) -> Witness:
    devices = owners.join(figures, on="subject").sort("subject")
    whole = int((windows["end_ns"] - windows["start_ns"]).sum())
    means = {
        name: float((known[name] * known["covered_ns"]).sum()) / float(known["covered_ns"].sum())
        for name in FIGURES
        if (known := devices.drop_nulls(name)).height
    }
    return Witness(
        devices.drop("uuid"),
        means,
        int(devices["covered_ns"].sum()) / whole,
        int(devices["kernels_ns"].sum()) / max(1, int(devices["window_ns"].sum())),
        devices["uuid"].n_unique() < devices.height,
    )


def disagreements(found: Witness, flops: float | None, *, matrix: bool) -> Iterator[str]:
    """Where the counters and the account clearly contradict each other, in words.

    flops: HFU, or MFU if only that is known; matrix: whether most FLOPs are of a type that tensor cores work on. SMs
    active counts the SMs that hold a warp, so it is at most the share of time in which a kernel runs. At a clock above
    that of the catalogue's peak HFU may exceed the tensor cores' activity, by a tenth or so.
    """
    if found.covered < NEEDED or found.shared:
        return
    yield from _of_kernels(found)
    tensor = found.means.get("tensor_active")
    if flops is None or tensor is None or not matrix:
        return
    if flops > 1.2 * tensor + 0.02:
        yield (
            f"the FLOPs take {_percent(flops)} of the time at the chip's peak, but tensor cores were active for "
            f"{_percent(tensor)}: the FLOPs, their type or the peak are wrong"
        )
    elif tensor > 2 * flops + 0.1:
        yield (
            f"tensor cores were active for {_percent(tensor)} of the time, but the FLOPs take {_percent(flops)} at the "
            "chip's peak: some FLOPs are not counted, or much of them is padding"
        )


def _of_kernels(found: Witness) -> Iterator[str]:
    active = found.means.get("sm_active")
    if active is None:
        return
    if active > found.kernels + 0.05:
        yield (
            f"SMs were active for {_percent(active)} of the time, but the trace has kernels for only "
            f"{_percent(found.kernels)} of it: another program used the GPU, or records are missing"
        )
    elif found.kernels > 0.2 and active < found.kernels / 2:
        yield (
            f"kernels ran for {_percent(found.kernels)} of the time, but on average only {_percent(active)} of the SMs "
            "had work: RG counts as computing what fills a part of the chip"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
