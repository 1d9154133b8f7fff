"""Arithmetic over named whole numbers: + - * / // **, min and max. Nothing is ever run as Python.

Division is exact and the result is rounded down. Length, nodes and powers are bounded, so that no formula
takes long.
"""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

MAX_LENGTH = 1000
MAX_NODES = 300
MAX_BITS = 4096
KNOWN = "known are whole numbers, the names in dims, + - * / // **, min and max"
TOKENS = re.compile(r"(?:\d[\d_]*(?![\w.])|[A-Za-z_]\w*|[-+*/(),]|\s)+", re.ASCII)

Number = int | Fraction

BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: Fraction,
    ast.FloorDiv: operator.floordiv,
}
CALLS: dict[str, Callable[..., Number]] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked formula; `label` names it in messages."""

    tree: ast.expr
    label: str

    def __call__(self, names: Mapping[str, int]) -> int:
        """Its value, rounded down. Raises UsageError where that is negative or cannot be computed."""
        try:
            value = int(_value(self.tree, names) // 1)
        except ArithmeticError as error:
            raise UsageError(f"{self.label}: {error}") from None
        if value < 0:
            raise UsageError(f"{self.label}: is negative")
        return value


def parse(text: object, names: Collection[str], label: str) -> Formula:
    """The formula in `text` over `names`. Raises UsageError, beginning with `label`, for anything else."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not TOKENS.fullmatch(text):
        raise UsageError(f"{label}: no formula of at most {MAX_LENGTH} characters", hint=KNOWN)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UsageError(f"{label}: {text!r} is no formula", hint=KNOWN) from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise UsageError(f"{label}: has more than {MAX_NODES} parts")
    _check(tree, names, label)
    return Formula(tree, label)


def _check(node: ast.expr, names: Collection[str], label: str) -> None:
    """Raises UsageError unless the tree holds only what `_value` knows."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            parts: list[ast.expr] = []
        case ast.Name(id=name):
            if name not in names:
                raise UsageError(f"{label}: unknown name {name!r}", hint=KNOWN)
            parts = []
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            parts = [operand]
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_], keywords=[]):
            parts = node.args
        case ast.BinOp(left=left, right=right):  # TOKENS lets no others through
            parts = [left, right]
        case _:
            raise UsageError(f"{label}: {ast.unparse(node)!r} is not understood", hint=KNOWN)
    for part in parts:
        _check(part, names, label)


def _value(node: ast.expr, names: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(operand=operand):
            return -_value(operand, names)
        case ast.Call(func=ast.Name(id=name), args=args):
            return CALLS[name](*(_value(arg, names) for arg in args))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, names), _value(right, names))
        case ast.BinOp(left=left, op=op, right=right):
            return BINARY[type(op)](_value(left, names), _value(right, names))
    raise AssertionError(ast.dump(node))


def _power(base: Number, exponent: Number) -> Number:
    """base ** exponent; ArithmeticError unless the exponent is a natural number and the result is short."""
    if exponent < 0 or exponent.denominator != 1:
        raise ArithmeticError("an exponent must be a whole number that is not negative")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * exponent > MAX_BITS:
        raise ArithmeticError("a power is too large")
    return Fraction(base) ** int(exponent)
