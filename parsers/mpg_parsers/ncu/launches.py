"""One profiled kernel launch, whichever export it was read from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpg_parsers.ncu.values import Value

DISPLAY_NAME = "device__attribute_display_name"
INTEGER = re.compile(r"-?\d{1,18}")
# what the formulas use; a full report has two thousand metrics
WANTED = re.compile(
    r"(?:gpu__(?:time_duration\.sum|dram_throughput\.avg|compute_memory_throughput\.avg)"
    r"|(?:gpc|smsp|sm|dram)__cycles_elapsed\.(?:avg\.per_second|max)|sm__cycles_active\.avg|sm__throughput\.avg"
    r"|sm__warps_active\.avg|dram__(?:bytes|throughput)"
    r"|(?:derived__)?sm(?:sp)?__sass_thread_inst_executed_op_[dfh](?:add|mul|fma)_pred_on"
    r"|sm__(?:inst_executed_)?pipe_(?:tensor|fp64|fp16|fma_type_fp16)|sm__ops_path_tensor_"
    r"|launch__(?:waves_per_multiprocessor|(?:grid|block)_dim_[xyz])$)"
)


@dataclass(slots=True)
class Launch:
    """`grid` and `block` are empty where only metrics may state them; `metrics` are in base units, by metric id."""

    number: int
    name: str
    process: int | None = None
    device: int | None = None
    compute_capability: str | None = None
    device_name: str | None = None
    host: str | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    metrics: dict[str, Value] = field(default_factory=dict)

    def shape(self, what: str) -> tuple[int, ...]:
        """The three sides of the "grid" or the "block"; none if they are not stated."""
        stated = self.grid if what == "grid" else self.block
        found = [self.metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
        measured = tuple(round(side.amount) for side in found if side is not None)
        return stated or (measured if len(measured) == len(found) else ())


def wanted(metric: str) -> bool:
    """Whether a formula uses this metric."""
    return WANTED.match(metric) is not None


def integer(text: str | None) -> int | None:
    """The integer a cell holds."""
    match = INTEGER.fullmatch(text.strip()) if text else None
    return int(match[0]) if match else None


def sides(text: str | None) -> tuple[int, ...]:
    """The three sides of "(64, 1, 1)"; none if it is something else."""
    found = tuple(int(number) for number in re.findall(r"\d{1,18}", text or ""))
    return found if len(found) == 3 else ()
