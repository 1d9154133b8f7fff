"""`sacct --json`: the same records as in its text, of data_parser (or openapi) v0.0.38 and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from mpg_parsers.slurm import states
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.attempts import Attempts
from mpg_parsers.slurm.json_arrays import Elements, digits, number, part, version, word
from mpg_parsers.slurm.sacct_text import counts, tell
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

FORMAT = "slurm-sacct-json"
COLUMNS = words(
    "jobid jobidraw jobname user account partition qos reservation state exitcode failednode submit eligible start "
    "end elapsedraw suspended totalcpu timelimitraw alloctres reqtres nnodes nodelist reason priority constraints "
    "comment submitline cluster restarts wckey"
)
SCHEMA = {**dict.fromkeys(COLUMNS, pl.String()), "line": pl.Int64()}


class Job(msgspec.Struct):
    """What is used of one job; versions differ in the types."""

    account: Any = None
    allocation_nodes: Any = None
    array: Any = None
    cluster: Any = None
    comment: Any = None
    constraints: Any = None
    exit_code: Any = None
    failed_node: Any = None
    het: Any = None
    job_id: Any = None
    kill_request_user: Any = None
    name: Any = None
    nodes: Any = None
    partition: Any = None
    priority: Any = None
    qos: Any = None
    reservation: Any = None
    restart_cnt: Any = None
    state: Any = None
    submit_line: Any = None
    time: Any = None
    tres: Any = None
    user: Any = None
    wckey: Any = None


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of attempts, then the row of sources. Raises InputError: corrupt_input, truncated_input."""
    about = About(FORMAT)
    attempts = Attempts(options.tz, counted=counts(source))
    elements, seen = Elements(source, options, Job), 0
    for jobs in elements:
        rows = [record(job) | {"line": number} for number, job in enumerate(jobs, seen + 1)]
        seen += len(jobs)
        yield "attempts", attempts.batch(pl.DataFrame(rows, schema=SCHEMA))
    about.version = version(elements.rest.get("meta"))
    about.notices += elements.notices
    elements.bad.left_out(about, "a record that is none of a job")
    tell(about, attempts)
    yield "sources", about.row()


def record(job: Job) -> dict[str, str | int | None]:
    """The record as the text of sacct has it."""
    raw = digits(job.job_id)
    requested = tres_text(part(job.tres, "requested"))
    nodes = number(job.allocation_nodes) or _nodes(part(job.tres, "requested"))
    return {
        "jobid": shown_id(raw, job.array, job.het),
        "jobidraw": raw,
        "jobname": word(job.name),
        "user": word(job.user),
        "account": word(job.account),
        "partition": word(job.partition),
        "qos": word(job.qos),
        "reservation": word(part(job.reservation, "name")),
        "state": _state(job),
        "exitcode": _exit(job),
        "failednode": word(job.failed_node),
        **{name: digits(part(job.time, key)) for name, key in _TIMES},
        "totalcpu": _cpu(part(job.time, "total")),
        "timelimitraw": digits(part(job.time, "limit")),
        "alloctres": tres_text(part(job.tres, "allocated")),
        "reqtres": requested,
        "nnodes": str(nodes) if nodes else None,
        "nodelist": word(job.nodes),
        "reason": word(part(job.state, "reason")),
        "priority": digits(job.priority),
        "constraints": word(job.constraints),
        "comment": word(part(job.comment, "job")),
        "submitline": word(job.submit_line),
        "cluster": word(job.cluster),
        "restarts": digits(job.restart_cnt),
        "wckey": word(part(job.wckey, "wckey")),
    }


_TIMES = (
    ("submit", "submission"), ("eligible", "eligible"), ("start", "start"), ("end", "end"),
    ("elapsedraw", "elapsed"), ("suspended", "suspended"),
)  # fmt: skip


def shown_id(raw: str | None, array: object, het: object) -> str | None:
    """The id that users see: A_t of an array's task, A_[5-6%2] of tasks that wait, L+n of a part of a job."""
    parent, task = number(part(array, "job_id")), number(part(array, "task_id"))
    if parent and task is not None:
        return f"{parent}_{task}"
    if parent and (tasks := word(part(array, "task"))):
        return f"{parent}_[{tasks.strip('[]')}]"
    leader, offset = number(part(het, "job_id")), number(part(het, "job_offset"))
    return f"{leader}+{offset}" if leader and offset is not None else raw


def exit_text(code: object) -> str | None:
    """A return code and a signal as 0:15, of an object of them or of the status that wait(2) gives."""
    if code is None:
        return None
    status = number(code)
    if status is not None and (not isinstance(code, dict) or "number" in code):
        return f"{status >> 8}:{status & 127}"
    found = number(part(code, "return_code"))
    signal = number(part(code, "signal", "id"))
    signal = number(part(code, "signal", "signal_id")) if signal is None else signal
    # as sacct prints it: what a shell adds to the number of a signal is taken off
    return f"{found - 128 if found and found > 127 else found or 0}:{signal or 0}"


def _exit(job: Job) -> str | None:
    """The exit code; openapi v0.0.38 writes 0 whatever it was."""
    text = exit_text(job.exit_code)
    plain = isinstance(part(job.exit_code, "return_code"), int)
    return None if plain and text == "0:0" and state_text(part(job.state, "current")) != "COMPLETED" else text


def tres_text(found: object) -> str | None:
    """cpu=1,gres/gpu=8 of a list of {type, name, count}."""
    if not isinstance(found, list):
        return word(found)
    texts = []
    for item in found:
        kind, name, count = word(part(item, "type")), word(part(item, "name")), number(part(item, "count"))
        if kind and count is not None:
            texts.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(texts) or None


def state_text(current: object) -> str | None:
    """The word that Slurm prints for a state, which may be a list of it and its flags."""
    if isinstance(current, list):
        return states.of_flags([text for text in current if isinstance(text, str)]) or None
    return word(current)


def _state(job: Job) -> str | None:
    state = state_text(part(job.state, "current"))
    by = job.kill_request_user
    user = "0" if by == "root" else digits(by)
    return f"{state} by {user}" if state == "CANCELLED" and user else state


def _nodes(found: object) -> int | None:
    items = found if isinstance(found, list) else []
    return next((number(part(item, "count")) for item in items if part(item, "type") == "node"), None)


def _cpu(total: object) -> str | None:
    """Seconds and milliseconds, as far as the text of sacct tells."""
    seconds, micros = number(part(total, "seconds")), number(part(total, "microseconds"))
    if seconds is None:
        return None
    return f"{seconds}.{(micros or 0) // 1000:03d}"
