from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mpg_cli.report.blocks import Plot, Point
from mpg_cli.report.plot import draw

POSITIVE = st.floats(1e-30, 1e30)
POINT = st.builds(Point, POSITIVE, POSITIVE, st.floats(0, 1), st.sampled_from(["", "a", "b"]))


def plot(*points: Point, peak: float = 1000.0, bandwidth: float = 10_000.0) -> Plot:
    """With the defaults the ridge is at 100 FLOP/byte."""
    return Plot("title", peak, bandwidth, points)


def grid(*points: Point, width: int = 70) -> list[str]:
    """The cells of the plot, top row first."""
    return [line[10:].ljust(width - 10) for line in draw(plot(*points), width, ascii_only=True)[2:16]]


def find(rows: list[str], mark: str) -> tuple[int, int]:
    """Row and column of the only `mark`."""
    found = [(row, line.index(mark)) for row, line in enumerate(rows) if mark in line]
    assert len(found) == 1
    return found[0]


def test_a_small_plot() -> None:
    small = plot(Point(10.0, 20.0, 0.3, "a"), Point(200.0, 500.0, 0.02, "b"))
    assert draw(small, 60, ascii_only=True) == [
        "title",
        " TFLOP/s",
        "   1,000 |                             _____________________",
        "         |                         _.-'",
        "         |                    _..-'             ob",
        "         |                _.-'",
        "         |           _.--'",
        "         |       _.-'",
        "         |  _.--'",
        "     100 |-'",
        "         |",
        "         |",
        "         |",
        "         |",
        "         |@a",
        "      10 |",
        "         ++----------------------------+--------------------",
        "          10                           100         FLOP/byte",
        "        share of computing:  . <1 %  o <5 %  O <20 %  @ more",
    ]


@pytest.mark.parametrize(
    ("share", "mark"), [(0.0, "."), (0.0099, "."), (0.01, "o"), (0.05, "O"), (0.2, "@"), (1.0, "@")]
)
def test_marks_grow_with_time(share: float, mark: str) -> None:
    row, column = find(grid(Point(1.0, 20.0, share, "z")), "z")
    assert grid(Point(1.0, 20.0, share, "z"))[row][column - 1] == mark


def test_twice_the_speed_is_higher_and_twice_the_intensity_is_further_right() -> None:
    rows = grid(Point(1.0, 1.0, 0.1, "a"), Point(1.0, 10.0, 0.1, "b"), Point(10.0, 10.0, 0.1, "c"))
    (low, left), (high, same), (level, right) = (find(rows, letter) for letter in "abc")
    assert (left, high) == (same, level)
    assert low > high
    assert right > left


def test_an_operator_at_its_roof_covers_it() -> None:
    """At 10 FLOP/byte the roof is 100 TFLOP/s, right of the ridge it is 1000."""
    rows = grid(Point(10.0, 100.0, 0.3, "a"), Point(1000.0, 1000.0, 0.3, "b"), Point(10.0, 1.0, 0.3, "c"))
    bare = grid(Point(10.0, 1.0, 0.3, ""), Point(1000.0, 1.0, 0.3, ""))
    for letter in "ab":
        row, column = find(rows, letter)
        assert bare[row][column - 1] in "_.-'"
    row, column = find(rows, "c")
    assert bare[row][column - 1] == "@"


def test_operators_in_one_cell_share_a_mark() -> None:
    rows = grid(Point(10.0, 20.0, 0.15, "a"), Point(10.01, 20.01, 0.15, "b"))
    row, column = find(rows, "@")
    assert rows[row][column : column + 3] == "@ab"


def test_a_letter_stands_right_of_its_own_mark_only() -> None:
    """Four marks side by side: only the last has room at its right; the others go above or below theirs."""
    cell = 1.7 / 60  # decades
    points = [Point(10 ** (1 + (i + 0.5) * cell), 20.0, 0.1, letter) for i, letter in enumerate("abcd")]
    rows = grid(*points)
    row, column = find(rows, "OOOOd")
    assert rows[row - 1][column : column + 5] == "a c  "
    assert rows[row + 1][column : column + 5] == " b   "


@pytest.mark.parametrize("width", [0, 40, 59])
def test_too_narrow(width: int) -> None:
    assert draw(plot(Point(1.0, 1.0, 0.1, "a")), width, ascii_only=False) == []


def test_without_points() -> None:
    assert draw(plot(), 100, ascii_only=False) == []


@given(st.lists(POINT, min_size=1, max_size=40), POSITIVE, POSITIVE, st.integers(60, 200), st.booleans())
def test_any_plot_keeps_its_frame(
    points: list[Point], peak: float, bandwidth: float, width: int, ascii_only: bool
) -> None:
    lines = draw(plot(*points, peak=peak, bandwidth=bandwidth), width, ascii_only=ascii_only)
    assert len(lines) == 19
    assert max(map(cell_len, lines)) <= min(width, 100)
    assert all(line.isascii() for line in lines) or not ascii_only
