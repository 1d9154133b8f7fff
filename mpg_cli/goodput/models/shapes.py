"""The arguments of one operator call, from Kineto's `Input Dims`, `Input type` and `Concrete Inputs`.

`Input Dims` holds one entry per argument: a shape, a list of shapes for a list of tensors, or [] for a tensor
without dimensions and for everything that is no tensor. `Input type` tells these apart: the C++ type of the
elements for a tensor, "TensorList", or a word such as "Scalar" or "". `Concrete Inputs` (absent before 2023)
holds the scalars as text. PyTorch leaves out lists of more than 30 tensors and marks other long lists with
"...".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

import orjson

INT64_MAX = (1 << 63) - 1
MAX_RANK = 64
CUT = "..."

# C++ type as recorded: (canonical name, bytes of one element); two 4-bit values share one element
ELEMENTS: dict[str, tuple[str, int]] = {
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    "c10::Float8_e8m0fnu": ("e8m0", 1),
    "c10::Float4_e2m1fn_x2": ("fp4", 1),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short int": ("int16", 2),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "unsigned short": ("uint16", 2),
    "unsigned int": ("uint32", 4),
    "unsigned long": ("uint64", 8),
    "bool": ("bool", 1),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
}
# what `Input type` says of arguments that are no tensors; "Int", "Double" and "Bool" are scalars of old
# traces
NO_TENSOR = frozenset(
    {"", "Scalar", "ScalarList", "GenericList", "TensorList", "Int", "Double", "Bool", "Device"}
)
# c10::ScalarType, as `Concrete Inputs` gives a dtype argument
SCALAR_TYPES = {
    "0": "unsigned char", "1": "signed char", "2": "short int", "3": "int", "4": "long int", "5": "c10::Half",
    "6": "float", "7": "double", "11": "bool", "15": "c10::BFloat16", "23": "c10::Float8_e5m2",
    "24": "c10::Float8_e4m3fn", "25": "c10::Float8_e5m2fnuz", "26": "c10::Float8_e4m3fnuz",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument; `dtype` is the C++ type of its elements as recorded, None where it is not."""

    shape: tuple[int, ...]
    dtype: str | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int | None:
        """Size in bytes; None where the type is unknown."""
        size = element_size(self.dtype)
        return None if size is None else self.numel * size


Argument = Tensor | tuple[Tensor, ...] | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call: per argument a tensor, a list of tensors or None (anything else), and its scalar value as
    text.

    complete is False where the record was cut or could not be read somewhere. The rest is not in the record
    of the call itself, and None unless the caller knows it: `parent` the call it was made from, `output` the
    shape of its (first) output, `annotation` the name of the host range around it, `kernel` the name of the
    kernel it launched.
    """

    arguments: tuple[Argument, ...]
    concrete: tuple[str, ...] = ()
    complete: bool = True
    parent: Call | None = None
    output: tuple[int, ...] | None = None
    annotation: str | None = None
    kernel: str | None = None

    def tensor(self, index: int) -> Tensor | None:
        """The argument at `index` if it is a tensor of known shape."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, Tensor) else None

    def tensor_list(self, index: int) -> tuple[Tensor, ...] | None:
        """The argument at `index` if it is a list of tensors; () where PyTorch left its shapes out."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, tuple) else None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensor arguments in order, without those in lists."""
        return [argument for argument in self.arguments if isinstance(argument, Tensor)]

    def text(self, index: int) -> str:
        """The scalar at `index` as recorded; "" for none."""
        return self.concrete[index] if index < len(self.concrete) else ""

    def flag(self, index: int) -> bool | None:
        """The scalar at `index` as a truth value; None if it is none."""
        return {"True": True, "true": True, "False": False, "false": False}.get(self.text(index))

    def integer(self, index: int) -> int | None:
        """The scalar at `index` as an integer; None if it is none."""
        return _integer(self.text(index))

    def integers(self, index: int) -> tuple[int, ...] | None:
        """The list at `index`, such as "[1, 1]", as integers; None if it is none or was cut."""
        inner = _brackets(self.text(index))
        numbers = [_integer(part) for part in inner.split(",")] if inner else []
        known = tuple(number for number in numbers if number is not None)
        return known if inner is not None and len(known) == len(numbers) else None

    def flags(self, index: int) -> tuple[bool, ...] | None:
        """The list at `index`, such as "[True, False]", as truth values; None if it is none."""
        words = [word.strip() for word in (_brackets(self.text(index)) or "").split(",")]
        return tuple(word == "True" for word in words) if {*words} <= {"True", "False"} else None

    def dtype_argument(self, index: int) -> str | None:
        """The element type that a dtype argument at `index` asks for; None if none is given."""
        return SCALAR_TYPES.get(self.text(index))


def parse(dims_json: str | None, types_json: str | None, concrete_json: str | None) -> Call | None:
    """The call that the JSON texts describe; None without readable dims. Never raises."""
    dims, types, concrete = _list(dims_json), _list(types_json), _list(concrete_json)
    if dims is None:
        return None
    whole = CUT not in dims
    kept = dims if whole else dims[: dims.index(CUT)]
    types = types or []
    arguments: list[Argument] = []
    for index, entry in enumerate(kept):
        argument, known = _argument(entry, types[index] if index < len(types) else None)
        arguments.append(argument)
        whole = whole and known
    return Call(tuple(arguments), tuple(map(_text, concrete or ())), whole)


def element_size(dtype: str | None) -> int | None:
    """Bytes of one element; None for an unknown type."""
    return ELEMENTS[dtype][1] if dtype in ELEMENTS else None


def canonical(dtype: str | None) -> str | None:
    """The short name of an element type (bf16, fp8, int64, …); None for an unknown one."""
    return ELEMENTS[dtype][0] if dtype in ELEMENTS else None


def _list(text: str | None) -> list[object] | None:
    try:
        value = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None


def _argument(entry: object, kind: object) -> tuple[Argument, bool]:
    """The argument, and whether its record could be read."""
    if _is_shape(entry):
        return _tensor_of(tuple(entry), kind)
    if isinstance(entry, list) and all(map(_is_shape, entry)):
        kinds = kind if isinstance(kind, list) and len(kind) == len(entry) else [None] * len(entry)
        return tuple(Tensor(tuple(s), _dtype(k)) for s, k in zip(entry, kinds, strict=True)), True
    return None, False


def _tensor_of(shape: tuple[int, ...], kind: object) -> tuple[Argument, bool]:
    if kind == "TensorList" and not shape:
        return (), True
    dtype = _dtype(kind)
    return (Tensor(shape, dtype) if shape or dtype in ELEMENTS else None), True


def _dtype(kind: object) -> str | None:
    return kind if isinstance(kind, str) and kind not in NO_TENSOR else None


def _is_shape(entry: object) -> TypeGuard[list[int]]:
    if not isinstance(entry, list) or len(entry) > MAX_RANK:
        return False
    return all(type(size) is int and size >= 0 for size in entry) and math.prod(entry) <= INT64_MAX


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _brackets(text: str) -> str | None:
    """What stands in square brackets; None without them."""
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else None


def _integer(text: str) -> int | None:
    digits = text.strip()
    plain = digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) < 20
    return int(digits) if plain else None
