"""Rows with a field too many, because a user's text has the delimiter in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpg_parsers.slurm.fields import FREE, LISTS, MAYBE_FREE, fits, likely

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST_EXTRA = 200
MOST_READINGS = 200
LONGEST = 1 << 16  # characters of a row that is looked at


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table. `free` may hold delimiters, `maybe` seldom do; `fits` says what can stand where."""

    names: tuple[str, ...]
    delimiter: str
    free: frozenset[str] = FREE
    maybe: frozenset[str] = MAYBE_FREE
    fits: Callable[[str, str], bool] = fits
    likely: Callable[[Mapping[str, str]], int] = likely

    def repaired(self, row: str) -> list[str] | None:
        """The fields of a row with too many, if only one reading fits the columns of a known kind; of texts of
        the user that could be divided in several ways, "". None if there is no reading, or there are several.
        """
        parts = row.split(self.delimiter) if len(row) <= LONGEST else []
        extra = len(parts) - len(self.names)
        if not 0 <= extra <= MOST_EXTRA:
            return None
        free = self.free | (LISTS if self.delimiter == "," else frozenset())
        for wide in (free, free | self.maybe):
            readings = self._readings(parts, wide)
            if readings:
                return self._agreed(readings, wide)
        return None

    def _readings(self, parts: Sequence[str], wide: frozenset[str]) -> list[list[str]]:
        """Some of the ways to give the parts to the columns, of which the `wide` may take several."""
        dead: set[tuple[int, int]] = set()
        found: list[list[str]] = []

        def walk(column: int, at: int, fields: list[str]) -> bool:
            if column == len(self.names):
                found.append(fields)
                return True
            if (column, at) in dead or len(found) >= MOST_READINGS:
                return False
            reached = False
            for text, after in self._choices(parts, column, at, wide):
                reached |= walk(column + 1, after, [*fields, text])
            if not reached:
                dead.add((column, at))
            return reached

        walk(0, 0, [])
        return found

    def _choices(
        self, parts: Sequence[str], column: int, at: int, wide: frozenset[str]
    ) -> Iterator[tuple[str, int]]:
        """Texts that the column may have if it begins at part `at`, each with where the next begins."""
        name, after = self.names[column], len(self.names) - column - 1
        spare = len(parts) - at - 1 - after
        takes = range(1 if name not in wide else spare + 1)
        last = column == len(self.names) - 1
        for more in takes:
            if last and more != spare:
                continue
            text = self.delimiter.join(parts[at : at + 1 + more])
            if self.fits(name, text):
                yield text, at + 1 + more

    def _agreed(self, readings: list[list[str]], wide: frozenset[str]) -> list[str] | None:
        """What all readings have in common; None if they differ in more than texts of the user."""
        if len(readings) > 1:
            scores = [self.likely(dict(zip(self.names, fields, strict=True))) for fields in readings]
            readings = [
                fields for fields, score in zip(readings, scores, strict=True) if score == max(scores)
            ]
        fields = list[str]()
        for number, name in enumerate(self.names):
            texts = {reading[number] for reading in readings}
            if len(texts) > 1 and name not in wide - LISTS:
                return None
            fields.append(texts.pop() if len(texts) == 1 else "")
        return fields if len(readings) < MOST_READINGS else None
