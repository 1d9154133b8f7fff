"""Operations of XLA programs over the whole profile, as XLA's own tools count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mpg_cli.report.blocks import Block, Column, Facts, Line, Section, Table
from mpg_cli.report.sections.common import EMPTY, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import duration, number, percent, ratio, scale, tenths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mpg_cli.report.model import Report, Xla, XlaAsync, XlaIdle, XlaOperation, XlaProgram, XlaTotal

T = TypeVar("T")
_MOST, _MOST_IN_DETAIL = 10, 50
_MOST_OPAQUE = 3
_LONGEST = 200
_ABOUT = (
    "Self time (what ran inside an operation is not in it) on all devices over the whole profile, not cut to the "
    "window of the account, as in xprof's HLO op stats:"
)
_OTHERWISE = (
    "counts otherwise: over the window above; waiting for copies (copy-done) and collectives is no computing"
)
_OPAQUE = "Custom calls whose work XLA does not know, by the operator of the framework:"
_ASYNC = "Copies and collectives that ran beside these, hidden where an operation computed meanwhile:"


def section(report: Report, *, detail: bool) -> Section:
    """Idle time by both definitions, then operations, their categories, programs, and what ran beside them."""
    found = report.xla
    if found is None:
        return EMPTY
    most = _MOST_IN_DETAIL if detail else _MOST
    blocks = [
        *_facts(found),
        *_listed(found, "operations", found.operations[:most], _ABOUT, _operations),
        *_listed(found, "categories", found.categories[:most], "By category:", _categories),
        *_listed(found, "opaque", found.opaque[: most if detail else _MOST_OPAQUE], _OPAQUE, _opaque),
        *_listed(found, "programs", found.programs[:most], _programs_heading(found), _programs),
        *_listed(found, "asynchronous", found.asynchronous[:most], _ASYNC, _asynchronous),
    ]
    return Section("What XLA's own tools show of the whole profile", tuple(blocks)) if blocks else EMPTY


def _listed(
    found: Xla, name: str, shown: Sequence[T], heading: str, draw: Callable[[Sequence[T]], Table]
) -> list[Block]:
    """A heading, the rows of a list that are shown, and how many more there are; nothing of an empty list."""
    if not shown:
        return []
    rest = len(getattr(found, name)) + found.left_out.get(name, 0) - len(shown)
    left_out = [Line(f"{plural(rest, 'more row')}.", "dim")] if rest > 0 else []
    return [Line(heading), draw(shown), *left_out]


# ------------------------------------------------------------------------------------------------- summary


def _facts(found: Xla) -> list[Block]:
    items = [*_idle(found), *_parts(found)]
    return [Facts(tuple(items))] if items else []


def _idle(found: Xla) -> Iterator[tuple[str, str]]:
    """Both definitions of idle time, and why they differ; nothing where neither is known."""
    between, whole = found.idle_between, found.idle_in_profile
    if between is None and whole is None:
        return
    first = "from the first to the last operation of each core: what xprof's overview calls idle"
    yield "idle", _amount(found, "idle_between", between, first)
    yield "idle, profile", _amount(found, "idle_in_profile", whole, "of the time the profiler was on")
    if between is not None and whole is not None:
        yield "difference", "the first leaves out what lies before the first operation and after the last"
    yield "RG", _OTHERWISE


def _amount(found: Xla, name: str, idle: XlaIdle | None, meaning: str) -> str:
    if idle is None:
        return f"{NONE} {cut(found.reasons.get(name) or 'not known', _LONGEST)}"
    return (
        f"{percent(idle.value)} {meaning} · {duration(idle.numerator_ns)} of {duration(idle.denominator_ns)}"
    )


def _parts(found: Xla) -> Iterator[tuple[str, str]]:
    """The parts of self time that say something of the program; only those there are."""
    if found.opaque_ns:
        yield "opaque", f"{_share(found, found.opaque_ns)} in custom calls whose work XLA does not know"
    if found.recompute_ns:
        yield "recompute", f"{_share(found, found.recompute_ns)} repeats the forward pass (rematerialisation)"
    if found.infeed_ns:
        yield "infeed", f"{_share(found, found.infeed_ns)} takes input from the host, waiting included"
    if found.outfeed_ns:
        yield "outfeed", f"{_share(found, found.outfeed_ns)} hands results to the host"


def _share(found: Xla, ns: int) -> str:
    return f"{percent(ratio(ns, found.time_ns))} of self time, {duration(ns)},"


# -------------------------------------------------------------------------------------------------- tables


def _operations(rows: Sequence[XlaOperation]) -> Table:
    time = scale(row.time_ns for row in rows)
    fields: list[tuple[Column, Callable[[XlaOperation], str]]] = [
        (Column(f"time\n({time.unit})"), lambda row: time.cell(row.time_ns)),
        (Column("share\n%"), lambda row: tenths(row.share)),
        (Column("count", drop=3), lambda row: number(row.count)),
        (Column("TFLOP/s", drop=4), lambda row: _rate(row.tflops, 1)),
        (Column("GB/s", drop=5), lambda row: _rate(row.gbps, 0)),
        (Column("", "left"), _marks),
        (Column("category", "left", least=12), lambda row: row.category or NONE),
        (Column("source", "left", least=16, drop=7, head=0.3), lambda row: row.location or NONE),
        (Column("from", "left", least=20, drop=6, head=0.3), lambda row: row.framework_op or NONE),
        (Column("program", "left", code=True, least=12, drop=2), lambda row: row.program or NONE),
        (Column("operation", "left", code=True, least=18), lambda row: row.op or NONE),
    ]
    shown = [field for field in fields if field[0].header or any(_marks(row) for row in rows)]
    return table(shown, rows)


def _marks(row: XlaOperation) -> str:
    return " ".join(["opaque"] * row.opaque + ["recompute"] * row.recompute)


def _rate(value: float | None, decimals: int) -> str:
    """A rate; a dash where there is none, `<1` where rounding would hide that there is something."""
    if value is None or not 0 < value < float("inf"):
        return NONE
    least = 10**-decimals
    return f"<{least:g}" if value < least / 2 else f"{value:,.{decimals}f}"


def _categories(rows: Sequence[XlaTotal]) -> Table:
    return _totals("category", rows)


def _opaque(rows: Sequence[XlaTotal]) -> Table:
    return _totals("custom call", rows)


def _totals(name: str, rows: Sequence[XlaTotal]) -> Table:
    time = scale(row.time_ns for row in rows)
    return table(
        (
            (Column(f"time\n({time.unit})"), lambda row: time.cell(row.time_ns)),
            (Column("share\n%"), lambda row: tenths(row.share)),
            (Column("count"), lambda row: number(row.count)),
            (Column(name, "left", least=16, head=0.3), lambda row: row.name or NONE),
        ),
        rows,
    )


def _programs_heading(found: Xla) -> str:
    if all(row.runs is None for row in found.programs):
        return "By program, self time of its operations; the file records no runs of programs:"
    return "By program, all runs on all devices; a gap is time in a run in which no operation ran:"


def _programs(rows: Sequence[XlaProgram]) -> Table:
    time = scale(max(row.operations_ns, row.time_ns or 0) for row in rows)
    gap = scale(row.gap_ns or 0 for row in rows)
    fields: list[tuple[Column, Callable[[XlaProgram], str]]] = [
        (Column(f"operations\n({time.unit})"), lambda row: time.cell(row.operations_ns)),
        (Column("share\n%"), lambda row: tenths(row.share)),
    ]
    if any(row.runs is not None for row in rows):
        fields += [
            (Column("runs"), lambda row: number(row.runs)),
            (Column(f"in runs\n({time.unit})"), lambda row: _cell(row.time_ns, time.cell)),
            (Column(f"gaps\n({gap.unit})"), lambda row: _cell(row.gap_ns, gap.cell)),
        ]
    fields += [
        (Column("id", drop=1), lambda row: cut(row.program_id or NONE, 24)),
        (Column("program", "left", code=True, least=16), lambda row: row.program or NONE),
    ]
    return table(fields, rows)


def _cell(ns: int | None, cell: Callable[[int], str]) -> str:
    return NONE if ns is None else cell(ns)


def _asynchronous(rows: Sequence[XlaAsync]) -> Table:
    time = scale(row.time_ns for row in rows)
    return table(
        (
            (Column(f"time\n({time.unit})"), lambda row: time.cell(row.time_ns)),
            (Column("hidden\n%"), lambda row: tenths(ratio(row.hidden_ns, row.time_ns))),
            (Column(f"exposed\n({time.unit})"), lambda row: time.cell(row.exposed_ns)),
            (Column("count", drop=2), lambda row: number(row.count)),
            (Column("program", "left", code=True, least=12, drop=1), lambda row: row.program or NONE),
            (Column("operation", "left", code=True, least=16), lambda row: row.op or NONE),
        ),
        rows,
    )
