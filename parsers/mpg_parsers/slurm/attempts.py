"""Rows of `attempts` from records whose columns are those of sacct, whatever wrote them.

Columns are named as sacct names them, in lower case, all texts; `line` is a number. All may be missing but
jobid or jobidraw, submit and start. Beyond sacct's, there may be reqswitch ("1@00:10:00"), dependency, hold,
tres_per_node and chips_by_node (JSON).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import shown
from mpg_parsers.scheduler_tables import ATTEMPTS
from mpg_parsers.slurm import durations, hostlist, labels, states, submit_line, times, tres
from mpg_parsers.slurm.about import Found
from mpg_parsers.wall_times import NO_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable

BLANK = ("", "(null)", "N/A", "None assigned")
INSTANTS = ("submit", "eligible", "start", "end")
_JOB = r"^(\d+)(?:_(\d+|\[[^\]]*\]?)|\+(\d+))?$"
PLAIN = (
    "jobname", "user", "account", "partition", "qos", "reservation", "exitcode", "failednode", "constraints",
    "cluster",
)  # fmt: skip


@dataclass
class Attempts:
    """Turns batches of records into rows, and remembers what a whole file tells.

    tz        zone of wall times without one, "" for unknown
    counted   whether the file counts accelerators at all
    naive, as_of_ns   as in the table `sources`
    moved     records that a change of clocks would explain
    bad, bad_time   rows with a time that is none, and column and text of the first such time
    nameless  rows without the number of a job
    """

    tz: str = ""
    counted: bool = True
    naive: bool | None = None
    as_of_ns: int | None = None
    moved: int = 0
    rows: int = 0
    bad: Found = field(default_factory=Found)
    bad_time: tuple[str, str] | None = None
    nameless: Found = field(default_factory=Found)

    def batch(self, records: pl.DataFrame) -> pl.DataFrame:
        """Rows of `attempts`; steps are left out, and what `bad` and `nameless` list."""
        records = _without_steps(records)
        frame = self._timed(self._named(_identified(records).hstack(_columns(records))))
        frame = self._with_chips(frame)
        frame = frame.hstack(_nodes(frame)).hstack(_wishes(frame)).hstack(_labels(frame))
        self._remember(frame)
        return ATTEMPTS.conform(frame)

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Without the rows that are of no job."""
        lost = frame.filter(col.raw_id.is_null())
        if lost.is_empty():
            return frame
        self.nameless.add(lost["line"][0], "?", lost.height)
        return frame.filter(col.raw_id.is_not_null())

    def _timed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With all times; without the rows in which one is no time."""
        read = {name: times.column(frame[name], self.tz) for name in INSTANTS}
        said = [self.naive, *(instant.naive for instant in read.values())]
        self.naive = True if True in said else False if False in said else None
        ns = [instant.ns.alias(f"{name}_ns") for name, instant in read.items()]
        unsure = [read[name].unsure.alias(f"{name}_unsure") for name in ("start", "end")]
        frame = frame.hstack([_run(frame), _suspended(frame), _cpu(frame), _limit(frame), *ns, *unsure])
        return self._settled(_stated(self._good(frame, read)))

    def _good(self, frame: pl.DataFrame, read: dict[str, times.Column]) -> pl.DataFrame:
        """Without the rows in which a time is none, or never was in the zone."""
        every = {
            name: instant.bad | (instant.unsure & instant.ns.is_null()) for name, instant in read.items()
        }
        bad = pl.select(pl.any_horizontal(every.values()))[:, 0]
        if not bad.any():
            return frame
        lost = frame.filter(bad)
        name = next(name for name, there in every.items() if there.any())
        self.bad_time = self.bad_time or (name.capitalize(), shown(frame[name].filter(every[name])[0]))
        self.bad.add(lost["line"][0], lost["job"][0] or "?", lost.height)
        return frame.filter(~bad)

    def _settled(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With times that came twice as the time it ran tells; without a zone, such jobs are counted."""
        if self.tz:
            return times.settle(frame)
        if self.naive:
            self.moved += times.moved(frame.filter(~col.state.is_in(states.OPEN)))
        return frame

    def _with_chips(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With chips, chips_requested, chip_type and chips_by_type, where the file counts any."""
        if not self.counted:
            return frame
        allocated = _chips(frame["alloctres"], tres.from_tres)
        allocated = _first(allocated, _chips(frame["allocgres"], tres.from_gres))
        asked = _chips(frame["reqtres"], tres.from_tres)
        for name in ("reqgres", "tres_per_node"):
            each = _per_node(_chips(frame[name], tres.from_gres), frame["node_count"])
            # without gres/gpu in AccountingStorageTRES, only the request for each node tells of chips
            allocated, asked = _first(allocated, each, text=False), _first(asked, each)
        never, several = frame["start_ns"].is_null(), allocated["by_type"].str.contains(",", literal=True)
        made = pl.select(
            pl.when(never).then(0).otherwise(allocated["total"]).alias("chips"),
            asked["total"].alias("chips_requested"),
            pl.when(~several.fill_null(value=False))
            .then(pl.coalesce(allocated["type"], asked["type"]))
            .alias("chip_type"),
            allocated["by_type"].alias("chips_by_type"),
        )
        return frame.hstack(made)

    def _remember(self, frame: pl.DataFrame) -> None:
        self.rows += frame.height
        latest = [frame.select(_latest()).item()] if frame.height else []
        known = [ns for ns in (*latest, self.as_of_ns) if ns is not None]
        self.as_of_ns = max(known, default=None)


def _latest() -> pl.Expr:
    """The latest instant that records prove: neither a forecast nor what --begin asks for counts."""
    ran = pl.when(col.state.is_in(states.OPEN)).then(
        col.start_ns + col.run_ns + col.suspended_ns.fill_null(0)
    )
    began = pl.when(col.start_ns.is_not_null()).then(col.eligible_ns)
    # how long a pending job has been eligible (Planned) tells more, but not in every export, and exports of one
    # database are to agree
    return pl.max_horizontal(
        pl.max("submit_ns"), pl.max("start_ns"), pl.max("end_ns"), ran.max(), began.max()
    )


def _column(records: pl.DataFrame, name: str) -> pl.Series:
    if name not in records.columns:
        return pl.Series(name, [None], dtype=pl.String).new_from_index(0, records.height)
    return records[name].cast(pl.String)


def _text(records: pl.DataFrame, name: str) -> pl.Series:
    """A column of texts in which what says nothing is null."""
    texts = _column(records, name)
    return texts.set(texts.is_in(list(BLANK)), None) if texts.null_count() < texts.len() else texts


def _without_steps(records: pl.DataFrame) -> pl.DataFrame:
    """Without the rows of job steps, whose ids go on with a dot."""
    for name in ("jobid", "jobidraw"):
        if name in records.columns:
            records = records.filter(~col(name).str.contains(".", literal=True).fill_null(value=False))
    return records


def _identified(records: pl.DataFrame) -> pl.DataFrame:
    """kind, raw_id, job, array and line."""
    shown, raw = _text(records, "jobid"), _text(records, "jobidraw")
    ids = pl.DataFrame({"shown": pl.select(pl.coalesce(shown, raw))[:, 0], "raw": raw})
    part = [col.shown.str.extract(_JOB, group) for group in (1, 2, 3)]
    line = records["line"] if "line" in records.columns else pl.Series([None], dtype=pl.Int64)
    return ids.select(
        kind=pl.lit("job"),
        raw_id=pl.coalesce("raw", "shown"),
        job=pl.when(part[2].is_not_null()).then(part[0]).otherwise("shown"),
        array=pl.when(part[1].is_not_null()).then(part[0]),
    ).with_columns(line=line.cast(pl.Int64) if line.len() == records.height else pl.lit(None, pl.Int64))


def _columns(records: pl.DataFrame) -> list[pl.Series]:
    """What is taken as it is, or looked at later."""
    state = _column(records, "state")
    made = [_text(records, name) for name in PLAIN]
    made[0] = made[0].alias("name")
    made[6], made[7] = made[6].alias("exit_code"), made[7].alias("failed_node")
    made += [_column(records, name).alias(name) for name in INSTANTS]
    made += [
        _mapped(state, states.job_state).alias("state"),
        _mapped(state, states.cancelled_by).alias("cancelled_by"),
    ]
    made += [_integer(records, name) for name in ("priority", "restarts")]
    for name in _LATER:
        made.append(_text(records, name).alias(name))
    made.append(_node_count(records))
    reason = _text(records, "reason")
    made.append(reason.set(reason == "None", None).alias("reason"))
    return made


_LATER = (
    "alloctres", "allocgres", "reqtres", "reqgres", "tres_per_node", "chips_by_node", "nodelist", "submitline",
    "reqswitch", "dependency", "hold", "comment", "wckey", "elapsed", "elapsedraw", "suspended", "totalcpu",
    "timelimit", "timelimitraw",
)  # fmt: skip


def _mapped(texts: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    """`function` of each text, called once for each different one."""
    unique = texts.drop_nulls().unique()
    if not unique.len():
        return texts.cast(pl.String)
    values = pl.Series([function(text) for text in unique], dtype=pl.String)
    return texts.replace_strict(unique, values, default=None, return_dtype=pl.String)


def _integer(records: pl.DataFrame, name: str) -> pl.Series:
    number = _column(records, name).cast(pl.Int64, strict=False)
    return number.set(number.is_in(list(NO_VALUES)), None).alias(name)


def _node_count(records: pl.DataFrame) -> pl.Series:
    """Nodes allocated, else asked for; of a range (4-8) the least."""
    counts = [
        _column(records, name).str.extract(r"^(\d+)", 1).cast(pl.Int64, strict=False)
        for name in ("nnodes", "allocnodes", "reqnodes")
    ]
    counts = [count.set(count == 0, None) for count in counts]
    return pl.select(pl.coalesce(counts))[:, 0].alias("node_count")


def _run(frame: pl.DataFrame) -> pl.Series:
    raw = durations.numbers(frame["elapsedraw"], durations.SECOND)
    spelt = durations.column(frame["elapsed"].filter(raw.is_null())) if raw.null_count() else raw
    return _filled(raw, spelt).alias("run_ns")


def _suspended(frame: pl.DataFrame) -> pl.Series:
    return durations.column(frame["suspended"]).alias("suspended_ns")


def _cpu(frame: pl.DataFrame) -> pl.Series:
    return durations.column(frame["totalcpu"]).alias("cpu_ns")


def _limit(frame: pl.DataFrame) -> pl.Series:
    raw = durations.numbers(frame["timelimitraw"], durations.MINUTE)
    spelt = durations.column(frame["timelimit"].filter(raw.is_null()), plain=durations.MINUTE)
    return _filled(raw, spelt).alias("limit_ns")


def _filled(values: pl.Series, rest: pl.Series) -> pl.Series:
    """`values` with `rest` in place of its nulls, in their order."""
    if not values.null_count():
        return values
    return values.scatter(values.is_null().arg_true(), rest.cast(pl.Int64))


def _stated(frame: pl.DataFrame) -> pl.DataFrame:
    """Without forecasts, and without the start that older versions write for jobs cancelled before it."""
    waits, still = col.state.is_in(states.WAITING), col.state.is_in(states.OPEN)
    # State is fit to tell only where something was never allocated
    never = (col.run_ns == 0) & col.alloctres.is_null() & col.allocgres.is_null() & col.nodelist.is_null()
    never &= (col.start_ns == col.end_ns) & col.state.is_in(["CANCELLED", "DEADLINE", "FAILED", "BOOT_FAIL"])
    return frame.with_columns(
        start_ns=pl.when(~(waits | never).fill_null(value=False)).then("start_ns"),
        end_ns=pl.when(~still.fill_null(value=False)).then("end_ns"),
    )


def _chips(texts: pl.Series, parse: Callable[[str], tres.Chips]) -> pl.DataFrame:
    """total, type and by_type of each text, null where there is none."""
    unique = texts.drop_nulls().unique().to_list()
    found = [parse(text) for text in unique]
    known = pl.DataFrame(
        {
            "text": unique,
            "total": [chips.total for chips in found],
            "type": [chips.type for chips in found],
            "by_type": [chips.as_json() for chips in found],
        },
        schema={"text": pl.String, "total": pl.Int64, "type": pl.String, "by_type": pl.String},
    )
    return texts.alias("text").to_frame().join(known, on="text", how="left", maintain_order="left")


def _first(one: pl.DataFrame, other: pl.DataFrame, *, text: bool = True) -> pl.DataFrame:
    """`one`, and `other` where that counts no chips, or (`text`) has no text."""
    if other["text"].null_count() == other.height:
        return one
    none = (one["total"] == 0).fill_null(value=False) & (other["total"] > 0).fill_null(value=False)
    missing = none | one["text"].is_null() if text else none
    kept = [pl.when(missing).then(other[name]).otherwise(one[name]).alias(name) for name in one.columns]
    return pl.select(kept)


def _per_node(chips: pl.DataFrame, nodes: pl.Series) -> pl.DataFrame:
    """Of all nodes together."""
    return chips.with_columns(total=chips["total"] * nodes, text=chips["text"].set(nodes.is_null(), None))


def _nodes(frame: pl.DataFrame) -> list[pl.Series]:
    """Names of the nodes."""
    return [_mapped(frame["nodelist"], hostlist.as_json).alias("nodes")]


def _wishes(frame: pl.DataFrame) -> list[pl.Series]:
    """holds, switches and switches_wait_ns, from the command line and from what the controller says."""
    lines = frame["submitline"]
    asked = lines.filter(lines.str.contains(submit_line.SIGN).fill_null(value=False)).unique().to_list()
    found = [submit_line.wishes(line) for line in asked]
    types = {"submitline": pl.String, "holds": pl.String, "switches": pl.Int64, "switches_wait_ns": pl.Int64}
    known = pl.DataFrame(
        [asked, *([getattr(w, name) for w in found] for name in ("holds", "switches", "wait_ns"))],
        schema=types,
    )
    wide = frame.select("submitline", "job", "reqswitch", "dependency", "hold").join(
        known, on="submitline", how="left", maintain_order="left"
    )
    odd = wide.with_row_index("at").filter(
        col.reqswitch.is_not_null()
        | col.dependency.is_not_null()
        | (col.hold == "true")
        | col.job.str.contains("%", literal=True)
    )
    made = [wide[name] for name in ("holds", "switches", "switches_wait_ns")]
    if odd.height:
        said = [_said(row) for row in odd.iter_rows(named=True)]
        for number, name in enumerate(("holds", "switches", "switches_wait_ns")):
            values = pl.Series([row[number] for row in said], dtype=types[name])
            made[number] = made[number].scatter(odd["at"], values)
    return made


def _said(row: dict[str, str | int | None]) -> tuple[str | None, int | None, int | None]:
    """holds, switches and the wait for them of one record, with what the controller says."""
    holds = json.loads(str(row["holds"] or "[]"))
    more = (
        ("dependency", row["dependency"]), ("held", row["hold"] == "true"), ("array_limit", "%" in str(row["job"])),
    )  # fmt: skip
    holds += [word for word, said in more if said and word not in holds]
    switches, wait = submit_line.switches_of(str(row["reqswitch"] or ""))
    if switches is None:
        switches, wait = row["switches"], row["switches_wait_ns"]  # type: ignore[assignment]
    return json.dumps(holds) if holds else None, switches, wait


def _labels(frame: pl.DataFrame) -> list[pl.Series]:
    """Labels, from the comment and the wckey."""
    pairs = frame.select("comment", "wckey")
    said = pairs.filter(col.comment.str.contains("=", literal=True) | col.wckey.is_not_null()).unique()
    if not said.height:
        return [pl.Series("labels", [None], dtype=pl.String).new_from_index(0, frame.height)]
    known = said.with_columns(
        labels=pl.Series([labels.of_comment(*row) for row in said.iter_rows()], dtype=pl.String)
    )
    joined = pairs.join(known, on=["comment", "wckey"], how="left", nulls_equal=True, maintain_order="left")
    return [joined["labels"]]
