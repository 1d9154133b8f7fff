from __future__ import annotations

import json
import random
import time
from fractions import Fraction
from itertools import permutations, product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.boxes import (
    Box,
    at_once,
    free_cells,
    index,
    largest,
    parse_shape,
    placeable,
    places,
)
from tests.mpg_cli.running import ROOT

Cell = tuple[int, ...]
CASES = json.loads((ROOT / "fixtures/scheduling/fragmentation_cases.json").read_text())["meshes"]
CORPUS = ROOT.parent / "shared/corpus/fragmentation_cases.json"
CUBE = (4, 4, 4)
PLANES = [cell for cell in product(range(4), repeat=3) if cell[0] in {1, 2}]
ODD = [cell for cell in product(range(4), repeat=3) if sum(cell) % 2]


def volume(dims: Cell, busy: list[Cell], *, wrap: bool) -> int:
    box = largest(dims, busy, wrap=wrap)
    return box.volume if box else 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_boxes_one_can_see(case: dict[str, Any]) -> None:
    busy = (
        ODD
        if case.get("odd")
        else [cell for cell in product(range(4), repeat=3) if cell[0] in case["planes"]]
    )
    dims = tuple(case["dims"])
    assert free_cells(dims, busy) == case["free"]
    assert volume(dims, busy, wrap=False) == case["largest"]
    assert volume(dims, busy, wrap=True) == case["largest_wrapped"]
    if "places_2x2x2" in case:
        assert places((2, 2, 2), dims, busy, wrap=True) == case["places_2x2x2"]


def test_the_tori_of_the_corpus() -> None:
    if not CORPUS.exists():
        pytest.skip(f"the corpus is not at {CORPUS}")
    planes, odd = json.loads(CORPUS.read_text())["torus"]
    assert volume(CUBE, PLANES, wrap=True) == planes["largest_box_with_wraparound"]
    assert volume(CUBE, PLANES, wrap=False) == planes["largest_box_without"]
    assert volume(CUBE, ODD, wrap=True) == odd["largest_box_with_wraparound"]
    assert places((2, 2, 2), CUBE, ODD, wrap=True) == odd["places_2x2x2"]


@pytest.mark.parametrize(
    ("text", "shape"),
    [("4x4x16", (4, 4, 16)), (" 2X2 ", (2, 2)), ("8", (8,)), ("2×2×1", (2, 2, 1)), ("1x2x3x4", (1, 2, 3, 4))],
)
def test_shapes_as_text(text: str, shape: Cell) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    "text", ["", "x", "4x", "4x4x0", "4x-1", "4.5x2", "1x1x1x1x1", "4 x 4", "v5p", "9" * 9, "٤x٤"]
)
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(ValueError, match="is no shape"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("shape", "dims", "wrap", "expected"),
    [
        ((2, 2, 2), CUBE, False, 27),
        ((2, 2, 2), CUBE, True, 64),
        ((4, 4, 4), CUBE, True, 1),  # one set of cells, wherever it starts
        ((4, 4, 1), CUBE, False, 12),
        ((1, 1, 1), CUBE, True, 64),
        ((4, 4), CUBE, False, 12),
        ((4, 2, 1, 1), CUBE, False, 6 * 12),
        ((2, 2, 2), (4, 4), False, 0),  # needs a third axis
        ((2, 2, 1), (4, 4), False, 9),
        ((5, 1, 1), CUBE, True, 0),  # longer than the axis, however it wraps
        ((3,), (4,), False, 2),
        ((3,), (4,), True, 4),
        ((2, 3), (2, 3), False, 1),
        ((2, 2), (2, 3), (False, True), 3),
        ((2, 2), (2, 3), (True, False), 2),
    ],
)
def test_places_in_an_empty_mesh(
    shape: Cell, dims: Cell, wrap: bool | tuple[bool, ...], expected: int
) -> None:
    assert places(shape, dims, [], wrap=wrap) == expected
    assert placeable(shape, dims, [], wrap=wrap) == (expected > 0)


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        ((2, 2, 2), CUBE, 8),
        ((1, 1, 2), CUBE, 32),
        ((4, 4, 4), CUBE, 1),
        ((2, 3), (6, 6), 6),
        ((2, 3), (5, 6), 5),
        ((4, 4, 16), (16, 16, 16), 16),
        ((3, 3), (2, 9), 0),
    ],
)
def test_as_many_as_fit_at_once(shape: Cell, dims: Cell, expected: int) -> None:
    assert at_once(shape, dims, []) == expected


