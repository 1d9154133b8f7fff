"""Preemptions: what they cost, who caused them, and which of them only a requeued job caused.

A preemption is of second order if the job that preempts is itself requeued (its attempt is not the first): a failure
that takes down one large job, which comes back and pushes others out, costs more than its own time. Source of the term:
Kokolis et al., HPCA 2025 (arXiv 2410.21680), where a sixth of the goodput lost to failures was lost that way.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling.failures import CHIP_NS

PREEMPTED = "PREEMPTED"


@dataclass(frozen=True)
class Preemptor:
    """What one job caused. requeues: how often it came back itself, in all; None if it is not among the attempts.

    preemptions: attempts it ended, victims: jobs they were of, chip_ns: chip-time they had run. second_order: those of
    the preemptions that it caused when it had been requeued; after_failure: those where hardware had ended the attempt
    before.
    """

    job: str
    requeues: int | None
    preemptions: int
    victims: int
    chip_ns: int
    second_order: int
    after_failure: int


@dataclass(frozen=True)
class Preemptions:
    """All of them. chip_ns: chip-time that the preempted attempts had run: the most that can have been lost.

    unknown: preemptions whose cause, or its number of attempts, is not known, and which may be of second order too.
    by_preemptor: those who caused the most first.
    """

    preemptions: int
    chip_ns: int
    second_order: int
    second_order_chip_ns: int
    after_failure: int
    after_failure_chip_ns: int
    unknown: int
    by_preemptor: tuple[Preemptor, ...]


def preemptions(attempts: pl.DataFrame) -> Preemptions:
    """Preempted attempts: those in the state PREEMPTED or with a known preemptor.

    attempts: as in `failures`. Which attempt of the preemptor it was is told by time: its last one submitted no later
    than the preempted attempt ended. A job that preempts in its first attempt and is requeued afterwards is not of
    second order.
    """
    found = _with_cause(attempts)
    totals = found.select(
        preemptions=pl.len(),
        chip_ns=col("chip_ns").sum(),
        second_order=col("second").sum(),
        second_order_chip_ns=col("chip_ns").filter(col("second")).sum(),
        after_failure=col("failure").sum(),
        after_failure_chip_ns=col("chip_ns").filter(col("failure")).sum(),
        unknown=col("second").is_null().sum(),
    ).row(0, named=True)
    return Preemptions(**totals, by_preemptor=_by_preemptor(found, attempts))


def _with_cause(attempts: pl.DataFrame) -> pl.DataFrame:
    """A row per preempted attempt: job, by, chip_ns, second, failure (null where that is not known)."""
    by = col("preempted_by").cast(pl.String)
    preempted = (
        attempts.with_columns(by=by)
        .filter(((col("state") == PREEMPTED) | col("by").is_not_null()).fill_null(value=False))
        .select("job", "by", "end_ns", chip_ns=CHIP_NS.fill_null(0))
    )
    submitted = (
        attempts.sort("job", "attempt")
        .select(
            by="job",
            at_ns="submit_ns",
            second=col("attempt") > 1,
            failure=col("failed").fill_null(value=False).shift(fill_value=False).over("job"),
        )
        .drop_nulls("at_ns")
        .sort("at_ns", maintain_order=True)
    )
    told = col("by").is_not_null() & col("end_ns").is_not_null()
    caused = preempted.filter(told).sort("end_ns")
    joined = caused.join_asof(
        submitted, left_on="end_ns", right_on="at_ns", by="by", strategy="backward", check_sortedness=False
    )
    return pl.concat([joined.drop("at_ns"), preempted.filter(~told)], how="diagonal")


def _by_preemptor(found: pl.DataFrame, attempts: pl.DataFrame) -> tuple[Preemptor, ...]:
    """One row per known preemptor, those with the most preemptions first."""
    requeues = attempts.group_by(by="job").agg(requeues=col("attempt").max() - 1)
    rows = (
        found.drop_nulls("by")
        .group_by("by")
        .agg(
            preemptions=pl.len(),
            victims=col("job").n_unique(),
            chip_ns=col("chip_ns").sum(),
            second_order=col("second").sum(),
            after_failure=col("failure").sum(),
        )
        .join(requeues, on="by", how="left")
        .sort(-col("preemptions").cast(pl.Int64), "by")
        .rename({"by": "job"})
    )
    return tuple(Preemptor(**row) for row in rows.iter_rows(named=True))
