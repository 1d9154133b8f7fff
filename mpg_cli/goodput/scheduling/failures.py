"""Failures by size of job: how often, how soon they were seen, and what share of its time a job may expect to keep.

Every function takes attempts, one row each: job (string), attempt (1, 2, … within its job), state, submit_ns, start_ns,
end_ns, run_ns (time it ran, without suspension), chips (allocated), preempted_by (job, null if none or not known),
failed (whether hardware ended it: NODE_FAIL, BOOT_FAIL).
Attempts that never ran have no run_ns or no chips, and count for nothing. Times are int64 nanoseconds. Chip-time is
summed in 128 bits, as a year of 300 chips is more than 63 bits hold, and returned as a Python integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling.poisson import rate_interval
from mpg_cli.goodput.scheduling.sizes import NAMES, Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_NS = 3_600_000_000_000
DAY_S = 86_400.0
CHIP_NS = col("chips").cast(pl.Int128) * col("run_ns")  # of an attempt


@dataclass(frozen=True)
class Mttf:
    """Mean time to failure, in hours, with the bounds of its exact confidence interval; of jobs or of chips.

    hours: None without failures; then only the lower bound says something, and the upper is None too.
    """

    hours: float | None
    low: float
    high: float | None


@dataclass(frozen=True)
class Failures:
    """Failures of hardware under the attempts of one size.

    run_ns: how long attempts ran, chip_ns: the same times their chips. per_job: exposure of jobs (run_ns) ÷ failures,
    per_chip: of chips. Both None without exposure.
    """

    size: str
    attempts: int
    failures: int
    run_ns: int
    chip_ns: int
    per_job: Mttf | None
    per_chip: Mttf | None


def mttf(attempts: pl.DataFrame, sizes: Sizes | None = None, level: float = 0.95) -> tuple[Failures, ...]:
    """Failures and mean time to failure by size of the attempt, for the sizes that occur, in order of size.

    MTTF = exposure ÷ failures: the estimate for failures at a constant rate, of attempts that ended otherwise or still
    run as well (their time is exposure without a failure). The interval is that of `poisson.rate_interval`, turned
    over. Failures of one node that several jobs share are several failures here, so the interval is then too narrow.
    """
    rows = (
        _ran(attempts, sizes or Sizes())
        .group_by("size")
        .agg(
            attempts=pl.len(),
            failures=col("failed").fill_null(value=False).sum(),
            run_ns=col("run_ns").cast(pl.Int128).sum(),
            chip_ns=CHIP_NS.sum(),
        )
    )
    return tuple(
        Failures(
            **row,
            per_job=_mttf(row["failures"], row["run_ns"], level),
            per_chip=_mttf(row["failures"], row["chip_ns"], level),
        )
        for row in _by_size(rows)
    )


def _ran(attempts: pl.DataFrame, sizes: Sizes) -> pl.DataFrame:
    """The attempts that ran on chips, with their size."""
    ran = attempts.filter((col("chips") > 0) & col("run_ns").is_not_null())
    return ran.with_columns(size=sizes.expression("chips"))


def _by_size(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    return iter(sorted(rows.to_dicts(), key=lambda row: NAMES.index(row["size"])))


def _mttf(failures: int, exposure_ns: int, level: float) -> Mttf | None:
    if not exposure_ns:
        return None
    hours = exposure_ns / HOUR_NS
    rate = rate_interval(failures, hours, level)
    return (
        Mttf(hours / failures, 1 / rate.high, 1 / rate.low) if failures else Mttf(None, 1 / rate.high, None)
    )


@dataclass(frozen=True)
class Recovery:
    """What a failure costs a job, and what it does against it, in seconds.

    checkpoint_s: training from one checkpoint to the next (Δt_cp); restart_s: from being allocated again to training
    again (u0); queue_s: waiting to be allocated again (q); write_s: how long a checkpoint stops training (w_cp).
    """

    checkpoint_s: float
    restart_s: float
    queue_s: float = 0.0
    write_s: float = 0.0


def job_mttf_s(nodes: int, per_node_day: float) -> float:
    """Mean time to failure, in seconds, of a job on so many nodes: 1 ÷ (N · r_f), r_f being failures per node-day."""
    return DAY_S / (nodes * per_node_day)


def expected_ettr(mttf_s: float, recovery: Recovery) -> float:
    """The expected effective training time ratio of a long job run: productive time ÷ time since its first allocation.

        E[ETTR] = (1 − (u0 + Δt_cp/2) / MTTF) / ((1 + w_cp/Δt_cp) · (1 + q/MTTF))

    Without the last factor it is the closed form of Kokolis et al., "Revisiting Reliability in Large-Scale Machine
    Learning Research Clusters", HPCA 2025 (arXiv 2410.21680v2), where MTTF = 1/(N·r_f): a failure costs half a
    checkpoint interval and a restart. The factor for queueing is derived here to the same order: of a time S that the
    job is allocated, S/MTTF failures make it wait q each, which adds S·q/MTTF to the time that passes. The authors say
    that theirs is within 5 % of simulation at up to 8,000 GPUs; far from that, where nothing would get done, 0.0.
    Raises ValueError unless mttf_s and checkpoint_s are positive.
    """
    if not mttf_s > 0 or not recovery.checkpoint_s > 0:
        raise ValueError("the expected ETTR needs a positive MTTF and checkpoint interval")
    kept = 1 - (recovery.restart_s + recovery.checkpoint_s / 2) / mttf_s
    writing = 1 + recovery.write_s / recovery.checkpoint_s
    return max(kept, 0.0) / (writing * (1 + recovery.queue_s / mttf_s))


@dataclass(frozen=True)
class Ettr:
    """Chip-time that the jobs of one size ran, of that from their first start to their last end."""

    size: str
    jobs: int
    run_chip_ns: int
    wall_chip_ns: int

    @property
    def value(self) -> float | None:
        """The upper bound of the ratio; None if no time passed."""
        return self.run_chip_ns / self.wall_chip_ns if self.wall_chip_ns else None


def measured_ettr(attempts: pl.DataFrame, sizes: Sizes | None = None) -> tuple[Ettr, ...]:
    """An upper bound of the effective training time ratio by size of the job, for the sizes that occur.

    Upper, because a scheduler does not see what was lost since the last checkpoint, nor restarts: all running counts as
    productive (ETTR as in Kokolis et al., see `expected_ettr`, but without the first wait, which is no failure's
    doing). A job that changes its number of chips counts with the most it had. The sums are weighted with chips.
    """
    sizes = sizes or Sizes()
    ran = _ran(attempts, sizes).filter(col("start_ns").is_not_null() & col("end_ns").is_not_null())
    jobs = ran.group_by("job").agg(
        run=CHIP_NS.sum(), wall=col("end_ns").max() - col("start_ns").min(), chips=col("chips").max()
    )
    rows = (
        jobs.with_columns(size=sizes.expression("chips"))
        .group_by("size")
        .agg(
            jobs=pl.len(),
            run_chip_ns=col("run").sum(),
            wall_chip_ns=(col("chips").cast(pl.Int128) * col("wall")).sum(),
        )
    )
    return tuple(Ettr(**row) for row in _by_size(rows))


def detection_delays(attempts: pl.DataFrame) -> pl.DataFrame:
    """How long a failed attempt kept its chips after the last sign of life: job, attempt, delay_ns, chip_ns.

    attempts: as above, and last_seen_ns (int64): the last time the node or the program is known to have been alive.
    One row per failed attempt, in order; null where the last sign is not known, or lies after the end, as when two
    clocks disagree. chip_ns (128 bits) is the delay times the chips.
    """
    delay = col("end_ns") - col("last_seen_ns").cast(pl.Int64)
    known = pl.when(delay >= 0).then(delay)
    return attempts.filter(col("failed").fill_null(value=False)).select(
        "job", "attempt", delay_ns=known, chip_ns=col("chips").cast(pl.Int128) * known
    )
