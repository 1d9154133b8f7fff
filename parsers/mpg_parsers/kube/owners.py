"""What made an object, and what of the topology it asks to share: references, labels and annotations."""

from __future__ import annotations

from mpg_parsers.kube.fields import Object, annotations_of, labels_of, objects_at, text_at

QUEUE = "kueue.x-k8s.io/queue-name"
WORKLOAD = "kueue.x-k8s.io/workload"
JOB_UID = "kueue.x-k8s.io/job-uid"
# (label of a pod, kind of the object it names), the topmost first
LABELS = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("kueue.x-k8s.io/pod-group-name", "Workload"),
    ("batch.kubernetes.io/job-name", "Job"),
)
WISHES = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
)


def owner_of(value: Object) -> str | None:
    """kind/namespace/name of the topmost object that is known to have made this one."""
    labels, namespace = labels_of(value), text_at(value, "metadata", "namespace")
    for label, kind in LABELS:
        if label in labels:
            return f"{kind}/{namespace}/{labels[label]}"
    owner = controller_of(value)
    return f"{text_at(owner, 'kind')}/{namespace}/{text_at(owner, 'name')}" if owner else None


def controller_of(value: Object) -> Object:
    """The reference to the owner that controls it, or to the first one."""
    owners = objects_at(value, "metadata", "ownerReferences")
    return next((owner for owner in owners if owner.get("controller") is True), owners[0] if owners else {})


def topology_wish(annotations: dict[str, str]) -> str | None:
    """The level of the topology that the annotations ask to share."""
    return next((annotations[key] for key in WISHES if key in annotations), None)


def wish_of_template(template: Object) -> str | None:
    """The same of a template of pods."""
    return topology_wish(annotations_of(template))
