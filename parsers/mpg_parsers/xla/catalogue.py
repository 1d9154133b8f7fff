"""The operations that ran, numbered: rows of hlo_ops, from the profile's own figures and the programs in it.

FLOPs are those of matrix products and convolutions, from the program itself where the profile holds it. Else the
profiler's figure counts for operations that its category shows to hold such work; what a custom call does is then not
known, whatever the figure: XLA writes 0 for a kernel that it cannot look into.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.tables import HLO_OPS
from mpg_parsers.xla.breakdown import device_memory_bytes
from mpg_parsers.xla.operations import Groups, device_bytes, groups, opcode, short_name, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mpg_parsers.xla.programs import Programs
    from mpg_parsers.xla.space import Metadata, Plane, Value

MATRIX = re.compile(r"convolution|\bdot\b|output fusion|custom fusion")
CUSTOM_CALL = re.compile(r"custom[- ]call")
# custom calls that mark something and do nothing
MARKERS = re.compile(
    r"Sharding|SPMD|annotate_device_placement|MoveToHost|MoveToDevice|AllocateBuffer|PinToDevice|LayoutConstraint"
)
SHAPE = re.compile(r"= \(?(?P<shape>(?P<dtype>[a-z]\w{0,15})\[[\d,<=]*\])")
REMATERIALISED = re.compile(r"^%?[\w.\-]*\.remat|rematted_computation|/remat\b|^remat\b")
LONGEST = 300
WORK = {"kind": pl.String, "collective": pl.String, "group": pl.String, "group_size": pl.Int64}
ALL_DEVICES = "all devices"
KERNEL_KEYS = {"program_id": pl.Int64, "hlo_module": pl.String, "hlo_op": pl.String}


@dataclass(frozen=True, slots=True)
class _Key:
    """What tells one operation from another; `more`, where the file does not say the program."""

    program: str | None
    name: str
    more: tuple[object, ...] = ()


class Catalogue:
    """Numbers operations as they are met."""

    def __init__(self, programs: Programs, clean: Callable[[str], str]) -> None:
        self._programs, self._clean = programs, clean
        self._numbers: dict[_Key, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._groups: dict[int, Groups] = {}

    def of_plane(self, plane: Plane, keys: pl.Series) -> pl.DataFrame:
        """metadata, hlo, name and WORK of the operations of a TPU's plane with these keys."""
        rows = []
        for key in keys:
            hlo = self._of_metadata(plane.metadata.get(key))
            rows.append((key, hlo, self._rows[hlo]["name"], *self._work(hlo)))
        schema = {"metadata": pl.Int64, "hlo": pl.Int64, "name": pl.String, **WORK}
        return pl.DataFrame(rows, schema, orient="row")

    def of_kernels(self, kernels: pl.DataFrame) -> pl.DataFrame:
        """KERNEL_KEYS, hlo and WORK but kind of the distinct operations that kernels of a GPU belong to."""
        known = kernels.select(pl.col(name).cast(kind) for name, kind in KERNEL_KEYS.items())
        distinct = known.filter(pl.col("hlo_op").is_not_null()).unique(maintain_order=True)
        numbers = [self._of_kernel(*row) for row in distinct.iter_rows()]
        rows = [(hlo, *self._work(hlo)) for hlo in numbers]
        found = pl.DataFrame(rows, {"hlo": pl.Int64, **WORK}, orient="row")
        return distinct.hstack(found.drop("kind"))

    def _work(self, hlo: int) -> tuple[str, str | None, str | None, int | None]:
        """Values of WORK; a group only where all devices are in one: which device a number means is not told."""
        row = self._rows[hlo]
        what = work(row["category"], row["name"])
        told = self._groups.get(hlo) if what.collective else None
        whole = told is not None and told.count == 1
        size = told.size if told else None
        return what.kind, what.collective, ALL_DEVICES if whole else None, size

    def table(self) -> pl.DataFrame:
        """All rows of hlo_ops so far."""
        return HLO_OPS.conform(pl.DataFrame(self._rows, infer_schema_length=None))

    def category(self, hlo: int) -> str:
        """The category of an operation."""
        return str(self._rows[hlo]["category"])

    def _of_metadata(self, about: Metadata | None) -> int:
        stats = about.stats if about else {}
        name = short_name(about.name, about.display_name) if about else ""
        program = _text(stats.get("program_id"))
        more = (
            ()
            if program
            else tuple(stats.get(key) for key in ("hlo_category", "model_flops", "bytes_accessed"))
        )
        return self._number(_Key(program, name, more), about.name if about else "", stats)

    def _of_kernel(self, program_id: int | None, module: str | None, name: str) -> int:
        program = None if program_id is None else str(program_id)
        return self._number(_Key(program, name, () if program else (module,)), "", {}, module)

    def _number(
        self, key: _Key, expression: str, stats: Mapping[str, Value], module: str | None = None
    ) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._rows)
            row = self._row(found, key, expression, stats, module)
            count = row.pop("groups", None)
            if told := groups(expression) or (Groups(count) if count else None):
                self._groups[found] = told
            self._rows.append(row)
        return found

    def _row(
        self, hlo: int, key: _Key, expression: str, stats: Mapping[str, Value], module: str | None
    ) -> dict[str, Any]:
        """What is known of an operation: the program's own word goes before the profiler's.

        But not for its category and the bytes it moves, which the profiler knows by memory.
        """
        stated = _stated(key.name, expression, stats)
        row = stated | self._programs.operation(key.program, key.name)
        kept = ("bytes", "all_flops", "framework_op", "location", "shape") + (
            ("category",) if "hlo_category" in stats else ()
        )
        row |= {name: stated[name] for name in kept if stated[name] is not None}
        if row["flops"] is None and stated["flops"] is not None:
            row |= {name: stated[name] for name in ("flops", "dtype", "flops_source", "opaque")}
        for text in ("framework_op", "location"):
            row[text] = self._clean(row[text])[:LONGEST] if row[text] else None
        program = self._programs.name(key.program) or module
        return row | {"hlo": hlo, "program_id": key.program, "program": program, "name": key.name}


