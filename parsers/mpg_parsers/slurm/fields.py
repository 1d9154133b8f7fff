"""The columns of sacct: their names, and what their texts look like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpg_parsers.slurm.durations import is_duration
from mpg_parsers.slurm.hostlist import is_hostlist
from mpg_parsers.slurm.states import is_job_state
from mpg_parsers.slurm.tres import is_tres
from mpg_parsers.slurm.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# all that `sacct --helpformat` lists, from Slurm 15.08 to 25.11
NAMES = words(
    "Account AdminComment AllocCPUS AllocGRES AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite "
    "AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container CPUTime "
    "CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible End ExitCode Extra FailedNode Flags GID Group "
    "JobID JobIDRaw JobName Layout Licenses LicensesAlloc MaxDiskRead MaxDiskReadNode MaxDiskReadTask "
    "MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask "
    "MaxVMSize MaxVMSizeNode "
    "MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition Planned PlannedCPU "
    "PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS "
    "ReqGRES ReqMem ReqNodes ReqReservation ReqTRES Reservation ReservationId Reserved ResvCPU ResvCPURAW Restarts "
    "SegmentSize SLUID Start State StdErr StdIn StdOut Submit SubmitLine Suspended SystemComment SystemCPU Timelimit "
    "TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin "
    "TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode "
    "TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU "
    "WCKey WCKeyID WorkDir"
)
# texts of the user's choice, in which anything may stand, also the delimiter
FREE = frozenset(words("admincomment comment extra jobname reason submitline systemcomment"))
MAYBE_FREE = frozenset(words("constraints container layout stderr stdin stdout workdir"))
# what is made of commas
LISTS = frozenset(
    words(
        "alloctres reqtres allocgres reqgres nodelist flags partition failednode qosreq licenses licensesalloc "
        "tresusageinave tresusageinmax tresusageintot tresusageinmin tresusageoutave tresusageoutmax tresusageoutmin "
        "tresusageouttot"
    )
)
_TIME = re.compile(r"\d{9,11}(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|Unknown|None|", re.ASCII)
_INTEGER = re.compile(r"-?\d*", re.ASCII)
_EXIT = re.compile(r"\d+:\d+|", re.ASCII)
_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]?)|\+\d+)?(?:\.\w+(?:\+\w+)?)?", re.ASCII)
_WORD = re.compile(r"[^\s|]*")
_MEMORY = re.compile(r"[\d.]*[KMGTP]?[cn]?\??", re.ASCII)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def is_time(text: str) -> bool:
    """Whether the text is a time with its date, or a word for none."""
    return _TIME.fullmatch(text) is not None


def unique_tres(text: str) -> bool:
    """Whether the text is one list of resources, in which none comes twice."""
    names = [part.partition("=")[0] for part in text.split(",")]
    return is_tres(text) and len(set(names)) == len(names)


_KINDS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (is_time, "submit eligible start end"),
    (is_duration, "elapsed suspended totalcpu cputime usercpu systemcpu timelimit avecpu mincpu"),
    (is_duration, "reserved planned plannedcpu resvcpu"),
    (
        _matches(_INTEGER),
        "elapsedraw cputimeraw plannedcpuraw resvcpuraw consumedenergyraw priority restarts",
    ),
    (_matches(_INTEGER), "nnodes allocnodes reqnodes alloccpus ncpus reqcpus ntasks"),
    (_matches(_INTEGER), "uid gid dbindex associd qosraw reservationid wckeyid"),
    (_matches(re.compile(r"\d*|UNLIMITED|Partition_Limit")), "timelimitraw"),
    (is_job_state, "state"),
    (unique_tres, "alloctres reqtres tresusageinave tresusageinmax tresusageintot tresusageinmin"),
    (unique_tres, "tresusageoutave tresusageoutmax tresusageoutmin tresusageouttot"),
    (_matches(_EXIT), "exitcode derivedexitcode"),
    (is_hostlist, "nodelist failednode"),
    (_matches(re.compile(r"[\w.-]*")), "cluster"),
    (_matches(_ID), "jobid jobidraw"),
    (_matches(_MEMORY), "reqmem consumedenergy averss maxrss avevmsize maxvmsize avepages maxpages"),
    (
        _matches(re.compile(r"(?:\S*/)?(?:sbatch|srun|salloc|scrontab|sbcast|sattach)\b.*|", re.DOTALL)),
        "submitline",
    ),
    (_matches(_WORD), "user account partition qos group reservation flags mcslabel"),
)
CHECKS = {name: check for check, names in _KINDS for name in names.split()}


def likely(reading: Mapping[str, str]) -> int:
    """How many texts of the user in a row the command line bears out: the job's name and comment."""
    line, name, comment = (reading.get(column, "") for column in ("submitline", "jobname", "comment"))
    line = f"{line} "
    named = any(f"{option}{name} " in line for option in ("-J ", "-J", "--job-name=", "--job-name "))
    named |= any(token.rpartition("/")[2] == name for token in line.split())  # of its script
    said = any(f"{option}{comment} " in line for option in ("--comment=", "--comment "))
    return (bool(name) and named) + (said if comment else "--comment" not in line)


def fits(name: str, text: str) -> bool:
    """Whether `text` can be what stands in the column `name` (lower case); "" is the column after the last."""
    if not name:
        return not text
    check = CHECKS.get(name)
    return check is None or check(text)
