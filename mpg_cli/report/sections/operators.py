"""The operators with the most time above the chip's roofline."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Plot, Point, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.shapes import launch, operands
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import Scale, duration, number, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Op, Report, Roofline

    Field = tuple[Column, Callable[["_Row"], str]]

_MOST = 10
_MOST_IN_DETAIL = 30
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCD"
_MARKS = {"shapes": "", "inferred": "~", "declared": "=", "measured": "#"}
_KEY = {
    "~": "~ inferred from neighbouring kernels",
    "=": "= FLOPs declared in mpg.toml",
    "#": "# kernels, with FLOPs counted by Nsight Compute, by grid and block",
}
_TRACE = "the trace"  # what the sources of figures begin with that the file itself states


@dataclass(frozen=True, slots=True)
class _Row:
    """An operator, and its letter in the plot ("" for none)."""

    op: Op
    letter: str


def section(report: Report, *, detail: bool) -> Section:
    """The first ten operators by recoverable time; in detail thirty, and a roofline plot."""
    ordered = _ordered(report.ops)
    if not ordered:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    shown, rest = ordered[:most], ordered[most:]
    plot = _plot(report, shown)
    drawn = [plot] if plot and detail else []
    notes = (_key(shown), _sum(rest), "" if detail else _hint(rest, plot))
    note = "; ".join(text for text in notes if text)
    blocks: list[Block] = [Line(_explanation(report.rooflines)), _table(_rows(shown, lettered=bool(drawn)))]
    blocks += [Line(note, "dim")] if note else []
    return Section("Operators by recoverable time", (*blocks, *drawn))


def _ordered(ops: Sequence[Op]) -> list[Op]:
    """Most recoverable time first; after them, by time, those for which no roofline is known."""
    judged = sorted((op for op in ops if _has_roofline(op)), key=lambda op: -op.recoverable_ns)
    return judged + sorted((op for op in ops if not _has_roofline(op)), key=lambda op: -op.time_ns)


def _has_roofline(op: Op) -> bool:
    return op.efficiency is not None and isfinite(op.efficiency)


def recoverable(op: Op) -> int:
    """Nanoseconds above the roofline; 0 where no roofline is known."""
    return op.recoverable_ns if _has_roofline(op) else 0


def _explanation(rooflines: Sequence[Roofline]) -> str:
    if len(rooflines) != 1:
        return "Recoverable: time above the roofline of the chip:"
    limit = "peak" if rooflines[0].bandwidth_gbps is None else "roofline"
    return f"Recoverable: time above the chip's {limit} ({_ceilings(rooflines[0])}):"


def _ceilings(roofline: Roofline) -> str:
    decimals = 0 if roofline.peak_tflops >= 100 else 1
    peak = f"{_rate(roofline.peak_tflops, decimals)} TFLOP/s {cut(roofline.dtype, 16)}"
    if roofline.bandwidth_gbps is None:
        return f"{peak}; bandwidth unknown"
    stated = " as the trace states" if roofline.bandwidth_source.startswith(_TRACE) else ""
    return f"{peak}, {_rate(roofline.bandwidth_gbps, 0)} GB/s{stated}"


def _rate(value: float | None, decimals: int) -> str:
    """A rate; a dash where there is none, `<1` where rounding would hide that there is something."""
    if value is None or not isfinite(value) or value <= 0:
        return NONE
    least = 10**-decimals
    return f"<{least:g}" if value < least / 2 else f"{value:,.{decimals}f}"


def _rows(shown: Sequence[Op], *, lettered: bool) -> list[_Row]:
    letters = iter(_LETTERS if lettered else "")
    return [_Row(op, next(letters, "") if _is_matrix(op) else "") for op in shown]


def _is_matrix(op: Op) -> bool:
    """Whether the operator has a place in a roofline plot."""
    figures = (op.intensity, op.tflops)
    return op.flops > 0 and all(figure is not None and 0 < figure < float("inf") for figure in figures)


def _table(rows: Sequence[_Row]) -> Table:
    time = scale(row.op.time_ns for row in rows)
    fields: list[Field] = [
        (
            Column(f"recover\n({time.unit})"),
            lambda row: time.cell(row.op.recoverable_ns) if _has_roofline(row.op) else NONE,
        ),
        (Column("share\n%"), lambda row: tenths(row.op.share)),
        (Column(f"time\n({time.unit})"), lambda row: time.cell(row.op.time_ns)),
        (Column("count", drop=4), lambda row: number(row.op.count or None)),
        (Column("TFLOP/s", drop=2), lambda row: _rate(row.op.tflops, 1)),
        (Column("GB/s", drop=3), lambda row: _rate(row.op.gbps, 0)),
        (Column("roof\n%"), lambda row: tenths(row.op.efficiency)),
        (
            Column("bound", "left", least=7),
            lambda row: cut(row.op.bound, 8) if _has_roofline(row.op) else NONE,
        ),
        *_optional(rows, time),
        (Column(_heading(rows), "left", least=38, head=0.85), lambda row: operator(row.op)),
    ]
    return table(fields, rows)


def _heading(rows: Sequence[_Row]) -> str:
    aten = any(row.op.op.startswith("aten::") for row in rows)
    return "operator, aten:: not written" if aten else "operator"


def _optional(rows: Sequence[_Row], time: Scale) -> list[Field]:
    """The columns that are shown only where they say something."""
    fields: list[Field] = []
    if any(row.op.recompute_ns for row in rows):
        recomputed = Column(f"recompute\n({time.unit})", drop=5)
        fields.append(
            (recomputed, lambda row: time.cell(row.op.recompute_ns) if row.op.recompute_ns else NONE)
        )
    if any(_MARKS.get(row.op.flops_source, "") for row in rows):
        fields.append((Column("", "left"), lambda row: _MARKS.get(row.op.flops_source, "")))
    if any(row.letter for row in rows):
        fields.append((Column("", "left"), lambda row: row.letter))
    return fields


def operator(op: Op) -> str:
    """`bmm 16×5185×64 · 16×64×5185 bf16`."""
    arguments = (launch if op.flops_source == "measured" else operands)(op.dims, op.dtypes)
    return f"{cut(op.op, 80).removeprefix('aten::')} {arguments}".strip() or NONE


def _key(shown: Sequence[Op]) -> str:
    found = {_MARKS.get(op.flops_source, "") for op in shown}
    return "; ".join(text for mark, text in _KEY.items() if mark in found)


def _sum(rest: Sequence[Op]) -> str:
    """What is left out: recoverable time, and all the time of operators of which it is not known."""
    judged = [op.recoverable_ns for op in rest if _has_roofline(op)]
    others = [op.time_ns for op in rest if not _has_roofline(op)]
    more = [f"{len(judged):,} more ({duration(sum(judged))})"] if judged else []
    more += [f"{len(others):,} of unknown roofline ({duration(sum(others))} in all)"] if others else []
    return ", ".join(more)


def _hint(rest: Sequence[Op], plot: Plot | None) -> str:
    more = [f"lists {_MOST_IN_DETAIL}"] if rest else []
    drawn = ["on a terminal draws the roofline"] if plot else []
    return f"--detail {' and '.join(more + drawn)}" if more or drawn else ""


def _plot(report: Report, shown: Sequence[Op]) -> Plot | None:
    """All operators with FLOPs and bytes under the roof of the one chip; None without either."""
    if len(report.rooflines) != 1:
        return None
    roofline = report.rooflines[0]
    letters = {id(row.op): row.letter for row in _rows(shown, lettered=True)}
    ops = [op for op in report.ops if _is_matrix(op)]
    if not ops or not roofline.bandwidth_gbps or roofline.peak_tflops <= 0:
        return None
    points = tuple(Point(op.intensity or 0.0, op.tflops, op.share, letters.get(id(op), "")) for op in ops)
    title = f"Roofline of {cut(roofline.chip, 40)}: {_ceilings(roofline)}; letters as in the table"
    return Plot(title, roofline.peak_tflops, roofline.bandwidth_gbps, points)
