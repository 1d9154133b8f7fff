"""Kubernetes: pods, events, nodes, jobs and Kueue's workloads, as `kubectl get … -o json` writes them."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.chrome.text import Utf8Stream
from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kube.events import read_event
from mpg_parsers.kube.fields import Object, node_at, objects_at, text_at
from mpg_parsers.kube.jobs import BETWEEN, read_job
from mpg_parsers.kube.nodes import Groups, read_node
from mpg_parsers.kube.pods import read_pod
from mpg_parsers.kube.reading import AGAIN, Found, Objects
from mpg_parsers.kube.rows import TABLES, Rows, Spells
from mpg_parsers.kube.workloads import read_workload
from mpg_parsers.tables import SOURCES
from mpg_parsers.tables import TABLES as SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

BATCH = 5000  # rows
EVERY = 500  # objects between two reports of progress
KINDS = "Pod|Event|Node|Job|JobSet|Workload|ClusterQueue|LocalQueue|ResourceFlavor|Topology|Lease"
GROUPS = (
    r"v1|events\.k8s\.io/\w+|batch/\w+|jobset\.x-k8s\.io/\w+|kueue\.x-k8s\.io/\w+|coordination\.k8s\.io/\w+"
)
KIND = re.compile(rf'"kind"[ \t\r\n]*:[ \t\r\n]*"(?:List|(?:{KINDS})(?:List)?)"')
GROUP = re.compile(rf'"apiVersion"[ \t\r\n]*:[ \t\r\n]*"(?:{GROUPS})"')
# kubectl writes the kind of a list behind its items, of which the first may be of any kind
LIST = re.compile(r'\s*\{\s*"apiVersion"\s*:\s*"v1"\s*,\s*"items"\s*:\s*\[')
YAML_KIND = re.compile(rf"^[ \t-]*kind:[ \t]*[\"']?(?:List|(?:{KINDS})(?:List)?)\b", re.MULTILINE)
YAML_GROUP = re.compile(rf"^[ \t-]*apiVersion:[ \t]*[\"']?(?:{GROUPS})[\"']?[ \t\r]*$", re.MULTILINE)
# what an item of a list that does not name its kind has
SIGNS = (
    (("involvedObject",), "Event"), (("regarding",), "Event"), (("spec", "podSets"), "Workload"),
    (("spec", "containers"), "Pod"), (("status", "nodeInfo"), "Node"), (("spec", "replicatedJobs"), "JobSet"),
)  # fmt: skip
READ_KINDS = ("Pod", "Event", "Node", "Workload", "Job", "JobSet")
API = {"Workload": "kueue.x-k8s.io/", "JobSet": "jobset.x-k8s.io/", "Job": "batch/"}
Batch = tuple[str, pl.DataFrame]


@dataclass(frozen=True)
class KubernetesParser:
    """Reads dumps and watches of a cluster's objects."""

    name: str = "kubernetes"
    description: str = (
        "Kubernetes objects: kubectl get pods,events,nodes,jobs,workloads -A -o json, also with --watch"
    )
    tables: tuple[str, ...] = ("sources", *TABLES)

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """An apiVersion and a kind that are read here, in whatever order; YAML too, to say that it is not read."""
        text = _text(head)
        if _is_yaml(text):
            return ""
        if text.lstrip()[:1] not in ("{", "["):
            return "it does not start with { or ["
        found = LIST.match(text) or (KIND.search(text) and GROUP.search(text))
        return "" if found else "it names no kind of Kubernetes objects that tells of jobs or nodes"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[Batch]:
        """Batches of the tables of schedulers, then sources. Of objects, one at a time is held in memory.

        Times are Unix ns. Raises InputError: unsupported_format (YAML), no_jobs, truncated_input, corrupt_input.
        """
        if _is_yaml(_text(source.head())):
            message = "YAML is not read"
            raise InputError("unsupported_format", source.path, message, hint=f"write JSON: {AGAIN}")
        dump = _Dump()
        with source.open() as stream:
            objects = Objects(stream, source.path)
            for found in objects:
                dump.take(found)
                if dump.height >= BATCH:
                    yield from dump.batches()
                if options.progress and dump.count % EVERY == 0:
                    options.progress(stream.stored_position)
            truncated = stream.truncated
        dump.close()
        notices = _notices(objects, truncated)
        _refuse_nothing(dump, source.path, cut=objects.cut or bool(truncated), bad=objects.bad)
        yield from dump.batches()
        yield "sources", _source_row(dump, notices)


KUBERNETES = KubernetesParser()


def _text(head: bytes) -> str:
    return Utf8Stream(io.BytesIO(head)).read(len(head)).decode("utf-8", "replace")


