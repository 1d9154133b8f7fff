"""What host events say about an idle device: rules on names, as data (`rules.toml`), the user's before ours."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli.goodput import patterns
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KINDS = ("annotation", "op", "python", "runtime", "overhead", "device_wait")
DEFAULT_KINDS = ("annotation", "op", "python")


@dataclass(frozen=True, slots=True)
class IdleRule:
    """Host events of `kinds` whose name `pattern` finds, and `exclude` does not, claim starved time for `cause`."""

    id: str
    cause: str
    kinds: tuple[str, ...]
    pattern: str
    exclude: str | None = None
    examples: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def matches(self, name: pl.Expr) -> pl.Expr:
        """Whether the rule's patterns take a name."""
        found = name.str.contains(self.pattern)
        return found if self.exclude is None else found & ~name.str.contains(self.exclude)


@dataclass(frozen=True, slots=True)
class Limits:
    """Durations in ns; `rules.toml` says what each decides."""

    kernel_gap_ns: int
    dependency_ns: int
    unlinked_gap_ns: int
    launch_latency_ns: int
    long_call_ns: int
    long_self_ns: int
    quiet_op_ns: int


@dataclass(frozen=True, slots=True)
class IdleRules:
    """ranges: in order of priority; calls, waits (of a device, by its own word): the first that matches decides."""

    limits: Limits
    ranges: tuple[IdleRule, ...]
    calls: tuple[IdleRule, ...]
    waits: tuple[IdleRule, ...] = ()

    @classmethod
    def load(cls, user_rules: Sequence[Mapping[str, object]] = ()) -> IdleRules:
        """`user_rules` (mappings with id, cause, pattern, and optionally kinds and not), then the shipped ones.

        Raises UsageError, naming the rule, for an unknown cause or kind, a bad pattern or a missing key.
        """
        shipped = _shipped()
        own = tuple(_rule(entry, index) for index, entry in enumerate(user_rules, start=1))
        return cls(shipped.limits, own + shipped.ranges, shipped.calls, shipped.waits)

    def range_of(self, names: pl.DataFrame) -> pl.DataFrame:
        """`names` (kind, name: distinct) that a range rule takes, with `slot`, the rule's place in `ranges`."""
        hits = (
            pl.when(pl.col("kind").is_in(list(rule.kinds)) & rule.matches(pl.col("name"))).then(
                pl.lit(slot, pl.Int32)
            )
            for slot, rule in enumerate(self.ranges)
        )
        return names.with_columns(slot=pl.coalesce(*hits)).filter(pl.col("slot").is_not_null())

    def cause_of_call(self, calls: pl.DataFrame) -> pl.DataFrame:
        """name and called, the cause of the first call rule that takes it: of the names in `calls` that one takes."""
        return _called(calls, self.calls)

    def cause_of_wait(self, waits: pl.DataFrame) -> pl.DataFrame:
        """The same for what devices say that they wait for."""
        return _called(waits, self.waits)


def _called(events: pl.DataFrame, rules: Sequence[IdleRule]) -> pl.DataFrame:
    text = pl.col("name").cast(pl.String)
    called = (pl.when(rule.matches(text)).then(pl.lit(rule.cause)) for rule in rules)
    return events.select("name").unique().with_columns(called=pl.coalesce(*called)).drop_nulls()


@cache
def _shipped() -> IdleRules:
    text = resources.files("mpg_cli.goodput.idle").joinpath("rules.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    ranges = tuple(_rule(entry, index) for index, entry in enumerate(data["rule"], start=1))
    return IdleRules(
        Limits(**data["limits"]),
        ranges,
        _of_kind(data, "call", "runtime"),
        _of_kind(data, "wait", "device_wait"),
    )


def _of_kind(data: Mapping[str, Any], table: str, kind: str) -> tuple[IdleRule, ...]:
    """The rules of a table that are all of one kind of event."""
    return tuple(_rule(entry | {"kinds": [kind]}, index) for index, entry in enumerate(data[table], start=1))


def _rule(entry: Mapping[str, Any], number: int) -> IdleRule:
    label = f"idle rule {entry.get('id') or number!r}"
    rule = IdleRule(
        id=_text(entry, "id", label),
        cause=_text(entry, "cause", label),
        kinds=_texts(entry, "kinds", label) or DEFAULT_KINDS,
        pattern=_text(entry, "pattern", label),
        exclude=_text(entry, "not", label) if "not" in entry else None,
        examples=_texts(entry, "examples", label),
        excluded=_texts(entry, "excluded", label),
    )
    _check(rule, label)
    return rule


def _check(rule: IdleRule, label: str) -> None:
    causes = [cause.id for cause in load_taxonomy().causes.values() if cause.layer == "runtime"]
    if rule.cause not in causes:
        raise UsageError(f"{label}: cause {rule.cause!r} is none of {', '.join(causes)}")
    if unknown := set(rule.kinds) - set(KINDS):
        raise UsageError(f"{label}: kind {min(unknown)!r} is none of {', '.join(KINDS)}")
    for pattern in filter(None, (rule.pattern, rule.exclude)):
        patterns.check(pattern, f"{label}: bad pattern")


def _text(entry: Mapping[str, Any], key: str, label: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{label}: needs {key!r}, a text that is not empty")
    return value


def _texts(entry: Mapping[str, Any], key: str, label: str) -> tuple[str, ...]:
    value = entry.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{label}: {key!r} must be a list of texts")
    return tuple(value)
