"""What of Slurm's a file is, by its first bytes."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.slurm import ctld_log, events, sacct_text, squeue_text, sreport
from mpg_parsers.slurm.tres import ACCELERATORS

if TYPE_CHECKING:
    from collections.abc import Callable


def kind_of(head: bytes) -> str:
    """The kind of file, "" for none of Slurm's."""
    text = Utf8Stream(io.BytesIO(head)).read(len(head)).decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
        return _json_kind(text)
    lines = text.replace("\r\n", "\n").split("\n")
    return (
        next((kind for kind, is_it in _TABLES if is_it(lines)), "")
        or _first_line(lines)
        or _lines_kind(lines)
    )


_TABLES: tuple[tuple[str, Callable[[list[str]], object]], ...] = (
    ("sacct", sacct_text.find_header),
    ("sacct-cut", sacct_text.is_cut),
    ("events", events.find_header),
    ("squeue", squeue_text.find_header),
    ("sreport", sreport.is_report),
)


def _first_line(lines: list[str]) -> str:
    """What the first line that is no comment says."""
    first = next(
        (line for line in lines[:MOST_LINES] if line.strip() and not line.lstrip().startswith(NOTHING)), ""
    )
    return next((kind for kind, pattern in _LINES if pattern.match(first[:LONGEST])), "")


def _lines_kind(lines: list[str]) -> str:
    if _conf(lines):
        return "conf"
    return "ctld-log" if ctld_log.is_log(lines) else ""


LONGEST = 4096
NOTHING = ("#", "---")  # comments, and the beginning of YAML
MOST_LINES = 400
# what the first line that is no comment looks like
_LINES = (
    ("job", re.compile(r"JobId=\d+ .*(?:JobName|ArrayJobId|HetJobId)=")),
    ("nodes", re.compile(r"NodeName=\S+ (?:Arch=|CoresPerSocket=|CPUAlloc=|NodeAddr=\S+ NodeHostName=)")),
    ("partitions", re.compile(r"PartitionName=\S+(?:$| AllowGroups=)")),
    ("topology", re.compile(r"\s*(?:SwitchName|BlockName)=\S+|\s*-?\s*topology:\s*\S+\s*$", re.IGNORECASE)),
    (
        "gres-conf",
        re.compile(
            rf"\s*(?:NodeName=\S+\s+)?(?:AutoDetect=\w+\s+)?Name=(?:{'|'.join(ACCELERATORS)}|mps|shard)\b|\s*AutoDetect=\w+\s*$",
            re.IGNORECASE,
        ),
    ),
    (
        "conf",
        re.compile(
            r"\s*NodeName=\S+\s.*(?:CPUs|Gres|RealMemory|Sockets|State|Feature)=|\s*PartitionName=\S+\s+.*Nodes=",
            re.IGNORECASE,
        ),
    ),
)
_SETTING = re.compile(
    r"\s*(ClusterName|SlurmctldHost|ControlMachine|SlurmctldPort|AuthType|NodeName|PartitionName)\s*=\s*\S",
    re.IGNORECASE,
)

_IS_SETTING = re.compile(r"\s*(?:[A-Za-z]\w*\s*=|include\s|.*\\$)", re.IGNORECASE)


def _conf(lines: list[str]) -> bool:
    """Whether they are of slurm.conf: settings, among them several that it must have."""
    said = [line for line in lines[:-1] if line.strip() and not line.lstrip().startswith("#")]
    if sum(_IS_SETTING.match(line) is not None for line in said) < 0.8 * len(said):
        return False
    found = {match[1].lower() for line in lines if (match := _SETTING.match(line))}
    return len(found) > 1 and bool(
        found & {"clustername", "slurmctldhost", "controlmachine", "partitionname"}
    )


_FIRST = re.compile(r'\s*\{\s*"(?:jobs|nodes|sinfo|meta|errors|warnings|last_update|last_backfill)"\s*:')
# who wrote it: in `meta`, which precedes or follows the list
_SLURM = re.compile(
    r'"(?:type"\s*:\s*"openapi\\?/(?:db)?v|data_parser"\s*:\s*"data_parser|[Ss]lurm"\s*:\s*\{)'
)
_KEYS = (
    (
        "squeue-json",
        re.compile(
            r'"jobs"\s*:\s*\[.*"(?:job_state|job_resources|accrue_time|last_sched_evaluation)"\s*:', re.DOTALL
        ),
    ),
    (
        "sacct-json",
        re.compile(r'"jobs"\s*:\s*\[.*"(?:allocation_nodes|derived_exit_code|association)"\s*:', re.DOTALL),
    ),
    ("sinfo-json", re.compile(r'"sinfo"\s*:\s*\[')),
    (
        "nodes-json",
        re.compile(
            r'"nodes"\s*:\s*\[.*"(?:slurmd_start_time|gres_used|tres_used|cpu_binding)"\s*:', re.DOTALL
        ),
    ),
)
_EMPTY = (
    ("sacct-json", re.compile(r'"command"\s*:\s*\[\s*"[^"]*sacct"|openapi\\?/dbv')),
    ("squeue-json", re.compile(r'"jobs"\s*:\s*\[')),
)


def _json_kind(text: str) -> str:
    """The kind of a JSON document of Slurm's."""
    if not _FIRST.match(text):
        return ""
    kind = next((kind for kind, keys in _KEYS if keys.search(text)), "")
    if kind or not _SLURM.search(text):
        return kind
    return next((kind for kind, keys in _EMPTY if keys.search(text)), "")