def _is_yaml(text: str) -> bool:
    return text.lstrip()[:1] not in ("{", "[") and bool(YAML_KIND.search(text) and YAML_GROUP.search(text))


@dataclass
class _Dump:
    """The state of one `parse`."""

    rows: Rows = field(default_factory=Rows)
    waits: Spells = field(default_factory=Spells)
    states: Spells = field(default_factory=Spells)
    groups: Groups = field(default_factory=Groups)
    kinds: Counter[str] = field(default_factory=Counter)
    count: int = 0

    @property
    def height(self) -> int:
        """Rows that are held."""
        return sum(map(len, self.rows.tables.values()))

    def take(self, found: Found) -> None:
        """Add the rows of one object."""
        value, kind = found.value, _kind(found)
        self.count += 1
        self.kinds[kind] += 1
        for entry in objects_at(value, "metadata", "managedFields"):
            self.rows.at(entry.get("time"))
        if kind == "Pod":
            read_pod(value, self.count, self.rows, self.waits, deleted=found.deleted)
        elif kind == "Event":
            read_event(value, self.rows)
        elif kind == "Node":
            read_node(value, self.rows, self.states, self.groups, deleted=found.deleted)
        elif kind == "Workload":
            read_workload(value, self.count, self.rows, self.waits)
        elif kind in ("Job", "JobSet", *BETWEEN):
            read_job(value, kind, self.rows)
        elif kind == "Lease":  # a node's sign of life
            self.rows.at(node_at(value, "spec").get("renewTime"))

    def close(self) -> None:
        """Add what only the end of the file tells: groups of nodes, and what goes on."""
        self.groups.add_to(self.rows)
        for row in self.states.open.values():
            self.rows.add("capacity", **row, end_ns=None)
        for key in list(self.waits.open):
            waited = self.waits.end(key, self.rows.as_of or 0)
            if waited:
                self.rows.add("pending", **waited, count=1)

    def batches(self) -> Iterator[Batch]:
        """What is held, by table."""
        for name, rows in self.rows.take().items():
            if rows:
                yield name, _frame(name, rows, self.rows.as_of)


def _kind(found: Found) -> str:
    """The kind of an object; of others' objects by that name (a Workload that is not Kueue's) ""."""
    value = found.value
    kind = text_at(value, "kind") or found.kind
    kind = kind or next((named for path, named in SIGNS if _has(value, path)), "")
    group = text_at(value, "apiVersion")
    return "" if group and kind in API and not group.startswith(API[kind]) else kind


def _has(value: Object, path: tuple[str, ...]) -> bool:
    return path[-1] in node_at(value, *path[:-1])


def _frame(name: str, rows: list[dict[str, Any]], as_of: int | None) -> pl.DataFrame:
    schema = {key: dtype for key, dtype in SCHEMAS[name].schema().items() if key != "source"}
    given = {key: dtype for key, dtype in schema.items() if any(key in row for row in rows)}
    frame = pl.DataFrame(rows, schema=given)
    if name == "nodes":  # a dump is as of its latest time
        frame = frame.with_columns(at_ns=pl.col("at_ns").fill_null(as_of))
    return SCHEMAS[name].conform(frame)


def _notices(objects: Objects, truncated: str | None) -> list[Notice]:
    notices = []
    if truncated or objects.cut:
        notices.append(
            Notice("truncated_input", truncated or "the file ends within an object, which is lost")
        )
    if objects.bad:
        message = f"{objects.bad} lines or objects are not JSON and were left out"
        notices.append(Notice("bad_row", message, objects.bad))
    return notices


def _refuse_nothing(dump: _Dump, path: str, *, cut: bool, bad: int) -> None:
    """Raise InputError unless there was an object that is read here."""
    if any(dump.kinds[kind] for kind in READ_KINDS):
        return
    if cut:
        raise InputError("truncated_input", path, "the file ends before its first object does", hint=AGAIN)
    if bad and not dump.count:
        raise InputError("corrupt_input", path, "it is not JSON", hint=AGAIN)
    others = ", ".join(f"{count} × {kind or 'unnamed'}" for kind, count in dump.kinds.most_common(5))
    message = f"no pods, events, nodes, jobs or workloads in it{f', only {others}' if others else ''}"
    hint = "kubectl get pods,events,nodes,jobs,workloads -A -o json"
    raise InputError("no_jobs", path, message, hint=hint)


def _source_row(dump: _Dump, notices: list[Notice]) -> pl.DataFrame:
    row = {
        "format": "kubernetes",
        "framework": "Kubernetes with Kueue" if dump.kinds["Workload"] else "Kubernetes",
        "as_of_ns": dump.rows.as_of,
        "first_ns": dump.rows.first,
        "last_ns": dump.rows.as_of,
        "events": dump.count,
        "notices": listed(notices),
    }
    return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))
