"""The states of records, by what may still become of them."""

from __future__ import annotations

WAITING = ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED")
RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED")
ALIVE = (*WAITING, *RUNNING)
# the record may still change; what is being resized goes on under another one
OPEN = (*ALIVE, "RESIZING")
# after these the same job may run again
AGAIN = (
    "REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING", "BOOT_FAIL", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE",
)  # fmt: skip
