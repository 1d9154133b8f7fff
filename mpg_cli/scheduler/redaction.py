"""Numbers in place of the names of users, accounts, jobs and nodes, the same name always getting the same number."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_cli.scheduler.records import Records

# what a column names, by table; lists and objects are JSON
TEXTS = {
    "cluster": "cluster", "user": "user", "account": "account", "name": "job name", "partition": "partition",
    "reservation": "reservation", "node": "node", "failed_node": "node", "cancelled_by": "user", "owner": "owner",
    "array": "", "raw_id": "", "job": "", "other": "",
}  # fmt: skip
LISTS = {"nodes": "node", "partitions": "partition"}
OBJECTS = {"chips_by_node": "node"}
# free texts, which may hold anything
DROPPED = ("labels", "constraints", "message", "reason_text")
SHORTEST = 3  # of a name that is looked for in messages


@dataclass
class Names:
    """Names given so far, by kind."""

    known: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, kind: str, name: str) -> str:
        """The number of a name, as `user 3`."""
        names = self.known.setdefault(kind, {})
        number = len(names) + 1
        return names.setdefault(name, f"c{number}" if kind == "cluster" else f"{kind} {number}")

    def scrubbed(self, text: str) -> str:
        """A message without any of the names that are at least SHORTEST long."""
        found = {name: alias for names in self.known.values() for name, alias in names.items()}
        long = sorted((name for name in found if len(name) >= SHORTEST), key=len, reverse=True)
        if not long:
            return text
        return re.sub("|".join(map(re.escape, long)), lambda match: found[match[0]], text)


def redacted(records: Records) -> Records:
    """The records with numbers for names; free texts and labels are dropped, file names cut to numbers."""
    names = Names()
    frames = {name: _frame(rows, names) for name, rows in records.frames().items()}
    done = records.with_frames(frames)
    paths = pl.int_range(1, pl.len() + 1).cast(pl.String)
    sources = records.sources.with_columns(path=pl.lit("file ") + paths, host=pl.lit(None, pl.String))
    olds = dict(zip(records.sources["path"], sources["path"], strict=True))
    notices = [
        Notice(n.kind, names.scrubbed(n.message), n.count, olds.get(n.source, "")) for n in records.notices
    ]
    return done.with_sources(sources.with_columns(notices=_messages(sources["notices"], names)), notices)


def _messages(texts: pl.Series, names: Names) -> pl.Series:
    """The notices of reading, without names."""
    said = []
    for text in texts:
        items = json.loads(text)
        for item in items:
            item["message"] = names.scrubbed(item["message"])
        said.append(json.dumps(items))
    return pl.Series("notices", said, dtype=pl.String)


def _frame(rows: pl.DataFrame, names: Names) -> pl.DataFrame:
    pods = _has_names(rows)
    changed = []
    for name in rows.columns:
        kind = TEXTS.get(name)
        if name in DROPPED:
            changed.append(pl.Series(name, [None], dtype=pl.String).new_from_index(0, rows.height))
        elif kind is not None and (kind or pods):
            changed.append(_mapped(rows[name], partial(names.of, kind or "job")))
        elif name in LISTS:
            changed.append(_mapped(rows[name], partial(_listed, LISTS[name], names)))
        elif name in OBJECTS:
            changed.append(_mapped(rows[name], partial(_keyed, OBJECTS[name], names)))
    return rows.with_columns(changed)


def _has_names(rows: pl.DataFrame) -> bool:
    """Whether jobs are called by names, as pods are, and not by numbers."""
    return "raw_id" in rows.columns and bool(
        rows.select((~col.raw_id.str.contains(r"^[\d_+\[\]%,-]+$")).any()).item()
    )


def _mapped(values: pl.Series, new: Callable[[str], str]) -> pl.Series:
    """Every distinct text replaced."""
    old = values.drop_nulls().unique(maintain_order=True).to_list()
    done = values.replace_strict(old, [new(text) for text in old], default=None, return_dtype=pl.String)
    return done.alias(values.name)


def _listed(kind: str, names: Names, text: str) -> str:
    return json.dumps([names.of(kind, one) for one in json.loads(text)])


def _keyed(kind: str, names: Names, text: str) -> str:
    return json.dumps({names.of(kind, key): value for key, value in json.loads(text).items()})
