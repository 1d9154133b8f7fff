"""The programs that a profile holds, by number: their operations with what these cost. Read when first asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from mpg_parsers.errors import Notice
from mpg_parsers.xla.planes import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_parsers.xla.hlo.operations import Operation
    from mpg_parsers.xla.space import Space

PROTO = "Hlo Proto"
DAMAGE = (ValueError, ArithmeticError, LookupError)  # what a program whose parts do not fit together ends in
NAMED = re.compile(r"^(?P<name>.*?)\((?P<id>-?\d{1,20})\)$")


class Programs:
    """The HLO modules of a profile's metadata plane."""

    def __init__(self, space: Space) -> None:
        self._blobs: dict[str, tuple[str, bytes]] = {}
        self._costed: dict[str, Mapping[str, dict[str, Any]]] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._unread: list[str] = []
        for plane in space.planes:
            if plane.name == METADATA:
                for key, about in plane.metadata.items():
                    blob = about.stats.get(PROTO)
                    if isinstance(blob, bytes):
                        match = NAMED.match(about.name)
                        number = match["id"] if match else str(key % (1 << 64))
                        self._blobs[number] = (match["name"] if match else about.name, blob)

    def name(self, program: str | None) -> str | None:
        """The name of a program's module."""
        found = self._blobs.get(program or "")
        return found[0] if found else None

    def operation(self, program: str | None, name: str) -> dict[str, Any]:
        """What the program says of an operation, as columns of hlo_ops; empty where it is not known."""
        if program is None or program not in self._blobs:
            return {}
        return dict(self._operations(program).get(name, {}))

    def notices(self) -> list[Notice]:
        """What to say of programs that could not be read."""
        if not self._unread:
            return []
        names = ", ".join(sorted(self._unread)[:5])
        message = f"{len(self._unread)} programs in the profile are damaged, their operations have no FLOPs: {names}"
        return [Notice("bad_row", message[:400], len(self._unread))]

    def rows(self) -> list[dict[str, Any]]:
        """Rows of `programs` for those that ran."""
        return list(self._rows.values())

    def _operations(self, program: str) -> Mapping[str, dict[str, Any]]:
        if program not in self._costed:
            name, blob = self._blobs[program]
            try:
                self._costed[program], about = costed(blob)
                self._rows[program] = {"program_id": program, "name": name, **about}
            except DAMAGE:
                self._unread.append(name)
                self._costed[program] = {}
        return self._costed[program]


def costed(blob: bytes) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Operations of a program by name, as columns of hlo_ops, and its own columns of `programs`.

    Raises one of DAMAGE for a damaged one.
    """
    from mpg_parsers.xla.hlo.module import load
    from mpg_parsers.xla.hlo.operations import operations

    module = load(blob)
    found = operations(module)
    opaque = sorted({each.target for each in found if _is_opaque(each)})
    about: dict[str, Any] = {
        "partitions": module.partitions,
        "replicas": module.replicas,
        "opaque": msgspec.json.encode(opaque).decode() if opaque else None,
    }
    return {each.name: _columns(each) for each in found}, about


def _is_opaque(each: Operation) -> bool:
    return each.matrix_flops is None and not each.container


def _columns(each: Operation) -> dict[str, Any]:
    """An operation as columns of hlo_ops. What a loop costs is in the operations inside of it."""
    known = 0 if each.container else each.matrix_flops
    source = "custom_call" if each.stated_flops else "hlo"
    return {
        "category": each.category,
        "framework_op": each.framework_op or None,
        "location": each.source or None,
        "shape": each.shape or None,
        "flops": known,
        "all_flops": None if each.container else each.flops,
        "dtype": each.dtype or None if known else None,
        "bytes": None if each.container else each.bytes,
        "flops_source": None if known is None else source,
        "opaque": _is_opaque(each),
        "recompute": each.rematerialised,
        "groups": each.groups or 1,  # no column: of a collective, in how many groups the devices take part
    }
