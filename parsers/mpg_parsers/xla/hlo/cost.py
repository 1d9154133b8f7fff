"""What a piece of a program costs, and how costs add up."""

from __future__ import annotations

from dataclasses import dataclass, field

Kind = tuple[str, int]  # element type that matrix units see; passes over them per multiplication


@dataclass(slots=True)
class Cost:
    """Work of one instruction or more. All exact integers; 0 where there is none.

    flops: all floating and integer operations but transcendental ones, by the conventions of XLA's HloCostAnalysis: one
    per element of an elementwise operation, two per multiply-add
    matrix: of these the ones of matrix multiplications and convolutions, by element type and number of passes
    bytes: read and written by the operations that run on their own; see memory.py
    stated: of `matrix`, what a kernel's author stated and nobody could check
    recomputed: of `matrix`, what is marked as computed again instead of kept
    duplicate: of `matrix`, products that equal another one, so that a compiler drops them; none of `recomputed`
    opaque: custom calls that may multiply matrices and say nothing of their work, by target: how often they run
    uncounted: custom calls whose `flops` are missing: those of `opaque`, and known ones without matrix work
    loops: loops counted once as their number of trips is unknown
    choices: conditionals that were counted as their most expensive branch although another is cheaper
    """

    flops: int = 0
    transcendentals: int = 0
    matrix: dict[Kind, int] = field(default_factory=dict)
    bytes: int = 0
    stated: int = 0
    recomputed: int = 0
    duplicate: int = 0
    opaque: dict[str, int] = field(default_factory=dict)
    uncounted: int = 0
    loops: dict[str, None] = field(default_factory=dict)
    choices: dict[str, None] = field(default_factory=dict)

    @property
    def matrix_flops(self) -> int:
        """Operations of matrix multiplications and convolutions of all kinds."""
        return sum(self.matrix.values())

    def add(self, other: Cost, times: int = 1) -> None:
        """Adds `times` times another cost to this one."""
        self.flops += other.flops * times
        self.transcendentals += other.transcendentals * times
        self.bytes += other.bytes * times
        self.stated += other.stated * times
        self.recomputed += other.recomputed * times
        self.duplicate += other.duplicate * times
        self.uncounted += other.uncounted * times
        for kind, flops in other.matrix.items():
            self.matrix[kind] = self.matrix.get(kind, 0) + flops * times
        for target, count in other.opaque.items():
            self.opaque[target] = self.opaque.get(target, 0) + count * times
        self.loops |= other.loops
        self.choices |= other.choices


def matrix_work(kind: Kind, flops: int) -> Cost:
    """The cost of matrix work alone."""
    return Cost(flops=flops, matrix={kind: flops} if flops else {})
