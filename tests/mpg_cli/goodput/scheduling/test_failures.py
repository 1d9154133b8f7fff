from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from mpg_cli.goodput.scheduling.failures import (
    Mttf,
    Recovery,
    detection_delays,
    expected_ettr,
    job_mttf_s,
    measured_ettr,
    mttf,
)
from mpg_cli.goodput.scheduling.poisson import rate_interval
from mpg_cli.goodput.scheduling.sizes import Sizes
from tests.mpg_cli.goodput.scheduling.attempts import HOUR, attempt, frame

MINUTE = 60.0
RSC_1, RSC_2 = 6.50e-3, 2.34e-3  # failures per node-day


def test_mttf_by_size() -> None:
    attempts = frame(
        attempt("a", 1, (0, 10), 512, failed=True),
        attempt("a", 2, (11, 31), 512, failed=True),
        attempt("a", 3, (32, 42), 512, unfinished=True),
        attempt("b", 1, (0, 100), 8),
        attempt("c", 1, None, 0),  # never ran
        attempt("d", 1, (0, 1), None),
        attempt("e", 1, (5, 5), 1024, failed=None),
    )
    small, large, extra = mttf(attempts)
    assert (large.size, large.attempts, large.failures) == ("L", 3, 2)
    assert (large.run_ns, large.chip_ns) == (40 * HOUR, 512 * 40 * HOUR)
    rate = rate_interval(2, 40)
    assert large.per_job == Mttf(20, 1 / rate.high, 1 / rate.low)
    assert large.per_chip
    assert large.per_chip.hours == 512 * 20
    # Garwood: 2 events are compatible with 0.2422 to 7.2247
    assert large.per_job.low == pytest.approx(40 / 7.2247, rel=1e-4)
    assert large.per_job.high == pytest.approx(40 / 0.2422, rel=1e-4)
    assert (small.size, small.failures) == ("S", 0)
    assert small.per_job == Mttf(None, pytest.approx(100 / 2.995732, rel=1e-6), None)
    assert (extra.size, extra.run_ns, extra.per_job, extra.per_chip) == ("XL", 0, None, None)


def test_chip_time_beyond_63_bits() -> None:
    attempts = frame(attempt("llm", 1, (0, 54 * 24), 16_384), attempt("llm", 2, (2000, 4000), 16_384))
    assert mttf(attempts)[0].chip_ns == 16_384 * (54 * 24 + 2000) * HOUR > 2**63
    assert measured_ettr(attempts)[0].wall_chip_ns == 16_384 * 4000 * HOUR


def test_nothing_gives_nothing() -> None:
    assert mttf(frame()) == ()
    assert measured_ettr(frame()) == ()
    assert mttf(frame(attempt("a", 1, None, 0))) == ()


def test_sizes_are_a_choice() -> None:
    attempts = frame(attempt("a", 1, (0, 1), 8), attempt("b", 1, (0, 1), 16))
    assert [found.size for found in mttf(attempts, Sizes((4, 8, 16)))] == ["M", "L"]


