"""Computing kernels beside what Nsight Compute measured of them."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.shapes import launch
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import number, percent, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import ProfiledKernel, Report

_MOST, _MOST_IN_DETAIL = 10, 50
_TEXT = (
    "Fractions of the peak at the profiler's clock, FLOPs of one launch as executed; times are the trace's:"
)


def section(report: Report, *, detail: bool) -> Section:
    """The kernels with most time, profiled or not; empty without a report of Nsight Compute."""
    ordered = sorted(report.profiled, key=lambda kernel: -kernel.time_ns)
    if not ordered:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = [Line(_TEXT), _table(ordered[:most]), *_reasons(ordered[:most])]
    if rest := ordered[most:]:
        share = percent(sum(kernel.share for kernel in rest))
        blocks.append(Line(f"{plural(len(rest), 'more kernel')} with {share} of computing.", "dim"))
    covered = percent(sum(kernel.share for kernel in ordered if kernel.launches))
    return Section(f"What Nsight Compute measured: kernels with {covered} of computing", tuple(blocks))


def _table(kernels: Sequence[ProfiledKernel]) -> Table:
    def share(value: float | None) -> str:
        return NONE if value is None else tenths(value)

    time = scale(kernel.time_ns for kernel in kernels)
    return table(
        (
            (Column(f"time\n({time.unit})"), lambda k: time.cell(k.time_ns)),
            (Column("share\n%"), lambda k: tenths(k.share)),
            (Column("count", drop=4), lambda k: number(k.count)),
            (Column("SM\n%"), lambda k: share(k.sm_throughput)),
            (Column("tensor\n%"), lambda k: share(k.tensor_pipe)),
            (Column("DRAM\n%"), lambda k: share(k.dram_fraction)),
            (Column("warps\n%", drop=2), lambda k: share(k.achieved_occupancy)),
            (Column("waves", drop=3), lambda k: _decimal(k.waves_per_sm, 2)),
            (Column("MFLOP\nper launch", drop=1), lambda k: _decimal(k.flops, 1, 1e6)),
            (Column("", "left"), lambda k: cut(k.dtype or "", 8)),
            (Column("kernel, grid · block", "left", code=True, least=32, head=0.7), _kernel),
        ),
        kernels,
    )


def _decimal(value: float | None, decimals: int, unit: float = 1.0) -> str:
    return NONE if value is None or not isfinite(value) else f"{value / unit:,.{decimals}f}"


def _kernel(kernel: ProfiledKernel) -> str:
    shape = launch(f"[{kernel.grid}, {kernel.block}]", "[]") if kernel.grid and kernel.block else ""
    return f"{cut(kernel.name, 200)} {shape}".strip() or NONE


def _reasons(kernels: Sequence[ProfiledKernel]) -> list[Block]:
    """Why FLOPs are not known, by reason."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        if kernel.flops is None:
            reason = cut(kernel.reason or "not known", 120)
            shares[reason] = shares.get(reason, 0.0) + kernel.share
    told = "; ".join(f"{reason} ({percent(share)} of computing)" for reason, share in shares.items())
    return [Line(f"Without FLOPs: {told}.", "dim")] if told else []
