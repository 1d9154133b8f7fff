"""What all dumps and watches of a dataset tell of each pod and workload: its last row, and its events once each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl
from polars import col

Row = dict[str, Any]
Key = tuple[str | None, str]  # cluster, raw_id
# what an object tells at one time; of everything else the last that was told holds
FIRST, MOST = ("submit_ns",), ("run_ns", "restarts")
EVENT = ("cluster", "raw_id", "event", "reason", "message", "ts_ns", "node_clock")


@dataclass
class Object:
    """One pod or workload.

    row: its columns, each the last that a file states; seen_ns: the latest time at which a file shows it; gone: a
    later file of its kind and namespace has it no more; admissions: its rows by start_ns, with the latest time at which
    a file shows that admission.
    """

    row: Row
    seen_ns: int
    gone: bool
    events: list[Row] = field(default_factory=list)
    admissions: dict[int, tuple[Row, int]] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Cluster and raw_id."""
        return self.row["cluster"], self.row["raw_id"]


def observed(attempts: pl.DataFrame, events: pl.DataFrame, as_of: dict[int, int]) -> list[Object]:
    """The objects of kind pod and workload, each once, in the order of the files.

    as_of: Unix ns by source; of a source without one, the latest of all.
    """
    rows = attempts.filter(col.kind.is_in(["pod", "workload"]))
    if rows.is_empty():
        return []
    latest = max(as_of.values(), default=0)
    known = pl.col("source").replace_strict(as_of, default=latest, return_dtype=pl.Int64)
    rows = rows.with_columns(_at=known).sort("_at", "line", maintain_order=True)
    lists = rows.group_by("cluster", "kind", "user").agg(_listed=col._at.max())
    by = ["cluster", "raw_id"]
    others = [name for name in attempts.columns if name not in {*by, *FIRST, *MOST, "state", "ended_by"}]
    once = rows.group_by(by, maintain_order=True).agg(
        *(col(name).drop_nulls().first() for name in FIRST),
        *(col(name).max() for name in MOST),
        *(col(name).last() for name in ("state", "ended_by")),
        *(col(name).drop_nulls().last() for name in others),
        _seen=col._at.max(),
    )
    once = once.join(lists, on=["cluster", "kind", "user"], how="left", nulls_equal=True)
    history, admissions = _history(events), _admissions(rows)
    found = []
    for row in once.iter_rows(named=True):
        seen, listed = row.pop("_seen"), row.pop("_listed")
        one = Object(row, seen, gone=listed is not None and listed > seen)
        one.events = sorted(
            (*history.get(one.key, []), *history.get(_named(row), [])), key=lambda e: int(e["ts_ns"])
        )
        one.admissions = admissions.get(one.key, {})
        found.append(one)
    return found


def _named(row: Row) -> Key:
    """What an event without a uid calls the object."""
    kind = "Pod" if row["kind"] == "pod" else "Workload"
    name = f"{kind}/{row['user'] or ''}/{row['job']}"
    return row["cluster"], name if name != row["raw_id"] else ""


def histories(events: pl.DataFrame) -> dict[Key, list[Row]]:
    """The events of each object in order, a folded one once, with its highest count."""
    return _history(events)


def _history(events: pl.DataFrame) -> dict[Key, list[Row]]:
    rows = events.filter(col.raw_id.is_not_null())
    once = rows.group_by(EVENT, maintain_order=True).agg(
        col("count").max(), col.last_ns.max(), col.nodes.drop_nulls().first(), col.other.drop_nulls().first()
    )
    found: dict[Key, list[Row]] = {}
    for row in once.sort("ts_ns", maintain_order=True).iter_rows(named=True):
        found.setdefault((row["cluster"], row["raw_id"]), []).append(row)
    return found


def _admissions(rows: pl.DataFrame) -> dict[Key, dict[int, tuple[Row, int]]]:
    found: dict[Key, dict[int, tuple[Row, int]]] = {}
    admitted = rows.filter(col.kind == "workload", col.start_ns.is_not_null())
    for row in admitted.iter_rows(named=True):
        found.setdefault((row["cluster"], row["raw_id"]), {})[row["start_ns"]] = (row, row["_at"])
    return found
