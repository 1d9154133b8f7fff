"""Slow, obvious references (sets of nanoseconds, plain loops) for the tests of intervals and ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

import polars as pl

Interval = tuple[int, int]
Keyed = tuple[Hashable, int, int]


def frame(rows: Sequence[tuple], schema: Mapping[str, type[pl.DataType] | pl.DataType]) -> pl.DataFrame:
    """A frame from its rows."""
    return pl.DataFrame(rows, schema, orient="row")


def amounts(rows: pl.DataFrame) -> dict[tuple[int, str], int]:
    """chip_ns of ledger rows by (subject, cause)."""
    sums: Counter[tuple[int, str]] = Counter()
    for subject, cause, chip_ns in rows.select("subject", "cause", "chip_ns").rows():
        sums[subject, cause] += chip_ns
    return dict(sums)


def moments(rows: Iterable[Keyed]) -> dict[Hashable, set[int]]:
    """The nanoseconds each key's intervals cover."""
    covered: dict[Hashable, set[int]] = defaultdict(set)
    for key, start, end in rows:
        covered[key].update(range(start, end))
    return covered


def runs(covered: set[int]) -> list[Interval]:
    """The maximal runs of consecutive nanoseconds, as half-open intervals."""
    starts = sorted(t for t in covered if t - 1 not in covered)
    ends = sorted(t + 1 for t in covered if t + 1 not in covered)
    return list(zip(starts, ends, strict=True))


def clip(rows: Sequence[tuple], windows: Sequence[Keyed]) -> list[tuple]:
    """(key, start, end, payload…) cut to each window of its key, by the definition."""
    cut = []
    for key, start, end, *payload in rows:
        for window, low, high in sorted(windows, key=lambda w: w[1]):
            first, last = max(start, low), min(end, high)
            if key == window and (first < last or (start == end and low <= start < high)):
                cut.append((key, first, last, *payload))
    return cut


def resolve(
    capacity: Sequence[tuple], claims: Sequence[tuple], order: Sequence[str], rest: str
) -> dict[tuple[int, str], int]:
    """chip_ns by (subject, cause), one nanosecond at a time.

    Capacity is (subject, start, end, chips), a claim is (subject, start, end, chips, cause, …).
    """
    spent: dict[tuple[int, str], int] = defaultdict(int)
    for subject, start, end, chips in capacity:
        for t in range(start, end):
            left = chips
            for cause in order:
                taken = min(left, claimed(claims, subject, t, cause))
                spent[subject, cause] += taken
                left -= taken
            spent[subject, rest] += left
    return {key: value for key, value in spent.items() if value}


def claimed(claims: Sequence[tuple], subject: int, t: int, cause: str) -> int:
    """The chips that `cause` claims of `subject` in nanosecond `t`."""
    return sum(c[3] for c in claims if (c[0], c[4]) == (subject, cause) and c[1] <= t < c[2])


def oversubscribed(
    capacity: Sequence[tuple], claims: Sequence[tuple], order: Sequence[str]
) -> dict[tuple[int, str, int], tuple[int, int]]:
    """(chips claimed, chips there) by (subject, cause, nanosecond), where the first exceeds the second."""
    return {
        (subject, cause, t): (claimed(claims, subject, t, cause), chips)
        for subject, start, end, chips in capacity
        if chips
        for t in range(start, end)
        for cause in order
        if claimed(claims, subject, t, cause) > chips
    }


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Largest remainder with exact fractions; ties go to the earlier part."""
    exact = [Fraction(amount * weight, sum(weights)) for weight in weights]
    floors = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (floors[i] - exact[i], i))
    for i in by_remainder[: amount - sum(floors)]:
        floors[i] += 1
    return floors
