"""HLO programs from their text, as protobuf bytes: a small reader of HLO text, and a writer of the wire format."""

from __future__ import annotations

import re
from typing import Any

TYPES = {
    "pred": 1, "s8": 2, "s32": 4, "s64": 5, "u8": 6, "u32": 8, "f16": 10, "f32": 11, "bf16": 16, "token": 17,
    "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21,
}  # fmt: skip
INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.\-$]+) = (\(.*?\)(?= )|\S+) ([\w\-]+)\((.*?)\)(?:, (.*))?$")
SHAPE = re.compile(r"(\w+)\[([\d,\-]*)\](?:\{([\d,]*)(?::((?:T(?:\([\d,]+\))+)?)(?:S\((\d+)\))?)?\})?")
Field = tuple[int, Any]


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(*fields: Field) -> bytes:
    """Fields as (number, value): integers as varints, texts and bytes with their length, lists of integers packed."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        packed = b"".join(map(varint, value)) if isinstance(value, list) else value
        data = packed.encode() if isinstance(packed, str) else packed
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def numbers(text: str) -> list[int]:
    return [int(item) for item in re.findall(r"-?\d+", text)]


def shape(text: str) -> bytes:
    if text.startswith("("):
        parts, depth, start = [], 0, 1
        for at, char in enumerate(text):
            depth += (char in "([{") - (char in ")]}")
            if (char == "," and depth == 1) or (depth == 0 and at > start):
                parts.append(text[start:at].strip())
                start = at + 1
        return message((2, 13), *((4, shape(part)) for part in parts))
    found = SHAPE.fullmatch(text)
    assert found, text
    dtype, dims, order, tiles, space = found.groups()
    layout = [(1, numbers(order or ""))] if order else []
    layout += [(6, message((1, numbers(tile)))) for tile in re.findall(r"\([\d,]+\)", tiles or "")]
    layout += [(8, int(space))] if space else []
    return message((2, TYPES[dtype]), (3, numbers(dims)), (5, message(*layout)))


def window(text: str) -> bytes:
    """As in window={size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=2x2}."""
    parts = dict(part.split("=") for part in text.split())
    sizes = parts["size"].split("x")

    def each(name: str, default: str) -> list[list[int]]:
        return [numbers(item) for item in parts.get(name, "x".join([default] * len(sizes))).split("x")]

    rows = zip(
        each("size", "1"), each("stride", "1"), each("pad", "0_0"), each("rhs_dilate", "1"),
        each("lhs_dilate", "1"), strict=True,
    )  # fmt: skip
    dims = [
        message((1, size), (2, stride), (3, low), (4, high), (5, rhs), (6, lhs))
        for [size], [stride], [low, high], [rhs], [lhs] in rows
    ]
    return message(*((1, item) for item in dims))


def labels(text: str) -> bytes:
    """As in dim_labels=b01f_01io->b01f."""
    lhs, rhs, out = re.split(r"_|->", text)
    spatial = [str(index) for index in range(len(lhs) - 2)]
    return message(
        (7, lhs.index("b")), (8, lhs.index("f")), (11, [lhs.index(item) for item in spatial]),
        (3, rhs.index("i")), (4, rhs.index("o")), (6, [rhs.index(item) for item in spatial]),
        (9, out.index("b")), (10, out.index("f")), (12, [out.index(item) for item in spatial]),
    )  # fmt: skip


PRECISIONS = {"default": 0, "high": 1, "highest": 2}
ALGORITHMS = {"dot_bf16_bf16_f32": 6, "dot_bf16_bf16_f32_x3": 7, "dot_tf32_tf32_f32": 9}


def attributes(text: str) -> dict[str, str]:
    """Attributes by name, without the outermost braces of a value."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "({[") - (char in ")}]")
        if char == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    pairs = (item.strip().split("=", 1) for item in [*found, text[start:]] if item.strip())
    return dict(pairs)


