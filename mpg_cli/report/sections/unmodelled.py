"""The operators that no model covers, and how to declare the largest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Code, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.text import NONE, plural
from mpg_cli.report.units import number, percent, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.report.model import Report, Unmodelled

_MOST = 5
_NOTABLE = 0.01
# identifiers only: what is shown for copying into a settings file must not carry anything else
_CUSTOM = re.compile(r"(?!aten::)[A-Za-z_]\w{0,60}::\w{1,80}(?:\.\w{1,20})?", re.ASCII)


def section(report: Report, *, detail: bool) -> Section:
    """The operators without a model if they are a notable part of computing; the lines that declare one."""
    ordered = sorted(report.unmodelled, key=lambda found: -found.time_ns)
    total = sum(found.share for found in ordered)
    if not total > _NOTABLE:
        return EMPTY
    shown = ordered if detail else ordered[:_MOST]
    blocks: list[Block] = [_table(shown)]
    if rest := ordered[len(shown) :]:
        share = percent(sum(found.share for found in rest))
        blocks.append(Line(f"{plural(len(rest), 'more operator')} with {share} of computing.", "dim"))
    blocks += _above_peak(report)
    blocks += _declaration(ordered)
    return Section(f"Operators without a model: {percent(total)} of computing", tuple(blocks))


def _above_peak(report: Report) -> list[Block]:
    """A note where operators have a model, but one that cannot be right."""
    text = "Operators that would have run above the peak are among them: see the warnings."
    return [Line(text, "dim")] if any(warning.kind == "above_peak" for warning in report.warnings) else []


def _table(shown: Sequence[Unmodelled]) -> Table:
    time = scale(found.time_ns for found in shown)
    return table(
        (
            (Column(f"time\n({time.unit})"), lambda found: time.cell(found.time_ns)),
            (Column("share\n%"), lambda found: tenths(found.share)),
            (Column("kernels"), lambda found: number(found.count)),
            (Column("operator", "left", code=True, least=16), lambda found: found.op or NONE),
        ),
        shown,
    )


def _declaration(ordered: Sequence[Unmodelled]) -> list[Block]:
    """The lines for mpg.toml that declare the largest custom operator."""
    name = next((f.op for f in ordered if f.share > _NOTABLE and _CUSTOM.fullmatch(f.op)), None)
    if name is None:
        return []
    lines = (
        "[[model]]",
        f'op = "{name}"',
        'flops = "2 * m * n * k"  # of one call',
        'dims = { m = "0.0", k = "0.1", n = 4096 }  # "argument.size", or a number',
    )
    return [Line("Declare the largest in mpg.toml, with its own formula:"), Code("toml", lines)]
