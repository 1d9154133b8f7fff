"""Where Kueue places the pods of a workload: topologyAssignment of v1beta1 and, compressed, of v1beta2.

v1beta1 lists domains: {values: [a value per level], count: pods}. v1beta2 has slices of domainCount domains whose
values per level and pod counts are one for all (universal) or one each (individual), with what all values have in
common as prefix and suffix. Kueue 0.15 wrote universalValue, universalPodCount, and roots and podCounts as lists;
later versions put them into objects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from mpg_parsers.kube.fields import Object, count_at, int_at, node_at, objects_at, text_at, texts_at

HOSTNAME = "kubernetes.io/hostname"
MAX_DOMAINS = 1 << 20


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods per domain; a domain is its values by level, outermost first."""

    levels: tuple[str, ...]
    pods: dict[tuple[str, ...], int]

    def by_node(self) -> dict[str, int] | None:
        """Pods by host name; None where the innermost level is no node."""
        if not self.levels or self.levels[-1] != HOSTNAME:
            return None
        counts = Counter[str]()
        for values, count in self.pods.items():
            counts[values[-1]] += count
        return dict(counts)

    def shares(self, level: str) -> bool | None:
        """Whether all pods share one domain of the level; None where the level is not stated."""
        if level not in self.levels or not self.pods:
            return None
        depth = self.levels.index(level) + 1
        return len({values[:depth] for values in self.pods}) == 1


def read_placement(assignment: Object) -> Placement | None:
    """The placement that a topologyAssignment states; None where it states none, or contradicts itself."""
    levels = tuple(texts_at(assignment, "levels"))
    if not levels:
        return None
    pods = Counter[tuple[str, ...]]()
    for domain in objects_at(assignment, "domains"):
        pods[tuple(texts_at(domain, "values"))] += count_at(domain, "count") or 0
    for part in objects_at(assignment, "slices"):
        found = _slice(part, len(levels))
        if found is None or len(pods) + len(found) > MAX_DOMAINS:
            return None
        for values, count in found:
            pods[values] += count
    if not pods or any(len(values) != len(levels) for values in pods):
        return None
    return Placement(levels, {values: count for values, count in pods.items() if count > 0})


def _slice(part: Object, levels: int) -> list[tuple[tuple[str, ...], int]] | None:
    domains = int_at(part, "domainCount")
    if domains is None or not 0 < domains <= MAX_DOMAINS:
        return None
    columns = [_values(level, domains) for level in objects_at(part, "valuesPerLevel")]
    counts = _counts(part, domains)
    whole = [column for column in columns if column is not None and len(column) == domains]
    if counts is None or len(counts) != domains or len(whole) != levels or len(columns) != levels:
        return None
    return list(zip(zip(*whole, strict=True), counts, strict=True))


def _values(level: Object, domains: int) -> list[str] | None:
    for key in ("universal", "universalValue"):
        if isinstance(level.get(key), str):
            return [level[key]] * domains
    each = node_at(level, "individual") or level
    roots = each.get("roots")
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        return None
    prefix, suffix = text_at(each, "prefix"), text_at(each, "suffix")
    return [f"{prefix}{root}{suffix}" for root in roots]


def _counts(part: Object, domains: int) -> list[int] | None:
    counts = part.get("podCounts")
    same = count_at(part, "universalPodCount")
    each: Any = counts
    if isinstance(counts, dict):
        same = count_at(counts, "universal")
        each = counts.get("individual", counts.get("podCounts"))
    if same is not None:
        return [same] * domains
    if not isinstance(each, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in each):
        return None
    return [max(0, min(n, 1 << 31)) for n in each]
