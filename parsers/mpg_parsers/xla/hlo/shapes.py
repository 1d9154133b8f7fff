"""Shapes of HLO values: element types, dimensions, sizes, and how HLO text writes them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo import messages
from mpg_parsers.xla.hlo.errors import HloError

if TYPE_CHECKING:
    from mpg_parsers.xla.hlo.messages import Message

# number -> name, bits per element. Source: enum PrimitiveType of xla/xla_data.proto.
TYPES = {
    1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8), 7: ("u16", 16),
    8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32), 12: ("f64", 64), 13: ("tuple", 0),
    14: ("opaque", 0), 15: ("c64", 64), 16: ("bf16", 16), 17: ("token", 0), 18: ("c128", 128), 19: ("f8e5m2", 8),
    20: ("f8e4m3fn", 8), 21: ("s4", 4), 22: ("u4", 4), 23: ("f8e4m3b11fnuz", 8), 24: ("f8e5m2fnuz", 8),
    25: ("f8e4m3fnuz", 8), 26: ("s2", 2), 27: ("u2", 2), 28: ("f8e4m3", 8), 29: ("f8e3m4", 8), 30: ("s1", 1),
    31: ("u1", 1), 32: ("f4e2m1fn", 4), 33: ("f8e8m0fnu", 8), 34: ("buffer", 0),
}  # fmt: skip
BITS = dict(TYPES.values())
HOST_MEMORY = 5  # Layout::kHostMemorySpace of xla/layout.h
MAX_RANK = 64  # far above what compilers take; a product over a damaged list must end


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an array, a tuple (`parts`), or of a value without elements (a token).

    elements: of an array, 1 for a scalar; 0 for anything else
    size: bytes of all arrays in it that lie in device memory (not in the host's, nor on the chip of a TPU), without
    padding and without the tables of pointers of tuples
    text: as HLO writes it, with layout: f32[8,128]{1,0:T(8,128)}
    """

    dtype: str
    dims: tuple[int, ...]
    parts: tuple[Shape, ...]
    elements: int
    size: int
    text: str

    def first(self) -> Shape:
        """The shape itself, or the first array of a tuple."""
        shape = self
        while shape.parts:
            shape = shape.parts[0]
        return shape


def parse(encoded: bytes) -> Shape:
    """The shape in the bytes of a ShapeProto. Raises HloError where they are damaged."""
    message = messages.Shape()
    try:
        message.ParseFromString(encoded)
    except Exception as error:  # DecodeError; of any runtime
        raise HloError("a shape is damaged") from error
    return _shape(message)


def _shape(message: Message) -> Shape:
    dtype, bits = TYPES.get(message.element_type, (f"type{message.element_type}", 0))
    if message.element_type == 13:
        parts = tuple(map(_shape, message.tuple_shapes))
        text = f"({', '.join(part.text for part in parts)})"
        return Shape("tuple", (), parts, 0, sum(part.size for part in parts), text)
    dims = tuple(message.dimensions)
    if len(dims) > MAX_RANK or any(size < 0 for size in dims):
        raise HloError("a shape has a negative dimension, or far too many of them")
    elements = prod(dims) if bits else 0
    layout = message.layout
    bits = layout.element_size_in_bits if layout.element_size_in_bits > 0 else bits
    text = f"{dtype}[{','.join(map(str, dims))}]{_layout(layout)}"
    return Shape(dtype, dims, (), elements, -(-elements * bits // 8) if _on_device(layout) else 0, text)


def _on_device(layout: Message) -> bool:
    """Whether it is device memory. Space 0 is; other ones are on the chip where layouts have tiles, that is on TPUs."""
    space = layout.memory_space
    return not space or (space != HOST_MEMORY and not layout.tiles)


def _layout(layout: Message) -> str:
    order = ",".join(map(str, layout.minor_to_major))
    tiles = "".join(f"({','.join(map(str, tile.dimensions))})" for tile in layout.tiles)
    extra = f"T{tiles}" if tiles else ""
    extra += f"E({layout.element_size_in_bits})" if layout.element_size_in_bits else ""
    extra += f"S({layout.memory_space})" if layout.memory_space else ""
    return f"{{{order}:{extra}}}" if extra else f"{{{order}}}" if order else ""
