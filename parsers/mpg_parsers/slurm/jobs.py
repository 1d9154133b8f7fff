"""`scontrol show job`: the jobs of the last minutes (MinJobAge), with -d the chips on each node."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from mpg_parsers import wall_times
from mpg_parsers.slurm import hostlist, states, tres
from mpg_parsers.slurm.about import About
from mpg_parsers.slurm.keyvalues import NONE, Pairs, pairs, records, stated
from mpg_parsers.slurm.lines import blocks
from mpg_parsers.slurm.nodes import names
from mpg_parsers.slurm.queue import Queue, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

_NAME = re.compile(r"JobName=(.*?)\s+UserId=\S+?\(\d+\)")
_ON_NODES = re.compile(r"\sNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
# as they are called here, and in sacct
PLAIN = (
    ("account", "account"), ("partition", "partition"), ("qos", "qos"), ("reservation", "reservation"),
    ("jobstate", "state"), ("exitcode", "exitcode"), ("failednode", "failednode"), ("submittime", "submit"),
    ("eligibletime", "eligible"), ("starttime", "start"), ("endtime", "end"), ("runtime", "elapsed"),
    ("timelimit", "timelimit"), ("numnodes", "nnodes"), ("nodelist", "nodelist"), ("reason", "reason"),
    ("priority", "priority"), ("features", "constraints"), ("comment", "comment"), ("restarts", "restarts"),
    ("tresperNode".lower(), "tres_per_node"), ("dependency", "dependency"), ("wckey", "wckey"),
    ("reqtres", "reqtres"), ("alloctres", "alloctres"),
)  # fmt: skip


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of attempts, pending, then the row of sources."""
    about = About("slurm-jobs")
    queue = Queue(about, options.tz)
    for line, text in records(blocks(source, options, about.notices), "JobId"):
        record = pairs(text)
        _saw(record.get("lastschedeval"), options.tz, about)
        yield from queue.add(_record(record, text) | {"line": line})
    yield from queue.finish()


def _saw(text: str | None, tz: str, about: About) -> None:
    if text and text not in NONE:
        try:
            about.saw(wall_times.one(text, tz)[0])
        except ValueError:
            return


def _record(record: Pairs, text: str) -> Record:
    raw = record["jobid"].split()[0] if record["jobid"] else None
    name = _NAME.search(text)
    found: Record = {ours: stated(record, theirs) for theirs, ours in PLAIN}
    state = states.job_state(record.get("jobstate", ""))
    # until 23.02 one column: of what was allocated, or asked for where nothing was yet
    if tres_text := stated(record, "tres"):
        started = stated(record, "starttime") and state not in states.WAITING
        found["alloctres" if started else "reqtres"] = tres_text
    found["tres_per_node"] = found["tres_per_node"] or stated(record, "gres")
    return found | {
        "jobid": _shown(record, raw),
        "jobidraw": raw,
        "jobname": name[1] if name else stated(record, "jobname"),
        "user": re.sub(r"\(\d+\)$", "", record.get("userid", "")) or None,
        "reqswitch": stated(record, "reqswitch", "switches"),
        "chips_by_node": chips_by_node(_ON_NODES.findall(text)),
    }


def _shown(record: Pairs, raw: str | None) -> str | None:
    """The id that users see."""
    task, leader = record.get("arraytaskid"), record.get("hetjobid")
    if task and task not in NONE:
        return f"{record.get('arrayjobid', raw)}_{task if task.isdigit() else f'[{task}]'}"
    return (
        f"{leader}+{record['hetjoboffset']}" if leader and record.get("hetjoboffset", "").isdigit() else raw
    )


def chips_by_node(found: list[tuple[str, str]]) -> str | None:
    """JSON object of chips by node, of (list of nodes, GRES on each of them)."""
    counts: dict[str, int] = {}
    for nodes, gres in found:
        count = tres.from_gres(gres).total
        if count and hostlist.is_hostlist(nodes):
            counts |= dict.fromkeys(names(nodes), count)
    return json.dumps(counts) if counts else None