def test_the_index() -> None:
    assert index(CUBE, PLANES) == HALF
    assert index(CUBE, PLANES, wrap=True) == 0
    assert index(CUBE, ODD, wrap=True) == Fraction(31, 32)
    assert index(CUBE, PLANES, shapes=[(2, 2, 2), (1, 2, 4)]) == Fraction(3, 4)
    assert index(CUBE, PLANES, shapes=[(2, 2, 2)]) == 1
    assert index((2, 2), list(product(range(2), repeat=2))) is None
    assert largest((2,), [(0,), (1,), (0,)]) is None


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: largest((), []),
        lambda: largest((4, 0), []),
        lambda: largest((2,) * 5, []),
        lambda: largest((1 << 30, 1 << 30), []),
        lambda: largest((4, 4), [(4, 0)]),
        lambda: largest((4, 4), [(0, -1)]),
        lambda: largest((4, 4), [(0, 0, 0)]),
        lambda: largest((4, 4), [], wrap=(True,)),
        lambda: places((2, 0), (4, 4), []),
        lambda: placeable((), (4, 4), []),
    ],
)
def test_what_is_refused(call: Any) -> None:
    with pytest.raises(ValueError, match=r"mesh|flags|shape"):
        call()


# the same by trying every cell of every box


def brute_sets(dims: Cell, free: set[Cell], wrap: bool, box: Cell) -> set[frozenset[Cell]]:
    found = set()
    for origin in product(*map(range, dims)):
        cells = set()
        for offset in product(*map(range, box)):
            at = tuple(o + k for o, k in zip(origin, offset, strict=True))
            cells.add(tuple(a % d for a, d in zip(at, dims, strict=True)) if wrap else at)
        if cells <= free:
            found.add(frozenset(cells))
    return found


def brute_places(shape: Cell, dims: Cell, free: set[Cell], wrap: bool) -> set[frozenset[Cell]]:
    sides = [side for side in shape if side > 1]
    if len(sides) > len(dims):
        return set()
    turned = set(permutations(sides + [1] * (len(dims) - len(sides))))
    fit = [box for box in turned if all(b <= d for b, d in zip(box, dims, strict=True))]
    return set().union(*(brute_sets(dims, free, wrap, box) for box in fit)) if fit else set()


@st.composite
def meshes(draw: st.DrawFn) -> tuple[Cell, list[Cell], bool]:
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda d: prod(d) <= 64))
    busy = draw(st.lists(st.sampled_from(list(product(*map(range, dims)))), max_size=prod(dims)))
    return tuple(dims), busy, draw(st.booleans())


@given(mesh=meshes())
def test_the_largest_box_is_the_largest(mesh: tuple[Cell, list[Cell], bool]) -> None:
    dims, busy, wrap = mesh
    free = set(product(*map(range, dims))) - set(busy)
    boxes = [box for box in product(*(range(1, d + 1) for d in dims)) if brute_sets(dims, free, wrap, box)]
    found = largest(dims, busy, wrap=wrap)
    assert (found.volume if found else 0) == max(map(prod, boxes), default=0)
    if found:
        offsets = product(*map(range, found.shape))
        cells = {
            tuple((o + k) % d for o, k, d in zip(found.origin, off, dims, strict=True)) for off in offsets
        }
        assert cells <= free
        assert len(cells) == found.volume
        if not wrap:
            assert all(o + s <= d for o, s, d in zip(found.origin, found.shape, dims, strict=True))


@given(mesh=meshes(), shape=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_places_are_all_places(mesh: tuple[Cell, list[Cell], bool], shape: list[int]) -> None:
    dims, busy, wrap = mesh
    free = set(product(*map(range, dims))) - set(busy)
    expected = brute_places(tuple(shape), dims, free, wrap)
    assert places(tuple(shape), dims, busy, wrap=wrap) == len(expected)
    assert placeable(tuple(shape), dims, busy, wrap=wrap) == bool(expected)
    together = at_once(tuple(shape), dims, busy, wrap=wrap)
    assert bool(together) == bool(expected)
    assert together <= len(free) // prod(shape)
    if len(expected) <= 10:
        assert together <= most_disjoint(sorted(map(sorted, expected)))


def most_disjoint(sets: list[list[Cell]]) -> int:
    if not sets:
        return 0
    first, *rest = sets
    apart = [cells for cells in rest if not set(cells) & set(first)]
    return max(1 + most_disjoint(apart), most_disjoint(rest))


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7])
def test_a_pod_of_4096_is_fast(share: float, wrap: bool) -> None:
    source = random.Random(1)
    dims = (16, 16, 16)
    busy = [cell for cell in product(range(16), repeat=3) if source.random() < share]
    start = time.perf_counter()
    found = largest(dims, busy, wrap=wrap)
    count = places((4, 4, 4), dims, busy, wrap=wrap)
    took = time.perf_counter() - start
    assert found
    assert count >= at_once((4, 4, 4), dims, busy, wrap=wrap)
    assert took < 0.5  # a few milliseconds, on a machine that does nothing else


def test_a_box_says_where_it_is() -> None:
    assert largest(CUBE, PLANES, wrap=True) == Box((3, 0, 0), (2, 4, 4))
