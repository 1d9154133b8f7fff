"""The canonical tables of schedulers: attempts, waiting, capacity, nodes, topology, events and roll-ups.

Absolute times are Unix nanoseconds. Wall times without a zone are written as if they were UTC, and the source says so
(`sources.naive_time`); nothing else may be read into them before the zone is known. A column holds what the file says:
stitching records into attempts and jobs is not for parsers.
"""

from __future__ import annotations

from mpg_parsers.columns import Column, Table

SOURCE = Column("source", "int32", "the file's number in this dataset")
CLUSTER = Column("cluster", "string", "name of the cluster", null="not stated")
_NOT = "not stated"

RECORD_KINDS = ("job", "pod", "workload")
# what a user, not the scheduler, made a job wait for
HOLDS = ("dependency", "begin_time", "held", "array_limit")
NODE_STATES = ("up", "down", "draining", "drained", "maintenance", "reserved", "removed")
EVENTS = (
    "submit", "quota_reserved", "admit", "allocate", "start", "end", "requeue", "preempt", "evict", "pending", "hold",
    "release", "failed_scheduling", "pull", "resize", "suspend", "resume", "node_failure", "node_down", "node_up",
    "node_drain", "node_silent", "leak",
)  # fmt: skip

ATTEMPTS = Table(
    "attempts",
    "one record of an allocation, or of the wait for one, as the scheduler wrote it",
    (
        SOURCE,
        CLUSTER,
        Column("kind", "string", "what it is a record of", values=RECORD_KINDS),
        Column("raw_id", "string", "the scheduler's own id: JobIDRaw, the uid of a pod or workload"),
        Column("job", "string", "what its users call it: A_t for array tasks, the leader's id, a pod's name"),
        Column("array", "string", "id of the job array it is of", null="none"),
        Column("owner", "string", "the object that made it: kind/namespace/name", null=_NOT),
        Column("name", "string", "the name its user gave it", null=_NOT),
        Column("user", "string", "who submitted it; a namespace in Kubernetes", null=_NOT),
        Column("account", "string", "account, or the queue of a Kueue workload", null=_NOT),
        Column("partition", "string", "partition, node pool or virtual cluster", null=_NOT),
        Column("qos", "string", "quality of service or priority class", null=_NOT),
        Column("reservation", "string", "reservation it runs in", null="none"),
        Column("state", "string", "the bare word, e.g. COMPLETED, NODE_FAIL, PENDING", null=_NOT),
        Column("ended_by", "string", "what ended it, where that is told apart from the state", null=_NOT),
        Column("cancelled_by", "string", "user id that cancelled it", null="not cancelled, or not stated"),
        Column("exit_code", "string", "as written", null=_NOT),
        Column("failed_node", "string", "node whose failure ended it", null=_NOT),
        Column("submit_ns", "int64", "submitted, or requeued", "ns", _NOT),
        Column("eligible_ns", "int64", "from then on the scheduler could have started it", "ns", _NOT),
        Column("start_ns", "int64", "its chips were allocated", "ns", "not yet, or never"),
        Column("end_ns", "int64", "its chips were released", "ns", "not yet"),
        Column("run_ns", "int64", "time it ran, without suspension, as written", "ns", _NOT),
        Column("suspended_ns", "int64", "time it was suspended", "ns", _NOT),
        Column("cpu_ns", "int64", "CPU time it used", "ns", _NOT),
        Column("limit_ns", "int64", "time limit", "ns", "none, or not stated"),
        Column("chips", "int64", "accelerators allocated, 0 if never", null=_NOT),
        Column("chips_requested", "int64", "accelerators asked for", null=_NOT),
        Column("chips_least", "int64", "the fewest it would start with", null="as many as asked for"),
        Column(
            "chip_type", "string", "type of the chips, allocated or asked for", null="several, or not stated"
        ),
        Column("chips_by_type", "string", "JSON object of chips allocated by type", null=_NOT),
        Column("nodes", "string", "JSON list of the nodes allocated", null="never, or not stated"),
        Column("chips_by_node", "string", "JSON object of chips allocated by node", null=_NOT),
        Column("node_count", "int64", "nodes allocated, or asked for where there are none yet", null=_NOT),
        Column("switches", "int64", "most leaf switches it wants to span", null="no wish"),
        Column("switches_wait_ns", "int64", "how long it waits for that", "ns", "for ever, or no wish"),
        Column("shape", "string", "shape of chips asked for, e.g. 4x4x16", null="no wish"),
        Column("topology", "string", "level of the topology all of it must share", null="no wish"),
        Column("placed", "bool", "whether the placement met the wish, as the file tells", null=_NOT),
        Column("priority", "int64", "larger goes first", null=_NOT),
        Column("restarts", "int64", "times it was requeued", null=_NOT),
        Column("reason", "string", "last reason to wait that was recorded", null=_NOT),
        Column(
            "holds",
            "string",
            f"JSON list of what it was told to wait for at submission: {', '.join(HOLDS)}",
            null="nothing, or not stated",
        ),
        Column("constraints", "string", "features of nodes it needs", null=_NOT),
        Column("labels", "string", "JSON object of labels", null="none"),
        Column("line", "int64", "line, or number of the element, in its file", null=_NOT),
    ),
)

