"""`squeue --json` and `scontrol show job --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.jobs import chips_by_node
from mpg_parsers.slurm.json_arrays import Elements, digits, number, part, version, word
from mpg_parsers.slurm.nodes import names
from mpg_parsers.slurm.queue import Queue, Record
from mpg_parsers.slurm.sacct_json import exit_text, shown_id, state_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

SECOND = 1_000_000_000


class Job(msgspec.Struct):
    """What is used of one job; versions differ in the types."""

    account: Any = None
    array_job_id: Any = None
    array_task_id: Any = None
    array_task_string: Any = None
    cluster: Any = None
    comment: Any = None
    dependency: Any = None
    eligible_time: Any = None
    end_time: Any = None
    exit_code: Any = None
    failed_node: Any = None
    features: Any = None
    gres_detail: Any = None
    het_job_id: Any = None
    het_job_offset: Any = None
    hold: Any = None
    job_id: Any = None
    job_state: Any = None
    last_sched_evaluation: Any = None
    maximum_switch_wait_time: Any = None
    name: Any = None
    node_count: Any = None
    nodes: Any = None
    partition: Any = None
    priority: Any = None
    qos: Any = None
    required_switches: Any = None
    restart_cnt: Any = None
    resv_name: Any = None
    start_time: Any = None
    state_description: Any = None
    state_reason: Any = None
    submit_time: Any = None
    time_limit: Any = None
    tres_alloc_str: Any = None
    tres_per_node: Any = None
    tres_req_str: Any = None
    user_name: Any = None
    wckey: Any = None


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of attempts, pending, then the row of sources. Raises InputError: corrupt_input, truncated_input."""
    about = About("slurm-squeue-json")
    queue, elements, seen = Queue(about, options.tz), Elements(source, options, Job), 0
    for jobs in elements:
        for job in jobs:
            seen += 1
            evaluated = number(job.last_sched_evaluation)
            about.saw(evaluated * SECOND if evaluated else None)
            yield from queue.add(record(job) | {"line": seen})
    about.version = version(elements.rest.get("meta"))
    about.notices += elements.notices
    elements.bad.left_out(about, "a record that is none of a job")
    updated = number(elements.rest.get("last_update"))
    about.saw(updated * SECOND if updated else None)
    queue.cluster = word(part(elements.rest.get("meta"), "slurm", "cluster"))
    yield from queue.finish()


def record(job: Job) -> Record:
    """The record with the names of sacct."""
    raw = digits(job.job_id)
    array = {"job_id": job.array_job_id, "task_id": job.array_task_id, "task": job.array_task_string}
    switches = number(job.required_switches)
    wait = number(job.maximum_switch_wait_time)
    clock = f"@{wait // 3600}:{wait // 60 % 60:02d}:{wait % 60:02d}" if wait else ""
    return {
        "jobid": shown_id(raw, array, {"job_id": job.het_job_id, "job_offset": job.het_job_offset}),
        "jobidraw": raw,
        "jobname": word(job.name),
        "user": word(job.user_name),
        "account": word(job.account),
        "partition": word(job.partition),
        "qos": word(job.qos),
        "reservation": word(job.resv_name),
        "state": state_text(job.job_state),
        "exitcode": exit_text(job.exit_code),
        "failednode": word(job.failed_node),
        **{ours: digits(value) for ours, value in _times(job)},
        "timelimitraw": digits(job.time_limit),
        "alloctres": word(job.tres_alloc_str),
        "reqtres": word(job.tres_req_str),
        "tres_per_node": word(job.tres_per_node),
        "nnodes": digits(job.node_count),
        "nodelist": word(job.nodes),
        "reason": word(job.state_reason),
        "message": word(job.state_description),
        "priority": digits(job.priority),
        "constraints": word(job.features),
        "comment": word(job.comment),
        "cluster": word(job.cluster),
        "restarts": digits(job.restart_cnt),
        "wckey": word(job.wckey),
        "dependency": word(job.dependency),
        "hold": "true" if job.hold is True else None,
        "reqswitch": f"{switches}{clock}" if switches else None,
        "chips_by_node": _by_node(job),
    }


def _times(job: Job) -> tuple[tuple[str, Any], ...]:
    return (
        ("submit", job.submit_time),
        ("eligible", job.eligible_time),
        ("start", job.start_time),
        ("end", job.end_time),
    )


def _by_node(job: Job) -> str | None:
    """gres_detail has a text for each of the nodes."""
    nodes = names(word(job.nodes) or "")
    details = job.gres_detail if isinstance(job.gres_detail, list) else []
    if len(nodes) != len(details) or not all(isinstance(text, str) for text in details):
        return None
    return chips_by_node(list(zip(nodes, details, strict=True)))