def _text(value: Value | None) -> str | None:
    if isinstance(value, int):
        return str(value % (1 << 64))
    return value if isinstance(value, str) else None


def _whole(value: Value | None) -> int | None:
    """A figure of the profiler: a number or the text of one."""
    try:
        number = int(value) if value is not None else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < 1 << 62 else None


def _stated(name: str, expression: str, stats: Mapping[str, Value]) -> dict[str, Any]:
    """What the profiler says of an operation."""
    category = str(stats.get("hlo_category") or opcode(name))
    framework = str(stats.get("tf_op") or "").rstrip(":")
    shape = SHAPE.search(expression)
    breakdown = stats.get("memory_access_breakdown")
    moved = device_memory_bytes(breakdown) if isinstance(breakdown, bytes) else None
    flops, source = _flops(category, expression, stats)
    all_flops = _whole(stats.get("flops"))
    return {
        "category": category[:LONGEST],
        "framework_op": framework or None,
        "location": str(stats.get("source") or "") or None,
        "shape": shape["shape"][:LONGEST] if shape else None,
        "flops": flops,
        "all_flops": _whole(stats.get("model_flops")) if all_flops is None else all_flops,
        "dtype": shape["dtype"] if shape and flops else None,
        "bytes": _moved(expression, stats) if moved is None else moved,
        "flops_source": source,
        "opaque": bool(CUSTOM_CALL.search(category)) and source is None,
        "recompute": bool(REMATERIALISED.search(name) or REMATERIALISED.search(framework)),
    }


def _moved(expression: str, stats: Mapping[str, Value]) -> int | None:
    """Bytes of device memory, where the profiler gives those of all memories: at most what operands and result hold."""
    accessed, held = _whole(stats.get("bytes_accessed")), device_bytes(expression)
    return accessed if accessed is None or held is None else min(accessed, held)


def _flops(category: str, expression: str, stats: Mapping[str, Value]) -> tuple[int | None, str | None]:
    """FLOPs of matrix work by the profiler, and which of its figures says so."""
    source = next((name for name in ("model_flops", "flops") if _whole(stats.get(name)) is not None), None)
    figure = _whole(stats.get(source)) if source else None
    if CUSTOM_CALL.search(category) and not figure:
        return (0, "hlo") if MARKERS.search(expression) else (None, None)
    if source is None or (figure and "hlo_category" not in stats and category == "fusion"):
        return None, None  # of a fusion whose category is not stated nobody knows what the FLOPs are of
    return (figure if MATRIX.search(category) or CUSTOM_CALL.search(category) else 0), source