def instruction(line: str, ids: dict[str, int], computations: dict[str, int]) -> bytes:
    found = INSTRUCTION.match(line)
    assert found, line
    _, name, kind, opcode, operands, rest = found.groups()
    have = attributes(rest or "")
    fields: list[Field] = [(1, name), (2, opcode), (3, shape(kind)), (35, ids[name])]
    if opcode == "constant":
        values = numbers(operands)
        fields.append((8, message((2, 4), (5 if kind.startswith("s64") else 4, values))))
    elif opcode == "parameter":
        fields.append((9, int(operands)))
    else:
        used = [re.split(r"\s", item.strip())[-1].lstrip("%") for item in operands.split(",") if item.strip()]
        fields.append((36, [ids[item] for item in used]))
    called = [
        have[key] for key in ("body", "condition", "calls", "to_apply", "select", "scatter") if key in have
    ]
    called += have.get("branch_computations", "{}")[1:-1].split(", ") if "branch_computations" in have else []
    fields.append((38, [computations[item.lstrip("%")] for item in called]))
    fields += [(number, write(have[key])) for key, (number, write) in WRITERS.items() if key in have]
    dot = [(number, numbers(have[key])) for key, number in DOT.items() if key in have]
    ragged = [(number, numbers(have[key])) for key, number in RAGGED.items() if key in have]
    fields += [(90, message((1, message(*dot)), *ragged))] if ragged else [(30, message(*dot))] if dot else []
    precision = (
        [(1, [PRECISIONS[item] for item in have["operand_precision"][1:-1].split(",")])]
        if "operand_precision" in have
        else []
    )
    precision += [(2, ALGORITHMS[have["algorithm"]])] if "algorithm" in have else []
    return message(*fields, *([(51, message(*precision))] if precision else []))


DOT = {"lhs_contracting_dims": 1, "rhs_contracting_dims": 2, "lhs_batch_dims": 3, "rhs_batch_dims": 4}
RAGGED = {"lhs_ragged_dims": 2, "rhs_group_dims": 3}
WRITERS: dict[str, tuple[int, Any]] = {
    "dimensions": (14, numbers),
    "index": (13, int),
    "direction": (63, str),
    "kind": (11, str),
    "fft_length": (32, numbers),
    "feature_group_count": (50, int),
    "batch_group_count": (58, int),
    "is_host_transfer": (47, lambda value: int(value == "true")),
    "window": (15, lambda value: window(value[1:-1])),
    "dim_labels": (16, labels),
    "custom_call_target": (28, lambda value: value.strip('"')),
    "backend_config": (43, str),
    "metadata": (7, lambda value: metadata(value[1:-1])),
    "sharding": (40, lambda value: message((3, numbers(value)))),
}


def metadata(text: str) -> bytes:
    have = {key: value.strip('"') for key, value in (item.split("=", 1) for item in text.split())}
    fields: list[Field] = [(2, have.get("op_name", "")), (3, have.get("source_file", ""))]
    fields += [
        (number, int(have[key]))
        for key, number in (("source_line", 4), ("stack_frame_id", 15))
        if key in have
    ]
    return message(*fields)


def module(text: str, *extra: Field, wrapped: bool = False) -> bytes:
    """An HloModuleProto of a program as HLO writes it; `wrapped` in an HloProto. extra: more fields of the module.

    One block in braces per computation; a text without blocks is the body of the entry.
    """
    if "{\n" not in text:
        text = f"ENTRY main {{\n{text}\n}}"
    blocks = re.findall(r"(ENTRY )?%?([\w.\-]+)[^\n{]*\{\n(.*?)\n\s*\}(?=\n|$)", text, re.DOTALL)
    computations = {name: index for index, (_, name, _) in enumerate(blocks, 1)}
    fields: list[Field] = [(1, "jit_f")]
    for entry, name, body in blocks:
        lines = [line for line in body.splitlines() if line.strip()]
        names = [INSTRUCTION.match(line) for line in lines]
        assert all(names), [line for line, found in zip(lines, names, strict=True) if not found]
        ids = {found[2]: index for index, found in enumerate(names, computations[name] * 1000) if found}
        root = next((ids[found[2]] for found in names if found and found[1]), max(ids.values()))
        parts = [instruction(line, ids, computations) for line in lines]
        fields.append(
            (3, message((1, name), *((2, part) for part in parts), (5, computations[name]), (6, root)))
        )
        fields += [(2, name), (6, computations[name])] if entry else []
    encoded = message(*fields, *extra)
    return message((1, encoded)) if wrapped else encoded
