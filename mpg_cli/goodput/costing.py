"""The cost of every operator of a trace that has a model: by its call alone, else by what is known around it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput.models import Call, parse
from mpg_cli.goodput.models.convolution import GRADIENTS, known_outputs, with_output
from mpg_cli.goodput.operators import CALL

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from mpg_cli.goodput.models import Cost, Models
    from mpg_cli.goodput.operators import Operators

DECLARED = "declared"  # the model's name, see models.declared
NO_SHAPES = Call((), complete=False)
FORWARD_CONVOLUTION = re.compile(r"convolution(?!.*backward)")
SCHEMA = {
    "cost": pl.UInt32, "call": pl.UInt32, "flops": pl.Int64, "bytes": pl.Int64,
    "dtype": pl.String, "unit": pl.String, "model": pl.String, "exact": pl.Boolean,
}  # fmt: skip


@dataclass
class Costs:
    """table: the distinct costs (SCHEMA); `of` tells an operator's cost by its row."""

    calls: array[int]  # the call of each row
    names: list[str]  # of the calls
    found: list[tuple[int, Cost]] = field(default_factory=list)
    by_call: dict[int, int] = field(default_factory=dict)
    by_row: dict[int, int] = field(default_factory=dict)  # of operators whose call alone does not tell

    def add(self, call: int, cost: Cost) -> int:
        """The number of a new cost."""
        self.found.append((call, cost))
        return len(self.found) - 1

    def of(self, row: int) -> int | None:
        """The number of the operator's cost, None if it has none."""
        number = self.by_call.get(self.calls[row])
        return self.by_row.get(row) if number is None else number

    def declared(self, row: int) -> bool:
        """Whether the user declared what the operator costs."""
        number = self.of(row)
        return number is not None and self.found[number][1].model == DECLARED

    @property
    def any_declared(self) -> bool:
        """Whether the user declared the cost of any operator that there is."""
        return any(cost.model == DECLARED for _, cost in self.found)

    def name(self, row: int) -> str:
        """The operator's name."""
        return self.names[self.calls[row]]

    def flops(self, row: int) -> int:
        """FLOPs of the operator, 0 without a cost."""
        number = self.of(row)
        return 0 if number is None else self.found[number][1].flops

    def table(self) -> pl.DataFrame:
        """The distinct costs."""
        rows = [
            (number, call, cost.flops, cost.bytes, cost.dtype, cost.unit, cost.model, cost.exact)
            for number, (call, cost) in enumerate(self.found)
        ]
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def find_costs(
    operators: Operators, models: Models, annotations: pl.DataFrame, kernels: pl.DataFrame
) -> Costs:
    """The costs of all operators.

    annotations: source, start_ns, end_ns, name of the host ranges that tell about a batch; kernels: row (operator
    around the launch), name. Both serve the operators whose arguments do not tell enough.
    """
    costs = Costs(operators.column("call"), operators.calls["name"].to_list())
    calls = _calls(operators.calls, models)
    costs.by_call = {
        index: costs.add(index, found)
        for index, (name, call) in calls.items()
        if (found := models.cost(name, call))
    }
    open_calls = [call for call in calls if call not in costs.by_call]
    rows = operators.ops.filter(pl.col("call").is_in(open_calls))
    if rows.height:
        _cost_in_context(costs, rows, _Context(operators, calls, models, annotations, kernels))
    return costs


def _calls(distinct: pl.DataFrame, models: Models) -> dict[int, tuple[str, Call]]:
    """The calls that have a model and recorded shapes; of convolutions with the size of the output, where known.

    What a user declares may need no shapes.
    """
    parsed = {
        index: (name, call)
        for index, name, *texts in distinct.select("call", *CALL).iter_rows()
        if models.has_model(name) or name in GRADIENTS
        if (call := parse(*texts) or (NO_SHAPES if name in models.declared else None)) is not None
    }
    outputs = known_outputs(parsed.values())
    return {
        index: (name, with_output(call, outputs) if FORWARD_CONVOLUTION.search(name) else call)
        for index, (name, call) in parsed.items()
        if models.has_model(name)
    }


class _Context:
    """What is known around an operator."""

    def __init__(
        self,
        operators: Operators,
        calls: Mapping[int, tuple[str, Call]],
        models: Models,
        annotations: pl.DataFrame,
        kernels: pl.DataFrame,
    ) -> None:
        self.models, self.calls, self._annotations = models, calls, annotations
        self._parents = operators.ops
        self._distinct = operators.calls
        self._kernels = kernels

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """row, call, parent_call, annotation, kernel of some operators."""
        parents = self._parents.select(parent="row", parent_call="call")
        first = self._kernels.unique("row", keep="first", maintain_order=True).select("row", kernel="name")
        near = (
            rows.join(parents, on="parent", how="left", maintain_order="left")
            .join(first, on="row", how="left", maintain_order="left")
            .sort("start_ns")
            .join_asof(
                self._annotations.select("source", "start_ns", "end_ns", annotation="name").sort("start_ns"),
                on="start_ns",
                by="source",
                check_sortedness=False,
            )
        )
        inside = pl.when(pl.col("start_ns") < pl.col("end_ns")).then("annotation")
        return near.select("row", "call", "parent_call", inside.alias("annotation"), "kernel")

    def parent(self, index: int | None) -> Call | None:
        """The call of the enclosing operator."""
        if index is None:
            return None
        text = self._distinct.filter(pl.col("call") == index).select(CALL[1:]).row(0)
        return parse(*text)


def _cost_in_context(costs: Costs, rows: pl.DataFrame, context: _Context) -> None:
    """Add the costs of operators whose call alone does not tell."""
    known: dict[tuple[object, ...], int | None] = {}
    for row, *key in context.of(rows).iter_rows():
        place = tuple(key)
        if place not in known:
            known[place] = _one(costs, context, *key)
        number = known[place]
        if number is not None:
            costs.by_row[row] = number


def _one(
    costs: Costs, context: _Context, call: int, parent: int | None, annotation: str | None, kernel: str | None
) -> int | None:
    name, arguments = context.calls[call]
    around = replace(arguments, parent=context.parent(parent), annotation=annotation, kernel=kernel)
    found = context.models.cost(name, around)
    return None if found is None else costs.add(call, found)


def batch_annotations(host: pl.LazyFrame) -> pl.DataFrame:
    """source, start_ns, end_ns, name of the ranges in which inference engines describe a batch."""
    named = host.filter((pl.col("kind") == "annotation") & pl.col("name").str.starts_with("execute_"))
    return named.select(
        "source", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns").fill_null(0), name="name"
    ).collect()
