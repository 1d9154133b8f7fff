"""Scheduling goodput of parts: of the fleet (pools) and of the jobs (size, user, account, partition, any label).

Two bases, never mixed. A part of the fleet is held against its capacity. A part of the jobs is held against their own
time: chips × (from first submission to end), within the window; their waiting is demand, not capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from polars import col

from mpg_cli.goodput.scheduling import account, waits
from mpg_cli.goodput.scheduling.account import ALLOCATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mpg_cli.goodput.scheduling.inventory import Inventory, Window
    from mpg_cli.goodput.scheduling.sizes import Sizes

JOB_KEYS = ("size", "user", "account", "partition", "qos", "chip_type", "cluster")
NO_VALUE = "(none)"
POOL = "pool"
MOST = 200  # parts of one kind; the rest are added up
REST = "(all others)"


class Segment(NamedTuple):
    """One part: whole_ns is what it is held against; the causes add up to whole_ns less allocated_ns."""

    by: str
    key: str
    basis: str
    jobs: int
    whole_ns: int
    allocated_ns: int
    causes: dict[str, int]


def time_of_jobs(
    holding: pl.DataFrame, waiting: pl.DataFrame, segments: pl.DataFrame, first: pl.DataFrame, window: Window
) -> pl.DataFrame:
    """The jobs' own time within the window: id, cause, chip_ns (128 bits); held as of `account.held`, and waits.

    waiting, segments, first: as `waits.decompose` takes them. A wait counts times the chips asked for.
    """
    size = (col.end_ns - col.start_ns).cast(pl.Int128) * col.chips
    held = account.clipped(holding, window).group_by("id", "cause").agg(chip_ns=size.sum())
    inside = waits.within(waiting, window)
    waited = waits.decompose(inside, segments, account.clipped(first, window))
    asked = waited.join(inside.select("id", "need"), on="id")
    of_waits = asked.select("id", "cause", chip_ns=col.wait_ns.cast(pl.Int128) * col.need)
    return pl.concat([held, of_waits.filter(col.chip_ns > 0)])


def of_jobs(
    spent: pl.DataFrame, attempts: pl.DataFrame, sizes: Sizes, more: Iterable[str] = ()
) -> Iterator[Segment]:
    """The parts of the jobs by each key that tells any apart, and by `more` (e.g. label:team).

    spent: see `time_of_jobs`; attempts: id, job_id, the keys, labels, need (chips asked for or held).
    """
    keyed = _with_size(attempts, sizes)
    for by in (*JOB_KEYS, *more):
        values = _values(keyed, by)
        if by in JOB_KEYS and by != "size" and values["key"].n_unique() < 2:
            continue
        yield from _parts(by, spent.join(values, on="id"))


def _with_size(attempts: pl.DataFrame, sizes: Sizes) -> pl.DataFrame:
    """The attempts with the size of their job: all its parts together, and the most of its attempts."""
    if attempts["job_id"].n_unique() == attempts.height:
        return attempts.with_columns(size=sizes.expression("need"))
    parts = attempts.group_by("job_id", "attempt").agg(col.need.sum())
    whole = parts.group_by("job_id").agg(_whole=col.need.max())
    met = attempts.join(whole, on="job_id", how="left", maintain_order="left")
    return met.with_columns(size=sizes.expression("_whole")).drop("_whole")


def _values(attempts: pl.DataFrame, by: str) -> pl.DataFrame:
    """id, job_id, key."""
    if by.startswith("label:"):
        path = f"$['{by.removeprefix('label:')}']".replace("\\", "")
        key = col.labels.str.json_path_match(path)
    else:
        key = col(by) if by in attempts.columns else pl.lit(None, pl.String)
    return attempts.select("id", "job_id", key=key.cast(pl.String).fill_null(NO_VALUE))


def _parts(by: str, rows: pl.DataFrame) -> Iterator[Segment]:
    """One part for each key, the largest first; those beyond MOST are one."""
    whole = rows.group_by("key").agg(whole=col.chip_ns.sum()).sort("whole", "key", descending=[True, False])
    kept = whole.head(MOST)["key"].implode()
    rows = rows.with_columns(key=pl.when(col.key.is_in(kept)).then("key").otherwise(pl.lit(REST)))
    jobs = dict(rows.group_by("key").agg(col.job_id.n_unique()).iter_rows())
    sums = rows.group_by("key", "cause").agg(chip_ns=col.chip_ns.sum())
    causes: dict[str, dict[str, int]] = {}
    for key, cause, ns in sums.sort("key", "cause").iter_rows():
        causes.setdefault(key, {})[cause] = int(ns)
    for key, found in sorted(causes.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        allocated = found.pop(ALLOCATED, 0)
        yield Segment(by, key, "jobs", jobs[key], allocated + sum(found.values()), allocated, found)


def of_fleet(closed: pl.DataFrame, inventory: Inventory) -> Iterator[Segment]:
    """The parts of the fleet by cluster, type of chips and pool, where there are several. closed: rows with pool.

    A pool is the nodes of one type that are in the same partitions.
    """
    parts = col.partitions.list.sort().list.join(", ")
    pools = inventory.nodes.unique("pool").select("pool", "cluster", "chip_type", partitions=parts)
    rows = closed.join(pools, on="pool")
    kinds = pools["chip_type"].n_unique()
    for by in ("cluster", "chip_type", "partitions"):
        if pools[by].n_unique() < 2 or (by == "partitions" and pools["pool"].n_unique() == kinds):
            continue
        sums = rows.group_by(key=col(by).fill_null(NO_VALUE), cause="cause").agg(
            chip_ns=col.chip_ns.cast(pl.Int128).sum()
        )
        for (key,), found in sums.sort("key", "cause").group_by("key", maintain_order=True):
            causes = {cause: int(ns) for cause, ns in found.select("cause", "chip_ns").iter_rows()}
            allocated = causes.pop(ALLOCATED, 0)
            whole = allocated + sum(causes.values())
            yield Segment(POOL if by == "partitions" else by, str(key), "fleet", 0, whole, allocated, causes)


def ratios(segments: Iterable[Segment], by: str) -> Mapping[str, tuple[int, int]]:
    """Numerator and denominator of the parts by one key."""
    return {part.key: (part.allocated_ns, part.whole_ns) for part in segments if part.by == by}
