"""Wall times without a zone: files that are copies of one database are set by the one whose clock is known.

`sacct` prints local time and names no zone, so that an export made in New York lies five hours behind one made in UTC.
Where two files hold the same records, the difference of their times is the difference of their zones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import InputError, Notice

if TYPE_CHECKING:
    from mpg_cli.scheduler.records import Records

QUARTER = 900 * 10**9  # zones differ by whole quarters of an hour
MOST = 26 * 3600 * 10**9  # and by at most so much
ENOUGH = 0.9  # share of the records in common that must agree on the difference
SAMPLE = 20_000  # records of a file that are held against those of another
HINT = "say where the clock hung: --tz UTC, or a name such as --tz Europe/Berlin"


def on_one_clock(records: Records, *, tz: str, cut: bool) -> Records:
    """`records` with the times of files in another zone moved, and a notice for each.

    Raises InputError naive_time where wall times of an unknown zone meet absolute ones, or those of another file.
    """
    offsets = _offsets(records.attempts, records.sources)
    moved = {source: offset for source, offset in offsets.items() if offset}
    records = _moved(records, moved)
    for source, offset in moved.items():
        records.notices.append(_notice(records, source, offset))
    return records if tz else replace(records, naive=_check(records, set(offsets), cut=cut))


def _offsets(attempts: pl.DataFrame, sources: pl.DataFrame) -> dict[int, int]:
    """What to add to the times of each naive source that shares records with one whose clock is trusted, in ns.

    Trusted are files of absolute times; where there is none, the naive one whose times most others share.
    """
    naive = set(sources.filter(col.naive_time.fill_null(value=False))["source"])
    if not naive:
        return {}
    samples = _samples(attempts)
    trusted = [source for source in samples if source not in naive] or _majority(samples)
    found: dict[int, int] = {}
    for source in sorted(samples.keys() & naive):
        known = (_difference(samples[source], samples[other]) for other in trusted if other != source)
        offset = next((value for value in known if value is not None), None)
        if offset is not None:
            found[source] = offset
    return found


def _samples(attempts: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """A sample of every source that has attempts."""
    narrow = attempts.select("source", "raw_id", "submit_ns", "start_ns", "end_ns")
    return {source: _sample(rows) for (source,), rows in narrow.group_by("source", maintain_order=True)}


def _sample(rows: pl.DataFrame) -> pl.DataFrame:
    """Records by what does not depend on the zone: id, and the how manieth of its id."""
    kept = rows.filter(col.submit_ns.is_not_null()).sort("submit_ns").head(SAMPLE)
    nth = pl.int_range(pl.len()).over("raw_id")
    # of a later record of one id an export without duplicates has only the last
    return kept.select("raw_id", "submit_ns", span=col.end_ns - col.start_ns, nth=nth)


def _difference(a: pl.DataFrame, b: pl.DataFrame) -> int | None:
    """What takes the times of `a` to those of `b`; None if they share no records, or do not agree."""
    both = a.join(b, on=["raw_id", "nth"], suffix="_b").filter(col.span.eq_missing(col.span_b))
    if both.is_empty():
        return None
    counts = (both["submit_ns_b"] - both["submit_ns"]).value_counts(sort=True)
    offset, count = counts.row(0)
    plausible = offset % QUARTER == 0 and abs(offset) <= MOST
    return int(offset) if plausible and count >= ENOUGH * both.height else None


def _majority(samples: dict[int, pl.DataFrame]) -> list[int]:
    """The naive source whose times the most others share; the first of several."""
    same = {one: sum(_difference(samples[other], samples[one]) == 0 for other in samples) for one in samples}
    return [max(same, key=lambda one: (same[one], -one))] if same else []


def _moved(records: Records, offsets: dict[int, int]) -> Records:
    if not offsets:
        return records
    moved = {name: _shifted(rows, offsets) for name, rows in records.frames().items()}
    return replace(records.with_frames(moved), sources=_shifted(records.sources, offsets))


def _shifted(rows: pl.DataFrame, offsets: dict[int, int]) -> pl.DataFrame:
    """The instants of the sources named moved; lengths of time end in _ns too, but are none."""
    by = col.source.replace_strict(list(offsets), list(offsets.values()), default=0, return_dtype=pl.Int64)
    instants = [name for name in rows.columns if name in INSTANTS]
    return rows.with_columns(col(name) + by for name in instants)


INSTANTS = frozenset(
    (
        "as_of_ns", "submit_ns", "eligible_ns", "start_ns", "end_ns", "ts_ns", "last_ns", "at_ns", "last_busy_ns",
    )
)  # fmt: skip


def _notice(records: Records, source: int, offset: int) -> Notice:
    path = dict(records.sources.select("source", "path").iter_rows())[source]
    hours = abs(offset) / (4 * QUARTER)
    side = "behind" if offset > 0 else "ahead of"
    message = (
        f"its times, which name no zone, are {hours:g} h {side} those of the same records elsewhere: moved"
    )
    return Notice("naive_time", message, 1, path)


def _check(records: Records, aligned: set[int], *, cut: bool) -> bool:
    """Whether the times are of an unknown zone, which is said; refused where something else is held against them."""
    naive = records.sources.filter(col.naive_time.fill_null(value=False), col.scheduler)
    # a file that agrees with one of absolute times has its zone
    known = (
        aligned
        if naive.height < records.sources.filter(col.scheduler, col.as_of_ns.is_not_null()).height
        else set()
    )
    open_ = naive.filter(~col.source.is_in(list(known)))
    if open_.is_empty():
        return False
    others = records.sources.filter(~col.source.is_in(open_["source"].to_list()), col.as_of_ns.is_not_null())
    path = open_["path"][0]
    if cut:
        raise InputError(
            "naive_time", path, "its times name no zone, and --from, --to or --as-of do", hint=HINT
        )
    groups = _groups(records, open_["source"].to_list())
    if groups + (others.height > 0) > 1:
        message = "its times name no zone, so they cannot be held against those of other files"
        raise InputError("naive_time", path, message, hint=HINT)
    for name in open_["path"]:
        message = "its times name no zone: lengths of time are right, the time of day is the file's own"
        records.notices.append(Notice("naive_time", message, 1, name))
    return True


def _groups(records: Records, sources: list[int]) -> int:
    """Into how many clocks naive sources fall: those that hold the same records are on one."""
    samples = {source: sample for source, sample in _samples(records.attempts).items() if source in sources}
    if not samples:
        return len(sources)
    first, *others = samples.values()
    return len(sources) - len(samples) + 1 + sum(_difference(rows, first) != 0 for rows in others)
