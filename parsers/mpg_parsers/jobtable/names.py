"""The canonical names of a job table's columns, their synonyms, and how names are compared (data: *.toml)."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# nanoseconds in a unit, by the words that stand at the end of a column's name or in a mapping
UNITS = {
    word: size
    for size, words in (
        (1, "ns nanos nanosecond nanoseconds"),
        (1_000, "us micros microsecond microseconds"),
        (1_000_000, "ms msec millis millisecond milliseconds"),
        (1_000_000_000, "s sec secs second seconds"),
        (60_000_000_000, "min mins minute minutes"),
        (3_600_000_000_000, "h hr hrs hour hours"),
        (86_400_000_000_000, "d day days"),
    )
    for word in words.split()
}
# too short to be a unit at the end of a name: project_d
_NEVER_SUFFIX = ("d",)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Name:
    """A canonical name: `kind` is text, time, duration, count or nodes; synonyms are squeezed, best first."""

    name: str
    kind: str
    meaning: str
    synonyms: tuple[str, ...]


def data(file: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    text = (resources.files("mpg_parsers.jobtable") / file).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def names() -> dict[str, Name]:
    """All canonical names, in the order in which they claim columns."""
    return {
        name: Name(
            name, entry["kind"], entry["meaning"], tuple(dict.fromkeys(map(squeezed, entry["synonyms"])))
        )
        for name, entry in data("names.toml").items()
    }


@cache
def states() -> dict[str, str]:
    """Slurm's bare word for each word that is known, squeezed."""
    return {word: state for state, words in data("states.toml").items() for word in words}


def squeezed(text: str) -> str:
    """`text` in lower case, letters and digits only."""
    return "".join(character for character in text.casefold() if character.isalnum())


def without_unit(column: str) -> tuple[str, str]:
    """A column's name, squeezed, without the unit at its end, and that unit: durationMs → duration, ms."""
    words = [word.casefold() for word in _WORDS.findall(column)]
    if len(words) > 1 and words[-1] in UNITS and words[-1] not in _NEVER_SUFFIX:
        return "".join(words[:-1]), words[-1]
    return squeezed(column), ""


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    by_form = {squeezed(name): name for name in known}
    found = difflib.get_close_matches(squeezed(word), by_form, n=1, cutoff=0.6)
    return f"; did you mean {by_form[found[0]]!r}?" if found else ""
