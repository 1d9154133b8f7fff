"""The text of squeue -o or -O with its header: with a delimiter, or in columns where those cannot be mistaken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError
from mpg_parsers.slurm.about import About, Found
from mpg_parsers.slurm.delimited import Header, Table, header
from mpg_parsers.slurm.fields import CHECKS
from mpg_parsers.slurm.hostlist import is_hostlist
from mpg_parsers.slurm.lines import blocks
from mpg_parsers.slurm.queue import SCHEMA, Queue, Record
from mpg_parsers.slurm.repair import Columns
from mpg_parsers.slurm.states import is_job_state
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.slurm.lines import Block
    from mpg_parsers.source import Source

# headers of squeue, and the columns of sacct they are
NAMES = {
    "JOBID": "jobid", "STATE": "state", "ST": "state", "NAME": "jobname", "USER": "user", "ACCOUNT": "account",
    "PARTITION": "partition", "QOS": "qos", "RESERVATION": "reservation", "SUBMIT_TIME": "submit",
    "ELIGIBLE_TIME": "eligible", "START_TIME": "start", "END_TIME": "end", "TIME": "elapsed", "TIME_USED": "elapsed",
    "TIME_LIMIT": "timelimit", "TIMELIMIT": "timelimit", "NODES": "nnodes", "NODELIST": "nodelist",
    "NODELIST(REASON)": "nodes_or_reason", "REASON": "reason", "PRIORITY": "priority", "FEATURES": "constraints",
    "COMMENT": "comment", "TRES_ALLOC": "alloctres", "TRES_PER_NODE": "tres_per_node", "GRES": "tres_per_node",
    "CLUSTER": "cluster", "DEPENDENCY": "dependency", "WCKEY": "wckey", "RESTART_COUNT": "restarts",
    "RESTARTCNT": "restarts", "RESTARTS": "restarts", "EXIT_CODE": "exitcode",
}  # fmt: skip
OTHERS = frozenset(
    words(
        "USERID UID GROUP GROUPID TIME_LEFT CPUS MIN_CPUS MIN_MEMORY MIN_TMP_DISK SHARED OVER_SUBSCRIBE OVERSUBSCRIBE "
        "CONTIGUOUS COMMAND WORK_DIR EXEC_HOST NICE LICENSES ARRAY_JOB_ID ARRAY_TASK_ID SOCKETS_PER_NODE "
        "CORES_PER_SOCKET "
        "THREADS_PER_CORE S:C:T REQ_NODES EXC_NODES REBOOT REQUEUE STEPS TASKS NTASKS SCHEDNODES JOBARRAYID"
    )
)
KNOWN = frozenset(NAMES) | OTHERS
FREE = frozenset({"name", "comment", "nodelist(reason)", "reason", "command", "work_dir"})
_GRES = re.compile(r"(?:gres[:/]|\w+:)\S*|N/A|\(null\)|")
HINT = 'run SLURM_TIME_FORMAT=%s squeue -o "%i|%T|%V|%S|%e|%M|%l|%D|%N|%r|%P|%q|%u|%a|%p|%b|%j", or squeue --json'


def find_header(lines: list[str]) -> tuple[Header, int] | None:
    """The header among the first lines, and its place; its delimiter is "" where columns are aligned."""
    for at, line in enumerate(lines[:20]):
        found = header(line, KNOWN, least=4)
        if found and "jobid" in found.names and {"st", "state"} & set(found.names):
            return found, at
        words = line.split()
        if len(words) > 3 and set(words) <= KNOWN and "JOBID" in words and {"ST", "STATE"} & set(words):
            return Header(line, tuple(word.lower() for word in words), ""), at
    return None


def fits(name: str, text: str) -> bool:
    """Whether `text` can be what stands in the column `name` of squeue."""
    if name == "jobid":
        return re.match(r"\d", text) is not None
    if name in ("st", "state"):
        return is_job_state(text)
    if name == "nodelist(reason)":
        return text.startswith("(") or is_hostlist(text)
    if name in ("tres_per_node", "gres"):
        return _GRES.fullmatch(text) is not None
    check = CHECKS.get(NAMES.get(name.upper(), ""))
    return check is None or text in ("N/A", "(null)") or check(text)


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of attempts, pending, then the row of sources. Raises InputError unsupported_format."""
    about = About("slurm-squeue")
    queue = Queue(about, options.tz)
    reader: _Aligned | _Delimited | None = None
    for block in blocks(source, options, about.notices):
        if reader is None:
            found = find_header(block.lines)
            if found is None:
                continue
            reader = _Delimited(found[0]) if found[0].delimiter else _Aligned(found[0])
        for record in reader.records(block):
            yield from queue.add(record)
    if reader:
        reader.bad.left_out(about, "columns that cannot be told apart")
    if queue.attempts.bad.count and not queue.attempts.rows:
        message = "times without a date, or of a form that is not read"
        raise InputError("unsupported_format", source.path, message, hint=HINT)
    yield from queue.finish()


class _Delimited:
    """Rows with a delimiter."""

    def __init__(self, found: Header) -> None:
        wanted = tuple(dict.fromkeys(name for name in found.names if name.upper() in NAMES))
        self._table = Table(found, Columns(found.names, found.delimiter, FREE, frozenset(), fits), wanted)

    @property
    def bad(self) -> Found:
        """Lines that are no row."""
        return self._table.bad

    def records(self, block: Block) -> Iterator[Record]:
        """Records of the rows."""
        for row in self._table.frame(block).iter_rows(named=True):
            if re.match(r"\d", row["jobid"] or ""):
                yield _record(
                    {name.upper(): text for name, text in row.items() if name != "line"}, row["line"]
                )


class _Aligned:
    """Rows in columns: cut at the header's places if those are blank in the row, else at blanks."""

    def __init__(self, found: Header) -> None:
        self._words = found.text.split()
        self._text = found.text
        self._starts = [match.start() for match in re.finditer(r"\S+", found.text)]
        self.bad = Found()

    def records(self, block: Block) -> Iterator[Record]:
        """Records of the rows."""
        for line, text in enumerate(block.lines, block.first):
            if not re.match(r"\s*\d", text):
                continue
            cells = self._cells(text)
            if cells is None or not all(map(fits, map(str.lower, self._words), cells)):
                self.bad.add(line, text.split()[0][:40])
            else:
                yield _record(dict(zip(self._words, cells, strict=True)), line)

    def _cells(self, text: str) -> list[str] | None:
        starts = self._starts
        if not starts[0] and all(text[at - 1 : at] in ("", " ") for at in starts[1:]):
            ends = [*starts[1:], len(text)]
            cells = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            if not any(re.search(r"\s{2,}", cell) for cell in cells):
                return cells
        last = len(self._words) - 1
        cells = text.split(None, last)
        return [cell.strip() for cell in cells] if len(cells) == last + 1 else None


def _record(row: dict[str, str | None], line: int) -> Record:
    """A row with the names of sacct."""
    record: Record = dict.fromkeys(SCHEMA)
    for name, text in row.items():
        ours = NAMES.get(name)
        if ours == "nodes_or_reason":
            waits = (text or "").startswith("(")
            record["reason" if waits else "nodelist"] = (text or "").strip("()") if waits else text
        elif ours and text:
            record[ours] = None if text in ("N/A", "n/a", "(null)") else text
    if record["timelimit"] and str(record["timelimit"]).upper() in ("UNLIMITED", "NOT_SET"):
        record["timelimit"] = None
    return record | {"line": line}
