"""Bytes that an operation reads from and writes to device memory, as far as shapes tell.

As XLA's HloCostAnalysis: all operands and the result, once. Exceptions: what only renames a buffer moves nothing;
slices, gathers and updates in place touch the part they name, also inside of a fusion; the end of an asynchronous
operation moves nothing (its start is charged with all). Other than XLA, tables of pointers of tuples are not counted, a
fusion reads no byte of a parameter twice, and what lies in the host's memory or on the chip does not count. Caches are
unknown to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_parsers.xla.hlo.module import Computation, Instruction, Module
    from mpg_parsers.xla.hlo.shapes import Shape

FREE = frozenset((
    "parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "add-dependency", "domain",
    "opt-barrier", "partition-id", "replica-id", "get-dimension-size", "async-update", "async-done", "copy-done",
    "send-done", "recv-done", "all-reduce-done", "all-gather-done", "collective-permute-done",
))  # fmt: skip
MAX_STEPS = 50  # of values that rename each other; damaged files may go in circles
# Which part of the result is the destination: the others name the operand again, and a context.
_DESTINATION = {"copy-start": 0, "recv": 0, "all-gather-start": 1, "collective-permute-start": 1}


def traffic(computation: Computation, instruction: Instruction) -> int:
    """Bytes of an operation that is no fusion and calls nothing that runs on its own."""
    opcode = instruction.opcode
    if opcode in FREE:
        return 0
    sizes = [computation.at(number).shape.size for number in instruction.operands]
    partial = _PARTIAL.get(opcode)
    return partial(instruction.shape, sizes) if partial else instruction.shape.size + sum(sizes)


def _scatter(_: Shape, sizes: list[int]) -> int:
    """Operands, then indices, then as many updates: those are read, and their places read and written."""
    targets = (len(sizes) - 1) // 2
    return 3 * sum(sizes[targets + 1 :]) + sum(sizes[targets : targets + 1])


def _into(index: int) -> Callable[[Shape, list[int]], int]:
    return lambda shape, sizes: sum(sizes) + sum(part.size for part in shape.parts[index : index + 1])


_PARTIAL: dict[str, Callable[[Shape, list[int]], int]] = {
    "slice": lambda shape, _: 2 * shape.size,
    "dynamic-slice": lambda shape, sizes: 2 * shape.size + sum(sizes[1:]),
    "gather": lambda shape, sizes: 2 * shape.size + sum(sizes[1:]),
    "dynamic-update-slice": lambda _, sizes: 2 * sum(sizes[1:2]) + sum(sizes[2:]),
    "scatter": _scatter,
    "send": lambda _, sizes: sum(sizes),
    **{opcode: _into(index) for opcode, index in _DESTINATION.items()},
}


class FusionTraffic:
    """Bytes of fusions: parameters as far as they are read, and results; users of values are looked up once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[int, dict[int, list[Instruction]]] = {}
        self._read: dict[tuple[int, int], int] = {}

    def __call__(self, computation: Computation, fusion: Instruction) -> int:
        """Bytes that a fusion instruction reads and writes."""
        if not fusion.called:
            return traffic(computation, fusion)
        fused = self._module.at(fusion.called[0])
        sizes = [computation.at(number).shape.size for number in fusion.operands]
        total = self._writes(fusion, fused)
        for item in fused.instructions.values():
            number = item.proto.parameter_number if item.opcode == "parameter" else -1
            if 0 <= number < len(sizes):
                total += min(sizes[number], self._reads(fused, item, 0))
        return total

    def _writes(self, fusion: Instruction, fused: Computation) -> int:
        root = fused.root()
        results = [fused.at(number) for number in root.operands] if root.opcode == "tuple" else [root]
        places = fusion.shape.parts or (fusion.shape,)
        return sum(
            min(place.size, self._written(fused, result))
            for place, result in zip(places, results, strict=False)
        )

    @staticmethod
    def _written(fused: Computation, result: Instruction) -> int:
        for _ in range(MAX_STEPS):
            if result.opcode != "bitcast" or not result.operands:
                break
            result = fused.at(result.operands[0])
        if result.opcode == "dynamic-update-slice":
            return fused.operand(result, 1).shape.size
        return result.shape.size

    def _reads(self, fused: Computation, value: Instruction, depth: int) -> int:
        key = fused.id, value.id
        if key not in self._read:
            self._read[key] = value.shape.size  # for a value that, in a damaged file, uses itself
            users = self._users_of(fused).get(value.id, [])
            total = sum(self._use(fused, user, value, depth) for user in users)
            total += value.shape.size if value.id == fused.root_id else 0  # it is what the computation gives
            self._read[key] = min(value.shape.size, total)
        return self._read[key]

    def _use(self, fused: Computation, user: Instruction, value: Instruction, depth: int) -> int:
        sliced = bool(user.operands) and user.operands[0] == value.id
        if user.opcode in ("slice", "dynamic-slice", "gather") and sliced:
            return user.shape.size
        if user.opcode == "dynamic-update-slice" and sliced:
            return 0
        if depth < MAX_STEPS and user.opcode == "bitcast":
            return self._reads(fused, user, depth + 1)
        if depth < MAX_STEPS and user.opcode == "get-tuple-element":
            return self._reads(fused, user, depth + 1)
        if depth < MAX_STEPS and user.opcode == "fusion" and user.called:
            inner = self._module.at(user.called[0])
            numbers = [index for index, number in enumerate(user.operands) if number == value.id]
            parameters = filter(None, map(inner.parameter, numbers))
            return sum(self._reads(inner, item, depth + 1) for item in parameters)
        return value.shape.size

    def _users_of(self, computation: Computation) -> dict[int, list[Instruction]]:
        users = self._users.get(computation.id)
        if users is None:
            users = self._users[computation.id] = {}
            for instruction in computation.instructions.values():
                for number in dict.fromkeys(instruction.operands):
                    users.setdefault(number, []).append(instruction)
        return users
