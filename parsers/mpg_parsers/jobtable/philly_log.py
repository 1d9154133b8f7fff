"""Philly's cluster_job_log (Microsoft, https://github.com/msr-fiddle/philly-traces): jobs with their attempts.

An attempt that is the job's last has its status; of earlier ones the log does not say how they ended. A last attempt
without an end was running when the log was taken. Missing times of other attempts are errors of the log.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mpg_parsers.jobtable.objects import Start, records
from mpg_parsers.jobtable.table import Table, framed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from mpg_parsers.errors import Notice
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

KEYS = {"jobid", "attempts", "submitted_time"}
COPIED = ("jobid", "vc", "user", "submitted_time")
COLUMNS = (*COPIED, "status", "attempt", "attempt_start", "attempt_end", "gpus", "nodes", "chips_by_node")
Row = dict[str, str | None]


def is_log(keys: Sequence[str]) -> bool:
    """The names in the first object are those of Philly's log."""
    return KEYS.issubset(keys)


def read(source: Source, options: ParseOptions, found: Start) -> Table:
    """A row for every attempt, and one for a job without any. Raises InputError as `objects.read`."""
    notices: list[Notice] = []
    return Table(COLUMNS, lambda needed: _pieces(source, options, found, needed, notices), notices)


def _pieces(
    source: Source, options: ParseOptions, found: Start, needed: Sequence[str], notices: list[Notice]
) -> Iterator[pl.DataFrame]:
    from mpg_parsers.jobtable.table import LINE

    number = 1
    for chunk in records(source, options, found, notices):
        rows, lines, broken = list[Row](), list[int](), dict[int, str]()
        for job in chunk:
            for row, wrong in _attempts(job):
                if wrong:
                    broken[len(rows)] = wrong
                rows.append(row)
                lines.append(number)
            number += 1
        frame = framed({name: [row.get(name) for row in rows] for name in needed}, 1, broken)
        yield frame.with_columns(
            frame[LINE].replace_strict(range(1, len(rows) + 1), lines, return_dtype=frame[LINE].dtype)
        )


def _attempts(job: object) -> Iterator[tuple[Row, str]]:
    """The rows of a job, each with what is wrong with it."""
    if not isinstance(job, dict):
        yield {}, "it is no JSON object"
        return
    common = {name: _text(job.get(name)) for name in COPIED}
    attempts = job.get("attempts")
    attempts = (
        [attempt for attempt in attempts if isinstance(attempt, dict)] if isinstance(attempts, list) else []
    )
    if not attempts:
        yield {**common, "status": _text(job.get("status"))}, ""
    for index, attempt in enumerate(attempts):
        last = index == len(attempts) - 1
        begun, ended = _text(attempt.get("start_time")), _text(attempt.get("end_time"))
        status = ("Running" if begun and not ended else _text(job.get("status"))) if last else None
        times = {"attempt": str(index + 1), "attempt_start": begun, "attempt_end": ended, "status": status}
        yield {**common, **times, **_chips(attempt.get("detail"))}, _wrong(begun, ended, last=last)


def _wrong(begun: str | None, ended: str | None, *, last: bool) -> str:
    if not begun:
        return "the start of an attempt is not given"
    return "" if ended or last else "the end of an attempt is not given, though another follows"


def _chips(detail: Any) -> Row:  # noqa: ANN401 - whatever the log has there
    """GPUs by machine: an attempt may name a machine twice."""
    machines: dict[str, int] = {}
    for entry in detail if isinstance(detail, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("gpus"), list):
            name = str(entry.get("ip"))
            machines[name] = machines.get(name, 0) + len(entry["gpus"])
    if not machines:
        return {}
    nodes, by_node = json.dumps(list(machines)), json.dumps(machines)
    return {"gpus": str(sum(machines.values())), "nodes": nodes, "chips_by_node": by_node}


def _text(value: object) -> str | None:
    return None if value is None or value in ("", "None") else str(value)