@pytest.mark.parametrize(
    # what the paper's text says (HPCA 2025, section on ETTR); u0 = 5 min, checkpoints do not block
    ("nodes", "rate", "minutes", "expected"),
    [(2000, RSC_1, 60, 0.7), (2000, RSC_1, 5, 0.93), (12_500, RSC_1, 7, 0.5)],
)
def test_the_expected_ettr_of_the_paper(nodes: int, rate: float, minutes: float, expected: float) -> None:
    recovery = Recovery(checkpoint_s=minutes * MINUTE, restart_s=5 * MINUTE)
    assert expected_ettr(job_mttf_s(nodes, rate), recovery) == pytest.approx(expected, abs=0.025)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_the_mttf_that_the_paper_projects(gpus: int, hours: float) -> None:
    assert job_mttf_s(gpus // 8, RSC_1) / 3600 == pytest.approx(hours, abs=0.01)


def test_each_term_of_the_expected_ettr() -> None:
    day = 86_400.0
    assert expected_ettr(day, Recovery(0.2 * day, 0)) == pytest.approx(0.9)
    assert expected_ettr(day, Recovery(0.2 * day, 0.1 * day)) == pytest.approx(0.8)
    assert expected_ettr(day, Recovery(0.2 * day, 0, queue_s=0.8 * day)) == pytest.approx(0.9 / 1.8)
    assert expected_ettr(day, Recovery(0.2 * day, 0, write_s=0.05 * day)) == pytest.approx(0.9 / 1.25)
    assert expected_ettr(day, Recovery(3 * day, 0)) == 0
    assert expected_ettr(job_mttf_s(12_500, RSC_2), Recovery(120, 120)) == pytest.approx(0.94, abs=0.01)


@pytest.mark.parametrize(("mttf_s", "checkpoint_s"), [(0, 1), (1, 0), (float("nan"), 1)])
def test_what_has_no_expected_ettr(mttf_s: float, checkpoint_s: float) -> None:
    with pytest.raises(ValueError, match="positive MTTF"):
        expected_ettr(mttf_s, Recovery(checkpoint_s, 0))


def simulated(mttf_s: float, recovery: Recovery, failures: int) -> float:
    """A job run: restart, then train and write checkpoints until the next failure; what is not saved is lost."""
    source, saved, passed = random.Random(7), 0.0, 0.0
    period = recovery.checkpoint_s + recovery.write_s
    for _ in range(failures):
        alive = source.expovariate(1 / mttf_s)
        saved += max(alive - recovery.restart_s, 0) // period * recovery.checkpoint_s
        passed += recovery.queue_s + alive
    return saved / passed


@pytest.mark.parametrize(
    "recovery",
    [Recovery(3600, 300), Recovery(1800, 600, 1200), Recovery(1800, 300, 600, 60)],
)
def test_the_expected_ettr_is_that_of_a_simulation(recovery: Recovery) -> None:
    mttf_s = job_mttf_s(500, RSC_1)  # 4,000 GPUs
    found = simulated(mttf_s, recovery, 20_000)
    assert expected_ettr(mttf_s, recovery) == pytest.approx(found, rel=0.02)


def test_the_measured_ettr() -> None:
    attempts = frame(
        # 9 of 10 hours
        attempt("a", 1, (0, 4), 512, failed=True),
        attempt("a", 2, (5, 10), 512),
        # the whole hour, in the same class, a quarter of the chips
        attempt("b", 1, (2, 3), 128),
        # half of its chips in the second half: 8·2 + 4·2 of 8·4
        attempt("c", 1, (0, 2), 8),
        attempt("c", 2, (2, 4), 4),
        # two hours suspended
        attempt("d", 1, (0, 6), 2048, run_ns=4 * HOUR),
        attempt("e", 1, None, 64),
    )
    found = {ettr.size: ettr for ettr in measured_ettr(attempts)}
    assert list(found) == ["S", "L", "XL"]
    assert found["L"].jobs == 2
    assert found["L"].run_chip_ns == (512 * 9 + 128) * HOUR
    assert found["L"].wall_chip_ns == (512 * 10 + 128) * HOUR
    assert found["S"].value == 24 / 32
    assert found["XL"].value == 4 / 6


def test_a_job_of_no_length_has_no_ettr() -> None:
    [found] = measured_ettr(frame(attempt("a", 1, (3, 3))))
    assert found.value is None


@pytest.mark.parametrize(
    ("seen", "delay"), [(9 * HOUR, HOUR), (10 * HOUR, 0), (11 * HOUR, None), (None, None)]
)
def test_detection_delays(seen: int | None, delay: int | None) -> None:
    attempts = frame(attempt("a", 1, (0, 10), failed=True), attempt("b", 1, (0, 10)))
    found = detection_delays(attempts.with_columns(last_seen_ns=pl.lit(seen)))
    chip_ns = None if delay is None else 8 * delay
    assert found.rows() == [("a", 1, delay, chip_ns)]


def test_no_column_of_a_failure_needs_values() -> None:
    """Where no file says who preempted, or what failed, the columns are null throughout."""
    rows: list[Any] = [attempt("a", 1, (0, 2), failed=None)]
    attempts = frame(*rows).with_columns(preempted_by=None)
    assert mttf(attempts)[0].failures == 0
