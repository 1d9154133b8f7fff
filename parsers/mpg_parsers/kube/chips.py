"""Accelerators as extended resources, and what kind of chip they are."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from mpg_parsers.kube.fields import Object, node_at, objects_at, quantity, text_at, texts_at

MOST_CHIPS = 1 << 40  # of a workload
MOST_OF_A_POD = 1 << 30
# (resource, type of the chip or "" where another field says it), as device plugins register them
RESOURCES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"nvidia\.com/gpu(\.shared)?", ""),
        (r"nvidia\.com/(mig-[\w.+-]+?)(\.shared)?", r"\1"),
        (r"(requests\.)?nvidia\.com/pgpu", ""),
        (r"amd\.com/gpu", ""),
        (r"amd\.com/((?:spx|dpx|qpx|cpx)_nps\d)", r"\1"),
        (r"google\.com/tpu", ""),
        (r"habana\.ai/gaudi", "gaudi"),
        (r"gpu\.intel\.com/(?:i915|xe)", ""),
        (r"huawei\.com/(Ascend[\w-]+)", r"\1"),
        (r"cambricon\.com/(?:mlu|real-mlu-counts)", ""),
        (r"cambricon\.com/(mlu\d[\w-]*)", r"\1"),
        (r"(?:hygon|hygondcu)\.com/dcu", ""),
        (r"(?:metax-tech|iluvatar|mthreads|birentech|biren)\.(?:com|ai)/v?gpu", ""),
        (r"enflame\.com/gcu", ""),
        (r"kunlunxin\.com/xpu", ""),
        (r"furiosa\.ai/(?:npu|rngd)", ""),
        (r"rebellions\.ai/[A-Z]\w+", ""),
        (r"qualcomm\.com/(?:qaic|cloud-ai)\w*", ""),
        (r"tenstorrent\.com/\w+", ""),
    )
)
# names of the same devices: what stands first counts
NEURON = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore")
# labels of nodes, and keys of node selectors, that name the chip
TYPE_LABELS = (
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "habana.ai/product",
    "aws.amazon.com/neuron.device",
    "accelerator",
)
SHAPE_LABEL = "cloud.google.com/gke-tpu-topology"
POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "karpenter.sh/nodepool",
    "oci.oraclecloud.com/oke-nodepool",
    "node.coreweave.cloud/nodepool",
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod asks for: chips, their type and shape, the node pool; "" where it does not say."""

    chips: int
    chip_type: str
    shape: str
    pool: str
    resources: frozenset[str] = frozenset()


def accelerators(resources: dict[str, Any]) -> dict[str, int]:
    """The accelerators among the resources: resource → count, zeros left out."""
    found = {}
    for name, value in resources.items():
        if (
            any(pattern.fullmatch(name) for pattern, _ in RESOURCES)
            and 0 < (count := quantity(value) or 0) <= MOST_OF_A_POD
        ):
            found[name] = count
    neuron = next((name for name in NEURON if quantity(resources.get(name))), None)
    if neuron:
        found[neuron] = min(quantity(resources[neuron]) or 0, MOST_OF_A_POD)
    return found


def type_of(resource: str) -> str:
    """The type of chip that the name of a resource gives away, "" for none."""
    for pattern, kind in RESOURCES:
        if (match := pattern.fullmatch(resource)) and kind:
            return match.expand(kind)
    return ""


def pod_resources(spec: Object) -> Counter[str]:
    """Accelerators of a pod by resource.

    Containers run together, after the init containers, which run one by one; an init container that restarts
    always (a sidecar) stays beside all that start after it
    (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers).
    """
    together, peak = Counter[str](), Counter[str]()
    sidecars = Counter[str]()
    for container in objects_at(spec, "initContainers"):
        asked = Counter(_asked(container))
        if text_at(container, "restartPolicy") == "Always":
            sidecars += asked
            peak |= sidecars
        else:
            peak |= sidecars + asked
    for container in objects_at(spec, "containers"):
        together += Counter(_asked(container))
    return peak | (together + sidecars)


def _asked(container: Object) -> dict[str, int]:
    """Of an extended resource the limit is the request, and either may stand alone."""
    requests, limits = node_at(container, "resources", "requests"), node_at(container, "resources", "limits")
    return accelerators({**limits, **requests})


def wish_of(spec: Object) -> Wish:
    """What the spec of a pod asks for."""
    resources = pod_resources(spec)
    wanted = selector(spec)
    by_name = {kind for name in resources if (kind := type_of(name))}
    label = next((wanted[key] for key in TYPE_LABELS if key in wanted), "")
    pool = next((wanted[key] for key in POOL_LABELS if key in wanted), "")
    named = by_name.pop() if len(by_name) == 1 and len(resources) == 1 else ""
    return Wish(resources.total(), named or label, wanted.get(SHAPE_LABEL, ""), pool, frozenset(resources))


def selector(spec: Object) -> dict[str, str]:
    """Labels that a node must have: nodeSelector, and required node affinity with one term and one value."""
    found = {key: text for key, text in node_at(spec, "nodeSelector").items() if isinstance(text, str)}
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = objects_at(spec, *path)
    if len(terms) == 1:
        for rule in objects_at(terms[0], "matchExpressions"):
            values = texts_at(rule, "values")
            if text_at(rule, "operator") == "In" and len(values) == 1:
                found.setdefault(text_at(rule, "key"), values[0])
    return found
