"""Models that a user declares for operators whose arguments do not tell what they do, in mpg.toml:

    [[model]]
    op = "vllm::moe_forward"
    flops = "2 * tokens * hidden * inter * 3 * topk"
    bytes = "3 * hidden * inter * experts // 2"       # optional
    dims = { tokens = "0.0", hidden = "0.1", inter = 2880, topk = 4, experts = 128 }
    dtype = "c10::BFloat16"                           # optional; else that of the first tensor
    unit = "matrix"                                   # or "vector"

A dimension is a whole number, "1.0" (of argument 1, size 0) or "4" (the scalar argument 4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_cli.goodput.models.costs import Cost, Unit
from mpg_cli.goodput.models.formula import Formula, parse
from mpg_parsers.errors import UsageError, shown

if TYPE_CHECKING:
    from mpg_cli.goodput.models.shapes import Call

LARGEST = 2**63 - 1  # of a dimension
KEYS = ("op", "flops", "bytes", "dims", "dtype", "unit")
PLACE = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?")
Place = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class UserModel:
    """A declared model of operator `op`; dims: each name's value, or the argument and the size it is."""

    op: str
    flops: Formula
    bytes: Formula | None
    dims: Mapping[str, int | Place]
    dtype: str | None
    unit: Unit

    def __call__(self, call: Call) -> Cost | None:
        """The cost of a call; None where it lacks a dimension. Raises UsageError where a formula fails."""
        names: dict[str, int] = {}
        for name, place in self.dims.items():
            value = place if isinstance(place, int) else _size(call, place)
            if value is None:
                return None
            names[name] = value
        dtype = self.dtype or next((tensor.dtype for tensor in call.tensors), None)
        moved = self.bytes(names) if self.bytes else None
        return Cost(self.flops(names), moved, dtype, self.unit, "declared")


def _size(call: Call, place: Place) -> int | None:
    argument, index = place
    if index is None:
        return call.integer(argument)
    tensor = call.tensor(argument)
    return tensor.shape[index] if tensor and index < len(tensor.shape) else None


def user_model(spec: Mapping[str, object]) -> UserModel:
    """The model of one [[model]] table. Raises UsageError, naming the model and what is wrong with it."""
    op = spec.get("op")
    if not isinstance(op, str) or not op:
        raise UsageError("a [[model]] needs 'op', the name of an operator")
    label = f"model {shown(op)}"
    for key in spec:
        if key not in KEYS:
            raise UsageError(f"{label}: unknown key {shown(key)}", hint=f"known: {', '.join(KEYS)}")
    dims = _dims(spec.get("dims", {}), label)
    moved = parse(spec["bytes"], dims, f"{label}: bytes") if "bytes" in spec else None
    dtype = spec.get("dtype")
    if dtype is not None and not isinstance(dtype, str):
        raise UsageError(f"{label}: dtype must be a text such as c10::BFloat16")
    return UserModel(
        op, parse(spec.get("flops"), dims, f"{label}: flops"), moved, dims, dtype, _unit(spec, label)
    )


def _unit(spec: Mapping[str, object], label: str) -> Unit:
    match spec.get("unit", "matrix"):
        case "matrix":
            return "matrix"
        case "vector":
            return "vector"
        case other:
            raise UsageError(f"{label}: unit {shown(other)} is neither matrix nor vector")


def _dims(content: object, label: str) -> dict[str, int | Place]:
    if not isinstance(content, Mapping):
        raise UsageError(f"{label}: dims must be a table of names")
    return {str(name): _place(name, value, label) for name, value in content.items()}


def _place(name: object, value: object, label: str) -> int | Place:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    match = PLACE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        hint = 'a whole number, "1.0" for size 0 of argument 1, or "4" for the scalar argument 4'
        raise UsageError(f"{label}: dims.{name} is {shown(value)}", hint=hint)
    return int(match[1]), int(match[2]) if match[2] else None
