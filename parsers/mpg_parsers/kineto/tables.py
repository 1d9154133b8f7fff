"""Packed columns of a Kineto trace into batches of the canonical tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers import device_records
from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kineto import categories, loose, metadata, rows
from mpg_parsers.kineto.frames import to_frame
from mpg_parsers.tables import DEVICE_KINDS, DEVICE_OPS, DEVICES, SOURCES, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.kineto.columns import Packed

BATCH_ROWS = 25_000
TIMED_PHASES = frozenset({"X", "B", "E", "i", "I", "b", "e", "n"})
COUNTED_PHASES = frozenset({"X", "B", "E", "M"})
FOREIGN_HINT = "run `mpg formats` for what mpg reads"
Batch = tuple[str, pl.DataFrame]


class TableBuilder:
    """Turns packed columns into batches; device rows are held until `finish`, since their clean-up needs all
    of them.

    Memory grows with the device rows only: about 130 bytes each until `finish`, 250 bytes then. (Begin and end
    events, and complete ones without a category, are held too: only old or foreign traces have many.)
    """

    def __init__(self, path: str, *, keep_names: bool) -> None:
        self._path = path
        self._keep_names = keep_names
        self._device: list[pl.DataFrame] = []
        self._loose: list[pl.DataFrame] = []
        self._steps: list[pl.DataFrame] = []
        self._host = HostClock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._foreign: Counter[str] = Counter()
        self._meta: dict[tuple[str, str, str], None] = {}
        self.notices: list[Notice] = []

    def take(self, packed: Packed) -> Iterator[Batch]:
        """Batches of host events. Raises InputError(unsupported_format) for traces of other producers."""
        self._counts.update({(phase, category): count for phase, category, count in packed["counts"]})
        self._foreign.update(dict(packed["foreign"]))
        if packed["meta"]:
            self._meta.update(dict.fromkeys(tuple(item) for item in packed["meta"]))
            loose.refuse_other_producers(self._meta, self._path)
        frames = {name: to_frame(table) for name, table in packed["tables"].items()}
        if "device" in frames:
            self._hold(frames["device"])
        if "loose" in frames:
            self._loose.append(frames["loose"])
        if "host" in frames:
            yield from self._host_batch(frames["host"])

    def finish(self, document: dict[str, Any]) -> Iterator[Batch]:
        """The batches that need the whole file.

        Raises InputError: empty_input, not_a_trace, unsupported_accelerator.
        """
        self._refuse_nothing()
        if self._loose:
            yield from self._resolve_loose()
        held = self._device or [_as_categories(DEVICE_OPS.conform(pl.DataFrame()))]
        ops, notices = device_records.clean(pl.concat(held), self._host.span)
        self.notices += notices
        self._judge_foreign(ops)
        self._note_lost()
        yield from (("device_ops", DEVICE_OPS.conform(part)) for part in ops.iter_slices(BATCH_ROWS))
        yield "devices", DEVICES.conform(metadata.devices(ops, document))
        yield "steps", self._all_steps()
        yield "sources", self._source_row(document, ops)

    def _hold(self, frame: pl.DataFrame) -> None:
        self._device.append(_as_categories(rows.device_rows(frame)))

    def _host_batch(self, frame: pl.DataFrame) -> Iterator[Batch]:
        kept = self._host.keep(rows.host_rows(frame))
        if kept.height:
            self._steps.append(rows.step_rows(kept))
            yield "host_events", kept

    def _resolve_loose(self) -> Iterator[Batch]:
        resolved, notices = loose.resolve(pl.concat(self._loose, how="diagonal"))
        self.notices += notices
        on_device = pl.col("kind").is_in(DEVICE_KINDS)
        self._hold(resolved.filter(on_device))
        yield from self._host_batch(resolved.filter(~on_device))

    def _refuse_nothing(self) -> None:
        phases = {phase for phase, _ in self._counts}
        if not phases:
            hint = "was the profiled code run between the profiler's start and stop?"
            raise InputError("empty_input", self._path, "no events: traceEvents is empty", hint=hint)
        if phases == {""}:
            message = "a list of objects without a phase (`ph`): not trace events"
            raise InputError("not_a_trace", self._path, message, hint="run `mpg formats FILE`")
        if not phases & TIMED_PHASES:
            hint = "the profiler recorded names but no activity"
            raise InputError("empty_input", self._path, "no timed events, only metadata", hint=hint)

    def _judge_foreign(self, ops: pl.DataFrame) -> None:
        """Refuse a trace with device work of unknown kinds only; say what was left out of a mixed one."""
        if not self._foreign:
            return
        names = ", ".join(sorted(self._foreign)[:10])
        if ops.is_empty():
            message = f"device work of an accelerator that is not supported: categories {names}"
            raise InputError("unsupported_accelerator", self._path, message[:400], hint=FOREIGN_HINT)
        count = self._foreign.total()
        message = f"{count} events of categories that are not understood were not counted: {names}"
        self.notices.append(Notice("dropped_events", message[:400], count))

    def _note_lost(self) -> None:
        """Say what was left out because it is not in a form that can be counted."""
        odd: Counter[str] = Counter()
        for (phase, category), count in self._counts.items():
            if category in categories.DEVICE and phase not in COUNTED_PHASES:
                odd[phase] += count
        if odd:
            phases = ", ".join(sorted(map(repr, odd)))
            message = (
                f"{odd.total()} device records are not complete events (ph {phases[:80]}) and were dropped"
            )
            self.notices.append(Notice("dropped_events", message, odd.total()))
        if lost := self._host.dropped:
            message = f"{lost} host events without a usable start were dropped"
            self.notices.append(Notice("dropped_events", message, lost))

    def _all_steps(self) -> pl.DataFrame:
        steps = pl.concat(self._steps or [STEPS.conform(pl.DataFrame()).drop("source")])
        return STEPS.conform(steps.unique(maintain_order=True).sort("start_ns", "end_ns"))

    def _source_row(self, document: dict[str, Any], ops: pl.DataFrame) -> pl.DataFrame:
        first, last = rows.extent(ops, self._host.span)
        row = {
            "format": "pytorch",
            "events": self._counts.total(),
            "notices": listed(self.notices),
            "first_ns": first,
            "last_ns": last,
            **metadata.source_fields(document, keep_names=self._keep_names),
        }
        return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))


class HostClock:
    """Where on their clock the host's events lie; what lies a day off the first batch's median is dropped."""

    def __init__(self) -> None:
        self._middle: int | None = None
        self.span: tuple[int, int] | None = None
        self.dropped = 0

    def keep(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The usable rows of host_events."""
        if self._middle is None:
            starts = frame["start_ns"].drop_nulls().sort()
            self._middle = int(starts[starts.len() // 2]) if starts.len() else None
        middle, day = self._middle or 0, device_records.DAY
        near = frame.filter(pl.col("start_ns").is_between(middle - day, middle + day))
        self.dropped += frame.height - near.height
        if near.height:
            first, last = rows.extent(near, self.span)
            self.span = (first or 0, last or 0)
        return near


def _as_categories(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts as categories: all device rows are held until the end, and few of their texts differ."""
    return frame.cast({pl.String: pl.Categorical})
