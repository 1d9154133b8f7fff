"""What XLA's own tools show, as a part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.report import model

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_cli.goodput.xla import Idle, Xla

MOST = 1_000  # rows of one list in the report
MOST_OPAQUE = 10
LISTS = {
    "operations": MOST, "categories": MOST, "asynchronous": MOST, "opaque": MOST_OPAQUE, "programs": MOST,
}  # fmt: skip
PLAIN = (
    "program", "program_id", "category", "framework_op", "location", "activity", "count", "time_ns", "flops",
    "all_flops", "dtype", "bytes", "tflops", "gbps", "flops_source", "opaque", "recompute",
)  # fmt: skip


def xla(found: Xla | None) -> model.Xla | None:
    """The figures of `goodput.xla.measure`, lists cut to LISTS rows; None for None."""
    if found is None:
        return None
    whole = found.time_ns
    opaque_ns = int(found.opaque["time_ns"].sum())
    lengths = {name: getattr(found, name).height for name in LISTS}
    return model.Xla(
        time_ns=whole,
        idle_between=_idle(found.idle_between),
        idle_in_profile=_idle(found.idle_in_profile),
        opaque_ns=opaque_ns,
        opaque_share=_share(opaque_ns, whole),
        recompute_ns=found.recompute_ns,
        recompute_share=_share(found.recompute_ns, whole),
        infeed_ns=found.infeed_ns,
        outfeed_ns=found.outfeed_ns,
        operations=tuple(_operation(row, whole) for row in _rows(found.operations, "operations")),
        categories=_totals(found.categories.rename({"category": "name"}), "categories", whole),
        asynchronous=tuple(_asynchronous(row) for row in _rows(found.asynchronous, "asynchronous")),
        opaque=_totals(found.opaque, "opaque", whole),
        programs=tuple(_program(row, whole) for row in _rows(found.programs, "programs")),
        left_out={name: length - LISTS[name] for name, length in lengths.items() if length > LISTS[name]},
        reasons=found.reasons,
    )


def _rows(table: pl.DataFrame, name: str) -> Iterator[dict[str, Any]]:
    return table.head(LISTS[name]).iter_rows(named=True)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _idle(found: Idle | None) -> model.XlaIdle | None:
    if found is None:
        return None
    return model.XlaIdle(found.numerator_ns / found.denominator_ns, found.numerator_ns, found.denominator_ns)


def _operation(row: dict[str, Any], whole: int) -> model.XlaOperation:
    return model.XlaOperation(
        op=row["name"], share=_share(row["time_ns"], whole), **{name: row[name] for name in PLAIN}
    )


def _totals(table: pl.DataFrame, name: str, whole: int) -> tuple[model.XlaTotal, ...]:
    return tuple(model.XlaTotal(**row, share=_share(row["time_ns"], whole)) for row in _rows(table, name))


def _asynchronous(row: dict[str, Any]) -> model.XlaAsync:
    names = ("program", "category", "count", "time_ns", "hidden_ns", "exposed_ns")
    return model.XlaAsync(op=row["name"], **{name: row[name] for name in names})


def _program(row: dict[str, Any], whole: int) -> model.XlaProgram:
    return model.XlaProgram(**row, share=_share(row["operations_ns"], whole))
