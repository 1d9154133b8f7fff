"""Waits of which the scheduler itself says the cause, over a stretch of time: that is taken before any replay.

Kueue keeps the reason for which a workload has no quota as a condition with a time (KEP-10852), and a quota that is not
there, or a topology that cannot be placed, is not to be seen from free chips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals

if TYPE_CHECKING:
    from mpg_cli.goodput.scheduling.inventory import Inventory

# the reason, in lower case, begins so
STATED = {
    "waitingforquota": "limit",
    "exceedsmaxquota": "limit",
    "nomatchingflavor": "limit",
    "misconfigured": "limit",
    "admissionchecks": "limit",
    "waitingforpodsready": "limit",
    "topologyplacementfailed": "topology",
    "waitingforpreemptedworkloads": "shortage",
    "suspended": "hold",
    "admissiongated": "hold",
    "schedulinggated": "hold",
}
# said where no single node fits, which a replay tells apart, if the nodes are known
UNPLACED = {"insufficient": "shortage"}


def stretches(
    pending: pl.DataFrame, attempts: pl.DataFrame, waits: pl.DataFrame, inventory: Inventory
) -> pl.DataFrame:
    """What is stated of the waits: id, start_ns, end_ns, status; disjoint, in order.

    pending: rows of the table; attempts: id, cluster, raw_id; waits: see `waits.spans`.
    """
    words = STATED if inventory.placed else STATED | UNPLACED
    status = pl.coalesce(
        pl.when(col.reason.str.to_lowercase().str.starts_with(word)).then(pl.lit(cause))
        for word, cause in words.items()
    )
    said = (
        pending.filter(col.end_ns > col.start_ns).with_columns(status=status).filter(col.status.is_not_null())
    )
    if said.is_empty():
        return pl.DataFrame(
            schema={"id": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "status": pl.String}
        )
    keys = attempts.select("id", "cluster", "raw_id")
    met = said.select("cluster", "raw_id", "start_ns", "end_ns", "status").join(
        keys, on=["cluster", "raw_id"], nulls_equal=True
    )
    spans = waits.select("id", start_ns="eligible_ns", end_ns="until_ns")
    inside = intervals.clip(met.select("id", "start_ns", "end_ns", "status"), spans, ["id"]).sort(
        "id", "start_ns"
    )
    # what is said next takes the place of what was said before
    following = pl.when(col.id == col.id.shift(-1)).then(col.start_ns.shift(-1))
    cut = inside.with_columns(end_ns=pl.min_horizontal("end_ns", following))
    return cut.filter(col.start_ns < col.end_ns)


def of_classes(waits: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """What keeps each of the waits from starting as its class has it: id, start_ns, end_ns, status."""
    spans = waits.select("id", "class", start_ns="eligible_ns", end_ns="until_ns")
    found = intervals.clip(spans, segments, ["class"], keep=["status"])
    return found.select("id", "start_ns", "end_ns", "status")


def applied(
    waits: pl.DataFrame, segments: pl.DataFrame, said: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`waits` and `segments` (see `demand`) with a class of its own for each wait of which anything is stated."""
    if said.is_empty():
        return waits, segments
    spans = waits.join(said.select("id").unique(), on="id", how="semi").select(
        "id", "class", start_ns="eligible_ns", end_ns="until_ns"
    )
    replayed = intervals.clip(spans, segments, ["class"], keep=["status"])
    unsaid = intervals.subtract(spans, said, ["id"])
    rest = intervals.clip(replayed, unsaid, ["id"])
    most = [known for known in (waits["class"].max(), segments["class"].max()) if isinstance(known, int)]
    base = max(most, default=-1) + 1
    numbers = spans.select("id", own=pl.int_range(pl.len(), dtype=pl.Int64) + base)
    shape = ("id", "start_ns", "end_ns", "status")
    own = pl.concat([said.select(shape), rest.select(shape)]).join(numbers, on="id")
    added = own.sort("own", "start_ns").select(pl.col("own").alias("class"), *shape[1:])
    met = waits.join(numbers, on="id", how="left", maintain_order="left")
    changed = met.with_columns(pl.coalesce("own", "class").alias("class")).drop("own")
    return changed, pl.concat([segments, added])
