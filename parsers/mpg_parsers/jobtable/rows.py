"""Rows of a table of jobs into rows of `attempts`: times derived, states in Slurm's words, bad rows left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.jobtable import values
from mpg_parsers.jobtable.names import names, squeezed, states
from mpg_parsers.jobtable.node_lists import as_json, chips_by_node
from mpg_parsers.jobtable.table import BROKEN, LINE, count_bad
from mpg_parsers.scheduler_tables import ATTEMPTS, RECORD_KINDS

if TYPE_CHECKING:
    from mpg_parsers.jobtable.choose import Plan, Reference

# states of which a start must be known, and an end once it has started
RAN = ("COMPLETED", "TIMEOUT")
OVER = (*RAN, "FAILED", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED")
# a cell of these that cannot be read costs the row; of others only the value
NEEDED = ("start", "instant", "end", "run", "chips")
TIMES = ("submit", "eligible", "start", "end", "instant")
TOLERANCE = 1_000_000_000  # ns by which a duration and two instants may differ: files round to seconds
CANCELLED_BY = r"(?i)^cancell?ed by (\S+)"


@dataclass(slots=True)
class Tally:
    """What was found over all rows: how many, the first line of it, the hull of the times."""

    rows: int = 0
    kept: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: dict[str, int] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int | None = None


class Rows:
    """Makes `attempts` of the pieces of one table. `mark` tells rows without an id of one file from another's."""

    def __init__(self, plan: Plan, tz: str, mark: bytes) -> None:
        self.plan = plan
        self.clock = values.Clock(tz)
        self.tally = Tally()
        self._seen = pl.Series("key", [], pl.UInt64)
        self._mark = hashlib.sha256(mark).hexdigest()[:8]

    def take(self, piece: pl.DataFrame) -> pl.DataFrame:
        """The attempts of a piece, those of bad rows left out and counted."""
        read, bad = self._values(piece)
        read = self._derived(read)
        wrong = self._wrong(read, bad)
        count_bad(read.select(LINE, why=wrong), self.tally.bad, self.tally.first_bad)
        kept = read.filter(wrong.is_null())
        self.tally.rows += piece.height
        self.tally.kept += kept.height
        self._compare(kept)
        self._span(kept)
        return ATTEMPTS.conform(self._named(kept))

    # ---------------------------------------------------------------- cells

    def _cells(self, piece: pl.DataFrame, reference: Reference) -> pl.Series:
        """The one column, the product of several, or the first that says anything."""
        if len(reference.columns) == 1:
            return piece[reference.columns[0]]
        texts = [values.cleaned(piece[column], self.plan.missing) for column in reference.columns]
        if reference.how == "|":
            return pl.select(pl.coalesce(*texts)).to_series()
        return values.product(texts)

    def _values(self, piece: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, pl.Series]]:
        """A column for every name the plan has, and which cells of those that are needed cannot be read."""
        read, bad = {LINE: piece[LINE], BROKEN: piece[BROKEN]}, dict[str, pl.Series]()
        for name, reference in self.plan.columns.items():
            found = self._read(name, self._cells(piece, reference))
            read[name] = found.values
            if name in NEEDED:
                bad[name] = found.bad
            elif count := int(found.bad.sum()):
                self.tally.unread[name] += count
        for label, reference in self.plan.labels.items():
            read[f"label.{label}"] = values.cleaned(self._cells(piece, reference), self.plan.missing)
        frame = pl.DataFrame({name: series.alias(name) for name, series in read.items()})
        fixed = {
            name: pl.lit(value) if names()[name].kind == "text" else pl.lit(_whole(value), pl.Int64)
            for name, value in self.plan.constants.items()
        }
        return frame.with_columns(**fixed), bad

    def _read(self, name: str, cells: pl.Series) -> values.Read:
        kind, unit = names()[name].kind, self.plan.units.get(name, "")
        if kind == "time":
            return values.instants(cells, self.plan.missing, name, unit, self.clock)
        if kind == "duration":
            return values.durations(cells, self.plan.missing, unit)
        text = values.cleaned(cells, self.plan.missing)
        if kind == "count":
            if name.startswith("chips"):
                self.tally.odd["fractional"] += values.fractional(text)
                return values.counts(text, values.MOST_CHIPS)
            return values.counts(text)
        return values.Read(text, pl.repeat(value=False, n=len(text), eager=True))

    # -------------------------------------------------------------- derived

    def _derived(self, read: pl.DataFrame) -> pl.DataFrame:
        """With submit, start, end and chips as far as they follow from each other."""
        absent = [
            name for name in (*TIMES, "run", "wait", "chips", "chips_requested") if name not in read.columns
        ]
        read = read.with_columns(pl.lit(None, pl.Int64).alias(name) for name in absent)
        read = read.with_columns(state=self._state(read), cancelled_by=self._canceller(read))
        read = self._nodes(read)
        read = self._placed(read)
        return self._chips(read)

    def _state(self, read: pl.DataFrame) -> pl.Series:
        if "state" not in read.columns:
            return pl.repeat(None, read.height, dtype=pl.String, eager=True)
        own, known = self.plan.states, states()
        words = read["state"].unique().drop_nulls().to_list()
        meant = {
            word: own.get(squeezed(word)) or known.get(_word(word)) or _word(word).upper() for word in words
        }
        return read["state"].replace_strict(meant, return_dtype=pl.String) if meant else read["state"]

    def _canceller(self, read: pl.DataFrame) -> pl.Series:
        if "state" not in read.columns:
            return pl.repeat(None, read.height, dtype=pl.String, eager=True)
        return read["state"].str.extract(CANCELLED_BY, 1)

    def _placed(self, read: pl.DataFrame) -> pl.DataFrame:
        over = ~col("state").is_in(["RUNNING", "PENDING", "SUSPENDED"]).fill_null(value=False)
        waits = ~(col("state") == "PENDING").fill_null(value=False)
        start = pl.coalesce(
            "start", pl.when(waits).then(pl.coalesce(col("submit") + col("wait"), col("end") - col("run")))
        )
        submit = pl.coalesce("submit", col("start") - col("wait"))
        if self.plan.place == "instant":
            start = pl.coalesce(start, pl.when(waits).then("instant"))
        if self.plan.place == "submit":  # a wait of 0 would be a guess
            start, submit = pl.when(waits).then("submit"), pl.lit(None, pl.Int64)
        read = read.with_columns(start_ns=start, submit_ns=submit)
        so_far = pl.coalesce("end", col("start_ns") + col("run"))
        end = pl.coalesce("end", pl.when(over).then(col("start_ns") + col("run")))
        return read.with_columns(end_ns=end, latest_ns=so_far)

    def _nodes(self, read: pl.DataFrame) -> pl.DataFrame:
        if "nodes" not in read.columns:
            return read
        number = values.counts(read["nodes"])
        lists = read["nodes"].set(~number.bad, None)
        meant = {text: as_json(text) for text in lists.unique().drop_nulls()}
        nodes = lists.replace_strict(meant, return_dtype=pl.String) if meant else lists.cast(pl.String)
        # the count of commas would be wrong for names with commas, which no node has
        length = nodes.str.count_matches('",', literal=True).cast(pl.Int64) + 1
        return read.with_columns(
            nodes=nodes, node_count=pl.select(pl.coalesce(number.values, length)).to_series()
        )

    def _chips(self, read: pl.DataFrame) -> pl.DataFrame:
        """Chips of those that started, 0 of those that never did; of these, what they asked for is kept."""
        stated = col("chips")
        if "chips_per_node" in read.columns and "node_count" in read.columns:
            stated = pl.coalesce("chips", col("chips_per_node") * col("node_count"))
        started = col("start_ns").is_not_null()
        asked = pl.when(started).then("chips_requested").otherwise(pl.coalesce("chips_requested", stated))
        held = pl.coalesce(stated, "chips_requested")
        read = read.with_columns(chips=pl.when(started).then(held).otherwise(0), chips_requested=asked)
        if {"chips_per_node", "nodes"} <= set(read.columns) and "chips_by_node" not in read.columns:
            read = read.with_columns(chips_by_node=_by_node(read))
        return read

    # ------------------------------------------------------------- bad rows

    def _wrong(self, read: pl.DataFrame, bad: dict[str, pl.Series]) -> pl.Series:
        """Why each row cannot be used; null if it can."""
        what = {"chips": "a number", "run": "a duration"}
        frame = read.with_columns(cells.alias(f"bad.{name}") for name, cells in bad.items())
        started, over = col("start_ns").is_not_null(), col("state").is_in(list(OVER))
        reasons = [
            (col(BROKEN).is_not_null(), col(BROKEN)),
            *((col(f"bad.{name}"), pl.lit(f"{name} is not {what.get(name, 'a time')}")) for name in bad),
            (col("chips") < 0, pl.lit("chips are negative")),
            (col("run") < 0, pl.lit("the time it ran is negative")),
            (col("end_ns") < col("start_ns"), pl.lit("it ends before it starts")),
            (started & col("chips").is_null(), pl.lit("chips are not given")),
            (~started & col("state").is_in(list(RAN)), pl.lit("it ran, but its start is not given")),
            (started & over & col("end_ns").is_null(), pl.lit("it is over, but its end is not given")),
            (
                ~started & pl.all_horizontal(col("submit_ns", "end_ns", "state").is_null()),
                pl.lit("it has no time"),
            ),
        ]
        return frame.select(pl.coalesce(pl.when(test).then(why) for test, why in reasons)).to_series()

    def _compare(self, kept: pl.DataFrame) -> None:
        """Count what a file says twice, and differently."""
        tests = {"submit_after_start": col("submit_ns") > col("start_ns")}
        if self.plan.has("run", "end") and self.plan.place == "start":
            tests["run_differs"] = (col("end") - col("start_ns") - col("run")).abs() > TOLERANCE
        if self.plan.has("chip_time"):
            run = pl.coalesce("run", col("end_ns") - col("start_ns"))
            # in seconds: chips times nanoseconds may not fit
            ours, theirs = run / 1e9 * col("chips"), col("chip_time") / 1e9
            tests["chip_time_differs"] = (ours - theirs).abs() > pl.max_horizontal(
                1.0 * col("chips"), 1e-6 * theirs
            )
        for name, count in (
            kept.select(**{name: test.sum() for name, test in tests.items()}).row(0, named=True).items()
        ):
            self.tally.odd[name] += count or 0

    # ------------------------------------------------------------------ out

    def _span(self, kept: pl.DataFrame) -> None:
        tally = self.tally
        ends = ("submit_ns", "start_ns", "end_ns", "latest_ns")
        lowest, highest = (
            kept.select(
                pl.min_horizontal(col(*ends).min()).alias("low"),
                pl.max_horizontal(col(*ends).max()).alias("high"),
            ).row(0)
            if kept.height
            else (None, None)
        )
        if lowest is not None:
            tally.first_ns = min(lowest, tally.first_ns if tally.first_ns is not None else lowest)
            tally.last_ns = max(highest, tally.last_ns if tally.last_ns is not None else highest)

    def _named(self, kept: pl.DataFrame) -> pl.DataFrame:
        """With the columns of `attempts`."""
        kept = self._identified(kept)
        kept = self._labelled(kept)
        same = {"eligible_ns": "eligible", "run_ns": "run", "limit_ns": "limit"}
        there = {new: col(old) for new, old in same.items() if old in kept.columns}
        kind = self.plan.constants.get("kind", "job")
        return kept.with_columns(
            **there, line=col(LINE), kind=pl.lit(kind if kind in RECORD_KINDS else "job")
        )

    def _identified(self, kept: pl.DataFrame) -> pl.DataFrame:
        made = pl.format("{}:{}", pl.lit(self._mark), col(LINE))
        job = pl.coalesce("job", made) if "job" in kept.columns else made
        kept = kept.with_columns(raw_id=job, job=job)
        return self._told_apart(kept) if self.plan.has("job") and not self.plan.has("attempt") else kept

    def _told_apart(self, kept: pl.DataFrame) -> pl.DataFrame:
        """Rows with the id and the submission of an earlier one get ids of their own: tasks of one array, say."""
        keys = kept.select(key=col("raw_id").hash() ^ col("submit_ns").hash(1))["key"]
        after, before = self._seen.search_sorted(keys, "right"), self._seen.search_sorted(keys, "left")
        self._seen = pl.concat([self._seen, keys]).sort()  # 8 bytes a row are all that is kept of it
        earlier = after.cast(pl.Int64) - before.cast(pl.Int64)
        if not (earlier > 0).any() and keys.n_unique() == len(keys):
            return kept
        kept = kept.with_columns(key=keys, earlier=earlier)
        kept = kept.with_columns(number=col("earlier") + pl.int_range(pl.len()).over("key"))
        self.tally.odd["repeated_ids"] += int((kept["number"] > 0).sum())
        own = (
            pl.when(col("number") > 0)
            .then(pl.format("{}#{}", "raw_id", col("number") + 1))
            .otherwise("raw_id")
        )
        array = pl.when(col("number") > 0).then("raw_id")
        return kept.with_columns(raw_id=own, job=own, array=array)

    def _labelled(self, kept: pl.DataFrame) -> pl.DataFrame:
        labels = {name: f"label.{name}" for name in self.plan.labels}
        if "pool" in kept.columns:
            if "partition" in kept.columns:
                labels["pool"] = "pool"
            else:
                kept = kept.rename({"pool": "partition"})
        if not labels:
            return kept
        parts = [_pair(name, column) for name, column in labels.items()]
        body = pl.concat_str(parts, separator=",", ignore_nulls=True)
        return kept.with_columns(labels=pl.when(body != "").then("{" + body + "}"))


def _pair(name: str, column: str) -> pl.Expr:
    """`"name":"value"` as JSON, null for a null."""
    text = pl.struct(col(column).alias(name)).struct.json_encode()
    return pl.when(col(column).is_not_null()).then(text.str.strip_prefix("{").str.strip_suffix("}"))


def _by_node(read: pl.DataFrame) -> pl.Series:
    pairs = zip(read["nodes"], read["chips_per_node"], strict=True)
    found = [chips_by_node(nodes, each) if nodes and each is not None else None for nodes, each in pairs]
    return pl.Series(found, dtype=pl.String)


def _word(text: str) -> str:
    """The first word of a state without its case and signs, or all of it if that is known."""
    whole = squeezed(text)
    if whole in states():
        return whole
    first = squeezed(text.split(maxsplit=1)[0]) if text.split() else ""
    return first if first in states() else text.strip()


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
