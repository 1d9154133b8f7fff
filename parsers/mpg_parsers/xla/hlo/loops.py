"""How often the body of a loop runs, where the program tells.

Either the compiler wrote it down (known_trip_count), or the loop counts: its condition compares an element of its
state with a constant, its body adds a constant to that element, and it starts from a constant. So are the loops of
lax.scan and of lax.fori_loop with constant bounds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mpg_parsers.xla.hlo import messages
from mpg_parsers.xla.hlo.errors import HloError

if TYPE_CHECKING:
    from mpg_parsers.xla.hlo.module import Computation, Instruction, Module

_MAX_STEPS = 10_000  # of following values, per loop; and how deep tuples may lie in tuples
_MAX_NESTING = 50
# What hands a scalar on unchanged (a counter fits into any integer type that a program counts in).
_SAME = frozenset((
    "bitcast", "convert", "copy", "reshape", "opt-barrier", "broadcast", "copy-done", "add-dependency", "domain",
))  # fmt: skip
_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_SIGNED = {"s8s": 1, "s16s": 2}
_UNSIGNED = {"u8s": 1, "u16s": 2}

Place = tuple["Computation", "Instruction"]


class Loops:
    """The loops of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._callers: dict[int, Place | None] | None = None
        self._steps = 0

    def parts(self, loop: Instruction) -> tuple[Computation, Computation]:
        """Body and condition of a while instruction. Raises HloError where they are missing."""
        if len(loop.called) != 2:
            raise HloError(f"while {loop.name!r} calls {len(loop.called)} computations, not 2")
        body, condition = self._module.called(loop)
        return body, condition

    def trips(self, computation: Computation, loop: Instruction) -> int | None:
        """How often the body of a while instruction runs; None if the program does not tell."""
        self._steps = 0
        known = _known(loop.proto.backend_config)
        return self._counted(computation, loop) if known is None else known

    def _counted(self, computation: Computation, loop: Instruction) -> int | None:
        body, condition = self.parts(loop)
        test = self._trace((condition, condition.root()))
        if test is None or test[1].opcode != "compare":
            return None
        sides = [self._operand(test, index) for index in (0, 1)]
        direction = test[1].proto.comparison_direction.decode("ascii", "replace")
        index = self._element(sides[0], condition)
        if index is None or self._step(body, index) is None:
            sides.reverse()
            index = self._element(sides[0], condition)
            direction = _FLIPPED.get(direction, "")
        if index is None:
            return None
        start = self._initial(computation, loop, index)
        limit = self._limit(computation, loop, sides[1])
        step = self._step(body, index)
        if start is None or limit is None or step is None:
            return None
        return trip_count(direction, start, limit, step)

    def _limit(self, computation: Computation, loop: Instruction, side: Place | None) -> int | None:
        """A constant, or an element of the state that the body hands on unchanged."""
        body, condition = self.parts(loop)
        if side is None or side[1].opcode == "constant":
            return _constant(side)
        index = self._element(side, condition)
        if index is None or self._element(self._next(body, index), body) != index:
            return None
        return self._initial(computation, loop, index)

    def _initial(self, computation: Computation, loop: Instruction, index: int) -> int | None:
        state = self._trace((computation, computation.operand(loop, 0)))
        return _constant(self._part(state, index))

    def _step(self, body: Computation, index: int) -> int | None:
        """What the body adds to an element of the state; None if it does anything else."""
        changed = self._next(body, index)
        if changed is None or changed[1].opcode not in ("add", "subtract"):
            return None
        first, second = (self._operand(changed, side) for side in (0, 1))
        if changed[1].opcode == "subtract":
            amount = _constant(second)
            return -amount if amount is not None and self._element(first, body) == index else None
        for counter, amount in ((first, _constant(second)), (second, _constant(first))):
            if amount is not None and self._element(counter, body) == index:
                return amount
        return None

    def _next(self, body: Computation, index: int) -> Place | None:
        return self._part(self._trace((body, body.root())), index)

    def _part(self, state: Place | None, index: int) -> Place | None:
        if state is None or state[1].opcode != "tuple" or index >= len(state[1].operands):
            return None
        return self._operand(state, index)

    def _operand(self, place: Place, index: int) -> Place | None:
        computation, instruction = place
        return self._trace((computation, computation.operand(instruction, index)))

    @staticmethod
    def _element(place: Place | None, function: Computation) -> int | None:
        """Which element of the parameter of `function` a value is, if it is one."""
        if place is None or place[0] is not function or place[1].opcode != "get-tuple-element":
            return None
        source = function.operand(place[1], 0)
        index: int = place[1].proto.tuple_index
        return index if source.opcode == "parameter" and index >= 0 else None

    def _trace(self, place: Place, depth: int = 0) -> Place | None:
        """Where a value comes from, through all that hands it on unchanged; None where that leads nowhere."""
        while self._steps < _MAX_STEPS and depth < _MAX_NESTING:
            self._steps += 1
            following = self._before(place, depth)
            if following is None:
                return place
            place = following
        return None

    def _before(self, place: Place, depth: int) -> Place | None:
        computation, instruction = place
        opcode = instruction.opcode
        if opcode in _SAME and instruction.operands:
            return computation, computation.operand(instruction, 0)
        if opcode in ("call", "fusion") and instruction.called:
            called = self._module.at(instruction.called[0])
            return called, called.root()
        if opcode == "parameter":
            return self._argument(computation, instruction)
        if opcode == "get-tuple-element":
            return self._from_tuple(place, depth)
        return None

    def _from_tuple(self, place: Place, depth: int) -> Place | None:
        computation, instruction = place
        source = self._trace((computation, computation.operand(instruction, 0)), depth + 1)
        if source is None or source[1].opcode != "tuple":
            return None
        index = instruction.proto.tuple_index
        return (source[0], source[0].operand(source[1], index)) if index >= 0 else None

    def _argument(self, computation: Computation, parameter: Instruction) -> Place | None:
        """What the only call of a computation passes for a parameter; None for several calls, or none."""
        caller = self._calls().get(computation.id)
        if caller is None or caller[1].opcode not in ("call", "fusion"):
            return None
        return caller[0], caller[0].operand(caller[1], parameter.proto.parameter_number)

    def _calls(self) -> dict[int, Place | None]:
        if self._callers is None:
            self._callers = {}
            for computation in self._module.computations.values():
                for instruction in computation.instructions.values():
                    for called in instruction.called:
                        again = called in self._callers
                        self._callers[called] = None if again else (computation, instruction)
        return self._callers


