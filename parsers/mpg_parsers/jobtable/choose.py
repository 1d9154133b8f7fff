"""Which column of a file holds what: what the user says, then a shipped mapping, then synonyms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError
from mpg_parsers.jobtable.mapping import EXAMPLE, Mapping, checked, shipped
from mpg_parsers.jobtable.names import names, near, squeezed, without_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHOWN = 40  # columns in a message
PRODUCT, FIRST = "*", "|"
# what makes a start, and what an end, best first
PLACES = (("start",), ("submit", "wait"), ("end", "run"), ("instant",), ("submit",))
COUNTS = (("chips",), ("chips_requested",), ("chips_per_node", "nodes"))


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns of the file that give one value: one, a product of several (`*`), or the first that says it (`|`)."""

    columns: tuple[str, ...]
    how: str = ""


@dataclass(slots=True)
class Plan:
    """What to read: `name` is the mapping's, empty if there is none; `place` what a run's start is made of."""

    name: str = ""
    columns: dict[str, Reference] = field(default_factory=dict)
    labels: dict[str, Reference] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    notice: str = ""

    def has(self, *wanted: str) -> bool:
        """All of these can be known."""
        return all(name in self.columns or name in self.constants for name in wanted)

    @property
    def place(self) -> str:
        """What a run's start is: start, or instant or submit where nothing tells the start; empty if nothing does."""
        found = next((names for names in PLACES if self.has(*names)), ())
        return "" if not found else "start" if len(found) > 1 else found[0]

    @property
    def needed(self) -> list[str]:
        """The columns of the file that are read."""
        references = (*self.columns.values(), *self.labels.values())
        return list(dict.fromkeys(column for reference in references for column in reference.columns))

    def lacks(self) -> list[str]:
        """What a table of jobs must have, and this one does not; empty if nothing."""
        chips = any(self.has(*names) for names in COUNTS)
        end = self.has("end") or self.has("run")
        return [
            text
            for there, text in (
                (chips, "chips (accelerators of a job)"),
                (self.place, "start (when a job started)"),
                (end, "end or run (when it ended, or how long it ran)"),
            )
            if not there
        ]


def choose(columns: Sequence[str], pairs: Iterable[tuple[str, str]], path: str) -> Plan:
    """The plan for a file with these columns.

    Raises UsageError for pairs that mean nothing; InputError unsupported_format if the file lacks a column that
    the user named, or columns without which it is no table of jobs.
    """
    pairs = tuple(pairs)
    checked(pairs)
    plan = plan_for(columns, pairs, path)
    if missing := plan.lacks():
        raise _no_jobs(columns, missing, path)
    return plan


def plan_for(columns: Sequence[str], pairs: Sequence[tuple[str, str]] = (), path: str = "") -> Plan:
    """The plan, complete or not. Raises InputError unsupported_format as `choose`."""
    plan = Plan()
    for key, value in pairs:
        if key != "mapping":
            _add(plan, key, value, columns, path)
    said = set(plan.columns)
    mapping = _mapping(columns, pairs)
    if mapping:
        plan.name, plan.notice = mapping.name, mapping.notice
        for key, value in mapping.pairs:
            _add_default(plan, key, value, columns)
    _add_synonyms(plan, columns, said)
    return plan


