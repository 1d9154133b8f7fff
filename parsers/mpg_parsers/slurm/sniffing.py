"""What of Slurm's a file is, by its first bytes."""

from __future__ import annotations

import io
import re

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.slurm import sacct_text


def kind_of(head: bytes) -> str:
    """The kind of file, "" for none of Slurm's."""
    text = Utf8Stream(io.BytesIO(head)).read(len(head)).decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
        return _json_kind(text)
    lines = text.replace("\r\n", "\n").split("\n")
    if sacct_text.find_header(lines):
        return "sacct"
    if sacct_text.is_cut(lines):
        return "sacct-cut"
    return ""


_FIRST = re.compile(r'\s*\{\s*"(?:jobs|nodes|sinfo|meta|errors|warnings|last_update|last_backfill)"\s*:')
# who wrote it: in `meta`, which precedes or follows the list
_SLURM = re.compile(r'"(?:type"\s*:\s*"openapi\\?/(?:db)?v|data_parser"\s*:\s*"data_parser|[Ss]lurm"\s*:\s*\{)')
_KEYS = (
    ("squeue-json", re.compile(r'"jobs"\s*:\s*\[.*"(?:job_state|job_resources|accrue_time|last_sched_evaluation)"\s*:', re.S)),
    ("sacct-json", re.compile(r'"jobs"\s*:\s*\[.*"(?:allocation_nodes|derived_exit_code|association)"\s*:', re.S)),
    ("sinfo-json", re.compile(r'"sinfo"\s*:\s*\[')),
    ("nodes-json", re.compile(r'"nodes"\s*:\s*\[.*"(?:slurmd_start_time|gres_used|tres_used|cpu_binding)"\s*:', re.S)),
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
