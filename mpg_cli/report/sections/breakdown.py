"""Device time by module, operator, kernel, stream or category, as --by asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import number, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpg_cli.report.model import Breakdown, Report

    Shown = tuple[int, Breakdown]
    Field = tuple[Column, Callable[[Shown], str]]

_MOST, _MOST_IN_DETAIL = 20, 200
_MOST_KINDS = 6
_DEEPEST = 12  # levels of indentation


def section(report: Report, *, detail: bool) -> Section:
    """A table for each division that was asked for; modules as a tree."""
    by: dict[str, list[Breakdown]] = {}
    for row in report.breakdown:
        by.setdefault(row.by, []).append(row)
    if not by:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks: list[Block] = []
    for name, rows in list(by.items())[:_MOST_KINDS]:
        text = f"By {cut(name, 40) or NONE}, durations of all device activity summed:"
        blocks += [Line(text), _table(name, tree(rows, most)), *_rest(len(rows) - most)]
    return Section("Device time divided", tuple(blocks))


def _rest(count: int) -> list[Block]:
    return [Line(f"The JSON report lists {plural(count, 'more row')}.", "dim")] if count > 0 else []


def tree(rows: Sequence[Breakdown], most: int) -> list[Shown]:
    """The `most` largest rows, each below its parent and with its level, the largest of siblings first.

    A module has at least the time of what is in it, so with a row its parents are among the largest too; a row whose
    parent is not shown, or that is its own ancestor, stands at the left.
    """
    chosen = sorted(rows, key=lambda row: (-row.incl_ns, row.depth))[:most]
    keys = {row.key for row in chosen}
    inside: dict[str | None, list[Breakdown]] = {}
    for row in chosen:
        parent = row.parent if row.parent in keys and row.parent != row.key else None
        inside.setdefault(parent, []).append(row)
    shown: list[Shown] = []
    done: set[int] = set()
    for root in (*inside.get(None, ()), *chosen):  # the latter only for circles, which have no root
        _walk(root, inside, shown, done)
    return shown


def _walk(
    root: Breakdown, inside: dict[str | None, list[Breakdown]], shown: list[Shown], done: set[int]
) -> None:
    """Append what lies under the root, depth first; without recursion, for a tree may be deep."""
    open_rows = [(0, root)]
    while open_rows:
        level, row = open_rows.pop()
        if id(row) not in done:
            done.add(id(row))
            shown.append((level, row))
            open_rows += [(level + 1, child) for child in reversed(inside.get(row.key, ()))]


def _table(name: str, shown: Sequence[Shown]) -> Table:
    """With a column of the time that is not in inner modules or operators, where the two differ."""
    time = scale(row.incl_ns for _, row in shown)
    fields: list[Field] = [
        (Column(f"time\n({time.unit})"), lambda item: time.cell(item[1].incl_ns)),
        (Column("share\n%"), lambda item: tenths(item[1].share)),
    ]
    if any(row.excl_ns != row.incl_ns for _, row in shown):
        fields.append((Column(f"own\n({time.unit})"), lambda item: time.cell(item[1].excl_ns)))
    fields += [
        (Column("compute\n%", drop=2), _part("compute_ns")),
        (Column("comm\n%", drop=3), _part("comm_ns")),
        (Column("memory\n%", drop=4), _part("memory_ns")),
        (Column("count", drop=5), lambda item: number(item[1].count)),
        (Column("kernels", drop=1), lambda item: number(item[1].kernels)),
        (Column(cut(name, 20) or NONE, "left", code=True, least=24), _key),
    ]
    return table(fields, shown)


def _part(name: str) -> Callable[[Shown], str]:
    def cell(item: Shown) -> str:
        whole = item[1].incl_ns
        return tenths(getattr(item[1], name) / whole) if whole else NONE

    return cell


def _key(item: Shown) -> str:
    """The last part of a module's path, indented by two spaces a level."""
    level, row = item
    inner = row.key.removeprefix(row.parent).lstrip(" /.") if level and row.parent else row.key
    return "  " * min(level, _DEEPEST) + (inner or row.key or NONE)
