"""The table of models, and which one an operator has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_cli.goodput.models import (
    attention,
    convolution,
    elementwise,
    embedding,
    gemm,
    inductor,
    normalisation,
    optimizer,
    reduction,
    serving,
)
from mpg_cli.goodput.models.declared import UserModel, user_model
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    from mpg_cli.goodput.models.costs import Cost, Model
    from mpg_cli.goodput.models.shapes import Call

FAMILIES = (
    gemm, convolution, attention, elementwise, normalisation, reduction, embedding, optimizer, serving
)  # fmt: skip

MODELS: dict[str, Model] = {op: model for family in FAMILIES for op, model in family.OPS.items()}
PATTERNS: tuple[tuple[re.Pattern[str], Model], ...] = (*embedding.PATTERNS, *inductor.PATTERNS)
WRAPPERS: frozenset[str] = frozenset().union(
    *(
        family.WRAPPERS
        for family in (gemm, convolution, attention, elementwise, normalisation, reduction, embedding)
    )
)


@dataclass(frozen=True, slots=True)
class Models:
    """The shipped models and, before them, those of the user (operator → model)."""

    declared: Mapping[str, UserModel]

    @classmethod
    def load(cls, specs: Iterable[Mapping[str, object]] = ()) -> Models:
        """With the user's [[model]] tables. Raises UsageError for a bad one, or two for one operator."""
        declared: dict[str, UserModel] = {}
        for model in map(user_model, specs):
            if model.op in declared:
                raise UsageError(f"model {model.op!r} is declared twice")
            declared[model.op] = model
        return cls(declared)

    def find(self, op: str) -> Model | None:
        """The operator's model, if it has one."""
        if found := self.declared.get(op) or MODELS.get(op):
            return found
        return next((model for pattern, model in PATTERNS if pattern.fullmatch(op)), None)

    def has_model(self, op: str) -> bool:
        """Whether the operator has a model. It may still say nothing of a call with an incomplete record."""
        return self.find(op) is not None

    def cost(self, op: str, call: Call) -> Cost | None:
        """What the call costs; None without a model, or where the shapes do not suffice or cannot be real."""
        model = self.find(op)
        found = model(call) if model else None
        return found if found and found.fits else None


def is_wrapper(op: str) -> bool:
    """Whether an operator that has a model leaves its work to operators inside it.

    It may be charged only if none of those has a model: otherwise its work would count twice.
    """
    return op in WRAPPERS


SHIPPED = Models({})
cost = SHIPPED.cost
has_model = SHIPPED.has_model