def _mapping(columns: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Mapping | None:
    """The mapping the user names, else the one with the longest signature of those that fit."""
    named = [value for key, value in pairs if key == "mapping"]
    if named:
        return shipped()[named[-1]]
    there = set(columns)
    fitting = [m for m in shipped().values() if m.signature and there.issuperset(m.signature)]
    return max(fitting, key=lambda mapping: len(mapping.signature), default=None)


def _add(plan: Plan, key: str, value: str, columns: Sequence[str], path: str) -> None:
    section, dot, name = key.partition(".")
    if key == "missing":
        plan.missing.add(value.casefold())
    elif not dot:
        plan.columns[key] = _reference(key, value, columns, path)
        plan.constants.pop(key, None)
        _take_unit(plan, key)
    elif section == "label":
        plan.labels[name] = _reference(key, value, columns, path)
    else:
        {"unit": plan.units, "state": plan.states, "constant": plan.constants}[section][
            squeezed(name) if section == "state" else name
        ] = value


def _add_default(plan: Plan, key: str, value: str, columns: Sequence[str]) -> None:
    """A pair of a shipped mapping: it yields to what the user says, and to what the file lacks."""
    section, dot, name = key.partition(".")
    if key == "missing":
        plan.missing.add(value.casefold())
    elif not dot or section == "label":
        known = plan.labels if dot else plan.columns
        reference = _found(value, columns)
        if reference and (name if dot else key) not in known and not (not dot and key in plan.constants):
            known[name if dot else key] = reference
            _take_unit(plan, key)
    elif section == "state":
        plan.states.setdefault(squeezed(name), value)
    elif section == "unit":
        plan.units[name] = plan.units.get(name, value)
    elif name not in plan.columns:
        plan.constants.setdefault(name, value)


def _take_unit(plan: Plan, key: str) -> None:
    """The unit that the column's own name ends in, unless one is said."""
    if key in plan.columns and names()[key].kind in ("time", "duration"):
        units = {without_unit(column)[1] for column in plan.columns[key].columns} - {""}
        if len(units) == 1:
            plan.units.setdefault(key, units.pop())


def _add_synonyms(plan: Plan, columns: Sequence[str], said: set[str]) -> None:
    taken = set(plan.needed)
    for name, entry in names().items():
        if plan.has(name) or (name == "instant" and plan.has("start")):
            continue
        timed = entry.kind in ("time", "duration")
        forms: dict[str, str] = {}
        for column in columns:
            if column not in taken:
                forms.setdefault(without_unit(column)[0] if timed else squeezed(column), column)
                if timed:
                    forms.setdefault(squeezed(column), column)
        found = next((forms[synonym] for synonym in entry.synonyms if synonym in forms), None)
        if found is not None and not _said_otherwise(name, said):
            plan.columns[name] = Reference((found,))
            taken.add(found)
            _take_unit(plan, name)


def _said_otherwise(name: str, said: set[str]) -> bool:
    """The user's own columns for chips leave no room for another guess of them."""
    groups = ({"chips", "chips_requested", "chips_per_node"}, {"start", "instant"})
    return name in ("chips", "chips_per_node", "instant") and any(name in g and said & g for g in groups)


def _found(value: str, columns: Sequence[str]) -> Reference | None:
    """The columns that `value` names; None if the file lacks one (of a|b: all)."""
    if value in columns:
        return Reference((value,))
    if FIRST in value:
        there = tuple(part.strip() for part in value.split(FIRST) if part.strip() in columns)
        return Reference(there, FIRST) if there else None
    parts = tuple(part.strip() for part in value.split(PRODUCT))
    return Reference(parts, PRODUCT) if len(parts) > 1 and set(parts) <= set(columns) else None


def _reference(key: str, value: str, columns: Sequence[str], path: str) -> Reference:
    reference = _found(value, columns)
    if reference is None:
        message = f"--map {key}={value}: the file has no such column{near(value, columns)}"
        raise InputError("unsupported_format", path, message, hint=f"its columns are: {listed(columns)}")
    return reference


def _no_jobs(columns: Sequence[str], missing: list[str], path: str) -> InputError:
    message = f"not a table of jobs: no column is known to be {', '.join(missing)}; it has: {listed(columns)}"
    hint = f"say which column is which, e.g. {EXAMPLE}; see docs/job_tables.md"
    return InputError("unsupported_format", path, message, hint=hint)


def listed(columns: Sequence[str]) -> str:
    """The columns for a message, long names and many columns cut."""
    shown = ", ".join(column[:60] for column in columns[:SHOWN])
    return f"{shown}, … ({len(columns)} in all)" if len(columns) > SHOWN else shown
