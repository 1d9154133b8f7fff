"""Free boxes in meshes and tori of chips: the largest, and where a requested shape would fit.

A set of cells is one Python integer, a bit per cell (row-major: the last axis has stride 1). The places where a box
one longer along an axis fits are those where the box fits both here and one step further: a shift and an AND. So all
boxes of a mesh of n cells take n such steps on n bits: a few milliseconds for 16×16×16.

What `wrap` means: along a wrapping axis the last cell is the neighbour of the first, so that a box may lie across the
edge. It says where a slice may lie, not whether the slice has links around itself: a slice is not required to span the
axis. One flag for all axes, or one for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Cell = Sequence[int]
    Wrap = bool | Sequence[bool]

Shape = tuple[int, ...]
MOST_AXES = 4
MOST_CELLS = 1 << 20  # far beyond any machine built; refused, so that a damaged file cannot take all memory
_SHAPE = re.compile(r"[0-9]{1,7}(?:[x×][0-9]{1,7}){0,3}", re.IGNORECASE)


def parse_shape(text: str) -> Shape:
    """The sides of a shape such as "4x4x16": one to four positive numbers. Raises ValueError.

    Spaces around it, a capital X and the multiplication sign are fine.
    """
    stripped = text.strip()
    sides = tuple(map(int, re.split("[x×]", stripped.lower()))) if _SHAPE.fullmatch(stripped) else ()
    if not sides or min(sides) < 1:
        raise ValueError(f"{text[:40]!r} is no shape: expected one to four positive sides, as in 4x4x16")
    return sides


@dataclass(frozen=True)
class Box:
    """origin: the cell with the lowest coordinates, from which the box extends, around the edge where axes wrap."""

    origin: Shape
    shape: Shape

    @property
    def volume(self) -> int:
        """Chips in the box."""
        return prod(self.shape)


def free_cells(dims: Shape, busy: Iterable[Cell]) -> int:
    """How many cells are not busy. Raises ValueError as every function here does: see `largest`."""
    return _free(_checked(dims, wrap=False), busy).bit_count()


def largest(dims: Shape, busy: Iterable[Cell], *, wrap: Wrap = False) -> Box | None:
    """The largest box of free cells; None if none is free. Of several, the first found.

    dims: sides of the mesh, one to four; busy: coordinates of cells, any number of times.
    Raises ValueError for sides that are not positive or too many, a cell outside the mesh, or flags that do not match.
    """
    grid = _checked(dims, wrap)
    best = None
    for shape, starts in _growing(grid, _free(grid, busy)):
        best = Box(grid.cell(_lowest(starts)), shape)
    return best


def places(shape: Shape, dims: Shape, busy: Iterable[Cell], *, wrap: Wrap = False) -> int:
    """In how many ways the shape could be placed now: sets of free cells, over all orientations.

    A box that spans a wrapping axis is the same set of cells wherever it starts, and counts once. Sides of 1 count for
    nothing: 4x4x1 fits into a mesh of two axes. A shape that needs more axes than there are has no place.
    """
    grid = _checked(dims, wrap)
    free = _free(grid, busy)
    return sum(
        (_fits(grid, free, box) & grid.distinct(box)).bit_count() for box in _orientations(shape, grid.dims)
    )


def placeable(shape: Shape, dims: Shape, busy: Iterable[Cell], *, wrap: Wrap = False) -> bool:
    """Whether the shape could be placed now, in some orientation."""
    grid = _checked(dims, wrap)
    free = _free(grid, busy)
    return any(_fits(grid, free, box) for box in _orientations(shape, grid.dims))


def at_once(shape: Shape, dims: Shape, busy: Iterable[Cell], *, wrap: Wrap = False) -> int:
    """How many of the shape could be placed together: a lower bound, and often the answer.

    Greedy: each orientation in turn goes first and takes its lowest place until there is none, then the others do;
    the best of these counts. Finding the most is a packing problem, for which no fast way is known.
    """
    grid = _checked(dims, wrap)
    free = _free(grid, busy)
    boxes = _orientations(shape, grid.dims)
    bound, best = free.bit_count() // prod(shape), 0
    for first in boxes:
        if best < bound:
            best = max(best, _packed(grid, free, [first, *(box for box in boxes if box != first)]))
    return best


def index(
    dims: Shape, busy: Iterable[Cell], *, wrap: Wrap = False, shapes: Iterable[Shape] | None = None
) -> Fraction | None:
    """1 − volume of the largest free box ÷ free cells; None if nothing is free.

    With `shapes`, the largest of those that can be placed instead: what fragmentation means to jobs that ask for them.
    """
    cells = [tuple(cell) for cell in busy]
    free = free_cells(dims, cells)
    if not free:
        return None
    if shapes is not None:
        volume = max((prod(s) for s in shapes if placeable(s, dims, cells, wrap=wrap)), default=0)
    else:
        box = largest(dims, cells, wrap=wrap)
        volume = box.volume if box else 0
    return 1 - Fraction(volume, free)


@dataclass(frozen=True)
class _Grid:
    """dims and flags per axis; per axis its stride, the cells of its last coordinate and those of its first."""

    dims: Shape
    wrap: tuple[bool, ...]
    strides: Shape
    last: tuple[int, ...]
    first: tuple[int, ...]

    def step(self, cells: int, axis: int) -> int:
        """The cells whose neighbour one further along the axis is in `cells`."""
        stride, side = self.strides[axis], self.dims[axis]
        inner = (cells >> stride) & ~self.last[axis]
        if not self.wrap[axis]:
            return inner
        return inner | ((cells & self.first[axis]) << (stride * (side - 1)))

    def distinct(self, box: Shape) -> int:
        """One starting cell of each set of cells that the box can be: along an axis that it spans, the first."""
        cells = (1 << prod(self.dims)) - 1
        for axis, side in enumerate(box):
            cells &= self.first[axis] if side == self.dims[axis] else -1
        return cells

    def cell(self, number: int) -> Shape:
        """The coordinates of the cell of that bit."""
        return tuple(number // stride % side for stride, side in zip(self.strides, self.dims, strict=True))


def _checked(dims: Shape, wrap: Wrap) -> _Grid:
    flags = (wrap,) * len(dims) if isinstance(wrap, bool) else tuple(wrap)
    if not 1 <= len(dims) <= MOST_AXES or min(dims) < 1 or prod(dims) > MOST_CELLS:
        raise ValueError(f"a mesh has one to four positive sides and at most {MOST_CELLS} cells, not {dims}")
    if len(flags) != len(dims):
        raise ValueError(f"{len(flags)} flags for {len(dims)} axes")
    return _grid(tuple(dims), flags)


@lru_cache(maxsize=64)
def _grid(dims: Shape, wrap: tuple[bool, ...]) -> _Grid:
    strides = tuple(prod(dims[axis + 1 :]) for axis in range(len(dims)))
    first = tuple(_plane(dims, axis) for axis in range(len(dims)))
    last = tuple(
        plane << (stride * (side - 1)) for plane, stride, side in zip(first, strides, dims, strict=True)
    )
    return _Grid(dims, wrap, strides, last, first)


def _plane(dims: Shape, axis: int) -> int:
    """The cells with coordinate 0 along the axis: a run of `stride` bits in every period, as one multiplication."""
    stride = prod(dims[axis + 1 :])
    period, repeats = stride * dims[axis], prod(dims[:axis])
    ones = ((1 << (period * repeats)) - 1) // ((1 << period) - 1)
    return ((1 << stride) - 1) * ones


def _free(grid: _Grid, busy: Iterable[Cell]) -> int:
    # bytes, because setting one bit of a long integer copies it
    taken = bytearray(prod(grid.dims) // 8 + 1)
    for cell in busy:
        if len(cell) != len(grid.dims) or not all(0 <= c < d for c, d in zip(cell, grid.dims, strict=True)):
            raise ValueError(f"cell {tuple(cell)} is outside of a mesh of {grid.dims}")
        number = sum(c * stride for c, stride in zip(cell, grid.strides, strict=True))
        taken[number >> 3] |= 1 << (number & 7)
    return ((1 << prod(grid.dims)) - 1) & ~int.from_bytes(taken, "little")


def _growing(grid: _Grid, free: int) -> Iterator[tuple[Shape, int]]:
    """Boxes that fit somewhere, each larger than those before it, up to the largest; and the cells they start at."""
    best = 0

    def grow(shape: Shape, cells: int) -> Iterator[tuple[Shape, int]]:
        nonlocal best
        axis = len(shape)
        if axis == len(grid.dims):
            best = max(best, prod(shape))
            yield shape, cells
            return
        beyond = prod(shape) * prod(grid.dims[axis + 1 :])
        starts = cells
        for side in range(1, grid.dims[axis] + 1):
            if not starts:
                return
            if side * beyond > best:
                yield from grow((*shape, side), starts)
            starts &= grid.step(starts, axis)

    yield from grow((), free)


def _fits(grid: _Grid, free: int, box: Shape) -> int:
    """The cells where the box could start."""
    cells = free
    for axis, side in enumerate(box):
        for _ in range(side - 1):
            cells &= grid.step(cells, axis)
    return cells


def _orientations(shape: Shape, dims: Shape) -> list[Shape]:
    """The different ways to lay the shape along the axes of the mesh that are not longer than the mesh."""
    if not shape or min(shape) < 1:
        raise ValueError(f"a shape has positive sides, not {shape}")
    sides = [side for side in shape if side > 1]
    if len(sides) > len(dims):
        return []
    filled = sides + [1] * (len(dims) - len(sides))
    turned = sorted(set(permutations(filled)), reverse=True)
    return [box for box in turned if all(side <= most for side, most in zip(box, dims, strict=True))]


def _packed(grid: _Grid, free: int, boxes: Iterable[Shape]) -> int:
    """How many boxes go in, one after the other, each at the lowest place; the next kind when one has none left."""
    count = 0
    for box in boxes:
        while starts := _fits(grid, free, box):
            free &= ~_cells(grid, _lowest(starts), box)
            count += 1
    return count


def _cells(grid: _Grid, start: int, box: Shape) -> int:
    """The cells of a box that starts there."""
    cells = 0
    offsets: list[Shape] = [()]
    for axis, (at, side) in enumerate(zip(grid.cell(start), box, strict=True)):
        steps = [(at + k) % grid.dims[axis] for k in range(side)]
        offsets = [(*o, step) for o in offsets for step in steps]
    for cell in offsets:
        cells |= 1 << sum(c * stride for c, stride in zip(cell, grid.strides, strict=True))
    return cells


def _lowest(cells: int) -> int:
    return (cells & -cells).bit_length() - 1
