"""Is a kernel computing, communicating or moving memory? Told from its arguments, its operator and its name.

The rules on names are data (`names.toml`); rules of the user go before them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import polars as pl

from mpg_cli.goodput import patterns
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLASSES = ("compute", "comm", "memory")

# Operators that wrap a collective: PyTorch's record of its arguments, and c10d's two operator namespaces.
COLLECTIVE_OPERATOR = r"^(record_param_comms$|c10d::|_c10d_functional::)"

_KEY = ("kind", "name", "category", "_has_collective", "_comm_operator")
_VERDICT = ("activity", "family", "rule")


@dataclass(frozen=True, slots=True)
class NameRule:
    """One rule: names that `pattern` matches anywhere are of class `activity` (fields: see names.toml)."""

    id: str
    activity: str
    family: str
    pattern: str
    examples: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NameRules:
    """An ordered list of rules; the first that matches decides."""

    rules: tuple[NameRule, ...]

    @classmethod
    def load(cls, user_rules: Sequence[Mapping[str, object]] = ()) -> NameRules:
        """`user_rules` (mappings with id, class, family, pattern: see names.toml), then the shipped ones.

        Raises UsageError, naming the rule, for an unknown class, a bad regular expression or a missing key.
        """
        own = tuple(_rule(entry, index) for index, entry in enumerate(user_rules, start=1))
        return cls(own + _shipped())

    def classify(self, ops: pl.DataFrame) -> pl.DataFrame:
        """`ops` with three more columns, in the same order: `activity`, `family` and `rule`, of the type of `name`.

        `ops` has columns kind (as in device_ops), name, collective (null without collective arguments), linked_op
        (null without a host operator) and maybe category (null without an XLA operation). `activity` is compute, comm,
        memory, input or other; `rule` is the id of a name rule or says in words what decided.
        """
        keyed = ops.with_columns(
            pl.col("collective").is_not_null().alias("_has_collective"),
            pl.col("linked_op")
            .str.contains(COLLECTIVE_OPERATOR)
            .fill_null(value=False)
            .alias("_comm_operator"),
        )
        # Millions of rows share a few thousand names: the regular expressions run once per name.
        if "category" not in ops.columns:
            keyed = keyed.with_columns(category=pl.lit(None, ops.schema["name"]))
        distinct = keyed.select(_KEY).unique(maintain_order=True)
        texts = distinct.with_columns(pl.col("kind", "name", "category").cast(pl.String))
        verdicts = self._decide(texts).cast(dict.fromkeys(_VERDICT, ops.schema["name"]))
        known = pl.concat([distinct, verdicts], how="horizontal")
        joined = keyed.join(known, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        return joined.select(*ops.columns, *_VERDICT)

    def _decide(self, distinct: pl.DataFrame) -> pl.DataFrame:
        """activity, family and rule for each row of `distinct`, in order."""
        matched = distinct.with_columns(self._first_match()).join(
            self._table(), on="_index", how="left", maintain_order="left"
        )
        collective = pl.when(pl.col("activity") == "comm").then("family").otherwise(pl.lit("collective"))
        verdict = (
            pl.when(kind="memcpy")
            .then(_verdict("memory", pl.lit("copy"), "copy or set record"))
            .when(kind="memset")
            .then(_verdict("memory", pl.lit("set"), "copy or set record"))
            .when(kind="infeed")
            .then(_verdict("input", pl.lit("infeed"), "infeed record"))
            .when(kind="graph")
            .then(_verdict("other", pl.lit("graph"), "graph-level row"))
            .when("_has_collective")
            .then(_verdict("comm", collective, "collective arguments"))
            .when("_comm_operator")
            .then(_verdict("comm", collective, "linked operator"))
            .when(pl.col("rule").is_null() & pl.col("category").is_not_null())
            .then(_verdict("compute", pl.col("category").cast(pl.String), "category of the XLA operation"))
            .when(pl.col("rule").is_null())
            .then(_verdict("compute", pl.lit("unknown"), "no rule"))
            .otherwise(pl.struct("activity", "family", "rule"))
        )
        return matched.select(verdict.alias("_verdict")).unnest("_verdict")

    def _first_match(self) -> pl.Expr:
        hits = (
            pl.when(pl.col("name").str.contains(rule.pattern)).then(pl.lit(index, pl.Int32))
            for index, rule in enumerate(self.rules)
        )
        return pl.coalesce(*hits).alias("_index")

    def _table(self) -> pl.DataFrame:
        rows = [(index, rule.activity, rule.family, rule.id) for index, rule in enumerate(self.rules)]
        schema = {"_index": pl.Int32, "activity": pl.String, "family": pl.String, "rule": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")


def _verdict(activity: str, family: pl.Expr, rule: str) -> pl.Expr:
    return pl.struct(pl.lit(activity).alias("activity"), family.alias("family"), pl.lit(rule).alias("rule"))


@cache
def _shipped() -> tuple[NameRule, ...]:
    text = resources.files("mpg_cli.goodput").joinpath("names.toml").read_text(encoding="utf-8")
    return tuple(_rule(entry, index) for index, entry in enumerate(tomllib.loads(text)["rule"], start=1))


def _rule(entry: Mapping[str, object], number: int) -> NameRule:
    label = f"name rule {entry.get('id') or number!r}"
    rule = NameRule(
        id=_text(entry, "id", label),
        activity=_text(entry, "class", label),
        family=_text(entry, "family", label),
        pattern=_text(entry, "pattern", label),
        examples=_texts(entry, "examples", label),
        excluded=_texts(entry, "not", label),
    )
    if rule.activity not in CLASSES:
        raise UsageError(f"{label}: class {rule.activity!r} is none of {', '.join(CLASSES)}")
    patterns.check(rule.pattern, f"{label}: bad pattern")
    return rule


def _text(entry: Mapping[str, object], key: str, label: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{label}: needs {key!r}, a text that is not empty")
    return value


def _texts(entry: Mapping[str, object], key: str, label: str) -> tuple[str, ...]:
    value = entry.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{label}: {key!r} must be a list of texts")
    return tuple(value)