PENDING = Table(
    "pending",
    "what the scheduler said, at one time or over a stretch, of why something waits",
    (
        SOURCE,
        CLUSTER,
        Column("raw_id", "string", "as in attempts"),
        Column("start_ns", "int64", "from when, or the instant of a sample", "ns"),
        Column("end_ns", "int64", "until when", "ns", "a sample"),
        Column("reason", "string", "the scheduler's word, e.g. Resources, QOSMaxGRESPerUser"),
        Column("message", "string", "what it said besides", null="nothing"),
        Column("count", "int64", "times it was said"),
    ),
)

CAPACITY = Table(
    "capacity",
    "a stretch in which a node, or the cluster, had chips in one state",
    (
        SOURCE,
        CLUSTER,
        Column("node", "string", "node", null="the whole cluster"),
        Column("chips", "int64", "accelerators", null="those of the node, which another file states"),
        Column("chips_by_type", "string", "JSON object of them by type", null=_NOT),
        Column("state", "string", "what state they were in", values=NODE_STATES),
        Column("start_ns", "int64", "from when", "ns", "the beginning is not stated"),
        Column("end_ns", "int64", "until when", "ns", "still so"),
        Column("reason", "string", "why, as written", null=_NOT),
    ),
)

NODES = Table(
    "nodes",
    "one node as an inventory or configuration has it",
    (
        SOURCE,
        CLUSTER,
        Column("node", "string", "name"),
        Column("chips", "int64", "accelerators it has", null=_NOT),
        Column("chip_type", "string", "their type", null="several, or not stated"),
        Column("partitions", "string", "JSON list of partitions it is in", null=_NOT),
        Column("state", "string", "state at that time", null=_NOT, values=NODE_STATES),
        Column("reason", "string", "why it is not up", null="up, or not stated"),
        Column("chips_allocated", "int64", "accelerators the scheduler counts as in use", null=_NOT),
        Column("last_busy_ns", "int64", "when something last ran there", "ns", _NOT),
        Column("at_ns", "int64", "time of the inventory", "ns", "not stated"),
        Column("labels", "string", "JSON object of labels", null="none"),
    ),
)

TOPOLOGY = Table(
    "topology",
    "one group of the network: a switch, block, rack, slice or mesh",
    (
        SOURCE,
        CLUSTER,
        Column("name", "string", "name of the group"),
        Column("kind", "string", "what it is", values=("switch", "block", "mesh", "torus")),
        Column("level", "int64", "0 for the innermost"),
        Column("parent", "string", "the group it is in", null="none, or not stated"),
        Column("nodes", "string", "JSON list of its nodes"),
        Column("dims", "string", "JSON list of a mesh's or torus's sides in nodes", null="no mesh"),
    ),
)

SCHEDULER_EVENTS = Table(
    "scheduler_events",
    "one event of a scheduler's log or of an object",
    (
        SOURCE,
        CLUSTER,
        Column("ts_ns", "int64", "when", "ns"),
        Column("last_ns", "int64", "the last time, of an event folded into one", "ns", "once"),
        Column("count", "int64", "how often"),
        Column("event", "string", "what happened", values=EVENTS),
        Column("raw_id", "string", "what it happened to, as in attempts", null="a node"),
        Column("other", "string", "raw_id of what it was done for: the job that preempts", null="nothing"),
        Column("nodes", "string", "JSON list of nodes", null=_NOT),
        Column("reason", "string", "the scheduler's word", null=_NOT),
        Column("message", "string", "what it said", null="nothing"),
        Column("node_clock", "bool", "by a node's clock, not the scheduler's", null="the scheduler's"),
    ),
)

ROLLUPS = Table(
    "rollups",
    "one figure of the scheduler's own roll-up (sreport)",
    (
        SOURCE,
        CLUSTER,
        Column("account", "string", "account", null="all"),
        Column("user", "string", "user", null="all of the account"),
        Column("resource", "string", "what is counted: gres/gpu, gres/gpu:h100, cpu"),
        Column(
            "measure", "string", "used, allocated, down, planned_down, idle, planned, overcommitted, reported"
        ),
        Column("seconds", "int64", "resource-seconds", "s"),
        Column("start_ns", "int64", "from when", "ns", _NOT),
        Column("end_ns", "int64", "until when", "ns", _NOT),
    ),
)

SCHEDULER_TABLES = (ATTEMPTS, PENDING, CAPACITY, NODES, TOPOLOGY, SCHEDULER_EVENTS, ROLLUPS)
