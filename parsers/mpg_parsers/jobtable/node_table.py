"""Tables of nodes: an inventory, and with a start or an end in it the capacity over time."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_parsers.errors import InputError
from mpg_parsers.jobtable import report, values
from mpg_parsers.jobtable.names import data, squeezed, without_unit
from mpg_parsers.jobtable.node_lists import node_list
from mpg_parsers.jobtable.table import BROKEN, LINE, count_bad
from mpg_parsers.scheduler_tables import CAPACITY, NODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpg_parsers.jobtable.table import Table

# what may as well be the name of a job: with times in the table it is
NO_NODE = ("name", "instance")
Batch = tuple[str, pl.DataFrame]


@cache
def _words() -> dict[str, Any]:
    return data("nodes.toml")


def columns_of(columns: Sequence[str]) -> dict[str, str]:
    """The column of each thing that is known of nodes."""
    forms: dict[str, str] = {}
    for named in columns:
        forms.setdefault(squeezed(named), named)
        forms.setdefault(without_unit(named)[0], named)
    found, taken = dict[str, str](), set[str]()
    for name, synonyms in _words().items():
        if name in ("states", "job_only"):
            continue
        column = next(
            (forms[s] for s in map(squeezed, synonyms) if s in forms and forms[s] not in taken), None
        )
        if column is not None:
            found[name] = column
            taken.add(column)
    return found


def is_one(columns: Sequence[str]) -> bool:
    """The table has nodes and their chips, and nothing that only jobs have."""
    found = columns_of(columns)
    if not {"node", "chips"} <= found.keys():
        return False
    if squeezed(found["node"]) in NO_NODE and {"start", "end"} & found.keys():
        return False
    jobs = set(map(squeezed, _words()["job_only"]))
    return not any(squeezed(column) in jobs or without_unit(column)[0] in jobs for column in columns)


def batches(table: Table, tz: str, path: str) -> Iterator[Batch]:
    """Batches of nodes, of capacity if there are times, then sources. Raises InputError no_jobs for an empty table."""
    found, clock, bad, first = columns_of(table.columns), values.Clock(tz), Counter[str](), dict[str, int]()
    timed, rows, seen = bool({"start", "end"} & found.keys()), 0, list[pl.DataFrame]()
    hull: list[int] = []
    for piece in table.read(list(found.values())):
        rows += piece.height
        kept = _kept(_values(piece, found, clock), bad, first)
        seen.append(kept)
        if timed:
            hull += [
                ns
                for name in ("start", "end")
                for ns in (kept[name].min(), kept[name].max())
                if isinstance(ns, int)
            ]
            capacity = kept.with_columns(start_ns="start", end_ns="end", state=col("state").fill_null("up"))
            yield "capacity", CAPACITY.conform(capacity)
    if not rows:
        raise InputError("no_jobs", path, "the table has no rows", hint="was everything exported?")
    latest = pl.concat(seen).unique("node", keep="last", maintain_order=True)
    yield "nodes", NODES.conform(latest)
    times = {"first_ns": min(hull, default=None), "last_ns": max(hull, default=None)}
    notices = [*table.notices, *report.bad_rows(bad, first)]
    yield (
        "sources",
        report.row("nodes", rows, notices, naive_time=report.naive(clock, relative=False), **times),
    )


def _values(piece: pl.DataFrame, found: dict[str, str], clock: values.Clock) -> pl.DataFrame:
    """The columns of nodes and capacity, and `wrong`: why a row cannot be used."""
    none = pl.repeat(None, piece.height, dtype=pl.String, eager=True)
    text = {
        name: values.cleaned(piece[column], set())
        for name, column in found.items()
        if name not in ("start", "end")
    }
    chips = values.counts(text["chips"], values.MOST_CHIPS)
    times, bad = dict[str, pl.Series](), {"chips": chips.bad}
    for name in ("start", "end"):
        read = values.instants(piece[found[name]], set(), name, "", clock) if name in found else None
        times[name] = read.values if read else none.cast(pl.Int64)
        if read:
            bad[name] = read.bad
    frame = pl.DataFrame(
        {
            **{name: text.get(name, none) for name in ("node", "chip_type", "cluster", "reason")},
            "partitions": text["partition"].map_elements(_partitions, return_dtype=pl.String)
            if "partition" in text
            else none,
            "state": _states(text["state"]) if "state" in text else none,
            "chips": chips.values,
            **times,
            LINE: piece[LINE],
            BROKEN: piece[BROKEN],
            **{f"bad.{name}": cells for name, cells in bad.items()},
        }
    )
    return frame.with_columns(wrong=_wrong(bad))


def _wrong(bad: dict[str, pl.Series]) -> pl.Expr:
    what = {"chips": "a number"}
    reasons = [
        (col(BROKEN).is_not_null(), col(BROKEN)),
        *((col(f"bad.{name}"), pl.lit(f"{name} is not {what.get(name, 'a time')}")) for name in bad),
        (col("node").is_null(), pl.lit("it names no node")),
        (col("chips") < 0, pl.lit("chips are negative")),
        (col("end") < col("start"), pl.lit("it ends before it starts")),
    ]
    return pl.coalesce(pl.when(test).then(why) for test, why in reasons)


def _kept(frame: pl.DataFrame, bad: Counter[str], first: dict[str, int]) -> pl.DataFrame:
    count_bad(frame.select(LINE, why="wrong"), bad, first)
    return frame.filter(col("wrong").is_null())


def _partitions(text: str) -> str:
    return json.dumps(node_list(text))


def _states(text: pl.Series) -> pl.Series:
    """Words of the file in those of NODE_STATES; null for others."""
    known = {word: state for state, words in _words()["states"].items() for word in words}
    # idle*, mixed+drain: Slurm marks what more there is to say; the graver word is the last
    meant = {
        word: next((known[w] for w in map(squeezed, reversed(word.split("+"))) if w in known), None)
        for word in text.unique().drop_nulls()
    }
    return text.replace_strict(meant, return_dtype=pl.String) if meant else text
