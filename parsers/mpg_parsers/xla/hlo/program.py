"""The matrix work of a whole program, each time it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.xla.hlo.engine import Costs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_parsers.xla.hlo.cost import Kind
    from mpg_parsers.xla.hlo.module import Module


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """What one run of a program costs.

    matrix_flops: operations of matrix multiplications and convolutions, exact but for what follows
    by_kind: the same by (element type, passes of matrix units)
    stated_flops: of matrix_flops, what authors of kernels stated
    recomputed_flops: of matrix_flops, what is marked as computed again instead of kept (rematerialisation); the first
    time may be missing where nobody but the second needed it
    duplicate_flops: of matrix_flops and not in recomputed_flops, products written down twice, which compilers merge
    per_device: of one device; else of all partitions of one replica together
    partitions, replicas: as in Module; None if unknown
    flops, transcendentals: all other operations too, by XLA's conventions
    opaque: custom calls whose work is unknown and missing here: target -> how often they run
    loops: those that were counted once, for want of a number of trips: matrix_flops is a lower bound
    choices: conditionals of which the most expensive branch was counted: matrix_flops is an upper bound
    """

    name: str
    matrix_flops: int
    by_kind: Mapping[Kind, int]
    stated_flops: int
    recomputed_flops: int
    duplicate_flops: int
    flops: int
    transcendentals: int
    per_device: bool
    partitions: int | None
    replicas: int | None
    opaque: Mapping[str, int]
    loops: tuple[str, ...]
    choices: tuple[str, ...]

    @property
    def unknown_trips(self) -> int:
        """Number of `loops`."""
        return len(self.loops)

    @property
    def dtypes(self) -> dict[str, int]:
        """matrix_flops by element type."""
        shares: dict[str, int] = {}
        for (dtype, _), flops in self.by_kind.items():
            shares[dtype] = shares.get(dtype, 0) + flops
        return shares

    @property
    def device_flops(self) -> int | None:
        """matrix_flops of one device, shared evenly and rounded down; None if the number of partitions is unknown."""
        if self.per_device:
            return self.matrix_flops
        return self.matrix_flops // self.partitions if self.partitions else None


def program_flops(module: Module) -> ProgramCost:
    """The cost of one run of a program. Raises HloError for a program that contradicts itself.

    Loops count as often as they run. What the program states twice counts twice, and is told apart.
    """
    cost = Costs(module).whole()
    return ProgramCost(
        name=module.name,
        matrix_flops=cost.matrix_flops,
        by_kind=dict(cost.matrix),
        stated_flops=cost.stated,
        recomputed_flops=cost.recomputed,
        duplicate_flops=cost.duplicate,
        flops=cost.flops,
        transcendentals=cost.transcendentals,
        per_device=module.scheduled,
        partitions=module.partitions,
        replicas=module.replicas,
        opaque=dict(cost.opaque),
        loops=tuple(cost.loops),
        choices=tuple(cost.choices),
    )
