"""Operand shapes and types of an operator call as short text, from the JSON that the trace records."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import orjson

from mpg_cli.report.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    Operand = tuple[tuple[int, ...], str]

_LONGEST = 65_536  # characters of JSON that are looked at
_MOST_OPERANDS = 4
_MOST_TYPES = 2
_MOST_SIZES = 8
_LIMIT = 80
_TYPES = {
    "double": "fp64", "float": "fp32", "Half": "fp16", "BFloat16": "bf16", "Float4_e2m1fn_x2": "fp4",
    "long int": "int64", "long": "int64", "int": "int32", "short int": "int16", "short": "int16",
    "signed char": "int8", "char": "int8", "unsigned char": "uint8",
}  # fmt: skip
_SCALARS = ("", "Scalar", "ScalarList", "GenericList", "TensorList", "Int", "Double", "Bool", "Device")


def operands(dims: str, dtypes: str) -> str:
    """`16×5185×64 · 16×64×5185 bf16` of two JSON lists, one entry per argument.

    Left out are arguments without dimensions, and a vector before two matrices, which is their bias. Equal
    neighbours are counted, of many the first are shown. Text that is no such list is shown as it is, cut.
    """
    entries = _list(dims)
    if entries is None:
        return cut(dims.strip(), _LIMIT)
    found = _without_bias(list(_tensors(entries, _list(dtypes) or [])))
    parts = [_times(shape, len(list(same))) for shape, same in groupby(shape for shape, _ in found)]
    more = ["…"] if len(parts) > _MOST_OPERANDS else []
    shapes = " · ".join(parts[:_MOST_OPERANDS] + more)
    return " ".join(part for part in (shapes, _types([kind for _, kind in found])) if part)


def launch(dims: str, dtypes: str) -> str:
    """`64×1×1 · 256×1×1 bf16` of a kernel's grid and block as a JSON list, and the list of its type."""
    shapes = [_times(shape, 1) for shape, _ in _tensors(_list(dims) or [], [])]
    types = _types([_short(kind) for kind in _list(dtypes) or []])
    return " ".join(part for part in (" · ".join(shapes[:_MOST_OPERANDS]), types) if part)


def _list(text: str) -> list[object] | None:
    if len(text) > _LONGEST:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None


def _tensors(entries: list[object], kinds: list[object]) -> Iterator[Operand]:
    """Shape and type of every tensor, those in lists of tensors included."""
    for index, entry in enumerate(entries):
        kind = kinds[index] if index < len(kinds) else ""
        if shape := _shape(entry):
            yield shape, _short(kind)
        elif isinstance(entry, list):
            inner = kind if isinstance(kind, list) and len(kind) == len(entry) else [""] * len(entry)
            yield from ((shape, _short(k)) for e, k in zip(entry, inner, strict=True) if (shape := _shape(e)))


def _without_bias(found: list[Operand]) -> list[Operand]:
    ranks = [len(shape) for shape, _ in found]
    return found[1:] if ranks[:3] == [1, 2, 2] else found


def _shape(entry: object) -> tuple[int, ...]:
    if not isinstance(entry, list) or not all(type(size) is int for size in entry):
        return ()
    return tuple(entry)


def _times(shape: tuple[int, ...], count: int) -> str:
    sizes = "×".join([*map(str, shape[:_MOST_SIZES]), *(["…"] if len(shape) > _MOST_SIZES else [])])
    return sizes if count == 1 else f"{sizes} ({count:,}×)"


def _short(kind: object) -> str:
    """`bf16` of `c10::BFloat16`; empty for what is no type of elements."""
    if not isinstance(kind, str) or kind in _SCALARS:
        return ""
    name = kind.removeprefix("c10::")
    return "fp8" if name.startswith("Float8_e") else _TYPES.get(name, cut(name, 12))


def _types(kinds: list[str]) -> str:
    known = list(dict.fromkeys(kind for kind in kinds if kind))
    return "/".join(known[:_MOST_TYPES] + (["…"] if len(known) > _MOST_TYPES else []))
