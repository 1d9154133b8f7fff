"""A roofline plot in characters: attainable TFLOP/s over FLOP/byte, both logarithmic, and where the operators are."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mpg_cli.report.blocks import Plot, Point

WIDTH_LEAST = 60
WIDTH_MOST = 100
_HEIGHT = 14
_MARGIN = 8  # of the labels at the left
_DECADES = 4  # below the peak; what is slower lies on the lower edge
_SIZES = (0.01, 0.05, 0.2)  # shares of time from which a mark is larger
_MARKS = ("·▪■█", ".oO@")
# the roof within a cell by height, lowest first: rows of a Braille cell, or what comes close in ASCII
_ROOF = ("⣀⠤⠒⠉", "_.-'")


@dataclass(frozen=True, slots=True)
class _Axes:
    """Decades (log10) at the four edges, and the number of cells between them."""

    left: float
    right: float
    bottom: float
    top: float
    columns: int
    rows: int = _HEIGHT

    def column(self, intensity: float) -> int:
        share = (log10(intensity) - self.left) / (self.right - self.left)
        return min(max(floor(share * self.columns), 0), self.columns - 1)

    def height(self, tflops: float) -> float:
        """Rows above the lower edge, with the part of a row; kept inside."""
        share = (log10(tflops) - self.bottom) / (self.top - self.bottom)
        return min(max(share * self.rows, 0.0), self.rows - 1e-9)

    def row(self, tflops: float) -> int:
        return self.rows - 1 - floor(self.height(tflops))


def draw(plot: Plot, width: int, *, ascii_only: bool) -> list[str]:
    """The lines of the plot, at most `width` cells wide; none if that is too narrow or there is no point."""
    if width < WIDTH_LEAST or not plot.points:
        return []
    axes = _axes(plot, min(width, WIDTH_MOST) - _MARGIN - 2)
    grid = [[" "] * axes.columns for _ in range(axes.rows)]
    marks = _MARKS[ascii_only]
    _draw_roof(grid, axes, plot, _ROOF[ascii_only])
    _draw_points(grid, axes, plot.points, marks)
    framed = _framed(grid, axes, ascii_only=ascii_only)
    return [line.rstrip() for line in (plot.title, "TFLOP/s".rjust(_MARGIN), *framed, _key(marks))]


def _key(marks: str) -> str:
    sizes = [f"{mark} <{100 * share:.0f} %" for mark, share in zip(marks, _SIZES, strict=False)]
    return " " * _MARGIN + "  ".join(["share of computing:", *sizes, f"{marks[-1]} more"])


def _axes(plot: Plot, columns: int) -> _Axes:
    """Room for all points, the ridge and a decade beyond it, and the peak, in whole decades at the left."""
    ridge = log10(plot.ridge)
    x = [log10(point.intensity) for point in plot.points]
    peak = log10(plot.peak_tflops)
    slowest = min(log10(point.tflops) for point in plot.points)
    left = min(floor(max(min(x), ridge - _DECADES)), floor(ridge) - 1)
    right = max(min(max(x), ridge + _DECADES) + 0.2, ridge + 0.7)
    bottom = min(floor(max(slowest, peak - _DECADES)), floor(peak) - 1)
    return _Axes(left, right, bottom, peak + 0.15, columns)


def _draw_roof(grid: list[list[str]], axes: _Axes, plot: Plot, levels: str) -> None:
    step = (axes.right - axes.left) / axes.columns
    for column in range(axes.columns):
        intensity = 10 ** (axes.left + (column + 0.5) * step)
        roof = plot.peak_tflops * min(1.0, intensity / plot.ridge)
        if log10(roof) >= axes.bottom:
            part = axes.height(roof) % 1
            grid[axes.row(roof)][column] = levels[floor(part * len(levels))]


def _draw_points(grid: list[list[str]], axes: _Axes, points: Sequence[Point], marks: str) -> None:
    """Marks first, so that no letter hides one; operators in one cell share a mark."""
    cells: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        cells.setdefault((axes.row(point.tflops), axes.column(point.intensity)), []).append(point)
    for (row, column), found in cells.items():
        share = sum(point.share for point in found)
        grid[row][column] = marks[sum(share >= least for least in _SIZES)]
    taken = set(cells)
    for place, found in cells.items():
        letters = "".join(point.letter for point in found)
        if letters and (start := _free(place, len(letters), taken, axes)):
            row, column = start
            grid[row][column : column + len(letters)] = letters
            taken.update((row, column + i) for i in range(len(letters)))


def _free(
    place: tuple[int, int], length: int, taken: set[tuple[int, int]], axes: _Axes
) -> tuple[int, int] | None:
    """Where the letters of a mark fit: right of it, else above or below, but never right of another mark."""
    row, column = place
    for start, left in (((row, column + 1), 0), ((row - 1, column), 1), ((row + 1, column), 1)):
        cells = {(start[0], start[1] + i) for i in range(-left, length)}
        inside = 0 <= start[0] < axes.rows and start[1] + length <= axes.columns
        if inside and not cells & taken:
            return start
    return None


def _framed(grid: list[list[str]], axes: _Axes, *, ascii_only: bool) -> Iterable[str]:
    """The grid with its left and lower edge, and the decades along both."""
    side, tick, corner, edge, mark = "||+-+" if ascii_only else "│┤└─┴"
    decades = {axes.row(10.0**d): 10.0**d for d in _decades(axes.bottom, axes.top)}
    for row, cells in enumerate(grid):
        label = f"{decades[row]:,g}" if row in decades else ""
        yield f"{label:>{_MARGIN}} {tick if label else side}{''.join(cells)}"
    places = {axes.column(10.0**d): f"{10.0**d:,g}" for d in _decades(axes.left, axes.right)}
    yield f"{corner:>{_MARGIN + 2}}" + "".join(mark if c in places else edge for c in range(axes.columns))
    yield " " * (_MARGIN + 2) + _labels(places, axes.columns)


def _decades(low: float, high: float) -> range:
    return range(ceil(low), floor(high) + 1)


def _labels(places: dict[int, str], columns: int) -> str:
    unit = "FLOP/byte"
    line = [" "] * columns
    for column, text in places.items():
        if column + len(text) < columns - len(unit):
            line[column : column + len(text)] = text
    line[columns - len(unit) :] = unit
    return "".join(line)
