"""The kernels that took most of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import median, number, percent, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Kernel, Report

_MOST = 10
_MOST_IN_DETAIL = 50


def section(report: Report, *, detail: bool) -> Section:
    """The first ten kernel names by summed time."""
    ordered = sorted(report.kernels, key=lambda kernel: -kernel.time_ns)
    if not ordered:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = [kernel_table(ordered[:most])]
    if rest := ordered[most:]:
        share = percent(sum(kernel.share for kernel in rest))
        more = plural(len(rest), "more name")
        blocks.append(Line(f"{more} in the JSON report: {share} of device time.", "dim"))
    return Section("Kernels by summed time in the window", tuple(blocks))


def kernel_table(kernels: Sequence[Kernel]) -> Table:
    """One row per kernel name; the name comes last, where length hurts least."""
    time = scale(kernel.time_ns for kernel in kernels)
    each = scale((kernel.max_ns for kernel in kernels), typical=median(kernel.mean_ns for kernel in kernels))
    return table(
        (
            (Column(f"time\n({time.unit})"), lambda k: time.cell(k.time_ns)),
            (Column("share\n%"), lambda k: tenths(k.share)),
            (Column("count"), lambda k: number(k.count)),
            (Column(f"mean\n({each.unit})"), lambda k: each.cell(k.mean_ns)),
            (Column(f"max\n({each.unit})", drop=2), lambda k: each.cell(k.max_ns)),
            (Column("kind", "left", drop=1), lambda k: k.kind or NONE),
            (Column("family", "left"), lambda k: cut(k.family or k.kind or NONE, 14)),
            (Column("name", "left", code=True, least=32), lambda k: k.name or NONE),
        ),
        kernels,
    )
