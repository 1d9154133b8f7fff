"""A fleet's account and waits by brute force: for every second, who has each chip, and why each job waits.

Slow and obvious, and the same words as the definitions. Times are whole seconds; intervals are half-open.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

AWAY = {"down": "down", "drained": "down", "draining": "drained", "maintenance": "drained"}
BEFORE = {"Dependency": "dependency", "BeginTime": "begin_time", "JobHeldUser": "hold"}
LIMIT = "QOSMaxGRESPerUser"
CHARGED = {
    "shortage": "shortage",
    "unavailable": "shortage",
    "fragmentation": "fragmentation",
    "topology": "topology",
    "fits": "policy",
    "limit": "policy",
}


@dataclass
class Node:
    name: str
    chips: int
    kind: str
    parts: tuple[str, ...]
    leaf: str | None
    in_use: int | None = None  # chips that the scheduler counts as allocated, at the end
    away: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def pool(self) -> tuple[str, tuple[str, ...]]:
        return self.kind, self.parts


@dataclass
class Attempt:
    raw: int
    job: str
    number: int
    submit: int
    eligible: int | None
    start: int | None
    end: int  # of a running or pending one, the end of all that is known
    need: int
    count: int  # nodes
    chips: dict[str, int]  # by node
    state: str
    kind: str | None = None
    partition: str | None = None
    switches: int | None = None
    patience: int = 300  # seconds for which it waits for few switches
    priority: int | None = None
    reason: str | None = None
    suspended: int = 0
    partners: list[Attempt] = field(default_factory=list)  # components of one job, itself among them
    id: int = -1

    @property
    def until(self) -> int:
        return self.end if self.start is None else self.start

    @property
    def ready(self) -> int:
        """When it became eligible; what never did, or is held to the end, waited for that alone."""
        if self.held:
            return self.until
        known = self.until if self.eligible is None else self.eligible
        return min(max(known, self.submit), self.until)

    @property
    def held(self) -> bool:
        return self.start is None and self.reason == "JobHeldUser"

    @property
    def limited(self) -> bool:
        return self.reason == LIMIT

    def holds(self, second: int) -> bool:
        return self.start is not None and self.start <= second < self.end


class Cluster:
    def __init__(self, nodes: list[Node], attempts: list[Attempt], end: int) -> None:
        self.nodes, self.attempts, self.end = nodes, attempts, end
        self.leaves = {node.name: node.leaf for node in nodes}

    # ------------------------------------------------------------------------------------------ chips

    def used(self, node: Node, second: int) -> dict[str, int]:
        """Chips of a node that attempts hold, by cause."""
        found: Counter[str] = Counter()
        for one in self.attempts:
            if one.holds(second):
                found[self.use(one, second)] += one.chips.get(node.name, 0)
        return found

    def use(self, one: Attempt, second: int) -> str:
        if second >= one.end - one.suspended:
            return "suspended"
        if not all(part.holds(second) for part in one.partners):
            return "partial"
        leaves = {self.leaves[name] for name in one.chips} - {None}
        return (
            "topology_violated" if one.switches is not None and len(leaves) > one.switches else "unobserved"
        )

    def leaked(self, node: Node) -> tuple[int, int]:
        """Chips in use though nothing runs there, and since when: from when something last ran or began there."""
        mine = [one for one in self.attempts if one.start is not None and one.chips.get(node.name)]
        if node.in_use is None or not mine:
            return 0, 0
        running = [one for one in mine if one.state == "RUNNING"]
        since = max(one.start or 0 if one in running else one.end for one in mine)
        return max(node.in_use - sum(one.chips[node.name] for one in running), 0), since

    def lost(self, node: Node, second: int) -> dict[str, int]:
        """Chips of a node that nobody holds and nobody can get, by cause."""
        asked: Counter[str] = Counter()
        for start, end, state in node.away:
            if start <= second < end:
                asked[AWAY[state]] += node.chips
        leaked, since = self.leaked(node)
        if second >= since:
            asked["leaked"] += leaked
        left = node.chips - sum(self.used(node, second).values())
        found = {}
        for cause in ("down", "drained", "leaked"):
            found[cause] = min(asked[cause], left)
            left -= found[cause]
        return found

    def free(self, node: Node, second: int) -> int:
        return node.chips - sum(self.used(node, second).values()) - sum(self.lost(node, second).values())

    # ------------------------------------------------------------------------------------------ waiting

    def possible(self, one: Attempt) -> list[Node]:
        """The nodes that a job may run on."""
        wanted = set(one.partition.split(",")) if one.partition else set()
        # a partition that no node is in says nothing
        inside = [node for node in self.nodes if wanted & set(node.parts)] or self.nodes
        return [node for node in inside if one.kind in (None, node.kind)]

    def status(self, one: Attempt, second: int) -> str:
        """What keeps a job from starting."""
        nodes = self.possible(one)
        if not nodes:
            return "unknown"
        if one.limited:
            return "limit"
        free = {node.name: self.free(node, second) for node in nodes}
        away = sum(sum(self.lost(node, second).values()) for node in nodes)
        if sum(free.values()) < one.need:
            return "unavailable" if sum(free.values()) + away >= one.need else "shortage"
        count = max(one.count, -(-one.need // max(node.chips for node in nodes)))
        each = -(-one.need // count)
        able = [name for name, chips in free.items() if chips >= each]
        if len(able) < count:
            return "fragmentation"
        wishes = one.switches is not None and second < one.ready + one.patience
        if wishes and any(self.leaves.values()):
            under = Counter(self.leaves[name] for name in able if self.leaves[name])
            if sum(sorted(under.values(), reverse=True)[: max(one.switches, 1)]) < count:
                return "topology"
        return "fits"

    def first(self, pool: tuple[str, tuple[str, ...]], second: int) -> Attempt | None:
        """Who is first in line: the highest priority, then who came first; those that a limit holds come last."""
        line = [
            one
            for one in self.attempts
            if one.ready <= second < one.until and pool in {node.pool for node in self.possible(one)}
        ]
        none = float("-inf")
        return min(
            line,
            key=lambda one: (
                one.limited,
                -(none if one.priority is None else one.priority),
                one.submit,
                one.id,
            ),
            default=None,
        )

    def cause(self, one: Attempt, second: int) -> str:
        """Why a job waits."""
        if one.held:
            return "hold"
        if second < one.ready:
            return "requeue_delay" if one.number > 1 else BEFORE.get(one.reason or "", "not_eligible")
        status = self.status(one, second)
        if status != "fits":
            return status
        pools = {node.pool for node in self.possible(one)}
        return "latency" if any(self.first(pool, second) is one for pool in pools) else "priority"

    # ------------------------------------------------------------------------------------------ sums

    def waits(self, begin: int, end: int) -> Counter[tuple[int, int, str]]:
        """Seconds by raw id, attempt and cause."""
        return Counter(
            (one.raw, one.number, self.cause(one, second))
            for one in self.attempts
            for second in range(max(one.submit, begin), min(one.until, end))
        )

    def account(self, begin: int, end: int) -> Counter[tuple[str, tuple[str, ...], str]]:
        """Chip-seconds by type of chip, partitions and cause."""
        found: Counter[tuple[str, tuple[str, ...], str]] = Counter()
        for second in range(begin, end):
            for node in self.nodes:
                for cause, chips in {**self.used(node, second), **self.lost(node, second)}.items():
                    found[*node.pool, cause] += chips
                first = self.first(node.pool, second)
                why = "no_demand" if first is None else CHARGED[self.status(first, second)]
                found[*node.pool, why] += self.free(node, second)
        return +found
