"""Jobs and JobSets: no rows of their own in attempts, for their pods have them, but their conditions as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_parsers.kube.fields import Object, conditions_of, node_at, text_at, uid_of

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows

ENDS = ("Complete", "Completed", "Failed")


def read_job(value: Object, kind: str, rows: Rows) -> None:
    """Add when a Job or JobSet was made, started, was suspended and ended."""
    uid, status = uid_of(value, kind), node_at(value, "status")
    named = f"{kind}/{text_at(value, 'metadata', 'namespace')}/{text_at(value, 'metadata', 'name')}"
    rows.event("submit", rows.at(node_at(value, "metadata").get("creationTimestamp")), uid, "Created", named)
    rows.event("start", rows.at(status.get("startTime")), uid, "startTime", named)
    rows.event("end", rows.at(status.get("completionTime")), uid, "Complete", named)
    for name, condition in conditions_of(value).items():
        ts, reason = rows.at(condition.get("lastTransitionTime")), text_at(condition, "reason")
        true = condition.get("status") == "True"
        if name in ENDS and true:
            rows.event("end", ts, uid, name if name != "Failed" else reason or name, named)
        elif name == "Suspended":
            rows.event("suspend" if true else "resume", ts, uid, reason or name, named)
