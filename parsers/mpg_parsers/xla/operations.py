"""The operations of XLA programs: what kind of device work each is, as its category and name say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from mpg_parsers.xla.hlo.shapes import BITS

# collectives, and what sends between devices, by XLA's names of operations (xla/hlo/ir/hlo_opcode.h); a start and a
# done are the two ends of one transfer, and fusions around one are named after it
COLLECTIVE = re.compile(
    r"(?P<what>all-reduce-scatter|all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|"
    r"collective-broadcast|async-collective|collective|megascale|send|recv)\b"
)
SAME = {"all-reduce-scatter": "reduce-scatter"}  # a fusion of an all-reduce and the slice of it that is kept
HOST_TRANSFER = re.compile(r"\b(host[ -](send|recv)|(send|recv)-host)|\boutfeed\b")
INFEED = re.compile(r"\binfeed\b")
# copies that run beside the operations: between memories, or to the host
COPY = re.compile(
    r"^(copy|slice|dynamic-slice|dynamic-update-slice|async-copy|async-slice)-(start|done)\b|^async[- ]copy\b"
)
ASYNC = re.compile(r"^async-(start|update|done)$")
SHORT = re.compile(r"%?(?P<name>[\w.\-]+) = ")
# what XLA's passes append to a name: a number, and that the operation is a copy, rematerialised or moved
SUFFIX = re.compile(r"(\.\d+|[.\-](clone|cloned|remat|sunk)\d*)+$")
LONGEST_NAME = 200


# {{0,1},{2,3}}, or [2,2]<=[4]: their number and size, and how devices are counted; {} is all of them
GROUPS = re.compile(
    r"replica_groups=(?:\[(?P<count>\d{1,9}),(?P<size>\d{1,9})\]|\{(?P<list>[\d,{} ]{0,100000})\})"
)


# a shape in the text of an operation on a TPU: bf16[8,128]{1,0:T(8,128)(2,1)S(1)}; S is the memory it is in, if not HBM
ARRAY = re.compile(r"\b(?P<dtype>[a-z][a-z\d]{0,15})\[(?P<dims>[\d,]{0,200})\]\{(?P<layout>[^{}]{0,200})\}")


def device_bytes(expression: str) -> int | None:
    """Bytes of the arrays in device memory that a TPU's operation names; None of an operation of another device."""
    arrays = list(ARRAY.finditer(expression))
    if not any("T(" in array["layout"] for array in arrays):
        return None
    total = 0
    for array in arrays:
        bits = BITS.get(array["dtype"])
        if bits is None:
            return None
        held = "S(" not in array["layout"]
        total += held * bits * prod(int(size) for size in array["dims"].split(",") if size) // 8
    return total


@dataclass(frozen=True, slots=True)
class Groups:
    """In how many groups the devices take part in a collective, and of how many each; None: not told."""

    count: int
    size: int | None = None


def groups(expression: str) -> Groups | None:
    """The groups of a collective by its text; None where that does not say."""
    match = GROUPS.search(expression)
    if match is None:
        return None
    if match["count"]:
        return Groups(int(match["count"]), int(match["size"]))
    listed = re.findall(r"\{([\d, ]*)\}", match["list"])
    sizes = {len(one.split(",")) for one in listed}
    return Groups(len(listed) or 1, sizes.pop() if len(sizes) == 1 else None)


@dataclass(frozen=True, slots=True)
class Work:
    """kind: as in device_ops; collective: its name, or None."""

    kind: str
    collective: str | None = None


def work(category: str, name: str) -> Work:
    """What an operation does. The category decides; of asynchronous wrappers, whose category says nothing, the name."""
    what = base_name(name) if not category or ASYNC.match(category) else category
    if INFEED.search(what):
        return Work("infeed")
    if HOST_TRANSFER.search(what) or COPY.match(what):
        return Work("memcpy")
    match = COLLECTIVE.match(what) or (COLLECTIVE.match(base_name(name)) if "fusion" in what else None)
    return Work("kernel", SAME.get(match["what"], match["what"])) if match else Work("kernel")


def base_name(name: str) -> str:
    """The name without what was appended: all-reduce-start.12.clone is all-reduce-start."""
    return SUFFIX.sub("", name)


def short_name(name: str, display_name: str) -> str:
    """The operation's name in its program: of `%fusion.3 = f32[8]{0} fusion(…)` that is fusion.3.

    A displayed name that repeats for many operations (async-copy) is less than what the expression says.
    """
    match = SHORT.match(name)
    return (match["name"] if match else display_name or name)[:LONGEST_NAME]


def opcode(name: str) -> str:
    """The category of an operation of which only the name is known: its opcode, as far as XLA names it after that."""
    base = base_name(name)
    return "fusion" if base.endswith("fusion") else base
