"""The programs that XLA dumped: operations of the optimised one with their costs, FLOPs of the one before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mpg_parsers.errors import InputError, Notice
from mpg_parsers.nsysjax.layout import DUMP
from mpg_parsers.xla.programs import DAMAGE, costed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpg_parsers.nsysjax.packing import Pack
    from mpg_parsers.xla.hlo.program import ProgramCost

LISTED = 5


class Dumps:
    """The dumped programs of an archive, read when first asked for. Serves where xla.programs.Programs does."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._files: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}
        self._operations: dict[str, Mapping[str, dict[str, Any]]] = {}
        self._about: dict[str, dict[str, Any]] = {}
        self._unread: set[str] = set()
        for file in sorted(pack.names):
            if match := DUMP.fullmatch(file):
                number = str(int(match["id"]))
                self._names.setdefault(number, match["name"])
                stage = "before" if match["before"] else "after"
                self._files.setdefault(number, {}).setdefault(stage, file)

    def name(self, program: str | None) -> str | None:
        """The name of a program's module; None if it was not dumped."""
        return self._names.get(program or "")

    def operation(self, program: str | None, name: str) -> dict[str, Any]:
        """What the optimised program says of an operation, as columns of hlo_ops; empty where it is not known."""
        if program is None or program not in self._files:
            return {}
        if program not in self._operations:
            self._operations[program], self._about[program] = self._costed(program)
        return dict(self._operations[program].get(name, {}))

    def _costed(self, program: str) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
        blob = self._read(program, "after")
        if blob is None:
            return {}, {}
        try:
            return costed(blob)
        except DAMAGE:
            self._unread.add(self._files[program]["after"])
            return {}, {}

    def _read(self, program: str, stage: str) -> bytes | None:
        file = self._files[program].get(stage)
        if file is None:
            return None
        try:
            return self._pack.content(file)
        except InputError:
            self._unread.add(file)
            return None

    def rows(self, programs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
        """Rows of `programs` for those that ran, (number, name of the module) each."""
        return [
            {"program_id": number, "name": name, **self._about.get(number, {}), **self._before(number)}
            for number, name in programs
        ]

    def _before(self, program: str) -> dict[str, Any]:
        """What the program before optimisation says: of all devices together, as it is not yet split."""
        blob = self._read(program, "before") if program in self._files else None
        if blob is None:
            return {"flops": None}
        from mpg_parsers.xla.hlo.module import load
        from mpg_parsers.xla.hlo.program import program_flops

        try:
            return _columns(program_flops(load(blob)))
        except DAMAGE:
            self._unread.add(self._files[program]["before"])
            return {"flops": None}

    def notices(self) -> list[Notice]:
        """What to say of programs that could not be read."""
        if not self._unread:
            return []
        names = ", ".join(file.removeprefix("dump/") for file in sorted(self._unread)[:LISTED])
        message = f"{len(self._unread)} dumped programs are damaged and left out: {names}"
        return [Notice("bad_row", message[:400], len(self._unread))]


def _columns(cost: ProgramCost) -> dict[str, Any]:
    """Columns of `programs`; the FLOPs of all replicas, each of which does the same. Raises OverflowError."""
    if cost.flops * (cost.replicas or 1) >= 2**63:
        raise OverflowError("a program has FLOPs beyond 64 bits")
    types = cost.dtypes
    most = max(types, key=lambda name: (types[name], name), default=None)
    return {
        "flops": cost.matrix_flops * (cost.replicas or 1),
        "all_flops": cost.flops * (cost.replicas or 1),
        "repeated_flops": (cost.recomputed_flops + cost.duplicate_flops) * (cost.replicas or 1),
        "dtype": most,
        "partitions": cost.partitions,
        "replicas": cost.replicas,
        "opaque": json.dumps(sorted(cost.opaque)) if cost.opaque else None,
        "unknown_loops": cost.unknown_trips,
    }
