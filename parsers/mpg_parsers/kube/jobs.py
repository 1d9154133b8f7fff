"""Jobs, JobSets and the like: no rows of their own in attempts, for their pods have them, but events of theirs.

The event of their creation says whose they are: `message` is kind/namespace/name, as in attempts.owner, and `other` the
uid of the object that made them, so that the pods of a RayCluster are found to be those of the RayJob's workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_parsers.kube.fields import Object, conditions_of, node_at, text_at, uid_of
from mpg_parsers.kube.owners import controller_of

if TYPE_CHECKING:
    from mpg_parsers.kube.rows import Rows

# kinds between a workload and its pods
BETWEEN = ("RayCluster", "RayJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "TrainJob",
           "LeaderWorkerSet", "AppWrapper", "SparkApplication")  # fmt: skip
ENDS = ("Complete", "Completed", "Failed")


def read_job(value: Object, kind: str, rows: Rows) -> None:
    """Add when a job was made and by whom; of a Job or JobSet also when it started, was suspended and ended."""
    uid, status = uid_of(value, kind), node_at(value, "status")
    named = f"{kind}/{text_at(value, 'metadata', 'namespace')}/{text_at(value, 'metadata', 'name')}"
    created, owner = (
        rows.at(node_at(value, "metadata").get("creationTimestamp")),
        text_at(controller_of(value), "uid"),
    )
    rows.event("submit", created, uid, "Created", named, other=owner or None)
    if kind in BETWEEN:
        return
    rows.event("start", rows.at(status.get("startTime")), uid, "startTime", named)
    rows.event("end", rows.at(status.get("completionTime")), uid, "Complete", named)
    for name, condition in conditions_of(value).items():
        ts, reason = rows.at(condition.get("lastTransitionTime")), text_at(condition, "reason")
        true = condition.get("status") == "True"
        if name in ENDS and true:
            rows.event("end", ts, uid, name if name != "Failed" else reason or name, named)
        elif name == "Suspended":
            rows.event("suspend" if true else "resume", ts, uid, reason or name, named)
