"""Mappings: which column of a file holds what, as pairs of texts.

    (canonical name, column)        also a*b (the product of two columns) and a|b (the first that says anything)
    ("label.NAME", column)          becomes a label
    ("unit.NAME", unit)             of the numbers in it: ns, us, ms, s, min, h, d
    ("state.WORD", STATE)           what the file's word for a state means
    ("constant.NAME", value)        the same for all rows
    ("missing", text)               stands for "not known" in any column
    ("mapping", name)               all pairs of a mapping that comes with mpg

A mapping file says the same in TOML: see `mappings/`, or docs/job_tables.md.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpg_parsers.errors import UsageError
from mpg_parsers.jobtable.names import UNITS, names, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Pairs = tuple[tuple[str, str], ...]
# sections of a mapping file, and what their keys become
SECTIONS = {"columns": "", "units": "unit.", "states": "state.", "constants": "constant."}
KEYS = ("title", "signature", "notice", "missing", *SECTIONS)
CONSTANTS = ("text", "count")
EXAMPLE = "--map chips=gpus --map start=began --map end=ended"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping: taken for a file that has all columns of `signature`; `notice` is said of every such file."""

    name: str
    title: str
    signature: tuple[str, ...]
    pairs: Pairs
    notice: str = ""


@cache
def shipped() -> dict[str, Mapping]:
    """The mappings that come with mpg, by name."""
    folder = resources.files("mpg_parsers.jobtable") / "mappings"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda f: f.name)
    texts = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in files}
    return {name: _mapping(name, tomllib.loads(text)) for name, text in texts.items()}


def read_mapping(path: Path) -> Pairs:
    """The pairs of a mapping file. Raises UsageError: not there, no TOML, or a key that means nothing."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"--map {path}: cannot be read: {error.strerror or error}"
        raise UsageError(message, hint="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = 'a mapping has lines such as chips = "num_gpus" under [columns]; see docs/job_tables.md'
        raise UsageError(f"--map {path}: not TOML: {error}"[:300], hint=hint) from error
    mapping = _mapping(str(path), content)
    checked(mapping.pairs)
    return mapping.pairs


def from_flags(values: Sequence[str]) -> Pairs:
    """The pairs that the values of `--map` mean: NAME=COLUMN, a path that ends in .toml, or a shipped mapping's name.

    Of what is said twice, what is said later counts. Raises UsageError.
    """
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, separator, column = value.partition("=")
        if separator and not value.endswith(".toml"):
            pairs.append((name.strip(), column.strip()))
        elif value.endswith(".toml"):
            pairs += read_mapping(Path(value).expanduser())
        elif value in shipped():
            pairs.append(("mapping", value))
        else:
            known = ", ".join(shipped())
            hint = f"give NAME=COLUMN ({EXAMPLE}), a file that ends in .toml, or one of: {known}"
            raise UsageError(f"--map {value}: no such mapping{near(value, shipped())}", hint=hint)
    checked(pairs)
    return tuple(pairs)


def checked(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError for the first pair that means nothing."""
    for key, value in pairs:
        problem = _problem(key, value)
        if problem:
            hint = f"names are: {', '.join(names())}, label.NAME; see docs/job_tables.md"
            raise UsageError(f"--map {key}={value}: {problem}", hint=hint)


def _problem(key: str, value: str) -> str:
    section, dot, name = key.partition(".")
    if not value and section not in ("missing", "state"):
        return "nothing after the ="
    if key == "mapping":
        return "" if value in shipped() else f"no such mapping{near(value, shipped())}"
    if key in ("missing", *names()):
        return ""
    if dot and name and section in ("label", "state"):
        return ""
    if dot and section in ("unit", "constant"):
        return _problem_of_name(section, name, value)
    return f"no column of a job table is called {key!r}{near(key, names())}"


def _problem_of_name(section: str, name: str, value: str) -> str:
    if name not in names():
        return f"no column of a job table is called {name!r}{near(name, names())}"
    kind = names()[name].kind
    if section == "constant":
        if kind == "count" and not value.isdecimal():
            return f"{name} is a whole number"
        return "" if kind in CONSTANTS else f"{name} cannot be the same for all rows"
    if kind not in ("time", "duration"):
        return f"{name} has no unit"
    return "" if value in UNITS else f"no unit {value!r}; units are ns, us, ms, s, min, h and d"


def _mapping(name: str, content: dict[str, Any]) -> Mapping:
    for key in content:
        if key not in KEYS:
            hint = f"keys are: {', '.join(KEYS)}"
            raise UsageError(f"mapping {name}: unknown key {key!r}{near(key, KEYS)}", hint=hint)
    pairs: list[tuple[str, str]] = []
    for section, prefix in SECTIONS.items():
        entries = content.get(section, {})
        if not isinstance(entries, dict):
            hint = f"write [{section}] and lines of name = value below it"
            raise UsageError(f"mapping {name}: {section} is not a table", hint=hint)
        pairs += [(f"{prefix}{key}", _text(name, key, value)) for key, value in entries.items()]
    pairs += [("missing", text) for text in _texts(name, "missing", content)]
    signature = _texts(name, "signature", content)
    title, notice = (_text(name, key, content.get(key, "")) for key in ("title", "notice"))
    return Mapping(name, title, signature, tuple(pairs), notice)


def _texts(mapping: str, key: str, content: dict[str, Any]) -> tuple[str, ...]:
    values = content.get(key, [])
    if not isinstance(values, list):
        raise UsageError(f"mapping {mapping}: {key} is not a list", hint=f'write {key} = ["…", "…"]')
    return tuple(_text(mapping, key, value) for value in values)


def _text(mapping: str, key: str, value: object) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"mapping {mapping}: {key} is neither text nor a number", hint=f'write {key} = "…"')
