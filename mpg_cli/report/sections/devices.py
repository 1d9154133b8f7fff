"""One row per device; the extremes and the median where there are too many to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Column, Line, Row, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.text import NONE, plural
from mpg_cli.report.units import apportion, decimal, median, number, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Device, Report

    Field = tuple[Column, Callable[["_Row"], str]]
    Statistic = Callable[[Sequence[int]], int]

_MOST = 12
_WORST = 3
_STATISTICS: tuple[tuple[str, Statistic], ...] = (("min", min), ("median", median), ("max", max))
_PARTS = ("compute\n%", "exposed\ncomm %", "exposed\nmemory %", "exposed\nother %", "idle\n%")
_OTHER = 3


@dataclass(frozen=True, slots=True)
class _Row:
    """A device, or a statistic over devices. `parts`: tenths of a percent of the span, as in `_PARTS`."""

    title: str
    device: Device | None
    span_ns: int
    kernels: int
    busy: int
    parts: tuple[int, ...]


def section(report: Report, *, detail: bool) -> Section:
    """The table of devices."""
    rows = [_row(device) for device in report.devices]
    if not rows:
        return EMPTY
    title = "Devices, over all their recorded activity"
    if detail or len(rows) <= _MOST:
        return Section(title, (_table(report, rows),))
    worst = sorted(rows, key=lambda row: row.parts[0])[:_WORST]
    statistics = [_statistic(name, of, rows) for name, of in _STATISTICS]
    rest = plural(len(rows) - _WORST, "device")
    note = (
        f"Each column's extremes and median, then the {_WORST} devices that compute least; {rest} not shown."
    )
    return Section(title, (_dimmed(_table(report, [*statistics, *worst])), Line(note, "dim")))


def _row(device: Device) -> _Row:
    exposed = (device.exposed_comm_ns, device.exposed_memory_ns, device.exposed_other_ns)
    parts = apportion((device.compute_ns, *exposed, device.idle_ns), 1000)
    return _Row("", device, device.span_ns, device.kernel_count, sum(parts[:-1]), parts)


def _statistic(title: str, of: Statistic, rows: Sequence[_Row]) -> _Row:
    parts = tuple(of(column) for column in zip(*(row.parts for row in rows), strict=True))
    busy = of([row.busy for row in rows])
    return _Row(
        title, None, of([row.span_ns for row in rows]), of([row.kernels for row in rows]), busy, parts
    )


def _dimmed(block: Table) -> Table:
    statistics = tuple(Row(row.cells, "dim") for row in block.rows[: len(_STATISTICS)])
    return Table(block.columns, statistics + block.rows[len(_STATISTICS) :])


def _table(report: Report, rows: Sequence[_Row]) -> Table:
    unit = scale(row.span_ns for row in rows)
    shares = [_share(i) for i in range(len(_PARTS)) if i != _OTHER or any(row.parts[i] for row in rows)]
    fields: list[Field] = [
        *_identity(report.devices, rows),
        (Column(f"span\n({unit.unit})"), lambda row: unit.cell(row.span_ns)),
        (Column("busy\n%"), lambda row: decimal(row.busy, 1) if row.span_ns else NONE),
        *shares,
        (Column("kernels"), lambda row: number(row.kernels)),
        (Column("name", "left", code=True, least=16, drop=1), _name),
    ]
    return table(fields, rows)


def _share(part: int) -> Field:
    return Column(_PARTS[part]), lambda row: decimal(row.parts[part], 1) if row.span_ns else NONE


def _identity(devices: Sequence[Device], rows: Sequence[_Row]) -> list[Field]:
    """The columns it takes to tell the devices apart."""

    def field(column: Column, cell: Callable[[Device], str]) -> Field:
        return column, lambda row: cell(row.device) if row.device else ""

    fields: list[Field] = [(Column("", "left"), lambda row: row.title)] if rows[0].title else []
    if any(device.rank is not None for device in devices):
        fields.append(field(Column("rank"), lambda device: number(device.rank)))
    elif len({device.source for device in devices}) > 1:
        file = Column("file", "left", code=True, least=10)
        fields.append(field(file, lambda device: device.source.rpartition("/")[2]))
    if len({(device.source, device.device) for device in devices}) < len(devices):
        fields.append(field(Column("process"), lambda device: number(device.process)))
    return [*fields, field(Column("device"), lambda device: str(device.device))]


def _name(row: _Row) -> str:
    return (row.device.name or NONE) if row.device else ""
