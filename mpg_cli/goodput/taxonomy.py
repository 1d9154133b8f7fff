"""The causes that chip-time is charged to, read from taxonomy.toml."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")

LAYERS = ("scheduling", "runtime", "program")
KILLERS = ("communication_wait", "data_starvation", "failure_restart", "algorithmic_inefficiency", "none")


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `killer` is the practitioner's name for the family it belongs to, or "none".

    `measured`: how mpg measures it, in one to three sentences, or that it does not yet.
    """

    id: str
    layer: str
    label: str
    meaning: str
    measured: str
    look_at: str
    fixes: tuple[str, ...]
    owner: str
    killer: str


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """All causes by id, in display order; a view maps the causes it moves to the layer it moves them to."""

    causes: Mapping[str, Cause]
    views: Mapping[str, Mapping[str, str]]

    def cause(self, cause_id: str) -> Cause:
        """The cause with this id; KeyError with the nearest known id otherwise."""
        return _look_up(self.causes, cause_id, "cause")

    def layer(self, cause_id: str, view: str = "default") -> str:
        """The layer that `view` puts the cause into; KeyError if either is unknown."""
        return _look_up(self.views, view, "view").get(cause_id) or self.cause(cause_id).layer


@cache
def load_taxonomy() -> Taxonomy:
    """The taxonomy shipped with mpg."""
    text = resources.files("mpg_cli.goodput").joinpath("taxonomy.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    causes = {name: _cause(name, fields) for name, fields in data["causes"].items()}
    views = {name: MappingProxyType(moved) for name, moved in data["views"].items()}
    return Taxonomy(MappingProxyType(causes), MappingProxyType(views))


def _cause(cause_id: str, fields: dict[str, Any]) -> Cause:
    return Cause(id=cause_id, **{**fields, "fixes": tuple(fields["fixes"])})


def _look_up(known: Mapping[str, _T], name: str, what: str) -> _T:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    raise KeyError(f"unknown {what} {name!r}; {hint}")
