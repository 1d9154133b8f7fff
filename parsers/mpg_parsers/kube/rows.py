"""Rows on their way into tables, and what the file proves of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mpg_parsers.kube.fields import MAX_MESSAGE, SECOND, as_json, instant

Row = dict[str, Any]
TABLES = ("attempts", "pending", "capacity", "nodes", "topology", "scheduler_events")
REMEMBERED = 1 << 20  # rows


@dataclass
class Rows:
    """Collects rows by table; `as_of` is the latest time that was read, `first` the earliest."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    as_of: int | None = None
    first: int | None = None
    # of each pod, as far as known: when it was scheduled, started and ended
    _clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _last: dict[str, int] = field(default_factory=dict)

    def at(self, text: object) -> int | None:
        """Unix ns of a time that has passed when the file was written."""
        ns = instant(text) if isinstance(text, str) else None
        if ns is not None:
            self.as_of = ns if self.as_of is None else max(self.as_of, ns)
            self.first = ns if self.first is None else min(self.first, ns)
        return ns

    def add(self, table: str, **row: Any) -> None:  # noqa: ANN401 - cells of any type
        """Add a row, unless the same was added before: a watch repeats an object with every change of it."""
        key = hash((table, *row.values()))
        if key in self._seen:
            return
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen.add(key)
        self.tables[table].append(row)

    def add_state(self, table: str, key: str, line: int, **row: Any) -> None:  # noqa: ANN401 - as above
        """Add a row unless it is what was last said of `key`."""
        state = hash(tuple(row.values()))
        if self._last.get(key) == state:
            return
        if len(self._last) >= REMEMBERED:
            self._last.clear()
        self._last[key] = state
        self.tables[table].append({**row, "line": line} if table == "attempts" else row)

    def event(
        self,
        event: str,
        ts: int | None,
        raw_id: str | None,
        reason: str = "",
        message: str = "",
        **more: object,
    ) -> None:
        """Add an event that happened at `ts`; none without a time. Of a folded one, `last_ns` and `count`."""
        if ts is None:
            return
        if raw_id and (event == "allocate" or (event in ("start", "end") and more.get("node_clock"))):
            self._note_clock(raw_id, event, ts)
        row: Row = {"ts_ns": ts, "last_ns": None, "count": 1, "event": event, "raw_id": raw_id, "other": None}
        row |= {"nodes": None, "reason": reason or None, "message": message[:MAX_MESSAGE] or None}
        self.add("scheduler_events", **(row | {"node_clock": None} | more))

    def _note_clock(self, raw_id: str, event: str, ts: int) -> None:
        """Move `as_of` where a node's clock is behind: by the scheduler's, a pod's end is later than it says."""
        if raw_id not in self._clocks and len(self._clocks) >= REMEMBERED:
            self._clocks.clear()
        known = self._clocks.setdefault(raw_id, {})
        known[event] = min(ts, known.get(event, ts)) if event != "end" else ts
        if len(known) == 3 and (behind := known["allocate"] - known["start"]) >= SECOND:
            self.as_of = max(self.as_of or 0, known["end"] + behind)

    def take(self) -> dict[str, list[Row]]:
        """The rows so far, which are then forgotten."""
        taken, self.tables = self.tables, {name: [] for name in TABLES}
        return taken


@dataclass
class Spells:
    """Stretches in which something is in one state, of which each observation says since when."""

    open: dict[str, Row] = field(default_factory=dict)

    def observe(self, key: str, since: int, **row: Any) -> Row | None:  # noqa: ANN401 - cells of any type
        """The stretch that has ended by `since`, if another was open; one that goes on keeps its start."""
        before = self.open.get(key)
        if before is not None and all(before.get(name) == value for name, value in row.items()):
            return None
        self.open[key] = {"start_ns": since, **row}
        return self._ended(before, since)

    def end(self, key: str, at: int) -> Row | None:
        """The open stretch of `key`, ended."""
        return self._ended(self.open.pop(key, None), at)

    @staticmethod
    def _ended(row: Row | None, at: int) -> Row | None:
        return None if row is None or row["start_ns"] >= at else {**row, "end_ns": at}


def names(nodes: list[str]) -> str | None:
    """The JSON list of nodes, None for none."""
    return as_json(nodes) if nodes else None
