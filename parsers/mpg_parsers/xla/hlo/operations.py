"""The operations of a program that run, and show in a profile, on their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mpg_parsers.xla.hlo import messages
from mpg_parsers.xla.hlo.engine import Costs
from mpg_parsers.xla.hlo.module import source
from mpg_parsers.xla.hlo.opcodes import CONTAINERS, ELEMENTWISE
from mpg_parsers.xla.hlo.repeats import recomputed
from mpg_parsers.xla.hlo.shapes import BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.xla.hlo.cost import Cost
    from mpg_parsers.xla.hlo.module import Computation, Instruction, Module

# Instructions that are places in memory or names for them.
_SILENT = frozenset((
    "parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "add-dependency", "domain",
    "opt-barrier",
))  # fmt: skip
_FORMATTING = frozenset(("transpose", "copy", "reshape", "dynamic-reshape"))
_FUSIONS = {
    "kLoop": "loop fusion",
    "kInput": "input fusion",
    "kOutput": "output fusion",
    "kCustom": "custom fusion",
}
_HOST = frozenset(("send", "send-done", "recv", "recv-done"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a program, and its work each time it runs on one device (of a scheduled program).

    category: as xprof names it. shape: of the result, with layout
    framework_op: name in the framework's program (op_name); source: file:line there; both empty if unknown
    rematerialised: computed again instead of kept, by the compiler (".remat" in its name) or by the user's program
    container: while, conditional or call; what it calls are operations of their own, and its cost is the sum of theirs
    flops: all but transcendental operations; matrix_flops: of matrix multiplications and convolutions.
    None where custom calls keep them to themselves
    dtype, passes: of most of the matrix work: element type; how often matrix units go over it. "" and 1 without any
    stated_flops: of matrix_flops, what the kernel's author stated
    bytes: read and written; None if unknown (see memory.py)
    target: of a custom call
    groups: of a collective, in how many groups the devices take part; None if not told, or all together
    """

    name: str
    computation: str
    opcode: str
    category: str
    shape: str
    framework_op: str
    source: str
    rematerialised: bool
    container: bool
    flops: int | None
    transcendentals: int | None
    matrix_flops: int | None
    dtype: str
    passes: int
    stated_flops: int
    bytes: int | None
    target: str
    groups: int | None = None


def operations(module: Module) -> list[Operation]:
    """All operations of the entry, and of what it calls as operations of their own. Raises HloError."""
    costs = Costs(module)
    described = _Described(module)
    return [
        described(computation, instruction, costs.of(computation, instruction))
        for computation in _running(module)
        for instruction in computation.instructions.values()
        if instruction.opcode not in _SILENT
    ]


def _running(module: Module) -> Iterator[Computation]:
    """The entry, and all computations that containers call, each once."""
    waiting, seen = [module.entry], {module.entry}
    while waiting:
        computation = module.at(waiting.pop())
        yield computation
        for instruction in computation.instructions.values():
            if instruction.opcode in CONTAINERS:
                new = [number for number in dict.fromkeys(instruction.called) if number not in seen]
                seen.update(new)
                waiting += new


class _Described:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._origins: dict[bytes, tuple[str, str]] = {}

    def __call__(self, computation: Computation, instruction: Instruction, cost: Cost) -> Operation:
        framework_op, origin = self._origin(instruction.proto.metadata)
        dtype, passes = max(cost.matrix, key=cost.matrix.__getitem__, default=("", 1))
        vague = bool(cost.uncounted) and not cost.stated
        return Operation(
            name=instruction.name,
            computation=computation.name,
            opcode=instruction.opcode,
            category=category(computation, instruction, multiplies=bool(cost.matrix)),
            shape=instruction.shape.text,
            framework_op=framework_op,
            source=origin,
            rematerialised=recomputed(instruction),
            container=instruction.opcode in CONTAINERS,
            flops=None if vague else cost.flops,
            transcendentals=None if vague else cost.transcendentals,
            matrix_flops=None if cost.opaque else cost.matrix_flops,
            dtype=dtype,
            passes=passes,
            stated_flops=cost.stated,
            bytes=None if cost.opaque else cost.bytes,
            target=instruction.proto.custom_call_target.decode("utf-8", "replace"),
            groups=_groups(instruction.proto),
        )

    def _origin(self, encoded: bytes) -> tuple[str, str]:
        found = self._origins.get(encoded)
        if found is None:
            metadata: Any = messages.Metadata()
            try:
                metadata.ParseFromString(encoded)
            except Exception:  # noqa: BLE001 (DecodeError; of any runtime)
                metadata = messages.Metadata()
            name = metadata.op_name.decode("utf-8", "replace")
            found = self._origins[encoded] = (name, source(self._module, metadata))
        return found


def _groups(proto: Any) -> int | None:  # noqa: ANN401 - a class made at run time
    devices = proto.collective_device_list
    found = len(proto.replica_groups) or len(devices.replica_groups) or devices.iota.groups
    return found if found > 0 else None


def category(computation: Computation, instruction: Instruction, *, multiplies: bool) -> str:
    """The kind of an operation, in xprof's words. Source: HloInstruction::ToCategory; for TPUs, what profiles hold.

    multiplies: whether it holds a matrix multiplication or a convolution; TPUs name a fusion after that
    """
    opcode = instruction.opcode
    if opcode in _FORMATTING:
        return "data formatting"
    if opcode == "fusion":
        kind = instruction.proto.fusion_kind.decode("ascii", "replace")
        return "convolution fusion" if kind == "kOutput" and multiplies else _FUSIONS.get(kind, "fusion")
    if opcode == "convolution":
        return _convolution(instruction)
    if opcode in _HOST and instruction.proto.is_host_transfer:
        return f"host {opcode}"
    elementwise = opcode in ELEMENTWISE or opcode == "rng"
    if opcode == "bitcast-convert":
        types = instruction.shape.dtype, computation.operand(instruction, 0).shape.dtype
        elementwise = BITS.get(types[0]) == BITS.get(types[1])
    return "non-fusion elementwise" if elementwise else opcode


def _convolution(instruction: Instruction) -> str:
    window = instruction.proto.window.dimensions
    name = "convolution"
    name += " base-dilated" if any(item.base_dilation > 1 for item in window) else ""
    return name + (" window-dilated" if any(item.window_dilation > 1 for item in window) else "")
