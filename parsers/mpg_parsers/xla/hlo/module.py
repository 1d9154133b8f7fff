"""An HLO program as objects: its computations, their instructions, and where they come from in the source.

A program is an HloProto (of the metadata plane of a profile; of XLA's dumps) or an HloModuleProto (of JAX's API). Sizes
are bounded, and every reference is checked when it is followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo import messages, shapes
from mpg_parsers.xla.hlo.errors import HloError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mpg_parsers.xla.hlo.messages import Message
    from mpg_parsers.xla.hlo.shapes import Shape

MAX_BYTES = 2**30
_MESH = re.compile(r"=\s*#sdy\.mesh<\[([^\]]{0,2000})\]")
LONGEST_MESH = 10_000  # characters
MAX_DEVICES = 1 << 24
_AXIS = re.compile(r"=\s*(\d{1,9})")


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One operation. operands: ids within its computation; called: ids of computations; proto: the rest, undecoded."""

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    proto: Message


@dataclass(frozen=True, slots=True, eq=False)
class Computation:
    """A function of the program: its instructions by id, operands before their users."""

    id: int
    name: str
    root_id: int
    instructions: Mapping[int, Instruction]

    def root(self) -> Instruction:
        """What it returns. Raises HloError where the file does not hold it."""
        return self.at(self.root_id)

    def at(self, number: int) -> Instruction:
        """The instruction of an id. Raises HloError where the file does not hold it."""
        found = self.instructions.get(number)
        if found is None:
            raise HloError(
                f"computation {self.name!r} refers to instruction {number}, which it does not hold"
            )
        return found

    def operand(self, instruction: Instruction, index: int) -> Instruction:
        """Operand `index` of an instruction of this computation. Raises HloError where there is none."""
        if not 0 <= index < len(instruction.operands):
            raise HloError(f"{instruction.opcode} {instruction.name!r} has no operand {index}")
        return self.at(instruction.operands[index])

    def parameter(self, number: int) -> Instruction | None:
        """The parameter of a number, if it has one."""
        for instruction in self.instructions.values():
            if instruction.opcode == "parameter" and instruction.proto.parameter_number == number:
                return instruction
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A whole program.

    scheduled: the compiler is done with it; it is then what one device runs. Otherwise it is the program of all
    partitions together, before it was split among them
    partitions: devices that one replica is split over; None where nothing in the file tells. replicas likewise
    """

    name: str
    entry: int
    computations: Mapping[int, Computation]
    scheduled: bool
    partitions: int | None
    replicas: int | None
    stack: Message = field(repr=False)

    def at(self, number: int) -> Computation:
        """The computation of an id. Raises HloError where the file does not hold it."""
        found = self.computations.get(number)
        if found is None:
            raise HloError(f"program {self.name!r} refers to computation {number}, which it does not hold")
        return found

    def called(self, instruction: Instruction) -> Iterator[Computation]:
        """The computations an instruction calls, in its order."""
        return map(self.at, instruction.called)


def load(blob: bytes) -> Module:
    """The program in `blob`. Raises HloError where it is damaged, no HLO, or above MAX_BYTES."""
    if len(blob) > MAX_BYTES:
        raise HloError(f"the HLO program has {len(blob)} bytes, more than {MAX_BYTES}")
    proto = _decoded(blob)
    cache: dict[bytes, Shape] = {}
    computations = {item.id: _computation(item, cache) for item in proto.computations}
    entry = proto.entry_computation_id
    if entry not in computations:
        name = _text(proto.entry_computation_name)
        entry = next((item.id for item in computations.values() if item.name == name), max(computations))
    assigned = proto.device_assignment
    return Module(
        name=_text(proto.name),
        entry=entry,
        computations=computations,
        scheduled=bool(proto.schedule),
        partitions=_devices(assigned.computation_count) or _partitions(proto, computations[entry]),
        replicas=_devices(assigned.replica_count),
        stack=proto.stack_frame_index,
    )


def _decoded(blob: bytes) -> Message:
    for message in (messages.HloProto(), messages.HloModule()):
        try:
            message.ParseFromString(blob)
        except Exception:  # noqa: BLE001, S112 (DecodeError; of any runtime)
            continue
        module = getattr(message, "hlo_module", message)
        if any(item.opcode for part in module.computations for item in part.instructions):
            return module
    raise HloError("these bytes are no HLO program, or a damaged one")


def _computation(proto: Message, cache: dict[bytes, Shape]) -> Computation:
    instructions = {item.id: _instruction(item, cache) for item in proto.instructions}
    root = proto.root_id
    if root not in instructions and instructions:
        root = next(reversed(instructions))
    return Computation(proto.id, _text(proto.name), root, instructions)


def _instruction(proto: Message, cache: dict[bytes, Shape]) -> Instruction:
    encoded = proto.shape
    shape = cache.get(encoded)
    if shape is None:
        shape = cache[encoded] = shapes.parse(encoded)
    return Instruction(
        proto.id,
        _text(proto.name),
        _text(proto.opcode),
        shape,
        tuple(proto.operand_ids),
        tuple(proto.called_computation_ids),
        proto,
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _devices(count: int) -> int | None:
    """A number of devices; None for one that cannot be."""
    return count if 0 < count <= MAX_DEVICES else None


def _partitions(proto: Message, entry: Computation) -> int | None:
    """Devices named by the shardings of the entry's parameters, or by the mesh: the largest of them."""
    meshes = [
        _text(item.value[:LONGEST_MESH])
        for item in proto.frontend_attributes.map
        if item.key == b"xla.sdy.meshes"
    ]
    axes = [_AXIS.findall(found) for mesh in meshes for found in _MESH.findall(mesh)]
    named = [prod(map(int, sizes)) for sizes in axes if 0 < len(sizes) <= shapes.MAX_RANK]
    parameters = (item.proto.sharding for item in entry.instructions.values() if item.opcode == "parameter")
    for sharding in (*proto.spmd_parameters_shardings, *parameters):
        leaves = (sharding, *sharding.tuple_shardings)
        tiles = (leaf.tile_assignment_dimensions for leaf in leaves)
        named += [prod(sizes) for sizes in tiles if 0 < len(sizes) <= shapes.MAX_RANK]
    return max(filter(_devices, named), default=None)


def source(module: Module, metadata: Message) -> str:
    """Where in the user's program an operation comes from, as file:line; empty if unknown."""
    if metadata.source_file:
        return f"{_text(metadata.source_file)}:{metadata.source_line}"
    stack = module.stack
    frame = _at(stack.stack_frames, metadata.stack_frame_id)
    location = _at(stack.file_locations, frame.file_location_id) if frame else None
    if location is None:
        return ""
    file = _at(stack.file_names, location.file_name_id)
    return f"{_text(file)}:{location.line}" if file else ""


def _at(items: Sequence[Message], number: int) -> Message:
    """Item `number`, from 1 on, or None."""
    return items[number - 1] if 0 < number <= len(items) else None
