"""The words for a job's and a node's state, whole, cut by a column's width, or as letters of squeue."""

from __future__ import annotations

import re
from functools import lru_cache

JOB_STATES = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
    "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "COMPLETING", "CONFIGURING", "STAGE_OUT", "RESIZING", "REQUEUED",
    "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
    "LAUNCH_FAILED", "RECONFIG_FAIL", "POWER_UP_NODE", "UPDATE_DB", "EXPEDITING",
)  # fmt: skip
LETTERS = {
    "PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED", "F": "FAILED",
    "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL", "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY", "CG": "COMPLETING", "CF": "CONFIGURING", "SO": "STAGE_OUT", "RS": "RESIZING",
    "RQ": "REQUEUED", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "SE": "SPECIAL_EXIT", "ST": "STOPPED",
    "RV": "REVOKED", "RD": "RESV_DEL_HOLD", "SI": "SIGNALING",
}  # fmt: skip
# flags beside the state proper, in the order in which Slurm's job_state_string lets one speak for all
FLAGS = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
    "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING", "POWER_UP_NODE",
)  # fmt: skip
# the job still has, or waits for, its chips: what a file says of its end is a forecast
OPEN = (
    "PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "REQUEUE_HOLD", "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
)  # fmt: skip
# it waits: what a file says of its start is a forecast
WAITING = ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_STATE = re.compile(r"([A-Z][A-Z_]*)(\+?)(?: by (\S+))?", re.ASCII)


@lru_cache(maxsize=4096)
def job_state(text: str) -> str:
    """The bare word of e.g. "CANCELLED by 32874", CANCELLED+, OUT_OF_ME+, or PD."""
    match = _STATE.fullmatch(text.strip().upper().replace(" BY ", " by "))
    if match is None:
        return text.strip()
    word = match[1]
    if match[2] or word not in JOB_STATES:
        whole = [state for state in JOB_STATES if state.startswith(word)]
        if word in LETTERS and not match[2]:
            return LETTERS[word]
        return whole[0] if len(whole) == 1 or word in whole else word
    return word


@lru_cache(maxsize=4096)
def cancelled_by(text: str) -> str | None:
    """The user id of "CANCELLED by 32874"."""
    match = re.fullmatch(r"CANCELLED by (\S+)", text.strip())
    return match[1] if match else None


def is_job_state(text: str) -> bool:
    """Whether the text is a state as accounting writes it."""
    return job_state(text) in JOB_STATES


def of_flags(words: list[str]) -> str:
    """The word that Slurm prints for a state with flags, e.g. PENDING and RESIZING."""
    return next((flag for flag in FLAGS if flag in words), words[0] if words else "")


@lru_cache(maxsize=4096)
def node_state(text: str) -> str | None:
    """State of a node in our words, of e.g. IDLE+DRAIN, DOWN*, MIXED+MAINTENANCE; None where it is not known."""
    words = set(re.split(r"[^A-Z_]+", text.upper())) - {""}
    if not words or words <= {"UNKNOWN"}:
        return None
    # sinfo marks what does not respond *, is powered down ~, up # or down % just now, or is rebooted ^
    if words & {"DOWN", "FAIL", "ERROR", "NO_RESPOND", "NOT_RESPONDING", "FUTURE"} or set(text) & set(
        "*~#%^"
    ):
        return "down"
    if words & {"MAINT", "MAINTENANCE"} or "$" in text:
        return "maintenance"
    busy = bool(
        words & {"ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING", "DRNG", "FAILING"}
    )
    if words & {"DRAIN", "DRAINING", "DRAINED", "DRNG", "DRN", "FAILING"}:
        return "draining" if busy else "drained"
    if words & {"POWERED_DOWN", "POWER_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "REBOOT", "BOOT"}:
        return "down"
    return "reserved" if words & {"RESERVED", "RESV", "PLANNED_RESERVED"} and not busy else "up"