def trip_count(direction: str, start: int, limit: int, step: int) -> int | None:
    """Values x = start, start + step, ... before the first for which `x direction limit` fails; None if none does.

    direction: LT, LE, GT, GE or NE, as in HLO. Numbers do not wrap around.
    """
    if direction in ("GT", "GE"):
        mirrored = {"GT": "LT", "GE": "LE"}[direction]
        return trip_count(mirrored, -start, -limit, -step)
    if direction == "NE":
        whole, rest = divmod(limit - start, step) if step else (0, limit - start)
        return whole if whole >= 0 and not rest else None
    if direction not in ("LT", "LE"):
        return None
    distance = limit - start + (direction == "LE")
    if distance <= 0:
        return 0
    return -(-distance // step) if step > 0 else None


def _known(config: bytes) -> int | None:
    if b"known_trip_count" not in config:
        return None
    try:
        count = int(json.loads(config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    return count if 0 <= count < 2**63 else None


def _constant(place: Place | None) -> int | None:
    if place is None or place[1].opcode != "constant" or place[1].shape.elements != 1:
        return None
    literal: Any = messages.Literal()
    try:
        literal.ParseFromString(place[1].proto.literal)
    except Exception:  # noqa: BLE001 (DecodeError; of any runtime)
        return None
    for name in ("s32s", "s64s", "u32s", "u64s"):
        if values := getattr(literal, name):
            return int(values[0])
    for name, width in (*_SIGNED.items(), *_UNSIGNED.items()):
        if encoded := getattr(literal, name):
            return int.from_bytes(encoded[:width], "little", signed=name in _SIGNED)
    return None
