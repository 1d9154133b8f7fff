"""The cost of every instruction of a program, with that of all it calls.

Conventions for `flops`: xla/service/hlo_cost_analysis.cc, with two differences: a loop counts as often as it runs where
that is known, and a custom call of a known library counts as what it computes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo import matrix
from mpg_parsers.xla.hlo.cost import Cost
from mpg_parsers.xla.hlo.errors import HloError
from mpg_parsers.xla.hlo.library import custom_call
from mpg_parsers.xla.hlo.loops import Loops
from mpg_parsers.xla.hlo.memory import FREE, FusionTraffic, traffic
from mpg_parsers.xla.hlo.opcodes import MATRIX, SIMPLE, TRANSCENDENTAL
from mpg_parsers.xla.hlo.repeats import duplicates, recomputed
from mpg_parsers.xla.hlo.shapes import MAX_RANK

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_parsers.xla.hlo.module import Computation, Instruction, Module

MAX_DEPTH = 100


class Costs:
    """Costs of the instructions of a module. once: count each loop once, as XLA does; else as often as it runs."""

    def __init__(self, module: Module, *, once: bool = False) -> None:
        self._module = module
        self._once = once
        self._loops = Loops(module)
        self._fusion_traffic = FusionTraffic(module)
        self._totals: dict[int, Cost] = {}
        self._open: set[int] = set()
        self._duplicates: dict[int, frozenset[int]] = {}
        self._handlers: dict[str, Callable[[Computation, Instruction], Cost]] = {
            "dot": matrix.dot,
            "ragged-dot": matrix.dot,
            "scaled-dot": matrix.dot,
            "convolution": matrix.convolution,
            "custom-call": self._custom_call,
            "fusion": self._fusion,
            "while": self._while,
            "conditional": self._conditional,
            "call": self._call,
            "async-start": self._call,
        }

    def whole(self) -> Cost:
        """Cost of one run of the program. Raises HloError as `total` does."""
        return _checked(self.total(self._module.at(self._module.entry)), self._module.name)

    def total(self, computation: Computation) -> Cost:
        """Cost of a computation that runs once. Raises HloError if it calls itself, or calls nest too deeply."""
        found = self._totals.get(computation.id)
        if found is not None:
            return found
        if computation.id in self._open or len(self._open) >= MAX_DEPTH:
            raise HloError(
                f"calls of computation {computation.name!r} go round in a circle or nest too deeply"
            )
        self._open.add(computation.id)
        total = Cost()
        for instruction in computation.instructions.values():
            if instruction.opcode not in FREE:
                self._into(total, computation, instruction)
        self._open.remove(computation.id)
        self._totals[computation.id] = total
        return total

    def of(self, computation: Computation, instruction: Instruction) -> Cost:
        """Cost of one instruction, with all it calls."""
        cost = Cost()
        self._into(cost, computation, instruction)
        return _checked(cost, instruction.name)

    def _into(self, total: Cost, computation: Computation, instruction: Instruction) -> None:
        opcode = instruction.opcode
        handler = self._handlers.get(opcode)
        if handler is not None:
            cost = handler(computation, instruction)
            if opcode in MATRIX:
                cost.bytes = traffic(computation, instruction)
                cost.duplicate = cost.matrix_flops if instruction.id in self._repeated(computation) else 0
            if cost.matrix and recomputed(instruction):
                cost.recomputed, cost.duplicate = cost.matrix_flops, 0
            total.add(cost)
            return
        total.bytes += traffic(computation, instruction)
        if opcode in SIMPLE:
            total.flops += instruction.shape.elements
        elif opcode in TRANSCENDENTAL or opcode == "rng":
            total.transcendentals += instruction.shape.elements
        elif opcode in _COUNTED:
            total.flops += _COUNTED[opcode](computation, instruction)
        elif opcode == "rng-bit-generator":
            total.transcendentals += _arrays(computation, instruction)
        elif opcode in _APPLICATIONS:
            self._apply(total, computation, instruction)

    def _repeated(self, computation: Computation) -> frozenset[int]:
        """Duplicates of a computation; the compiler has merged those of a program that it is done with."""
        if self._module.scheduled:
            return frozenset()
        found = self._duplicates.get(computation.id)
        if found is None:
            found = self._duplicates[computation.id] = duplicates(computation)
        return found

    def _apply(self, total: Cost, computation: Computation, instruction: Instruction) -> None:
        """Adds functions applied to elements: they read and write no memory of their own."""
        counts = _APPLICATIONS[instruction.opcode](computation, instruction)
        before = total.bytes
        for function, count in zip(self._module.called(instruction), counts, strict=False):
            total.add(self.total(function), max(0, count))
        total.bytes = before

    def _call(self, computation: Computation, instruction: Instruction) -> Cost:  # noqa: ARG002
        cost = Cost()
        for called in self._module.called(instruction):
            cost.add(self.total(called))
        return cost

    def _fusion(self, computation: Computation, instruction: Instruction) -> Cost:
        cost = self._call(computation, instruction)
        cost.bytes = self._fusion_traffic(computation, instruction)
        return cost

    def _custom_call(self, computation: Computation, instruction: Instruction) -> Cost:
        if instruction.proto.custom_call_target != b"__cudnn$fusion":
            return custom_call(computation, instruction)
        cost = self._call(computation, instruction)  # it says what it computes, as a fusion does
        cost.bytes = traffic(computation, instruction)
        return cost

    def _while(self, computation: Computation, instruction: Instruction) -> Cost:
        body, condition = self._loops.parts(instruction)
        trips = 1 if self._once else self._loops.trips(computation, instruction)
        cost = Cost()
        cost.add(self.total(body), 1 if trips is None else trips)
        # once more than the body: the last time it says no
        cost.add(self.total(condition), 1 if trips is None or self._once else trips + 1)
        if trips is None:
            cost.loops[instruction.name] = None
        return cost

    def _conditional(self, computation: Computation, instruction: Instruction) -> Cost:  # noqa: ARG002
        branches = [self.total(branch) for branch in self._module.called(instruction)]
        if not branches:
            return Cost()
        cost = Cost()
        cost.add(max(branches, key=lambda branch: (branch.matrix_flops, branch.flops)))
        if len({branch.matrix_flops for branch in branches}) > 1:
            cost.choices[instruction.name] = None
        for branch in branches:  # work that nobody can count may run, whichever branch is dearest
            cost.opaque = branch.opaque | cost.opaque
            cost.loops |= branch.loops
        return cost


def _checked(cost: Cost, name: str) -> Cost:
    """The cost, if it is a number that 64 bits hold: only damage makes larger ones."""
    counts = (cost.flops, cost.transcendentals, cost.bytes)
    if max(counts) >= 2**63 or min(counts) < 0:
        raise HloError(f"{name!r} has a cost that cannot be: its shapes are damaged")
    return cost


def _operand(computation: Computation, instruction: Instruction, index: int = 0) -> int:
    return computation.operand(instruction, index).shape.first().elements


def _arrays(computation: Computation, instruction: Instruction) -> int:  # noqa: ARG001
    parts = instruction.shape.parts or (instruction.shape,)
    return sum(part.first().elements for part in parts)


def _fft(computation: Computation, instruction: Instruction) -> int:
    lengths: list[int] = list(instruction.proto.fft_length[:3])
    return (
        8 * prod(max(0, length.bit_length() - 1) for length in lengths) * _operand(computation, instruction)
    )


def _sort(computation: Computation, instruction: Instruction) -> int:
    elements = _operand(computation, instruction)
    return elements * max(0, elements - 1).bit_length()


def _triangular_solve(computation: Computation, instruction: Instruction) -> int:
    dims = computation.operand(instruction, 0).shape.dims
    return 2 * (dims[-1] if dims else 0) * _operand(computation, instruction, 1)


def _cholesky(computation: Computation, instruction: Instruction) -> int:
    dims = computation.operand(instruction, 0).shape.dims
    return (dims[-1] if dims else 0) * _operand(computation, instruction) // 3


# opcode -> flops
_COUNTED: dict[str, Callable[[Computation, Instruction], int]] = {
    "fft": _fft,
    "sort": _sort,
    "triangular-solve": _triangular_solve,
    "cholesky": _cholesky,
    "all-reduce": _arrays,
    "all-reduce-start": _arrays,
}


def _window(instruction: Instruction) -> int:
    sizes: list[int] = [item.size for item in instruction.proto.window.dimensions[:MAX_RANK]]
    return prod(sizes)


def _select_and_scatter(computation: Computation, instruction: Instruction) -> tuple[int, ...]:
    source = _operand(computation, instruction, 1)
    return source * (_window(instruction) - 1), source


def _scatter(computation: Computation, instruction: Instruction) -> tuple[int, ...]:
    return (_operand(computation, instruction, (len(instruction.operands) + 1) // 2),)


# opcode -> how often each function that it calls is applied
_APPLICATIONS: dict[str, Callable[[Computation, Instruction], tuple[int, ...]]] = {
    "map": lambda _, instruction: (instruction.shape.elements,),
    "reduce": lambda computation, instruction: (
        _operand(computation, instruction) - instruction.shape.first().elements,
    ),
    "reduce-window": lambda _, instruction: (
        (_window(instruction) - 1) * instruction.shape.first().elements,
    ),
    "select-and-scatter": _select_and_scatter,
    "scatter": _scatter,
}
