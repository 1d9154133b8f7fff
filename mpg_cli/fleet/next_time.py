"""What to ask the scheduler for next time, so that nothing is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from polars import col

if TYPE_CHECKING:
    import polars as pl

    from mpg_cli.goodput.scheduling.inventory import Window

# JobName last: it may hold the delimiter
COLUMNS = (
    "Cluster,JobIDRaw,JobID,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,Suspended,"
    "AllocTRES,ReqTRES,NNodes,NodeList,Reason,TimelimitRaw,Priority,Constraints,Reservation,Comment,SubmitLine,JobName"
)
RESTARTS = "Restarts,"  # since Slurm 24.11; older ones refuse the whole command for it
SINCE = (24, 11)


def command(sources: pl.DataFrame, window: Window, *, naive: bool) -> str:
    """The `sacct` command for the window, with the columns that this Slurm has; "" where no file is Slurm's."""
    slurm = sources.filter(col.format.str.starts_with("slurm"))
    if slurm.is_empty():
        return ""
    columns = COLUMNS
    if any(_has_restarts(version) for version in slurm["format_version"].drop_nulls()):
        columns = columns.replace("Reason,", f"Reason,{RESTARTS}", 1)
    zone = "" if naive else "TZ=UTC "
    span = f"-S {_when(window.start_ns)} -E {_when(window.end_ns)}"
    return f"{zone}SLURM_TIME_FORMAT=%s sacct -a -D -X -P {span} -o {columns} > sacct.psv"


def _has_restarts(version: str) -> bool:
    numbers = [
        int(part) for part in version.replace("Slurm", " ").split()[-1].split(".")[:2] if part.isdigit()
    ]
    return tuple(numbers) >= SINCE if len(numbers) == len(SINCE) else False


def _when(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
