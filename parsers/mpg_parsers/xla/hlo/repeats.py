"""Matrix work that a program states twice: computed again on purpose, or the same product written down again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo.opcodes import ELEMENTWISE, MATRIX

if TYPE_CHECKING:
    from mpg_parsers.xla.hlo.module import Computation, Instruction

# Operations whose result follows from operands and attributes alone, and that a compiler merges if they are equal. A
# barrier is none of them: what stands behind it is computed again although it is equal.
_PURE = ELEMENTWISE | MATRIX | frozenset((
    "bitcast", "broadcast", "concatenate", "constant", "copy", "dynamic-slice", "dynamic-update-slice", "gather",
    "get-tuple-element", "iota", "pad", "reduce", "reshape", "reverse", "slice", "transpose", "tuple",
))  # fmt: skip
_OWN = ("name", "id", "metadata", "operand_ids", "sharding")
FRAMEWORK = b"/rematted_computation/"
COMPILER = ".remat"


def recomputed(instruction: Instruction) -> bool:
    """Whether an operation is marked as a repetition, by the framework (in op_name) or by the compiler (in its name).

    Source: IsRematerialization of xla/tsl/profiler/convert/xla_op_utils.h.
    """
    return COMPILER in instruction.name or FRAMEWORK in instruction.proto.metadata


def duplicates(computation: Computation) -> frozenset[int]:
    """Ids of matrix operations that an earlier one of this computation equals: same operation, same values.

    Values are numbered from the top: equal numbers are equal values. Values of other operations equal only themselves.
    """
    products = sum(item.opcode in MATRIX for item in computation.instructions.values())
    if products < 2:
        return frozenset()
    numbers: dict[int, int] = {}
    known: dict[tuple[bytes, tuple[int, ...]], int] = {}
    found = []
    for instruction in computation.instructions.values():
        number = len(numbers)
        if instruction.opcode in _PURE:
            # an operand that comes later, in a damaged file, equals nothing
            operands = tuple(numbers.get(item, -1 - item) for item in instruction.operands)
            number = known.setdefault((_attributes(instruction), operands), number)
            if number != len(numbers) and instruction.opcode in MATRIX:
                found.append(instruction.id)
        numbers[instruction.id] = number
    return frozenset(found)


def _attributes(instruction: Instruction) -> bytes:
    """All that an operation is but for its name, its place and its operands: fields that are not read included."""
    copy = type(instruction.proto)()
    copy.CopyFrom(instruction.proto)
    for name in _OWN:
        copy.ClearField(name)
    encoded: bytes = copy.SerializePartialToString()
    return encoded
