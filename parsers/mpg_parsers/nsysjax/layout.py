"""Which files of a folder or an archive are the output of nsys-jax, and of which of its processes.

nsys-jax writes one archive per process; nsys-jax-combine merges several: a file A that differs between them becomes
A/<process>, one that does not stays A. Either may have been unpacked, or packed again with a folder around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TRACE, DEVICES, THREADS, SYSTEM = "trace.parquet", "devices.parquet", "threads.parquet", "system.parquet"
RANGES_PARQUET, RANGES_CSV, RANGES_XZ = "ranges.parquet", "ranges.csv", "ranges.csv.xz"
KNOWN = {
    "nvtx_gpu_proj_trace/trace.parquet": TRACE,
    "device-metadata.parquet": DEVICES,
    "thread-metadata.parquet": THREADS,
    "system-metadata.parquet": SYSTEM,
    "report_nvtx_pushpop_trace.parquet": RANGES_PARQUET,
    "report_nvtx_pushpop_trace.csv": RANGES_CSV,
    "report_nvtx_pushpop_trace.csv.xz": RANGES_XZ,
}
# of the many stages that XLA can be told to dump, the first and the last one
DUMP = re.compile(
    r"dump/module_(?P<id>\d{1,18})\.(?P<name>[^/]+?)"
    r"\.(?:(?P<before>before_optimizations)|(?:[^/]*[._])?after_optimizations)\.hlo\.pb(?:\.xz)?"
)
_ROOT = re.compile(r"(?P<root>(?:[^\0]*/)?)nvtx_gpu_proj_trace/trace\.parquet(?:/[^/\0]+)?")
_FOLDERS = ("nvtx_gpu_proj_trace/", "dump/", "protos/", "sources/")
_BESIDE = re.compile(r"(?:.+\.(?:nsys-rep|qdrep|sqlite)|install\.sh)")  # made by the same run of nsys-jax


@dataclass(frozen=True, slots=True)
class Profile:
    """The output for one process.

    root     what stands before the names of all its files: "" or a folder with a slash
    process  what nsys-jax-combine calls it; "" if nothing was combined
    members  the files that are read, by what they are called here
    """

    root: str
    process: str
    members: Mapping[str, str]


def profiles(names: Iterable[str]) -> tuple[list[Profile], set[str]]:
    """The profiles among file names (slashes between folders), and all names that belong to them.

    Files that belong and are not read: sources, definitions of protocol buffers, the report of Nsight Systems that
    the tables were made of. Without a projected trace there is no profile.
    """
    listed = list(names)
    roots = {match["root"] for name in listed if (match := _ROOT.fullmatch(name))}
    inside: dict[str, dict[str, str]] = {root: {} for root in roots}
    for name in listed if roots else ():
        for root in _around(name):
            if root in roots:
                inside[root][name[len(root) :]] = name
                break
    found = [profile for root in sorted(roots) for profile in _of_root(root, inside[root])]
    ours = {name for files in inside.values() for rest, name in files.items() if _belongs(rest)}
    return found, ours


def _around(name: str) -> Iterator[str]:
    """The folders around a name, the innermost first, each with its slash, and ""."""
    while "/" in name:
        name = name.rpartition("/")[0]
        yield f"{name}/"
    yield ""


def _belongs(rest: str) -> bool:
    return rest.startswith(_FOLDERS) or bool(_split(rest)) or bool(_BESIDE.fullmatch(rest))


def _split(rest: str) -> tuple[str, str] | None:
    """What a file is called here, and its process ("" for all of them); None if it is not read."""
    for candidate, process in ((rest, ""), (rest.rpartition("/")[0], rest.rpartition("/")[2])):
        if candidate in KNOWN:
            return KNOWN[candidate], process
        if DUMP.fullmatch(candidate):
            return candidate, process
    return None


def _of_root(root: str, files: Mapping[str, str]) -> Iterator[Profile]:
    common: dict[str, str] = {}
    own: dict[str, dict[str, str]] = {}
    for rest, name in files.items():
        if split := _split(rest):
            called, process = split
            (own.setdefault(process, {}) if process else common)[called] = name
    processes = sorted(process for process, members in own.items() if TRACE in members) or [""]
    for process in processes:
        members = common | own.get(process, {})
        if TRACE in members:
            yield Profile(root, process, members)
